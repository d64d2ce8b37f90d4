from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.encode.counting import CountingEncoder, vector_of
from trieline.encode.cache import CachedEncoder
from trieline.errors import DataError
from trieline.types import Item, Query
from trieline.watch import Task

ROOT = Path(__file__).parents[2]


def items(*texts: str) -> list[Item]:
    return [Item(str(n), text=text) for n, text in enumerate(texts)]


def many(count: int, prefix: str = "text") -> list[Item]:
    return items(*(f"{prefix} {n}" for n in range(count)))


def cached(folder: Path, inner: CountingEncoder, fewest: int = 1) -> CachedEncoder:
    return CachedEncoder(inner, folder, fewest=fewest)


def chunks(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.safetensors"))


@given(rounds=st.lists(st.lists(st.text(min_size=1).filter(str.strip), max_size=6), max_size=5))
def test_each_text_is_encoded_once_and_comes_back_right(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[list[str]]
) -> None:
    folder, inner = tmp_path_factory.mktemp("cache"), CountingEncoder()
    encoder = cached(folder, inner)
    for texts in rounds:
        found = encoder.encode(items(*texts))
        expected = np.array([vector_of(t) for t in inner.texts(items(*texts))], np.float32)
        assert found.dtype == np.float32
        assert np.array_equal(found, expected.reshape(-1, 4))
    assert len(inner.asked) == len(set(inner.asked))


def test_the_second_time_nothing_is_encoded(tmp_path: Path) -> None:
    first, second = CountingEncoder(), CountingEncoder()
    things = many(700)
    vectors = cached(tmp_path, first).encode(things)
    again = cached(tmp_path, second).encode(things)
    assert len(first.asked) == 700
    assert second.asked == []
    assert np.array_equal(vectors, again)


def test_an_edited_corpus_costs_what_was_edited(tmp_path: Path) -> None:
    things = many(100)
    cached(tmp_path, CountingEncoder()).encode(things)
    things[40] = things[40]._replace(text="another text", title="Changed")
    inner = CountingEncoder()
    reordered = [*things[50:], *things[:50], Item("new", text="a new one")]
    vectors = cached(tmp_path, inner).encode(reordered)
    assert inner.asked == ["Changed\nanother text", "a new one"]
    assert np.allclose(vectors[90], vector_of("Changed\nanother text"))


def test_equal_texts_are_encoded_once(tmp_path: Path) -> None:
    inner = CountingEncoder()
    vectors = cached(tmp_path, inner).encode(items("a", "b", "a", "a", "b"))
    assert inner.asked == ["a", "b"]
    assert np.allclose(vectors, [vector_of(t) for t in "abaab"])


def test_queries_and_items_share_their_texts(tmp_path: Path) -> None:
    inner = CountingEncoder()
    encoder = cached(tmp_path, inner)
    encoder.encode(items("red cat"))
    encoder.encode([Query("q", text="red cat")])
    assert inner.asked == ["red cat"]


def test_another_encoder_has_another_place(tmp_path: Path) -> None:
    cached(tmp_path, CountingEncoder("one")).encode(items("a"))
    other = CountingEncoder("two")
    cached(tmp_path, other).encode(items("a"))
    assert other.asked == ["a"]
    about = sorted(file.read_text() for file in tmp_path.rglob("about.txt"))
    assert about == ["one\n", "two\n"]


def test_single_questions_leave_no_files(tmp_path: Path) -> None:
    inner = CountingEncoder()
    encoder = CachedEncoder(inner, tmp_path, fewest=8)
    for _ in range(2):
        encoder.encode(items("which animal flies?"))
    assert len(inner.asked) == 2
    assert list(tmp_path.iterdir()) == []
    encoder.encode(many(8))
    assert len(chunks(tmp_path)) == 1


def test_no_things(tmp_path: Path) -> None:
    assert cached(tmp_path, CountingEncoder()).encode([]).shape == (0, 4)


def test_a_thing_without_text_is_refused_before_any_work(tmp_path: Path) -> None:
    inner = CountingEncoder()
    with pytest.raises(DataError, match="item 'empty'"):
        cached(tmp_path, inner).encode([*many(10), Item("empty")])
    assert inner.asked == []


def test_the_width_comes_from_the_folder_where_it_can(tmp_path: Path) -> None:
    class Unloadable(CountingEncoder):
        @property
        def dim(self) -> int:  # type: ignore[override]
            raise AssertionError("the model was loaded")

    cached(tmp_path, CountingEncoder()).encode(items("a"))
    encoder = cached(tmp_path, Unloadable())
    assert encoder.dim == 4
    assert encoder.encode(items("a")).shape == (1, 4)


def test_a_damaged_chunk_is_encoded_again(tmp_path: Path) -> None:
    things = many(300)
    vectors = cached(tmp_path, CountingEncoder()).encode(things)
    files = chunks(tmp_path)
    assert len(files) == 2, "256 texts, then the rest"
    content = bytearray(files[0].read_bytes())
    content[-7] ^= 1
    files[0].write_bytes(content)
    inner = CountingEncoder()
    assert np.array_equal(cached(tmp_path, inner).encode(things), vectors)
    assert 0 < len(inner.asked) < 300
    untouched = CountingEncoder()
    assert np.array_equal(cached(tmp_path, untouched).encode(things), vectors)
    assert untouched.asked == []


def test_blocks_take_about_the_wanted_time(tmp_path: Path) -> None:
    slow = CountingEncoder(seconds_a_text=0.001)
    CachedEncoder(slow, tmp_path / "slow", seconds=0.1).encode(many(500))
    assert slow.blocks[0] == 256
    assert all(64 <= size <= 110 for size in slow.blocks[1:-1])
    fast = CountingEncoder()
    CachedEncoder(fast, tmp_path / "fast").encode(many(5000))
    assert fast.blocks == [256, 2048, 2048, 648]


def test_progress_counts_every_text_once(tmp_path: Path) -> None:
    seen: list[tuple[str, int | None, int]] = []

    @contextmanager
    def watch(what: str, total: int | None) -> Iterator[Task]:
        class Counter:
            done = 0

            def advance(self, n: int = 1, note: str = "") -> None:
                self.done += n

        counter = Counter()
        yield counter
        seen.append((what, total, counter.done))

    encoder = cached(tmp_path, CountingEncoder())
    encoder.encode(many(300), watch)
    encoder.encode(many(400), watch)
    assert seen == [("encoding texts", 300, 300), ("encoding texts", 400, 400)]


SLOW_RUN = """
import sys
from pathlib import Path
from tests.encode.counting import CountingEncoder
from trieline.encode.cache import CachedEncoder
from trieline.types import Item
things = [Item(str(n), text=f"text {n}") for n in range(2000)]
CachedEncoder(CountingEncoder(seconds_a_text=0.001), Path(sys.argv[1]), seconds=0.08).encode(things)
"""


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.Popen([sys.executable, "-c", SLOW_RUN, str(tmp_path)], env=environment)
    try:
        deadline = time.monotonic() + 60
        while len(chunks(tmp_path)) < 3 and run.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
    assert run.returncode == -signal.SIGKILL, "it was still at work"
    inner = CountingEncoder()
    vectors = cached(tmp_path, inner).encode(many(2000))
    kept = 2000 - len(inner.asked)
    assert kept >= 256
    assert set(inner.asked) == {f"text {n}" for n in range(kept, 2000)}
    assert np.allclose(vectors, [vector_of(f"text {n}") for n in range(2000)])


def encode_a_range(folder: str, start: int, stop: int) -> None:
    things = [Item(str(n), text=f"text {n}") for n in range(start, stop)]
    CachedEncoder(CountingEncoder(), Path(folder), fewest=1).encode(things)


def test_processes_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ranges = [(0, 400), (200, 600), (0, 400)]
    workers = [
        context.Process(target=encode_a_range, args=(str(tmp_path), *span)) for span in ranges
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    inner = CountingEncoder()
    vectors = cached(tmp_path, inner).encode(many(600))
    assert inner.asked == []
    assert np.allclose(vectors, [vector_of(f"text {n}") for n in range(600)])
