"""Whatever tables of docids hypothesis finds, and a twin of the trie that is obviously right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from trieline.index import Trie
from trieline.types import Codes

__all__ = [
    "DictTrie",
    "Pair",
    "Table",
    "as_codes",
    "assert_same",
    "build",
    "some_code",
    "tables",
    "two_tables",
]

Pair = tuple[tuple[int, ...], int]


class DictTrie:
    """Obviously right and slow: docid -> its items."""

    def __init__(self, pairs: Iterable[Pair]) -> None:
        self.items: dict[tuple[int, ...], set[int]] = {}
        for docid, item in pairs:
            self.items.setdefault(docid, set()).add(item)

    def pairs(self) -> list[Pair]:
        return sorted((docid, item) for docid, items in self.items.items() for item in items)

    def children(self, prefix: tuple[int, ...]) -> list[int]:
        depth = len(prefix)
        return sorted({docid[depth] for docid in self.items if docid[:depth] == prefix})

    def interval(self, prefix: tuple[int, ...]) -> tuple[int, int]:
        below = [
            row for row, (docid, _) in enumerate(self.pairs()) if docid[: len(prefix)] == prefix
        ]
        return (below[0], below[-1] + 1) if below else (0, 0)

    def reached(self, docid: Sequence[int]) -> int:
        """How many of its codes can be spelled."""
        lengths = range(len(docid) + 1)
        return max(
            (n for n in lengths for known in self.items if known[:n] == tuple(docid[:n])), default=0
        )


class Table(NamedTuple):
    """Some rows in any order, and the sizes of their levels."""

    sizes: tuple[int, ...]
    pairs: list[Pair]


def some_code(size: int) -> st.SearchStrategy[int]:
    """Few distinct values, so that prefixes are shared, and the edges of the level."""
    return st.sampled_from(sorted({0, 1, 2, size // 2, size - 1} & set(range(size))))


@st.composite
def tables(draw: st.DrawFn, most: int = 40) -> Table:
    sizes = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 7, 300, 65536]), min_size=1, max_size=6)))
    docids = st.tuples(*(some_code(size) for size in sizes))
    return Table(sizes, draw(st.lists(st.tuples(docids, st.integers(0, 9)), max_size=most)))


@st.composite
def two_tables(draw: st.DrawFn) -> tuple[Table, Table]:
    table = draw(tables())
    docids = st.tuples(*(some_code(size) for size in table.sizes))
    more = draw(st.lists(st.tuples(docids, st.integers(0, 9)), max_size=20))
    return table, Table(table.sizes, more)


def as_codes(pairs: Sequence[Pair], depth: int) -> Codes:
    docids = np.array([docid for docid, _ in pairs], np.uint16).reshape(len(pairs), depth)
    return Codes(docids, np.array([item for _, item in pairs], np.uint32))


def build(table: Table) -> Trie:
    return Trie.build(as_codes(table.pairs, len(table.sizes)), table.sizes)


def assert_same(one: Trie, other: Trie) -> None:
    """Equal in every array, so equal in everything."""
    assert one.sizes == other.sizes
    assert one.arrays().keys() == other.arrays().keys()
    for name, array in one.arrays().items():
        np.testing.assert_array_equal(array, other.arrays()[name], err_msg=name)
        assert array.dtype == other.arrays()[name].dtype
