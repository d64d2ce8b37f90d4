"""Collisions settled: against counting by hand, and in any number of additions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from trieline.config import IdSettings
from trieline.errors import DataError, SettingsError
from trieline.ids import ResidualIds, resolve
from trieline.ids.docids import one_row_an_item
from trieline.types import Codes

Floats = NDArray[np.float32]
Docid = tuple[int, ...]
tables = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=40)


def residual(
    sizes: tuple[int, ...], items: Floats, collisions: str, extra: int = 64
) -> ResidualIds:
    how = IdSettings(sizes=sizes, collisions=collisions, extra=extra)  # type: ignore[arg-type]
    return ResidualIds(how).fit(items)


def table_of(rows: list[Docid]) -> NDArray[np.uint16]:
    return np.array(rows, np.uint16).reshape(-1, 2)


def with_level(rows: list[Docid]) -> Codes:
    return one_row_an_item(np.pad(table_of(rows), ((0, 0), (0, 1))))


LINE = np.linspace(-1, 1, 50, dtype=np.float32)[:, None] * np.ones((1, 2), np.float32)
EXTRA = residual((3, 3), LINE, "extra")
MOVED = residual((3, 3), LINE, "reassign")


def test_keep_keeps() -> None:
    docids = residual((3, 3), LINE, "keep")
    codes = docids.assign(LINE)
    assert resolve(codes, docids.settings, docids=docids) is codes
    assert resolve(codes, docids.settings, docids=docids, taken=codes) is codes


@given(rows=tables)
def test_extra_counts_the_items_of_a_docid(rows: list[Docid]) -> None:
    found = resolve(with_level(rows), EXTRA.settings, docids=EXTRA).codes
    seen: Counter[Docid] = Counter()
    for row, codes in zip(rows, found.tolist(), strict=True):
        assert codes == [*row, seen[row]]
        seen[row] += 1


@given(rows=tables, cuts=st.lists(st.integers(0, 40), max_size=4))
def test_extra_in_one_go_or_in_several(rows: list[Docid], cuts: list[int]) -> None:
    at_once = resolve(with_level(rows), EXTRA.settings, docids=EXTRA).codes
    taken = with_level([])
    for part in np.split(np.arange(len(rows)), sorted(min(cut, len(rows)) for cut in cuts)):
        new = with_level([rows[i] for i in part])
        settled = resolve(new, EXTRA.settings, docids=EXTRA, taken=taken)
        taken = one_row_an_item(np.concatenate([taken.codes, settled.codes]))
    np.testing.assert_array_equal(taken.codes, at_once)


@given(rows=tables, more=tables, gone=st.sets(st.integers(0, 39)))
def test_extra_takes_the_smallest_free_number(
    rows: list[Docid], more: list[Docid], gone: set[int]
) -> None:
    before = resolve(with_level(rows), EXTRA.settings, docids=EXTRA).codes
    left = before[[i for i in range(len(rows)) if i not in gone]]
    used: defaultdict[Docid, set[int]] = defaultdict(set)
    for a, b, number in left.tolist():
        used[a, b].add(number)
    taken = one_row_an_item(left)
    found = resolve(with_level(more), EXTRA.settings, docids=EXTRA, taken=taken).codes
    for a, b, number in found.tolist():
        assert number == min(set(range(100)) - used[a, b])
        used[a, b].add(number)


def test_extra_too_small() -> None:
    docids = residual((3, 3), LINE, "extra", extra=4)
    five = with_level([(0, 1)] * 5)
    with pytest.raises(SettingsError, match=r"5 items share the docid \(0, 1\).*ids.extra=8"):
        resolve(five, docids.settings, docids=docids)
    taken = resolve(with_level([(0, 1)] * 4), docids.settings, docids=docids)
    with pytest.raises(SettingsError, match="has 4 codes"):
        resolve(with_level([(0, 1)]), docids.settings, docids=docids, taken=taken)


def test_extra_fills_every_number_of_a_level() -> None:
    docids = residual((3, 3), LINE, "extra", extra=65536)
    full = resolve(with_level([(1, 1)] * 65536), docids.settings, docids=docids)
    np.testing.assert_array_equal(full.codes[:, 2], np.arange(65536))
    with pytest.raises(SettingsError, match=r"Rebuild with more or larger ids.sizes"):
        resolve(with_level([(1, 1)]), docids.settings, docids=docids, taken=full)


@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=9),
    cut=st.integers(0, 9),
)
@settings(max_examples=60)
def test_reassign_gives_each_item_its_own(rows: list[Docid], cut: int) -> None:
    vectors = MOVED.reconstruct(table_of(rows)) + np.float32(0.01)
    old, new = one_row_an_item(table_of(rows[:cut])), one_row_an_item(table_of(rows[cut:]))
    taken = resolve(old, MOVED.settings, docids=MOVED, vectors=vectors[:cut])
    kept = taken.codes.copy()
    found = resolve(new, MOVED.settings, docids=MOVED, vectors=vectors[cut:], taken=taken)
    np.testing.assert_array_equal(taken.codes, kept)
    together = [tuple(row) for row in np.concatenate([taken.codes, found.codes]).tolist()]
    assert len(set(together)) == len(rows)
    for part, settled in ((rows[:cut], taken.codes), (rows[cut:], found.codes)):
        before = {tuple(row) for row in kept.tolist()} if part is not rows[:cut] else set()
        for place, row in enumerate(part):
            if row not in part[:place] and row not in before:
                assert tuple(settled[place].tolist()) == row  # the first of a docid stays


def test_reassign_moves_to_the_nearest_free_code(clustered: Callable[..., Floats]) -> None:
    items = clustered(300, 5)
    docids = residual((8, 48), items, "reassign")
    assigned = docids.assign(items)
    found = resolve(assigned, docids.settings, docids=docids, vectors=items).codes
    occupied: set[Docid] = set()
    late = []
    for row, codes in enumerate(map(tuple, assigned.codes.tolist())):
        if codes in occupied:
            late.append(row)
        else:
            assert tuple(found[row].tolist()) == codes
        occupied.add(codes)
    assert late
    last = 0
    for row in late:
        first = int(assigned.codes[row, 0])
        free = [v for v in range(48) if (first, v) not in occupied]
        if free:
            sums = docids.reconstruct(np.array([(first, v) for v in free], np.uint16))
            nearest = free[int(((items[row] - sums) ** 2).sum(axis=1).argmin())]
            assert tuple(found[row].tolist()) == (first, nearest)
            last += 1
        occupied.add(tuple(found[row].tolist()))
    assert 0 < last < len(late)  # some found a place at the last level, some had to go higher
    assert len(occupied) == 300


def test_equal_items_spread_over_all_levels() -> None:
    items = np.ones((27, 2), np.float32)
    docids = residual((3, 3, 3), items, "reassign")
    found = resolve(docids.assign(items), docids.settings, docids=docids, vectors=items)
    assert len(np.unique(found.codes, axis=0)) == 27
    with pytest.raises(SettingsError, match=r"all 27 of ids.sizes=\[3, 3, 3\] are given"):
        one = docids.assign(items[:1])
        resolve(one, docids.settings, docids=docids, vectors=items[:1], taken=found)


def test_reassign_never_changes_the_modality() -> None:
    items = np.ones((12, 2), np.float32)
    how = IdSettings(sizes=(3, 3), modality=True, collisions="reassign")
    labels = ["text", "image", "text", "text"] * 3
    docids = ResidualIds(how, 0, ("image", "text")).fit(items, labels=labels)
    assigned = docids.assign(items, labels=labels)
    found = resolve(assigned, how, docids=docids, vectors=items)
    np.testing.assert_array_equal(found.codes[:, 0], assigned.codes[:, 0])
    assert len(np.unique(found.codes, axis=0)) == 12
    full = resolve(docids.assign(items[:9], labels=["text"] * 9), how, docids=docids, vectors=items)
    with pytest.raises(SettingsError, match="no docid is free"):
        new = docids.assign(items[:1], labels=["text"])
        resolve(new, how, docids=docids, vectors=items[:1], taken=full)


def test_reassign_needs_vectors() -> None:
    with pytest.raises(DataError, match="needs their vectors"):
        resolve(MOVED.assign(LINE[:2]), MOVED.settings, docids=MOVED)


def test_owners_are_passed_on() -> None:
    codes = Codes(np.zeros((3, 3), np.uint16), np.array([7, 7, 9], np.uint32))
    found = resolve(codes, EXTRA.settings, docids=EXTRA)
    assert found.owner.tolist() == [7, 7, 9] and found.codes[:, 2].tolist() == [0, 1, 2]
    assert codes.codes[:, 2].tolist() == [0, 0, 0]  # what was given is left alone
