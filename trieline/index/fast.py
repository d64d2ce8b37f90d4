"""The compiled kernels as the trie calls them: arguments brought to the types compiled for.

numba compiles a kernel once for every combination of element types, layouts and read-only flags.
Here all are fixed, so that each kernel is compiled once and found in numba's cache ever after.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trieline.index import kernels
from trieline.index.layout import Ints, Layout
from trieline.index.packing import field_of
from trieline.index.steps import Best, Children

__all__ = [
    "best_children",
    "children",
    "decode",
    "docid_ranges",
    "legal_totals",
    "rows_of",
]


def children(trie: Layout, sizes: tuple[int, ...], level: int, nodes: Ints) -> Children:
    """All children of some nodes; see ``steps.children``."""
    step, asked = _step(trie, sizes, level), _fixed(nodes, np.int64)
    count = kernels.count_children(asked, step)
    found = Children(*(np.empty(count, np.int64) for _ in Children._fields))
    kernels.children(asked, step, *found)
    return found


def best_children(
    trie: Layout,
    sizes: tuple[int, ...],
    level: int,
    nodes: Ints,
    base: NDArray[np.float64],
    table: NDArray[np.float32],
    bounds: Ints,
    width: int,
) -> Best:
    """The best children of each query; see ``steps.best_children``."""
    room, total = 4 * width, width * (len(bounds) - 1)
    if width > kernels.SORTED:  # room for so many only where they may exist
        most = np.diff(bounds) * min(sizes[level], trie.docids)  # candidates of each query
        room = min(room, int(most.max(initial=0)))
        total = int(np.minimum(most, width).sum())
    room += 4 * kernels.CHUNK
    held = kernels.Held(np.empty(room), np.empty(room, np.int64))
    ends, scores = np.zeros(len(bounds), np.int64), np.empty(total)
    found = np.empty((3, total), np.int64)
    kernels.best_children(
        _fixed(nodes, np.int64),
        _fixed(base, np.float64),
        _fixed(table, np.float32),
        _fixed(bounds, np.int64),
        width,
        _step(trie, sizes, level),
        held,
        ends,
        scores,
        found,
    )
    scores, found = scores[: ends[-1]], found[:, : ends[-1]]
    kept = np.diff(ends) if width > kernels.SORTED else np.zeros(1, np.int64)
    if kept.max(initial=0) > kernels.SORTED:
        order = np.lexsort((-scores, np.repeat(np.arange(len(kept)), kept)))
        scores, found = scores[order], found[:, order]
    return Best(found[0], found[1], found[2], scores, ends)


def legal_totals(
    trie: Layout,
    sizes: tuple[int, ...],
    level: int,
    nodes: Ints,
    table: NDArray[np.float32],
) -> NDArray[np.float64]:
    """log of the sum of exp(score) over children; see ``steps.legal_totals``."""
    totals = np.empty(len(nodes))
    step = _step(trie, sizes, level)
    kernels.legal_totals(_fixed(nodes, np.int64), _fixed(table, np.float32), step, totals)
    return totals


def docid_ranges(trie: Layout, level: int, nodes: Ints) -> tuple[Ints, Ints]:
    """(first, end): the docids below each node; see ``layout.docid_ranges``."""
    first, end = np.empty_like(nodes), np.empty_like(nodes)
    at = int(trie.levels[level]) if level + 1 < len(trie.levels) else 0
    kernels.docid_ranges(
        _fixed(nodes, np.int64),
        level,
        trie.listed(level),
        at,
        trie.first,
        trie.end,
        trie.parts,
        first,
        end,
    )
    return first, end


def decode(trie: Layout, sizes: tuple[int, ...], docids: Ints) -> NDArray[np.uint16]:
    """uint16[n, L]: the codes of some docids; see ``packing.unpack``."""
    codes = np.empty((len(docids), len(sizes)), np.uint16)
    fields = np.array([field_of(sizes, level) for level in range(len(sizes))], np.int64)
    kernels.decode(trie.packed, _fixed(docids, np.int64), fields, codes)
    return codes


def rows_of(owner: NDArray[np.uint8], chosen: NDArray[np.bool_]) -> tuple[Ints, bool]:
    """The rows of the items that are chosen, and whether any item is beyond the array."""
    rows = np.empty(len(owner) + 1, np.int64)
    count, beyond = kernels.rows_of(owner, _fixed(chosen, np.bool_), rows)
    return rows[:count].copy(), bool(beyond)


def _step(trie: Layout, sizes: tuple[int, ...], level: int) -> kernels.Step:
    return kernels.Step(
        level,
        trie.listed(level),
        trie.listed(level + 1),
        int(trie.levels[level]),
        *field_of(sizes, level),
        trie.begin,
        trie.child_codes,
        trie.child_nodes,
        trie.parts,
        trie.packed,
    )


def _fixed(array: NDArray[Any], kind: type[np.generic]) -> NDArray[Any]:
    """Contiguous, of one element type, and read-only, as the arrays of a trie are."""
    fixed = np.ascontiguousarray(array, kind).view()
    fixed.flags.writeable = False
    return fixed
