"""What the geometry says of whole docids: the sum of its votes on the way, and the best below."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from plain import geometric_votes

from trieline.decode import GeometricPlan
from trieline.decode.votes import highest
from trieline.errors import DimensionError
from trieline.index import Trie
from trieline.types import Codes

SIZES = (4, 3, 5)
DIM = 6
BOOKS = [
    np.random.default_rng(level).standard_normal((size, DIM)).astype(np.float32)
    for level, size in enumerate(SIZES)
]
QUERIES = np.random.default_rng(9).standard_normal((3, DIM)).astype(np.float32)


def trie_of(rows: list[tuple[int, ...]]) -> Trie:
    table = np.array(rows, np.uint16).reshape(-1, len(SIZES))
    return Trie.build(Codes(table, np.arange(len(rows), dtype=np.uint32)), SIZES)


@pytest.mark.parametrize("omega", [3.0, -0.5])
def test_a_vote_is_the_sum_of_those_on_the_way(omega: float) -> None:
    rng = np.random.default_rng(0)
    trie = trie_of([tuple(rng.integers(0, size) for size in SIZES) for _ in range(40)])
    votes = omega * GeometricPlan(BOOKS, n=0).scores(QUERIES, trie)
    assert votes.shape == (3, 40) and votes.dtype == np.float32
    docids = [tuple(map(int, row)) for row in trie.codes]
    for query, own in zip(QUERIES, votes, strict=True):
        steps = geometric_votes(docids, BOOKS, query, omega)
        expected = [sum(steps[d[:level]] for level in range(1, 4)) for d in docids]
        np.testing.assert_allclose(own, expected, atol=1e-4)


def test_levels_without_geometry_say_nothing() -> None:
    trie = trie_of([(0, 0, 0), (0, 0, 4), (3, 2, 4)])
    books = [BOOKS[0], np.zeros_like(BOOKS[1]), np.zeros_like(BOOKS[2])]
    votes = GeometricPlan(books, n=0).scores(QUERIES, trie)
    np.testing.assert_array_equal(votes[:, 0], votes[:, 1])


def test_no_rows_and_wrong_widths() -> None:
    plan = GeometricPlan(BOOKS, n=0)
    assert plan.scores(QUERIES, trie_of([])).shape == (3, 0)
    with pytest.raises(DimensionError, match=r"expected \[queries, 6\]"):
        plan.scores(QUERIES[:, :4], trie_of([(0, 0, 0)]))


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(*(st.integers(0, size - 1) for size in SIZES)), max_size=20),
    seed=st.integers(0, 5),
)
def test_the_highest_vote_below_each_child(rows: list[tuple[int, ...]], seed: int) -> None:
    trie = trie_of(rows)
    votes = np.random.default_rng(seed).standard_normal((2, trie.rows)).astype(np.float32)
    nodes, query = np.zeros(2, np.int64), np.arange(2)
    for level in range(len(SIZES)):
        children = trie.expand(level, nodes)
        query, nodes = query[children.parents], children.nodes
        low, high = trie.interval(level + 1, nodes)
        expected = [votes[q, a:b].max() for q, a, b in zip(query, low, high, strict=True)]
        ours = highest(votes, query, low, high, children.parents)
        np.testing.assert_array_equal(ours, np.array(expected, np.float64))
