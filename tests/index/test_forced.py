"""Where only one docid is left below a prefix, the rest of its spelling is settled."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trieline.index import Trie
from trieline.types import Codes

SIZES = (3, 2, 4, 2)
ROWS = st.lists(st.tuples(*(st.integers(0, size - 1) for size in SIZES)), max_size=25)


@given(ROWS)
def test_forced_is_one_docid_below(rows: list[tuple[int, ...]]) -> None:
    table = np.array(rows, np.uint16).reshape(-1, len(SIZES))
    trie = Trie.build(Codes(table, np.arange(len(rows), dtype=np.uint32)), SIZES)
    prefixes: list[tuple[int, ...]] = [()]
    nodes = np.zeros(1, np.int64)
    for level in range(len(SIZES) + 1):
        below = [len({row for row in rows if row[:level] == prefix}) for prefix in prefixes]
        assert trie.forced(level, nodes).tolist() == [count == 1 for count in below]
        if level < len(SIZES):
            parents, codes, nodes = trie.expand(level, nodes)
            prefixes = [(*prefixes[p], int(c)) for p, c in zip(parents, codes, strict=True)]
