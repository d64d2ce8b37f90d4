from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.encode.conftest import WORDS
from trieline.encode.text import TextEncoder, equal_lengths
from trieline.errors import DataError, DimensionError, SettingsError
from trieline.types import Item, Query


def some_texts(count: int, longest: int = 12) -> list[str]:
    rng = np.random.default_rng(1)
    words = WORDS.split()
    return [" ".join(rng.choice(words, size=rng.integers(1, longest))) for _ in range(count)]


@pytest.fixture(scope="module")
def encoder(tiny_bert: Path) -> TextEncoder:
    return TextEncoder(str(tiny_bert), max_tokens=32, batch=8)


@given(
    lengths=st.lists(st.integers(0, 9), max_size=40),
    most_texts=st.integers(1, 6),
    most_tokens=st.integers(1, 30),
)
def test_batches_hold_each_row_once_and_one_length_each(
    lengths: list[int], most_texts: int, most_tokens: int
) -> None:
    table = np.array(lengths, dtype=np.int64)
    batches = list(equal_lengths(table, most_texts, most_tokens))
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    sizes = [set(table[batch].tolist()) for batch in batches]
    assert all(len(size) == 1 for size in sizes)
    longest_first = [size.pop() for size in sizes]
    assert longest_first == sorted(longest_first, reverse=True)
    for batch in batches:
        assert len(batch) == 1 or len(batch) <= most_texts
        assert len(batch) == 1 or table[batch].sum() <= most_tokens


def test_vectors_are_float32_of_unit_length(encoder: TextEncoder) -> None:
    vectors = encoder.encode_texts(some_texts(20))
    assert vectors.dtype == np.float32
    assert vectors.shape == (20, encoder.dim) == (20, 32)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_a_vector_depends_on_nothing_but_its_text(encoder: TextEncoder, tiny_bert: Path) -> None:
    texts = some_texts(30)
    together = encoder.encode_texts(texts)
    alone = np.concatenate([encoder.encode_texts([text]) for text in texts])
    backwards = encoder.encode_texts(texts[::-1])[::-1]
    one_by_one = TextEncoder(str(tiny_bert), max_tokens=32, batch=1).encode_texts(texts)
    for other in (alone, backwards, one_by_one):
        assert np.abs(together - other).max() < 1e-6
    assert len(np.unique(together.round(4), axis=0)) == len(set(texts)), "texts differ, and so they"


def test_what_is_longer_than_max_tokens_is_cut(encoder: TextEncoder) -> None:
    long = "cat " * 500 + "dog"
    cut = "cat " * 30  # and the two tokens that mark beginning and end
    vectors = encoder.encode_texts([long, cut, "cat " * 29 + "dog"])
    assert np.array_equal(vectors[0], vectors[1])
    assert np.abs(vectors[0] - vectors[2]).max() > 1e-4


def test_items_and_queries(encoder: TextEncoder) -> None:
    found = encoder.encode([Item("i", title="red cat", text="sits on the mat")])
    assert np.array_equal(found, encoder.encode_texts(["red cat\nsits on the mat"]))
    found = encoder.encode([Query("q", text="red cat ")])
    assert np.array_equal(found, encoder.encode_texts(["red cat"]))
    assert encoder.encode([]).shape == (0, 32)
    with pytest.raises(DataError, match="query 'nothing' has no text"):
        encoder.encode([Query("q", text="x"), Query("nothing")])


def test_odd_texts_have_vectors_too(encoder: TextEncoder) -> None:
    odd = ["\u200b", "\U0001f600", "\x00", "a" * 5000, "漢字", "\ud83d cat", ". . ."]
    vectors = encoder.encode([Query(str(n), text=text) for n, text in enumerate(odd)])
    assert np.isfinite(vectors).all()


def test_bf16_is_close(tiny_bert: Path, encoder: TextEncoder) -> None:
    texts = some_texts(30)
    exact = encoder.encode_texts(texts)
    rounded = TextEncoder(str(tiny_bert), max_tokens=32, precision="bf16").encode_texts(texts)
    assert rounded.dtype == np.float32
    assert not np.array_equal(exact, rounded)
    assert (exact * rounded).sum(axis=1).min() > 0.999


