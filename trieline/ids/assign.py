"""Which codes stand for a vector: nearest word level by level, greedily or with a beam.

r_0 = x;  z_l = the word nearest to r_l;  r_{l+1} = r_l - c_{l, z_l}.  A beam of W keeps the W
partial sums nearest to x (squared distance) and ends with the best of them.
With ``metric="cosine"`` the word with the smallest angle to r_l is taken, and with a beam every
partial sum proposes its W words of smallest angle.
The trap: what is subtracted is the word itself, never a normalised one; subtracting something
other than what was matched loses the vector's energy.

Pure array functions. Distances are one matrix product per level and block of items, so memory is
bounded by the block: no N x V array exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.types import Floats

__all__ = ["Metric", "assign", "hypotheses", "reconstruct", "squared_error"]

Metric = Literal["l2", "cosine"]

_CELLS = 1 << 22  # floats in the largest array of a block
_ROWS = 4096


class _Level(NamedTuple):
    book: Floats  # [V, D]
    match: Floats  # [V, D]  the words (l2), or the words at length one (cosine)
    half: Floats  # [V]  what the match is lowered by: |c|^2 / 2 (l2), 0 (cosine)
    length: Floats  # [V]  |c| (cosine), 1 (l2): match x length = r.c
    square: Floats  # [V]  |c|^2


def assign(
    items: Floats, books: Sequence[Floats], *, metric: Metric = "l2", beam: int = 1
) -> NDArray[np.uint16]:
    """Codes [N, L] of ``items`` [N, D] under ``books``, one [V, D] a level."""
    return hypotheses(items, books, metric=metric, beam=beam)[:, 0]


def hypotheses(
    items: Floats,
    books: Sequence[Floats],
    *,
    metric: Metric = "l2",
    beam: int = 1,
    known: NDArray[np.uint16] | None = None,
) -> NDArray[np.uint16]:
    """The beam after the last level: codes [N, W, L], best first.

    W is ``beam``, or less where the levels have fewer combinations. ``known`` [N, w, l] is the same
    beam after the first l levels, where somebody has it: then only the others are searched.
    """
    if known is None:
        known = np.zeros((len(items), 1, 0), dtype=np.uint16)
    levels = [_level(book, metric) for book in books[known.shape[2] :]]
    widths = _widths([len(level.book) for level in levels], known.shape[1], beam, metric)
    codes = np.empty((len(items), [known.shape[1], *widths][-1], len(books)), dtype=np.uint16)
    widest = max((len(book) for book in books), default=1)
    cells = max(widths, default=1) * max(widest, items.shape[1])
    rows = max(16, min(_ROWS, _CELLS // cells))
    for start in range(0, len(items), rows):
        block = slice(start, start + rows)
        prefixes = known[block]
        left = items[block][:, None, :] - reconstruct(prefixes, books)  # (n, w, D)
        if beam == 1:
            found = _greedy(left[:, 0], levels)[:, None]
            codes[block] = np.concatenate([prefixes, found], axis=2)
        else:
            codes[block] = _beam(left, prefixes, levels, widths, metric, beam)
    return codes


def reconstruct(codes: NDArray[np.integer], books: Sequence[Floats]) -> Floats:
    """The vectors [..., D] that ``codes`` [..., l] stand for; l may be shorter than a docid."""
    width = books[0].shape[1]
    total = np.zeros((*codes.shape[:-1], width), dtype=np.float32)
    for level in range(codes.shape[-1]):
        total += books[level][codes[..., level]]
    return total


def squared_error(items: Floats, codes: NDArray[np.integer], books: Sequence[Floats]) -> float:
    """Mean squared distance between items and what their codes stand for."""
    total = 0.0
    for start in range(0, len(items), _ROWS):
        block = slice(start, start + _ROWS)
        left = items[block] - reconstruct(codes[block], books)
        total += float(np.einsum("nd,nd->", left, left, dtype=np.float64))
    return total / max(1, len(items))


def _level(book: Floats, metric: Metric) -> _Level:
    square = np.einsum("vd,vd->v", book, book)
    if metric == "l2":
        return _Level(book, book, square / 2, np.ones_like(square), square)
    length = np.sqrt(square)
    unit = book / np.maximum(length, np.float32(1e-30))[:, None]
    return _Level(book, unit, np.zeros_like(square), length, square)


def _widths(sizes: Sequence[int], width: int, beam: int, metric: Metric) -> list[int]:
    widths = []
    for size in sizes:
        width = min(beam, width * (size if metric == "l2" else min(size, beam)))
        widths.append(width)
    return widths


def _greedy(left: Floats, levels: Sequence[_Level]) -> NDArray[np.uint16]:
    """Codes of the levels; ``left`` [n, D] is used up."""
    codes = np.empty((len(left), len(levels)), dtype=np.uint16)
    for number, level in enumerate(levels):
        match = left @ level.match.T  # (n, V)
        match -= level.half
        code = match.argmax(axis=1)  # |r|^2 is the same for all words, so it is left out
        left -= level.book[code]
        codes[:, number] = code
    return codes


def _beam(
    left: Floats,
    codes: NDArray[np.uint16],
    levels: Sequence[_Level],
    widths: Sequence[int],
    metric: Metric,
    beam: int,
) -> NDArray[np.uint16]:
    """The partial sums ``codes`` [n, w, l], which leave ``left`` [n, w, D], grown by the levels."""
    n, _, width = left.shape
    rows = np.arange(n)[:, None]
    for level, size in zip(levels, widths, strict=True):
        cost = np.einsum("nwd,nwd->nw", left, left)  # squared distance of each partial sum
        match = (left.reshape(-1, width) @ level.match.T).reshape(n, -1, len(level.book))
        outside = _outside(match, beam) if metric == "cosine" else None
        match *= level.length * np.float32(-2)
        match += level.square
        match += cost[:, :, None]  # now |r - c|^2
        if outside is not None:
            match[outside] = np.inf
        pick = _smallest(match.reshape(n, -1), size)
        parent, code = np.divmod(pick, len(level.book))
        left = left[rows, parent] - level.book[code]
        code = code.astype(np.uint16)[:, :, None]
        codes = np.concatenate([codes[rows, parent], code], axis=2)
    return codes


def _outside(match: Floats, beam: int) -> NDArray[np.bool_] | None:
    """Where a word is not among the ``beam`` best matches of its partial sum."""
    size = match.shape[2]
    if beam >= size:
        return None
    best = np.argpartition(match, size - beam, axis=2)[:, :, size - beam :]
    outside = np.ones(match.shape, dtype=np.bool_)
    np.put_along_axis(outside, best, False, axis=2)
    return outside


def _smallest(price: Floats, k: int) -> NDArray[np.intp]:
    """The ``k`` smallest of each row, ascending; the lower position first among equals."""
    if k < price.shape[1]:
        pick = np.sort(np.argpartition(price, k - 1, axis=1)[:, :k], axis=1)
    else:
        pick = np.broadcast_to(np.arange(price.shape[1]), price.shape)
    order = np.argsort(np.take_along_axis(price, pick, axis=1), axis=1, kind="stable")
    return np.take_along_axis(pick, order, axis=1)
