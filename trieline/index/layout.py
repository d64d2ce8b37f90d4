"""How a trie lies in memory: sorted rows, and a table of the prefixes where docids still part.

A prefix with two docids or more below it is *open*; with one it is *forced*: the rest of the
spelling is that docid's own row. Only the root and the children of open prefixes are stored, each
as the range of docids below it. At the forced levels nothing is stored: their nodes are numbered

    number of stored nodes at the level + number of the docid

so a forced node is found by arithmetic, at the price of one row for the whole tail.

Trap: node numbers are therefore not consecutive within a level and mean nothing to another trie.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.index.rows import shared_prefix
from trieline.types import Codes

__all__ = ["Ints", "Layout", "child_ranges", "codes_of", "docid_ranges", "lay_out", "spread"]

Ints = NDArray[np.int64]


class Layout(NamedTuple):
    """The arrays of a trie. ``K`` stored nodes, level by level, each level in docid order."""

    codes: NDArray[np.uint16]  # [R, L] sorted rows
    owner: NDArray[np.uint32]  # [R] item number of each row
    docid_rows: NDArray[np.uint32]  # [docids + 1] first row of each docid, then R
    levels: Ints  # [L + 2] first stored node of each level, then K; the root is node 0
    node_codes: NDArray[np.uint16]  # [K] last code of the prefix; 0 for the root
    node_first: NDArray[np.uint32]  # [K] first docid below
    node_end: NDArray[np.uint32]  # [K] one past the last docid below
    node_children: NDArray[np.uint32]  # [K + 1] first stored child; forced nodes have none

    @property
    def docids(self) -> int:
        return len(self.docid_rows) - 1

    def stored(self, level: int) -> int:
        """How many nodes of a level are stored; forced nodes are numbered from here."""
        return int(self.levels[level + 1] - self.levels[level])


def lay_out(rows: Codes) -> Layout:
    """The layout of rows that are sorted and without duplicates."""
    depth = rows.codes.shape[1]
    shared = shared_prefix(rows.codes)
    docid_rows = np.append(np.flatnonzero(shared < depth), len(shared)).astype(np.uint32)
    shared = np.append(shared[docid_rows[:-1]], np.int16(-1))  # [docids + 1], -1 at both ends
    first, end = _stored_ranges(shared, depth)
    levels = np.cumsum([0] + [len(level) for level in first])
    codes = [np.zeros(1, np.uint16)]
    children = []
    for level in range(1, depth + 1):
        codes.append(rows.codes[docid_rows[first[level]], level - 1])
        children.append(levels[level] + np.searchsorted(first[level], first[level - 1]))
    children.append(np.full(len(first[depth]) + 1, levels[-1]))
    return Layout(
        codes=rows.codes,
        owner=rows.owner,
        docid_rows=docid_rows,
        levels=levels.astype(np.int64),
        node_codes=np.concatenate(codes),
        node_first=np.concatenate(first),
        node_end=np.concatenate(end),
        node_children=np.concatenate(children).astype(np.uint32),
    )


def _stored_ranges(
    shared: NDArray[np.int16], depth: int
) -> tuple[list[NDArray[np.uint32]], list[NDArray[np.uint32]]]:
    """First and end docid of every stored node, by level.

    A prefix of length l begins at each docid that shares fewer than l codes with the docid before.
    Its parent is open, and so it is stored, when that docid shares l - 1 codes with a neighbour.
    """
    docids = len(shared) - 1
    neighbour = np.maximum(shared[:-1], shared[1:])
    first = [np.zeros(1, np.uint32)]
    end = [np.full(1, docids, np.uint32)]
    for level in range(1, depth + 1):
        begins = np.flatnonzero(shared < level)  # the sentinel ends the last range
        stored = np.flatnonzero(neighbour[begins[:-1]] >= level - 1)
        first.append(begins[stored].astype(np.uint32))
        end.append(begins[stored + 1].astype(np.uint32))
    return first, end


def docid_ranges(trie: Layout, level: int, nodes: Ints) -> tuple[Ints, Ints]:
    """(first, end): the docids below each node."""
    first = nodes - trie.stored(level)
    end = first + 1
    stored = np.flatnonzero(first < 0)
    at = trie.levels[level] + nodes[stored]
    first[stored] = trie.node_first[at]
    end[stored] = trie.node_end[at]
    return first, end


def child_ranges(trie: Layout, level: int, nodes: Ints) -> tuple[Ints, Ints]:
    """(start, end): the children of each node are consecutive nodes of the next level."""
    first, last = docid_ranges(trie, level, nodes)
    start = first + trie.stored(level + 1)
    end = start + 1
    parting = np.flatnonzero(last - first != 1)  # open, or the root of an empty trie
    at = trie.levels[level] + nodes[parting]
    start[parting] = trie.node_children[at] - trie.levels[level + 1]
    end[parting] = trie.node_children[at + 1] - trie.levels[level + 1]
    return start, end


def codes_of(trie: Layout, level: int, nodes: Ints) -> Ints:
    """The last code of each node; level is at least 1."""
    docid = nodes - trie.stored(level)
    forced = np.flatnonzero(docid >= 0)
    codes = np.empty(len(nodes), np.int64)
    stored = np.flatnonzero(docid < 0)
    codes[stored] = trie.node_codes[trie.levels[level] + nodes[stored]]
    codes[forced] = trie.codes[trie.docid_rows[docid[forced]], level - 1]
    return codes


def spread(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """(which range, value) for every value of many ranges, in order; costs what it returns."""
    count = end - start
    which = np.repeat(np.arange(len(count)), count)
    before = np.cumsum(count) - count
    return which, np.arange(len(which)) + (start - before)[which]
