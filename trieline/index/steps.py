"""One step of a search over the trie, in NumPy: what may follow some prefixes, and the best of it.

The slow twins of ``kernels.py`` and what it is tested against; also what small tries use, for which
compiling or even importing numba would take longer than all steps of a search.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.index.layout import Ints, Layout, docid_ranges, spread
from trieline.index.packing import code_at, field_of

__all__ = ["Best", "Children", "best_children", "children", "legal_totals"]


class Children(NamedTuple):
    """What may follow some nodes, ordered by parent position and then code."""

    parents: Ints  # [C] position in the nodes that were asked for
    codes: Ints  # [C]
    nodes: Ints  # [C] node numbers at the next level


class Best(NamedTuple):
    """The best children of each query's beams: by query, best first."""

    parents: Ints  # [M] position in the nodes that were asked for
    codes: Ints  # [M]
    nodes: Ints  # [M] node numbers at the next level
    scores: NDArray[np.float64]  # [M]
    bounds: Ints  # [B + 1] first of each query, then M


def children(trie: Layout, sizes: tuple[int, ...], level: int, nodes: Ints) -> Children:
    """All children of some nodes."""
    listed = trie.listed(level)
    long, short = np.flatnonzero(nodes < listed), np.flatnonzero(nodes >= listed)
    at = trie.levels[level] + nodes[long]
    which, child = spread(trie.begin[at].astype(np.int64), trie.begin[at + 1].astype(np.int64))
    first, end = docid_ranges(trie, level, nodes[short])
    whose, docid = spread(first, end)
    begins = (docid == first[whose]) | (trie.parts[docid] == level + 1)
    whose, docid = whose[begins], docid[begins]
    parents = np.concatenate([long[which], short[whose]])
    order = np.argsort(parents, kind="stable")
    codes = code_at(trie.packed, docid, field_of(sizes, level))
    return Children(
        parents[order],
        np.concatenate([trie.child_codes[child].astype(np.int64), codes])[order],
        np.concatenate([trie.child_nodes[child].astype(np.int64), docid + trie.listed(level + 1)])[
            order
        ],
    )


def best_children(
    found: Children,
    base: NDArray[np.float64],
    table: NDArray[np.float32],
    bounds: Ints,
    width: int,
) -> Best:
    """The best ``width`` of each query; ``found`` are the children of all nodes."""
    with np.errstate(invalid="ignore"):  # inf - inf is NaN and never kept
        scores = base[found.parents] + table[found.parents, found.codes]
    edges = np.searchsorted(found.parents, bounds)
    kept = []
    for low, high in itertools.pairwise(edges):
        some = low + np.flatnonzero(np.isfinite(scores[low:high]))
        kept.append(some[np.argsort(-scores[some], kind="stable")[:width]])
    best = np.concatenate(kept) if kept else np.zeros(0, np.int64)
    ends = np.cumsum([0, *(len(some) for some in kept)])
    return Best(found.parents[best], found.codes[best], found.nodes[best], scores[best], ends)


def legal_totals(found: Children, count: int, table: NDArray[np.float32]) -> NDArray[np.float64]:
    """float64[count]: the log of the sum of exp(table) over the children of each node."""
    totals = np.full(count, -np.inf)
    scores = table[found.parents, found.codes].astype(np.float64)
    starts = np.flatnonzero(np.diff(found.parents, prepend=-1))
    parents = found.parents[starts]
    if not len(parents):
        return totals
    most: NDArray[Any] = np.maximum.reduceat(scores, starts)
    totals[parents] = most
    finite = np.isfinite(most)
    sizes = np.diff(starts, append=len(scores))
    level = np.repeat(np.where(finite, most, 0.0), sizes)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        sums = np.log(np.add.reduceat(np.exp(scores - level), starts))
    totals[parents[finite]] += sums[finite]
    return totals
