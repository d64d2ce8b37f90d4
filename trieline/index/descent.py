"""Following many docids down a trie at once: where each goes, and where each belongs.

Packed docids are in order, so one binary search among them finds where a docid is or would be.
The nodes above a docid are the runs that it lies in, level by level.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trieline.index.layout import Ints, Layout
from trieline.index.packing import Bytes, pack, parting, row_keys, sort_words

__all__ = ["ancestors", "places", "walk"]


def walk(trie: Layout, sizes: tuple[int, ...], codes: NDArray[Any]) -> Ints:
    """codes [R, l] of l <= L levels -> nodes [R, l + 1]; -1 from where a docid leaves the trie."""
    rows, given = codes.shape
    nodes = np.full((rows, given + 1), -1, np.int64)
    nodes[:, 0] = 0
    if not trie.docids or not given:
        return nodes
    possible = (codes >= 0) & (codes < np.array(sizes[:given]))
    most = np.where(possible.all(axis=1), given, possible.argmin(axis=1))
    full = np.zeros((rows, len(sizes)), np.uint16)
    full[:, :given] = np.where(possible, codes, 0)
    packed = pack(sort_words(full, sizes), sizes)
    docid = np.searchsorted(row_keys(trie.packed), row_keys(packed))
    reached = np.zeros(rows, np.int64)
    nearest = np.zeros(rows, np.int64)
    for neighbour in (docid - 1, docid):  # one of the two shares the longest prefix
        there = np.clip(neighbour, 0, trie.docids - 1)
        parts = parting(packed, trie.packed[there], sizes)
        shares = np.where(parts == 0, len(sizes), parts - 1)
        nearest = np.where(shares > reached, there, nearest)
        reached = np.maximum(reached, shares)
    reached = np.minimum(reached, most)
    above = ancestors(trie, nearest, given)
    inside = np.arange(given + 1) <= reached[:, None]
    nodes[inside] = above[inside]
    return nodes


def ancestors(trie: Layout, docids: Ints, deepest: int) -> Ints:
    """The nodes above some docids: int64[n, deepest + 1], from the root down."""
    depth = len(trie.levels) - 1
    nodes = np.empty((len(docids), deepest + 1), np.int64)
    first = docids.astype(np.int64)
    for level in range(deepest, -1, -1):
        some = slice(*trie.levels[level : level + 2]) if level < depth else slice(0, 0)
        firsts, ends = trie.first[some], trie.end[some]
        run = np.searchsorted(firsts, docids, side="right") - 1
        listed = run >= 0
        listed[listed] = docids[listed] < ends[run[listed]]
        growing = np.flatnonzero(~listed)
        while len(growing := growing[trie.parts[first[growing]] > level]):
            first[growing] -= 1
        nodes[:, level] = np.where(listed, run, first + len(firsts))
    return nodes


def places(trie: Layout, packed: Bytes) -> tuple[Ints, NDArray[np.bool_]]:
    """(docid, present): the trie's docid before which each row belongs, or which it is."""
    if not trie.docids:
        return np.zeros(len(packed), np.int64), np.zeros(len(packed), bool)
    docid = np.searchsorted(row_keys(trie.packed), row_keys(packed))
    there = np.minimum(docid, trie.docids - 1)
    present = (docid < trie.docids) & (trie.packed[there] == packed).all(axis=1)
    return docid.astype(np.int64), present
