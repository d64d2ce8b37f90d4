"""The trie at its edges: nothing, one thing, everything alike, the largest levels, wrong input."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from trieline.errors import IndexMismatch, SettingsError
from trieline.index import Trie, packing
from trieline.types import Codes


def codes(docids: list[tuple[int, ...]], items: list[int], depth: int = 3) -> Codes:
    return Codes(
        np.array(docids, np.uint16).reshape(len(docids), depth), np.array(items, np.uint32)
    )


SIZES = (4, 4, 4)
SMALL = codes([(3, 1, 2), (0, 1, 2), (0, 1, 3), (0, 1, 2)], [5, 2, 7, 1])


def leaves_of(trie: Trie) -> NDArray[np.int64]:
    nodes = np.zeros(1, np.int64)
    for level in range(trie.depth):
        nodes = trie.expand(level, nodes).nodes
    return nodes


def test_nothing_can_be_spelled_without_rows() -> None:
    trie = Trie.build(codes([], []), SIZES)
    assert (trie.rows, trie.docids, len(trie)) == (0, 0, 0)
    assert len(trie.expand(0, [0]).codes) == 0
    assert len(trie.expand(2, []).codes) == 0
    assert [end.tolist() for end in trie.interval(0, [0])] == [[0], [0]]
    assert len(trie.items([]).items) == 0
    assert trie.path((1, 2, 3)) == (0, None, None, None)
    assert trie.restrict(np.zeros(0, bool)).rows == 0
    assert trie.remove([3]).rows == 0
    np.testing.assert_array_equal(trie.insert(SMALL).codes, Trie.build(SMALL, SIZES).codes)


def test_one_item() -> None:
    trie = Trie.build(codes([(3, 0, 2)], [9]), SIZES)
    leaves = leaves_of(trie)
    assert trie.docid(leaves[0]) == (3, 0, 2)
    assert trie.items(leaves).items.tolist() == [9]
    assert trie.remove([9]).rows == 0


def test_one_docid_of_all_items() -> None:
    owner = np.random.default_rng(0).permutation(1000).astype(np.uint32)
    trie = Trie.build(Codes(np.full((1000, 3), 3, np.uint16), owner), SIZES)
    assert (trie.rows, trie.docids) == (1000, 1)
    assert trie.items(leaves_of(trie)).items.tolist() == list(range(1000))
    odd = trie.restrict(np.arange(1000) % 2 == 1)
    assert odd.items(leaves_of(odd)).items.tolist() == list(range(1, 1000, 2))
    whole = odd.insert(
        Codes(np.full((500, 3), 3, np.uint16), np.arange(0, 1000, 2).astype(np.uint32))
    )
    assert whole.owner.tolist() == list(range(1000))


def test_one_level_of_65536_codes() -> None:
    every = np.random.default_rng(0).permutation(65536).astype(np.uint16)
    trie = Trie.build(Codes(every[:, None], np.arange(65536, dtype=np.uint32)), [65536])
    children = trie.expand(0, [0])
    np.testing.assert_array_equal(children.codes, np.arange(65536))
    np.testing.assert_array_equal(every[trie.items(children.nodes).items], np.arange(65536))
    assert trie.docid(int(children.nodes[-1])) == (65535,)
    assert trie.path((65535,))[-1] == children.nodes[-1]


def test_deep_docids_of_the_largest_codes_sort_as_tuples() -> None:
    rng = np.random.default_rng(0)
    table = np.where(rng.random((500, 40)) < 0.9, 0, 65535 - rng.integers(0, 2, (500, 40)))
    table[:, 7] = 0  # a level of one code takes no bits of the key
    sizes = [65536] * 7 + [1] + [65536] * 32
    trie = Trie.build(Codes(table.astype(np.uint16), np.arange(500, dtype=np.uint32)), sizes)
    expected = sorted((*row, item) for item, row in enumerate(table.tolist()))
    assert [
        (*row, item) for row, item in zip(trie.codes.tolist(), trie.owner.tolist(), strict=True)
    ] == expected
    np.testing.assert_array_equal(trie.codes, table[trie.owner])


def test_twenty_thousand_rows_against_unique() -> None:
    rng = np.random.default_rng(1)
    table = (rng.random((20_000, 5)) ** 3 * 32).astype(np.uint16)
    trie = Trie.build(Codes(table, np.arange(20_000, dtype=np.uint32)), [32] * 5)
    nodes = np.zeros(1, np.int64)
    for level in range(5):
        children = trie.expand(level, nodes)
        unique, count = np.unique(table[:, : level + 1], axis=0, return_counts=True)
        low, high = trie.interval(level + 1, children.nodes)
        np.testing.assert_array_equal(high - low, count)
        np.testing.assert_array_equal(children.codes, unique[:, -1])
        nodes = children.nodes
    np.testing.assert_array_equal(
        trie.walk(trie.codes)[:, 5], nodes[np.repeat(np.arange(len(count)), count)]
    )


def test_where_docids_part_does_not_depend_on_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = (2, 1, 2, 5, 1, 300, 2)
    rng = np.random.default_rng(0)
    table = np.stack([rng.integers(0, min(size, 2), 50) for size in sizes], axis=1)
    packed = packing.pack(packing.sort_words(table.astype(np.uint16), sizes), sizes)
    slow = []
    for one, two in pairwise(table.tolist()):
        slow.append(next((at + 1 for at in range(7) if one[at] != two[at]), 0))
    assert packing.parting(packed[1:], packed[:-1], sizes).tolist() == slow
    np.testing.assert_array_equal(packing.unpack(packed, sizes), table)
    monkeypatch.setattr(packing, "BLOCK", 3)
    assert packing.parting(packed[1:], packed[:-1], sizes).tolist() == slow
    np.testing.assert_array_equal(packing.unpack(packed, sizes), table)


def test_a_trie_is_independent_of_its_input_and_cannot_be_written() -> None:
    mine = Codes(SMALL.codes.copy(), SMALL.owner.copy())
    trie = Trie.build(mine, SIZES)
    mine.codes[:] = 0
    mine.owner[:] = 0
    assert trie.owner.tolist() == [1, 2, 7, 5]
    for array in trie.arrays().values():
        assert not array.flags.writeable
    assert trie.nbytes == sum(array.nbytes for array in trie.arrays().values())


def test_changes_that_change_nothing_give_the_same_trie() -> None:
    trie = Trie.build(SMALL, SIZES)
    assert trie.insert(SMALL) is trie
    assert trie.insert(codes([], [])) is trie
    assert trie.remove([]) is trie
    assert trie.remove([77, -1]) is trie
    assert trie.restrict(np.ones(8, bool)) is trie


def test_a_docid_goes_with_its_last_item() -> None:
    trie = Trie.build(SMALL, SIZES)
    assert None not in trie.remove([1]).path((0, 1, 2))
    assert trie.remove([1, 2]).path((0, 1, 2))[2:] != (None, None)
    assert trie.remove([1, 2]).path((0, 1, 2))[3] is None


def test_codes_beyond_a_level_are_not_in_the_trie() -> None:
    trie = Trie.build(SMALL, SIZES)
    assert trie.path((70_000, -1, 0)) == (0, None, None, None)
    strange = np.array([[0, 1, 2**40], [0, -1, 2], [3, 1, 2]])
    assert (trie.walk(strange) >= 0).sum(axis=1).tolist() == [3, 2, 4]


@pytest.mark.parametrize("sizes", [[], [0], [4, 65537], [-1]])
def test_sizes_are_checked(sizes: list[int]) -> None:
    with pytest.raises(SettingsError, match="level"):
        Trie.build(codes([], [], depth=max(len(sizes), 1)), sizes)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (Codes(SMALL.codes.astype(np.int64), SMALL.owner), "got int64 and uint32"),
        (Codes(SMALL.codes, SMALL.owner.astype(np.int64)), "got uint16 and int64"),
        (Codes(SMALL.codes[0], SMALL.owner), r"got shapes \(3,\) and \(4,\)"),
        (Codes(SMALL.codes, SMALL.owner[:2]), r"got shapes \(4, 3\) and \(2,\)"),
        (Codes(SMALL.codes[:, :2], SMALL.owner), "2 levels, the index spells 3"),
        (codes([(0, 0, 0), (1, 4, 0)], [0, 1]), "row 1 has code 4 at level 2"),
    ],
)
def test_tables_are_checked(table: Codes, message: str) -> None:
    with pytest.raises(IndexMismatch, match=message):
        Trie.build(table, SIZES)
    with pytest.raises(IndexMismatch, match=message):
        Trie.build(SMALL, SIZES).insert(table)


def test_questions_are_checked() -> None:
    trie = Trie.build(SMALL, SIZES)
    with pytest.raises(IndexMismatch, match="no node -1 at level 1"):
        trie.expand(1, [0, -1])
    with pytest.raises(IndexMismatch, match="no node 99 at level 3"):
        trie.items([99])
    with pytest.raises(IndexMismatch, match="levels 0 to 2 can be asked for here, got level 3"):
        trie.expand(3, [0])
    with pytest.raises(IndexMismatch, match=r"shape \(1, 1\)"):
        trie.expand(0, [[0]])
    with pytest.raises(IndexMismatch, match="no node 0 at level 3"):
        Trie.build(codes([], []), SIZES).docid(0)
    with pytest.raises(IndexMismatch, match="expects an integer array"):
        trie.walk(np.zeros((2, 4), np.uint16))
    with pytest.raises(IndexMismatch, match="expects an integer array"):
        trie.walk(np.zeros((2, 3)))
    with pytest.raises(IndexMismatch, match="covers 7 items, the index holds item number 7"):
        trie.restrict(np.ones(7, bool))
    with pytest.raises(IndexMismatch, match="indexed by item number, got int64"):
        trie.restrict(np.ones(8, np.int64))
