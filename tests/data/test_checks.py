"""Duplicate ids, empty items, widths; and that a large corpus streams in little memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trieline.data.beir import BeirFolder
from trieline.data.checks import SeenIds, check_items, refuse_empty, same_width, unique
from trieline.data.lines import Source
from trieline.errors import DataError, DimensionError, FormatError
from trieline.types import Item

SOURCE = Source(Path("corpus.jsonl"))


def numbered(ids: list[str]) -> Iterator[tuple[int, Item]]:
    return ((number, Item(id_, text="x")) for number, id_ in enumerate(ids, 1))


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 60), max_size=12), max_size=20))
def test_suspects_are_what_a_set_would_name(blocks: list[list[int]]):
    seen, plain = SeenIds(), set()
    for block in blocks:
        expected = []
        for position, number in enumerate(block):
            if number in plain:
                expected.append(position)
            plain.add(number)
        assert seen.suspects([f"id{number}" for number in block]) == expected


def test_seen_ids_keeps_few_arrays_of_eight_bytes_an_id():
    seen = SeenIds()
    for start in range(0, 100_000, 500):
        assert seen.suspects([f"id{n}" for n in range(start, start + 500)]) == []
    assert sum(run.nbytes for run in seen._runs) == 8 * 100_000
    assert len(seen._runs) <= 9
    assert seen.suspects([f"id{n}" for n in range(99_990, 100_010)]) == list(range(10))


@settings(deadline=None)
@given(st.lists(st.integers(0, 4000), max_size=1500))
def test_unique_finds_the_first_duplicate_of_any_list(numbers: list[int]):
    ids = [str(number) for number in numbers]
    first: dict[str, int] = {}
    again = next(
        ((n, first[id_]) for n, id_ in enumerate(ids, 1) if first.setdefault(id_, n) != n), None
    )
    if again is None:
        assert [item.id for _, item in unique(lambda: numbered(ids), SOURCE)] == ids
    else:
        with pytest.raises(FormatError) as caught:
            list(unique(lambda: numbered(ids), SOURCE))
        assert caught.value.line == again[0]
        assert f"again, first on line {again[1]}." in str(caught.value)


def test_hashes_that_collide_are_told_from_ids_that_repeat():
    ids = [f"id{number}" for number in range(40)]
    same = list(unique(lambda: numbered(ids), SOURCE, fingerprint=lambda _: 7))
    assert [item.id for _, item in same] == ids
    with pytest.raises(FormatError, match="line 41: expected a new id, got 'id3' again"):
        list(unique(lambda: numbered([*ids, "id3"]), SOURCE, fingerprint=lambda _: 7))


def test_a_duplicate_is_named_before_its_block_is_handed_out():
    ids = [str(number) for number in range(5000)]
    ids[4000] = "17"
    got = []
    with pytest.raises(FormatError, match=r"line 4001: .*'17' again, first on line 18"):
        for number, _ in unique(lambda: numbered(ids), SOURCE):
            got.append(number)
    assert len(got) < 4000 and got == list(range(1, len(got) + 1))


def test_empty_items_are_counted_to_the_end():
    items = [Item("a", text="x"), Item("b"), Item("c", title="t"), Item("d", text=" \n")]
    with pytest.raises(FormatError, match=r"line 2: .*none in 'b' \(2 of 4 items are empty\)"):
        list(refuse_empty(iter(list(enumerate(items, 1))), SOURCE))


def test_an_image_or_an_embedding_is_content():
    items = [Item("a", image="a.png"), Item("b", embedding=np.ones(2, dtype=np.float32))]
    assert list(check_items(lambda: iter(list(enumerate(items, 1))), SOURCE)) == items


def test_keep_empty_lets_them_pass():
    items = [Item("a"), Item("b", text="x")]
    assert list(check_items(lambda: iter(list(enumerate(items, 1))), SOURCE, True)) == items


def test_widths_must_agree():
    items = [Item("a", text="no vector")]
    items += [Item(f"v{n}", embedding=np.ones(n, dtype=np.float32)) for n in (3, 3, 4)]
    with pytest.raises(
        DimensionError, match=r"line 4: .* of 'v4' has 4 values, that of 'v3' has 3"
    ):
        list(same_width(iter(list(enumerate(items, 1))), SOURCE))


def test_an_empty_corpus_is_refused():
    with pytest.raises(DataError, match="has no items"):
        list(check_items(lambda: iter([]), SOURCE))


def test_a_large_corpus_streams_in_little_memory(tmp_path: Path):
    """200,000 items, 27 MB of text: the peak is their hashes and one block of records."""
    with (tmp_path / "corpus.jsonl").open("w") as file:
        for number in range(200_000):
            file.write(f'{{"_id":"doc-{number}","title":"t {number}","text":"{"word " * 20}"}}\n')
    dataset = BeirFolder(tmp_path)
    tracemalloc.start()
    try:
        count = sum(1 for _ in dataset.items())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 200_000
    assert peak < 24 * 200_000 + 3_000_000
