"""The residual quantiser beside faiss's: the same codes from the same words, and no more error."""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np
import pytest
from numpy.typing import NDArray

from trieline.config import IdSettings
from trieline.ids import ResidualIds
from trieline.ids.assign import assign, reconstruct, squared_error
from trieline.ids.start import start_books

Floats = NDArray[np.float32]
LEVELS, BITS, WIDTH = 4, 5, 16


def vectors(items: int, seed: int) -> Floats:
    """Unit vectors in clusters of clusters."""
    rng = np.random.default_rng(seed)
    top = rng.standard_normal((10, WIDTH))
    sub = 0.6 * rng.standard_normal((60, WIDTH))
    cluster = np.minimum(rng.geometric(0.2, items) - 1, 9)
    found = top[cluster] + sub[cluster * 6 + rng.integers(0, 6, items)]
    found += 0.5 * rng.standard_normal((items, WIDTH))
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


def quantiser(beam: int) -> Any:
    made = faiss.ResidualQuantizer(WIDTH, LEVELS, BITS)
    made.max_beam_size = beam
    made.cp.min_points_per_centroid = 1
    return made


def codes_of(made: Any, items: Floats) -> NDArray[np.integer]:
    packed = made.compute_codes(items)
    return np.asarray(faiss.unpack_bitstrings(packed, LEVELS, BITS))


def books_of(made: Any) -> list[Floats]:
    words = faiss.vector_to_array(made.codebooks).reshape(LEVELS, 1 << BITS, WIDTH)
    return [np.ascontiguousarray(book) for book in words]


@pytest.mark.parametrize("beam", [1, 2, 5, 16])
@pytest.mark.parametrize("whose", ["faiss", "ours"])
def test_the_same_words_give_the_same_codes(beam: int, whose: str) -> None:
    items, new = vectors(2000, 0), vectors(1000, 1)
    made = quantiser(beam)
    made.train(items)
    if whose == "ours":
        ours = start_books(items, (1 << BITS,) * LEVELS)
        faiss.copy_array_to_vector(np.concatenate(ours).ravel(), made.codebooks)
        made.compute_codebook_tables()
    books = books_of(made)
    theirs, found = codes_of(made, new), assign(new, books, beam=beam)
    same = (theirs == found).all(axis=1)
    assert same.mean() > 0.995  # the rest are ties within the rounding of float32
    far = [((new - reconstruct(codes, books)) ** 2).sum(axis=1) for codes in (theirs, found)]
    np.testing.assert_allclose(far[0][~same], far[1][~same], rtol=1e-3)


@pytest.mark.parametrize("beam", [1, 5])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_more_error_at_the_same_budget(beam: int, seed: int) -> None:
    items = vectors(2000, seed)
    made = quantiser(beam)
    made.train(items)
    theirs = float(((items - made.decode(made.compute_codes(items))) ** 2).sum(axis=1).mean())
    docids = ResidualIds(IdSettings(sizes=(1 << BITS,) * LEVELS, beam=beam), seed).fit(items)
    codes = docids.assign(items).codes
    assert squared_error(items, codes, docids.codebooks) <= theirs
    assert len(np.unique(codes, axis=0)) >= 0.98 * len(np.unique(codes_of(made, items), axis=0))
