"""The trie against a twin made of dictionaries, on whatever tables hypothesis finds."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.index.tables import (
    DictTrie,
    Table,
    as_codes,
    assert_same,
    build,
    some_code,
    tables,
    two_tables,
)
from tests.index.ways import Way, going, some_way
from trieline.index import Trie, changes
from trieline.index import trie as trie_module


def check_level(
    trie: Trie, twin: DictTrie, level: int, prefixes: dict[int, tuple[int, ...]]
) -> None:
    nodes = np.array(list(prefixes), np.int64)
    low, high = trie.interval(level, nodes)
    assert [*zip(low, high, strict=True)] == [twin.interval(p) for p in prefixes.values()]
    for node, prefix in prefixes.items():
        assert trie.path(prefix)[-1] == node
        assert None not in trie.path(prefix)


def children_of(
    trie: Trie, twin: DictTrie, level: int, prefixes: dict[int, tuple[int, ...]]
) -> dict[int, tuple[int, ...]]:
    """Expand a level, backwards, and compare with the twin; the next level's node -> prefix."""
    nodes = list(prefixes)[::-1]
    expected = [(at, c) for at, node in enumerate(nodes) for c in twin.children(prefixes[node])]
    found = trie.expand(level, nodes)
    assert [*zip(found.parents, found.codes, strict=True)] == expected
    assert found.parents.dtype == found.codes.dtype == found.nodes.dtype == np.int64
    below = {
        int(node): (*prefixes[nodes[parent]], int(code))
        for parent, code, node in zip(*found, strict=True)
    }
    assert len(below) == len(expected)  # no node number twice
    return below


def check_leaves(trie: Trie, twin: DictTrie, prefixes: dict[int, tuple[int, ...]]) -> None:
    assert set(prefixes.values()) == set(twin.items)
    for leaf, docid in prefixes.items():
        assert trie.docid(leaf) == docid
    expected = [
        (item, at)
        for at, docid in enumerate(prefixes.values())
        for item in sorted(twin.items[docid])
    ]
    found = trie.items(np.array(list(prefixes), np.int64))
    assert [*zip(found.items, found.leaves, strict=True)] == expected
    assert found.items.dtype == np.uint32


def check(trie: Trie, twin: DictTrie) -> None:
    """Everything the trie says, from the root to the items, is what the twin says."""
    pairs = twin.pairs()
    assert [*zip(map(tuple, trie.codes.tolist()), trie.owner.tolist(), strict=True)] == pairs
    assert (trie.rows, trie.docids, len(trie)) == (len(pairs), len(twin.items), len(twin.items))
    prefixes: dict[int, tuple[int, ...]] = {0: ()}
    for level in range(trie.depth):
        check_level(trie, twin, level, prefixes)
        prefixes = children_of(trie, twin, level, prefixes)
    check_level(trie, twin, trie.depth, prefixes)
    check_leaves(trie, twin, prefixes)


@given(tables(), some_way)
def test_says_what_the_dictionaries_say(table: Table, way: Way) -> None:
    with going(way):
        check(build(table), DictTrie(table.pairs))


