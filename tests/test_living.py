"""Which rows of a trie decide the docids of new items, against all rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trieline.config import IdSettings
from trieline.index import Trie
from trieline.living import View, taken_by
from trieline.types import Codes

EXTRA = IdSettings(sizes=(3, 3), collisions="extra", extra=5)


def table(rows: list[list[int]], depth: int) -> Codes:
    codes = np.array(rows, np.uint16).reshape(-1, depth)
    return Codes(codes, np.arange(len(rows), dtype=np.uint32))


def told(taken: Codes | None) -> list[tuple[int, ...]]:
    assert taken is not None
    assert (taken.codes.dtype, taken.owner.dtype) == (np.uint16, np.uint32)
    return sorted((*row, own) for row, own in zip(*map(np.ndarray.tolist, taken), strict=True))


@given(st.data())
def test_rows_that_share_all_but_the_last_code(data: st.DataObject) -> None:
    depth = data.draw(st.integers(1, 3))
    row = st.lists(st.integers(0, 2), min_size=depth, max_size=depth)
    there = table(data.draw(st.lists(row, max_size=9)), depth)
    new = table(data.draw(st.lists(row, max_size=4)), depth)
    leaving = data.draw(st.lists(st.integers(0, 9), max_size=3))
    trie = Trie.build(there, (3,) * depth)
    near = taken_by(EXTRA, new, lambda: View(1, trie), np.array(leaving, np.uint32))
    prefixes = {tuple(one[:-1]) for one in new.codes.tolist()}
    expected = sorted(
        (*one, number)
        for number, one in enumerate(there.codes.tolist())
        if tuple(one[:-1]) in prefixes and number not in leaving
    )
    assert told(near) == expected


@pytest.mark.parametrize("collisions", ["keep", "reassign"])
def test_rows_for_other_policies(collisions: str) -> None:
    there, new = table([[0, 1], [2, 2], [0, 1]], 2), table([[1, 1]], 2)
    trie = Trie.build(there, (3, 3))
    settings = IdSettings(sizes=(3, 3), collisions=collisions)  # type: ignore[arg-type]
    if collisions == "keep":

        def nobody() -> View:
            raise AssertionError("items may share docids: nothing is to be looked up")

        assert taken_by(settings, new, nobody, ()) is None
        return
    assert told(taken_by(settings, new, lambda: View(1, trie), [1])) == [(0, 1, 0), (0, 1, 2)]