def copy_with(folder: Path, place: Path, **files: object) -> str:
    shutil.copytree(folder, place)
    for name, content in files.items():
        (place / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return str(place)


def test_prompts_of_the_model_are_said(tiny_bert: Path, tmp_path: Path) -> None:
    prompts = {"query": "the cat ", "passage": "a bird "}
    model = copy_with(tiny_bert, tmp_path / "m", config_sentence_transformers={"prompts": prompts})
    encoder = TextEncoder(model, max_tokens=32)
    assert encoder.texts([Query("q", text="runs")]) == ["the cat runs"]
    assert encoder.texts([Item("i", text="flies", title="red")]) == ["a bird red\nflies"]
    assert encoder.fingerprint != TextEncoder(str(tiny_bert), max_tokens=32).fingerprint


def test_the_same_model_elsewhere_is_the_same(tiny_bert: Path, tmp_path: Path) -> None:
    here = TextEncoder(str(tiny_bert)).fingerprint
    assert TextEncoder(copy_with(tiny_bert, tmp_path / "moved")).fingerprint == here


def other_weights(folder: Path) -> None:
    from safetensors.numpy import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    name = sorted(tensors)[0]
    tensors[name] = tensors[name] + np.float32(0.5)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def other_vocabulary(folder: Path) -> None:
    path = folder / "tokenizer.json"
    path.write_text(path.read_text().replace('"cat"', '"cow"'))


@pytest.mark.parametrize("change", [other_weights, other_vocabulary])
def test_another_model_has_another_fingerprint(
    tiny_bert: Path, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    model = copy_with(tiny_bert, tmp_path / "other")
    change(Path(model))
    assert TextEncoder(model).fingerprint != TextEncoder(str(tiny_bert)).fingerprint


def test_other_settings_have_other_fingerprints(tiny_bert: Path) -> None:
    name = str(tiny_bert)
    made = [
        TextEncoder(name),
        TextEncoder(name, max_tokens=64),
        TextEncoder(name, precision="bf16"),
    ]
    assert len({encoder.fingerprint for encoder in made}) == 3
    assert TextEncoder(name, batch=7).fingerprint == made[0].fingerprint


@pytest.mark.parametrize(("tokens", "batch"), [(2, 32), (-1, 32), (256, 0)])
def test_settings_that_cannot_be(tokens: int, batch: int) -> None:
    with pytest.raises(SettingsError, match=f"max_tokens = {tokens} and encode.batch = {batch}"):
        TextEncoder(max_tokens=tokens, batch=batch)


def test_more_tokens_than_the_model_reads(tiny_bert: Path) -> None:
    with pytest.raises(SettingsError, match=r"reads at most 64 tokens\. Set encode\.max_tokens"):
        TextEncoder(str(tiny_bert), max_tokens=65).encode_texts(["cat"])
    assert TextEncoder(str(tiny_bert), max_tokens=64).encode_texts(["cat " * 99]).shape == (1, 32)


def test_a_device_that_is_not_here(tiny_bert: Path) -> None:
    for device in ("tpu9", "cuda:77"):
        with pytest.raises(SettingsError, match=f"device '{device}' cannot be used here"):
            TextEncoder(str(tiny_bert), max_tokens=32, device=device).encode_texts(["cat"])


def test_a_precision_that_is_not_known(tiny_bert: Path) -> None:
    with pytest.raises(SettingsError, match="'fp64'.*expected 'fp32' or 'bf16'"):
        TextEncoder(str(tiny_bert), precision="fp64")  # type: ignore[arg-type]


def test_truncated_weights(tiny_bert: Path, tmp_path: Path) -> None:
    model = Path(copy_with(tiny_bert, tmp_path / "short"))
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(SettingsError, match="cannot be loaded as a sentence-transformers model"):
        TextEncoder(str(model), max_tokens=32).encode_texts(["cat"])


def test_weights_that_are_no_numbers(tiny_bert: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    model = Path(copy_with(tiny_bert, tmp_path / "nan"))
    tensors = load_file(model / "model.safetensors")
    tensors["embeddings.word_embeddings.weight"][:] = np.nan
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DimensionError, match="NaN or infinite values for the text 'cat'"):
        TextEncoder(str(model), max_tokens=32).encode_texts(["cat"])


def test_loading_leaves_no_trace(tiny_bert: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import torch
    from transformers.utils import logging

    state = torch.random.get_rng_state()
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    precision = torch.get_float32_matmul_precision()
    TextEncoder(str(tiny_bert), max_tokens=32).encode_texts(["cat"])
    assert torch.equal(torch.random.get_rng_state(), state)
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == (level, bars)
    assert torch.get_float32_matmul_precision() == precision
    assert capfd.readouterr() == ("", "")


def test_progress_counts_every_text(encoder: TextEncoder) -> None:
    from contextlib import contextmanager

    seen: list[object] = []

    class Counter:
        def advance(self, n: int = 1, note: str = "") -> None:
            seen.append(n)

    @contextmanager
    def watch(what: str, total: int | None):  # type: ignore[no-untyped-def]
        seen.append(total)
        yield Counter()

    encoder.encode_texts(some_texts(50), watch)
    assert seen[0] == 50
    assert sum(seen[1:]) == 50  # type: ignore[arg-type]
