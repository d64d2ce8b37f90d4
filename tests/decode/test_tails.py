"""Forced tails in one pass give what the beam gives level by level."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trieline.config import ModelSettings
from trieline.decode import Geometric, beam_search
from trieline.index import Trie
from trieline.model import Asked, Speller, build_speller
from trieline.model.packed import pack
from trieline.types import Codes

SIZES = (3, 12, 6, 5, 7, 4)
DIM = 8
SMALL = ModelSettings(
    width=32, heads=2, head_width=16, feed_forward=48, decoder_layers=2, soft_tokens=1
)


def speller() -> Speller:
    model = build_speller(SMALL, SIZES, dim=DIM, seed=3)
    with torch.no_grad():
        model.alphabet.output *= 3
    return model


MODEL = speller()
PACKED = pack(MODEL)


def corpus(rows: int, seed: int = 0) -> Codes:
    """Some docids shared, some items with two."""
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, rows) for size in SIZES], 1).astype(np.uint16)
    codes[rows // 2 : rows // 2 + rows // 10] = codes[: rows // 10]
    owner = np.arange(rows, dtype=np.uint32)
    owner[rows - rows // 10 :] = np.arange(rows // 10)
    return Codes(codes, owner)


def asked(queries: int) -> Asked:
    vectors = torch.randn(queries, DIM, generator=torch.Generator().manual_seed(5))
    return Asked(vector=torch.nn.functional.normalize(vectors, dim=1))


def geometry(omega: float) -> Geometric:
    rng = np.random.default_rng(2)
    books = [rng.standard_normal((size, DIM)).astype(np.float32) * 0.4 for size in SIZES]
    return Geometric(books, omega)


@pytest.mark.parametrize("normalise", ["level", "legal", "raw", "vocab"])
@pytest.mark.parametrize("omega", [0.0, 3.0])
@pytest.mark.parametrize("beam", [3, 20, 90])
def test_the_same_answers(normalise: str, omega: float, beam: int) -> None:
    trie, questions = Trie.build(corpus(120), SIZES), asked(5)
    with_them, without = (
        beam_search(
            PACKED,
            questions,
            trie,
            beam=beam,
            k=10,
            normalise=normalise,
            guides=[geometry(omega)] if omega else [],
            vectors=questions.vector.numpy() if omega else None,
            tails=tails,
        )
        for tails in (True, False)
    )
    for one, other in zip(with_them, without, strict=True):
        assert one.items.tolist() == other.items.tolist()
        np.testing.assert_allclose(one.scores, other.scores, atol=2e-5)
        assert one.leaves.tolist() == other.leaves.tolist()


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(0, 60), seed=st.integers(0, 9), beam=st.integers(1, 70), k=st.integers(1, 9)
)
def test_any_trie(rows: int, seed: int, beam: int, k: int) -> None:
    trie, questions = Trie.build(corpus(rows, seed), SIZES), asked(2)
    for normalise in ("level", "legal"):
        one, other = (
            beam_search(MODEL, questions, trie, beam=beam, k=k, normalise=normalise, tails=tails)
            for tails in (True, False)
        )
        for a, b in zip(one, other, strict=True):
            assert a.items.tolist() == b.items.tolist()
            np.testing.assert_allclose(a.scores, b.scores, atol=2e-5)


class Counting:
    """Counts the rows that a model reads."""

    def __init__(self) -> None:
        self.sizes, self.device, self.rows = MODEL.sizes, MODEL.device, 0

    def stepper(self) -> Counting:
        self.inner = MODEL.stepper()
        return self

    def extend(self, parents, codes, levels, queries, keep=True):  # type: ignore[no-untyped-def]
        self.rows += len(parents)
        return self.inner.extend(parents, codes, levels, queries, keep=keep)

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


def test_docids_that_cannot_matter_are_left() -> None:
    """Fewer rows than level by level; and far fewer where forced codes are sure."""
    trie, questions = Trie.build(corpus(120), SIZES), asked(6)
    rows = {}
    for normalise in ("level", "legal"):
        for tails in (True, False):
            counting = Counting()
            beam_search(counting, questions, trie, beam=60, k=3, normalise=normalise, tails=tails)
            rows[normalise, tails] = counting.rows
    assert rows["level", True] < rows["level", False]
    assert rows["legal", True] < 0.7 * rows["level", True]


@pytest.mark.parametrize("normalise", ["level", "legal", "raw", "vocab"])
def test_a_query_is_answered_alone_as_in_a_batch(normalise: str) -> None:
    trie, questions = Trie.build(corpus(200), SIZES), asked(16)
    together = beam_search(PACKED, questions, trie, beam=12, k=8, normalise=normalise)
    for b in range(16):
        one = Asked(vector=questions.vector[b : b + 1])
        (alone,) = beam_search(PACKED, one, trie, beam=12, k=8, normalise=normalise)
        assert alone.items.tolist() == together[b].items.tolist()
        np.testing.assert_allclose(alone.scores, together[b].scores, atol=1e-5)
