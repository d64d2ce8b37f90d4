"""Every distinct prefix of a trie, level by level, as arrays: what survival is measured over.

The rows of a trie are in order, so the rows below a prefix lie side by side and the prefixes of a
level are its places where a code changes. Scores of a level are then arrays [P] with one entry a
prefix, and a prefix finds its parent and its codes by place.

The trap: a place means something only at its level. Places are not the trie's node numbers, which
are not consecutive; ``places`` leads from these to those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trieline.index import Trie
from trieline.types import Floats

__all__ = [
    "Level",
    "best_below",
    "levels_of",
    "oracle_beam",
    "partial_scores",
    "path_of",
    "places",
    "siblings",
    "squares_of",
]

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]

_ROWS = 4096  # rows reconstructed together


class Level(NamedTuple):
    """The distinct prefixes of a length, in order of their codes: P of them."""

    first: Ints  # [P] first row below
    parent: Ints  # [P] place of the prefix without its last code, among those of the level before
    code: Ints  # [P] the last code
    nodes: Ints  # [P] the trie's number for it


def levels_of(trie: Trie) -> list[Level]:
    """The prefixes of length 1, 2, ... L."""
    codes = trie.codes.astype(np.int64)
    nodes = trie.walk(codes)
    new = np.zeros(len(codes), np.bool_)
    new[:1] = True
    levels: list[Level] = []
    parent = np.zeros(len(codes), np.int64)  # of each row
    for level in range(trie.depth):
        column = codes[:, level]
        new[1:] |= column[1:] != column[:-1]
        first = np.flatnonzero(new)
        levels.append(Level(first, parent[first], column[first], nodes[first, level + 1]))
        parent = np.cumsum(new) - 1
    return levels


def path_of(levels: Sequence[Level], rows: ArrayLike) -> Ints:
    """int64[..., L]: the places of all prefixes of a row's docid, or of several rows'."""
    wanted = np.asarray(rows, np.int64)
    ends = [np.searchsorted(level.first, wanted, side="right") - 1 for level in levels]
    return np.stack(ends, axis=-1).astype(np.int64)


def siblings(level: Level, place: int) -> slice:
    """The places that share their parent with this one; they lie side by side."""
    parent = level.parent[place]
    low = int(np.searchsorted(level.parent, parent))
    return slice(low, int(np.searchsorted(level.parent, parent, side="right")))


def places(level: Level, nodes: NDArray[Any]) -> Ints:
    """The places of the trie's nodes, all of which must be of this level."""
    order = np.argsort(level.nodes)
    found: Ints = order[np.searchsorted(level.nodes[order], nodes)]
    return found


def best_below(level: Level, scores: NDArray[Any]) -> Doubles:
    """float64[P]: the highest of the rows' scores [R] below each prefix."""
    if not len(level.first):
        return np.empty(0)
    best: Doubles = np.maximum.reduceat(scores.astype(np.float64), level.first)
    return best


def partial_scores(
    levels: Sequence[Level],
    codebooks: Sequence[Floats],
    query: Floats,
    squares: Sequence[Doubles] | None = None,
) -> list[Doubles]:
    """What the geometry says of every prefix: float64[P] for each level.

    q.x of the partial reconstruction x, the score of the paper's quantised oracle; with ``squares``
    of ``squares_of`` 2 q.x - |x|^2, which ranks by distance (PRO Eq. 7, summed over the levels).
    """
    asked, scores = query.astype(np.float64), [np.zeros(1)]
    for level, book in zip(levels, codebooks, strict=True):
        scores.append(scores[-1][level.parent] + (book.astype(np.float64) @ asked)[level.code])
    if squares is None:
        return scores[1:]
    return [2 * score - square for score, square in zip(scores[1:], squares, strict=True)]


def squares_of(trie: Trie, levels: Sequence[Level], codebooks: Sequence[Floats]) -> list[Doubles]:
    """float64[P] for each level: |x|^2 of every prefix's partial reconstruction.

    Rows pass in blocks: the reconstructions of all of them would be as large as the vectors.
    """
    codes = trie.codes
    squares = [np.empty(len(level.first)) for level in levels]
    for low in range(0, len(codes), _ROWS):
        block = codes[low : low + _ROWS]
        x = np.zeros((len(block), codebooks[0].shape[1]), np.float32)
        for column, (level, book) in enumerate(zip(levels, codebooks, strict=True)):
            x += book[block[:, column]]
            begin, end = np.searchsorted(level.first, (low, low + len(block)))
            own = x[level.first[begin:end] - low]
            squares[column][begin:end] = np.einsum("pd,pd->p", own, own, dtype=np.float64)
    return squares


def oracle_beam(
    levels: Sequence[Level], scores: Sequence[Doubles], width: int
) -> list[NDArray[np.bool_]]:
    """Trie-constrained beam search by given scores: bool[P], what each level keeps.

    Equal scores go to the lower codes.
    """
    alive = np.ones(1, np.bool_)
    kept: list[NDArray[np.bool_]] = []
    for level, score in zip(levels, scores, strict=True):
        candidates = np.flatnonzero(alive[level.parent])
        best = np.argsort(-score[candidates], kind="stable")[:width]
        alive = np.zeros(len(score), np.bool_)
        alive[candidates[best]] = True
        kept.append(alive)
    return kept
