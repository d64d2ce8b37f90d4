"""Following many docids down a trie at once: where each goes, and where each would be inserted.

Every level is one binary search among the children of each docid's node, all docids together, so
the cost grows with the docids that are followed and not with the size of the trie.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trieline.index.layout import Ints, Layout, child_ranges, codes_of, docid_ranges
from trieline.types import Codes

__all__ = ["insertion_rows", "walk"]


def walk(trie: Layout, codes: NDArray[Any]) -> Ints:
    """codes [R, l] of l <= L levels -> nodes [R, l + 1]; -1 from where a docid leaves the trie."""
    nodes = np.full((len(codes), codes.shape[1] + 1), -1, np.int64)
    nodes[:, 0] = 0
    inside = np.arange(len(codes))
    for level in range(codes.shape[1]):
        wanted = codes[inside, level]
        child, end = _seek(trie, level, nodes[inside, level], wanted)
        candidates = np.flatnonzero(child < end)
        match = codes_of(trie, level + 1, child[candidates]) == wanted[candidates]
        inside = inside[candidates[match]]
        nodes[inside, level + 1] = child[candidates[match]]
    return nodes


def insertion_rows(trie: Layout, new: Codes) -> tuple[Ints, NDArray[np.bool_]]:
    """(row, present): the trie's row before which each new row belongs, or where it already is."""
    nodes = walk(trie, new.codes)
    reached = (nodes >= 0).sum(axis=1) - 1
    rows = np.empty(len(new.owner), np.int64)
    present = np.zeros(len(new.owner), bool)
    depth = new.codes.shape[1]
    for level in range(depth):
        left = np.flatnonzero(reached == level)
        rows[left] = _parting_rows(trie, level, nodes[left, level], new.codes[left, level])
    shared = np.flatnonzero(reached == depth)
    docid, _ = docid_ranges(trie, depth, nodes[shared, depth])
    low = trie.docid_rows[docid].astype(np.int64)
    high = trie.docid_rows[docid + 1].astype(np.int64)
    rows[shared] = _first_not_below(lambda row: trie.owner[row], low, high, new.owner[shared])
    found = shared[rows[shared] < high]
    present[found] = trie.owner[rows[found]] == new.owner[found]
    return rows, present


def _parting_rows(trie: Layout, level: int, nodes: Ints, codes: NDArray[Any]) -> Ints:
    """The row before which a docid belongs that reached a node but none of its children."""
    child, end = _seek(trie, level, nodes, codes)
    _, docid = docid_ranges(trie, level, nodes)  # past the last child, unless there is a greater
    greater = np.flatnonzero(child < end)
    docid[greater], _ = docid_ranges(trie, level + 1, child[greater])
    return trie.docid_rows[docid].astype(np.int64)


def _seek(trie: Layout, level: int, nodes: Ints, codes: NDArray[Any]) -> tuple[Ints, Ints]:
    """(child, end): each node's first child whose code is not below the wanted one, or its end."""
    start, end = child_ranges(trie, level, nodes)
    child = _first_not_below(lambda node: codes_of(trie, level + 1, node), start, end, codes)
    return child, end


def _first_not_below(
    value: Callable[[Ints], NDArray[Any]], low: Ints, high: Ints, wanted: NDArray[Any]
) -> Ints:
    """Binary search in many ranges at once."""
    low, high = low.copy(), high.copy()
    searching = np.flatnonzero(low < high)
    while len(searching):
        middle = (low[searching] + high[searching]) // 2
        below = value(middle) < wanted[searching]
        low[searching[below]] = middle[below] + 1
        high[searching[~below]] = middle[~below]
        searching = searching[low[searching] < high[searching]]
    return low