@given(tables(), st.randoms(use_true_random=False))
def test_order_and_repetition_of_the_input_do_not_matter(table: Table, random: Random) -> None:
    shuffled = table.pairs + table.pairs[: len(table.pairs) // 2]
    random.shuffle(shuffled)
    assert_same(build(table), build(Table(table.sizes, shuffled)))


@given(two_tables(), st.sampled_from([2, 3, 64]))
def test_walk_and_path_follow_as_far_as_the_docid_exists(
    both: tuple[Table, Table], listed: int
) -> None:
    with going(Way(False, listed)):
        check_walks(*both)


def check_walks(table: Table, other: Table) -> None:
    trie, twin = build(table), DictTrie(table.pairs)
    codes = as_codes(table.pairs + other.pairs, trie.depth).codes
    nodes = trie.walk(codes)
    assert nodes.shape == (len(codes), trie.depth + 1)
    assert nodes.dtype == np.int64
    for docid, along in zip(codes.tolist(), nodes.tolist(), strict=True):
        reached = twin.reached(docid)
        assert [node >= 0 for node in along] == [n <= reached for n in range(trie.depth + 1)]
        assert trie.path(docid) == tuple(node if node >= 0 else None for node in along)
        for level in range(reached):
            step = trie.expand(level, [along[level]])
            assert (docid[level], along[level + 1]) in zip(step.codes, step.nodes, strict=True)
    half = trie.depth // 2
    np.testing.assert_array_equal(trie.walk(codes[:, :half]), nodes[:, : half + 1])


@given(tables(), st.lists(st.integers(0, 30), max_size=12))
def test_expand_takes_nodes_in_any_order_and_repeated(table: Table, picks: list[int]) -> None:
    trie = build(table)
    nodes = np.zeros(1, np.int64)
    for level in range(trie.depth):
        some = nodes[np.array(picks, int) % len(nodes)] if len(nodes) else nodes
        together = trie.expand(level, some)
        for position, node in enumerate(some):
            alone = trie.expand(level, [node])
            mine = together.parents == position
            np.testing.assert_array_equal(together.codes[mine], alone.codes)
            np.testing.assert_array_equal(together.nodes[mine], alone.nodes)
        assert (np.diff(together.parents) >= 0).all()
        nodes = trie.expand(level, nodes).nodes


@given(two_tables(), st.sampled_from([0, 4096]))
def test_insert_equals_a_rebuild(both: tuple[Table, Table], few: int) -> None:
    old, new = both
    trie = build(old)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "FEW", few)
        grown = trie.insert(as_codes(new.pairs, trie.depth))
    assert_same(grown, build(Table(old.sizes, old.pairs + new.pairs)))
    assert_same(trie, build(old))  # the old one is as it was


@given(tables(), st.sets(st.integers(0, 12)), some_way, st.sampled_from([0, 1, 8]))
def test_remove_and_restrict_equal_a_rebuild(
    table: Table, gone: set[int], way: Way, fewer: int
) -> None:
    with going(way), pytest.MonkeyPatch.context() as patch:
        patch.setattr(trie_module, "FEWER", fewer)  # whether the rest is moved or gathered
        patch.setattr(changes, "SPARSE", fewer)  # whether neighbours are compared or parts read
        patch.setattr(changes, "FEW", 4096 * fewer)
        trie = build(table)
        rest = build(Table(table.sizes, [pair for pair in table.pairs if pair[1] not in gone]))
        assert_same(trie.remove(sorted(gone)), rest)
        assert_same(trie.restrict(~np.isin(np.arange(13), sorted(gone))), rest)
        assert_same(trie, build(table))


@settings(max_examples=40)
@given(st.data())
def test_many_changes_in_a_row(data: st.DataObject) -> None:
    table = data.draw(tables(most=10))
    trie, pairs = build(table), set(table.pairs)
    docids = st.tuples(*(some_code(size) for size in table.sizes))
    batches = st.lists(st.tuples(docids, st.integers(0, 9)), max_size=6)
    for new, gone in data.draw(st.lists(st.tuples(batches, st.integers(0, 9)), max_size=6)):
        trie = trie.insert(as_codes(new, trie.depth)).remove([gone])
        pairs = {pair for pair in pairs | set(new) if pair[1] != gone}
        check(trie, DictTrie(pairs))


@settings(max_examples=40)
@given(two_tables())
def test_memory_mapped_files_serve_unchanged(
    tmp_path_factory: pytest.TempPathFactory, both: tuple[Table, Table]
) -> None:
    table, more = both
    folder = tmp_path_factory.mktemp("trie")
    trie = build(table)
    for name, array in trie.arrays().items():
        np.save(folder / f"{name}.npy", array)
    mapped = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in trie.arrays()}
    loaded = Trie.from_arrays(mapped, table.sizes)
    assert_same(loaded, trie)
    check(loaded, DictTrie(table.pairs))
    for name, array in loaded.arrays().items():
        assert not array.size or np.shares_memory(array, mapped[name])
        assert not array.flags.writeable
    assert_same(
        loaded.insert(as_codes(more.pairs, trie.depth)),
        build(Table(table.sizes, table.pairs + more.pairs)),
    )


def test_what_shares_a_docid_stays_when_all_who_shared_the_one_before_go() -> None:
    """Two items each on two docids: the first docid is lost, the second takes over its number."""
    pairs = [((0, 0), 0), ((0, 0), 1), ((1, 0), 2), ((1, 0), 3)]
    left = build(Table((2, 2), pairs)).remove([0, 1])
    assert_same(left, build(Table((2, 2), pairs[2:])))
    assert sorted(left.items([0]).items.tolist()) == [2, 3]
