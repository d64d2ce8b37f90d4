"""The distinct prefixes of random tries, against dictionaries."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trieline.diagnose.prefixes import (
    best_below,
    levels_of,
    oracle_beam,
    partial_scores,
    path_of,
    places,
    siblings,
    squares_of,
)
from trieline.index import Trie
from trieline.types import Codes

SIZES = (3, 70, 2)
rows = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 69), st.integers(0, 1), st.integers(0, 20)),
    min_size=1,
    max_size=150,
)


def trie_of(found: list[tuple[int, ...]]) -> Trie:
    table = np.array(found)
    return Trie.build(Codes(table[:, :3].astype(np.uint16), table[:, 3].astype(np.uint32)), SIZES)


def in_order(trie: Trie) -> list[tuple[int, ...]]:
    return [tuple(row) for row in trie.codes.tolist()]


@settings(max_examples=60, deadline=None)
@given(found=rows, seed=st.integers(0, 9), width=st.integers(1, 9))
def test_against_dictionaries(found: list[tuple[int, ...]], seed: int, width: int) -> None:
    trie, rng = trie_of(found), np.random.default_rng(seed)
    docids, levels = in_order(trie), levels_of(trie)
    books = [rng.normal(size=(size, 4)).astype(np.float32) for size in SIZES]
    query, own = rng.normal(size=4).astype(np.float32), rng.normal(size=trie.rows)
    inner = partial_scores(levels, books, query)
    distance = partial_scores(levels, books, query, squares_of(trie, levels, books))
    live: list[tuple[int, ...]] = [()]
    for level, kept in enumerate(oracle_beam(levels, inner, width)):
        here = sorted({docid[: level + 1] for docid in docids})
        spelled = [
            tuple(levels[n].code[path_of(levels, int(row))[n]] for n in range(level + 1))
            for row in levels[level].first
        ]
        assert spelled == here
        above = sorted({docid[:level] for docid in docids})
        assert [above[place] for place in levels[level].parent] == [p[:-1] for p in here]
        nodes = [trie.path(prefix)[-1] for prefix in here]
        assert levels[level].nodes.tolist() == nodes
        shuffled = rng.permutation(len(here))
        np.testing.assert_array_equal(
            places(levels[level], levels[level].nodes[shuffled]), shuffled
        )
        best = [
            max(score for docid, score in zip(docids, own, strict=True) if docid[: level + 1] == p)
            for p in here
        ]
        np.testing.assert_allclose(best_below(levels[level], own), best)
        sums = [sum(books[n][code].astype(float) for n, code in enumerate(p)) for p in here]
        np.testing.assert_allclose(inner[level], [query @ x for x in sums], atol=1e-5)
        near = [query @ query - ((query - x) ** 2).sum() for x in sums]
        np.testing.assert_allclose(distance[level], near, atol=1e-4)
        scores = dict(zip(here, inner[level].tolist(), strict=True))
        live = sorted((p for p in here if p[:-1] in live), key=lambda p: (-scores[p], p))[:width]
        assert {here[place] for place in np.flatnonzero(kept)} == set(live)
        for place, prefix in enumerate(here):
            same = [n for n, other in enumerate(here) if other[:-1] == prefix[:-1]]
            assert list(range(*siblings(levels[level], place).indices(len(here)))) == same


def test_paths_lead_to_every_row() -> None:
    trie = trie_of([(0, 1, 0, 5), (0, 1, 0, 6), (0, 2, 1, 7), (2, 1, 1, 8)])
    levels = levels_of(trie)
    assert [path_of(levels, row).tolist() for row in range(4)] == [
        [0, 0, 0],
        [0, 0, 0],
        [0, 1, 1],
        [1, 2, 2],
    ]


def test_many_rows_pass_in_blocks() -> None:
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 9000) for size in (9, 70, 40)], 1).astype(np.uint16)
    trie = Trie.build(Codes(codes, np.arange(9000, dtype=np.uint32)), (9, 70, 40))
    levels = levels_of(trie)
    books = [rng.normal(size=(size, 4)).astype(np.float32) for size in (9, 70, 40)]
    for level, found in enumerate(squares_of(trie, levels, books)):
        rows = trie.codes[levels[level].first]
        x = np.sum([books[n][rows[:, n]] for n in range(level + 1)], axis=0)
        np.testing.assert_allclose(found, (x.astype(float) ** 2).sum(1), rtol=1e-4)


def test_nothing_to_spell() -> None:
    trie = Trie.build(Codes(np.zeros((0, 3), np.uint16), np.zeros(0, np.uint32)), SIZES)
    levels = levels_of(trie)
    assert [len(level.first) for level in levels] == [0, 0, 0]
    books = [np.ones((size, 2), np.float32) for size in SIZES]
    assert [len(s) for s in partial_scores(levels, books, np.ones(2, np.float32))] == [0, 0, 0]
    assert best_below(levels[0], np.zeros(0)).shape == (0,)


def test_equal_scores_go_to_the_lower_codes() -> None:
    trie = trie_of([(code, 0, 0, code) for code in range(3)])
    (first, *_) = oracle_beam(levels_of(trie), [np.zeros(3)] * 3, 2)
    assert first.tolist() == [True, True, False]
