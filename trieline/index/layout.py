"""How a trie lies in memory: packed docids in order, where each parts from the last, a short table.

A prefix is the run of docids that begin with it. ``parts[d]`` is the level at which docid ``d``
parts from the docid before, so the run of a prefix of ``l`` codes goes on while ``parts`` is above
``l``, and its children begin where ``parts`` is ``l + 1``. That byte a docid is the whole trie;
short runs are simply read. Only runs of ``LISTED`` docids or more, where reading would be slow,
have a table of their children. Nodes are numbered

    a listed prefix    its place among the listed prefixes of the level
    any other          number of listed prefixes of the level + its first docid

so a node leads to its docids by arithmetic, and a leaf's number is the number of its docid.

Trap: node numbers are therefore not consecutive within a level and mean nothing to another trie.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.index.packing import Bytes, code_at, field_of

__all__ = [
    "LISTED",
    "Ints",
    "Layout",
    "Table",
    "docid_ranges",
    "lay_out",
    "owner_numbers",
    "owners_of",
    "parts_kind",
    "row_of_docid",
    "spread",
    "table_of",
]

Ints = NDArray[np.int64]

# Docids below a prefix from which on its children are listed. Measured with a million residual
# codes of 16 levels: 64 costs 1.4 bytes a docid, 32 costs 1.8; one step of 800 beams at level 2
# takes the same time with either.
LISTED = 64


class Layout(NamedTuple):
    """The arrays of a trie: ``D`` docids, ``K`` listed prefixes with ``C`` children."""

    packed: Bytes  # [D, width] see packing.py
    parts: NDArray[Any]  # uint8 or uint16 [D + 1] level, from 1; 0 for the first docid and the end
    owner: Bytes  # [R, 1 to 4] item number of each row, the least significant byte first
    shared: NDArray[np.uint32]  # [S] docids of two rows or more
    extra: NDArray[np.uint32]  # [S + 1] rows beyond the first of all shared docids before
    levels: Ints  # [L + 1] first listed prefix of each level 0 to L - 1, then K; the root is 0
    first: NDArray[np.uint32]  # [K] first docid below
    end: NDArray[np.uint32]  # [K] one past the last docid below
    begin: NDArray[np.uint32]  # [K + 1] first child, then C
    child_codes: NDArray[np.uint16]  # [C]
    child_nodes: NDArray[np.uint32]  # [C]

    @property
    def docids(self) -> int:
        return len(self.packed)

    def listed(self, level: int) -> int:
        """How many prefixes of a level are listed; the other nodes are numbered from here."""
        levels = self.levels
        return int(levels[level + 1] - levels[level]) if level + 1 < len(levels) else 0


class Table(NamedTuple):
    """The table of the long runs, which follows from ``parts`` alone; names as in Layout."""

    levels: Ints
    first: Ints
    end: Ints
    begin: Ints
    child_nodes: Ints
    child_docids: Ints  # [C] first docid of each child
    child_levels: Ints  # [L + 1] first child of the listed prefixes of each level, then C


def parts_kind(depth: int) -> type[np.unsignedinteger[Any]]:
    """The element type of ``parts``."""
    return np.uint8 if depth < 256 else np.uint16


def lay_out(
    packed: Bytes,
    parts: NDArray[Any],
    owner: Bytes,
    shared: NDArray[np.uint32],
    extra: NDArray[np.uint32],
    sizes: tuple[int, ...],
) -> Layout:
    """The layout of docids in order."""
    table = table_of(parts, len(sizes))
    codes = np.empty(len(table.child_docids), np.uint16)
    for level in range(len(sizes)):
        some = slice(*table.child_levels[level : level + 2])
        codes[some] = code_at(packed, table.child_docids[some], field_of(sizes, level))
    return Layout(
        packed=packed,
        parts=parts,
        owner=owner,
        shared=shared,
        extra=extra,
        levels=table.levels,
        first=table.first.astype(np.uint32),
        end=table.end.astype(np.uint32),
        begin=table.begin.astype(np.uint32),
        child_codes=codes,
        child_nodes=table.child_nodes.astype(np.uint32),
    )


def table_of(parts: NDArray[Any], depth: int) -> Table:
    """The children of all long runs, level by level from the root, which is always listed."""
    nothing = np.zeros(0, np.int64)
    first, end = np.zeros(1, np.int64), np.array([len(parts) - 1], np.int64)
    firsts, ends, begins, nodes, docids = [first], [end], [], [], []
    levels, child_levels, children = [0, 1], [0], 0
    for level in range(depth):
        begin, child, last = (nothing, nothing, nothing)
        if len(first):  # the prefixes of level + 1 codes: where they begin, and the end of all
            runs = np.flatnonzero(parts <= level + 1)
            low, high = np.searchsorted(runs, first), np.searchsorted(runs, end)
            at = spread(low, high)[1]
            begin, child, last = np.cumsum(high - low) - (high - low), runs[at], runs[at + 1]
        long = last - child >= LISTED
        if level == depth - 1:
            long[:] = False  # leaves are not listed: each is one docid
        numbers = child + int(long.sum())
        numbers[long] = np.arange(long.sum())
        begins.append(begin + children)
        nodes.append(numbers)
        docids.append(child)
        children += len(child)
        child_levels.append(children)
        first, end = child[long], last[long]
        if level < depth - 1:
            firsts.append(first)
            ends.append(end)
            levels.append(levels[-1] + len(first))
    return Table(
        levels=np.array(levels, np.int64),
        first=np.concatenate(firsts),
        end=np.concatenate(ends),
        begin=np.append(np.concatenate(begins), children),
        child_nodes=np.concatenate(nodes),
        child_docids=np.concatenate(docids),
        child_levels=np.array(child_levels, np.int64),
    )


def docid_ranges(trie: Layout, level: int, nodes: Ints) -> tuple[Ints, Ints]:
    """(first, end): the docids below each node."""
    first = nodes - trie.listed(level)
    end = first + 1
    listed = np.flatnonzero(first < 0)
    growing = np.flatnonzero(first >= 0)
    if level < len(trie.levels) - 1:
        at = trie.levels[level] + nodes[listed]
        first[listed] = trie.first[at]
        end[listed] = trie.end[at]
        while len(growing := growing[trie.parts[end[growing]] > level]):
            end[growing] += 1
    return first, end


def row_of_docid(trie: Layout, docids: Ints) -> Ints:
    """The first row of each docid; for ``D`` itself the number of rows."""
    if not len(trie.shared):
        return docids.astype(np.int64)
    rows: Ints = docids + trie.extra[np.searchsorted(trie.shared, docids)]
    return rows


def owners_of(trie: Layout, rows: Ints) -> NDArray[np.uint32]:
    """The item numbers of some rows."""
    return owner_numbers(trie.owner[rows])


def owner_numbers(owner: Bytes) -> NDArray[np.uint32]:
    """uint32[R] of item numbers kept in as few bytes as the greatest needs."""
    wide = np.zeros((len(owner), 4), np.uint8)
    wide[:, : owner.shape[1]] = owner
    numbers: NDArray[np.uint32] = wide.view("<u4")[:, 0]
    return numbers.astype(np.uint32, copy=False)


def spread(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """(which range, value) for every value of many ranges, in order; costs what it returns."""
    count = end - start
    which = np.repeat(np.arange(len(count)), count)
    before = np.cumsum(count) - count
    return which, np.arange(len(which)) + (start - before)[which]
