"""One step of a search: kernels against NumPy, and both against plain loops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.index.tables import Table, as_codes, build, tables
from tests.index.ways import WAYS, Way, going, some_way
from trieline.errors import IndexMismatch
from trieline.index import Best, Trie
from trieline.types import Codes

Ints = NDArray[np.int64]
SCORES = (-2.0, -1.0, -0.5, 0.0, 3.25)  # few values, so that there are ties
STRANGE = (*SCORES, -np.inf, np.nan, np.inf, 1e38, -1e38)


class Step(NamedTuple):
    """A step of some queries."""

    nodes: Ints
    base: NDArray[np.float64]
    table: NDArray[np.float32]
    bounds: Ints


def some_step(trie: Trie, level: int, seed: int, values: tuple[float, ...], beams: int = 6) -> Step:
    """Queries of up to ``beams`` beams among the nodes of a level, one query without any."""
    rng = np.random.default_rng(seed)
    nodes = np.zeros(1, np.int64)
    for above in range(level):
        nodes = trie.expand(above, nodes).nodes
    count = rng.integers(0, beams + 1, 3) * (len(nodes) > 0)
    bounds = np.concatenate([[0, 0], np.cumsum(count)])
    n = int(bounds[-1])
    picked = nodes[rng.integers(0, len(nodes), n)] if n else nodes[:0]
    table = rng.choice(np.array(values, np.float32), (n, trie.sizes[level]))
    return Step(picked, rng.choice(np.array(values), n), table, bounds)


def slow_best(trie: Trie, level: int, step: Step, width: int) -> list[list[tuple[float, ...]]]:
    """Query by query: (score, parent, code, node) of the best, by plain loops."""
    answers = []
    for low, high in zip(step.bounds[:-1], step.bounds[1:], strict=True):
        found = []
        for parent in range(low, high):
            _, codes, nodes = trie.expand(level, [step.nodes[parent]])
            for code, node in zip(codes.tolist(), nodes.tolist(), strict=True):
                score = float(step.base[parent]) + float(step.table[parent, code])
                if np.isfinite(score):
                    found.append((score, parent, code, node))
        answers.append(sorted(found, key=lambda one: (-one[0], one[1], one[2]))[:width])
    return answers


def told(best: Best) -> list[list[tuple[float, ...]]]:
    rows = [*zip(best.scores.tolist(), *(a.tolist() for a in best[:3]), strict=True)]
    return [rows[low:high] for low, high in zip(best.bounds[:-1], best.bounds[1:], strict=True)]


@given(
    tables(),
    some_way,
    st.integers(0, 2**32),
    st.sampled_from([1, 2, 5, 1000]),
    st.sampled_from([SCORES, STRANGE]),
)
def test_best_is_what_plain_loops_find(
    table: Table, way: Way, seed: int, width: int, values: tuple[float, ...]
) -> None:
    with going(way):
        trie = build(table)
        level = seed % trie.depth
        step = some_step(trie, level, seed, values)
        best = trie.best(level, *step, width)
        assert told(best) == slow_best(trie, level, step, width)
        kinds = [array.dtype.name for array in best]
        assert kinds == ["int64", "int64", "int64", "float64", "int64"]


@given(tables(), some_way, st.integers(0, 2**32))
def test_legal_totals_are_sums_over_the_children(table: Table, way: Way, seed: int) -> None:
    with going(way):
        trie = build(table)
        level = seed % trie.depth
        step = some_step(trie, level, seed, (*SCORES, -np.inf))
        expected = []
        for parent, node in enumerate(step.nodes):
            codes = trie.expand(level, [node]).codes
            scores = step.table[parent, codes].astype(np.float64)
            expected.append(np.logaddexp.reduce(scores) if len(scores) else -np.inf)
        found = trie.legal_totals(level, step.nodes, step.table)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@given(tables(), some_way)
def test_docids_by_number(table: Table, way: Way) -> None:
    with going(way):
        trie = build(table)
        docids = sorted({docid for docid, _ in table.pairs})
        numbers = np.arange(len(docids))[::-1]
        assert trie.docid_codes(numbers).tolist() == [list(docid) for docid in docids[::-1]]
        assert [trie.docid(leaf) for leaf in trie.leaves(numbers)] == docids[::-1]
        nodes = np.zeros(1, np.int64)
        for level in range(trie.depth + 1):
            first, end = trie.docid_interval(level, nodes)
            np.testing.assert_array_equal(trie.counts(level, nodes), end - first)
            np.testing.assert_array_equal(np.append(first, len(docids)), np.append(0, end))
            prefixes = [docid[:level] for docid in docids]
            assert [len(set(prefixes[a:b])) for a, b in zip(first, end, strict=True)] == [
                min(1, len(docids))
            ] * len(nodes)
            if level < trie.depth:
                nodes = trie.expand(level, nodes).nodes


def large(rows: int = 30_000) -> Trie:
    """Long runs and short ones, and enough docids for compiled steps."""
    rng = np.random.default_rng(0)
    table = (rng.random((rows, 5)) ** 2 * np.array([8, 300, 40, 65536, 4])).astype(np.uint16)
    return Trie.build(Codes(table, np.arange(rows, dtype=np.uint32)), (8, 300, 40, 65536, 4))


@pytest.mark.parametrize("width", [1, 3, 50, 700, 100_000])
@pytest.mark.parametrize("level", range(5))
def test_kernels_and_numpy_agree_on_a_large_trie(level: int, width: int) -> None:
    found = []
    for way in (Way(False, 64), Way(True, 64)):
        with going(way):
            trie = large()
            step = some_step(trie, level, width, tuple(np.linspace(-4, 0, 997)), beams=40)
            found.append(
                (
                    trie.best(level, *step, width),
                    trie.expand(level, step.nodes),
                    trie.docid_interval(level, step.nodes),
                )
            )
            totals = trie.legal_totals(level, step.nodes, step.table)
            found[-1] += ((totals.round(9),),)
    for one, other in zip(*found, strict=True):
        for slow, fast in zip(one, other, strict=True):
            np.testing.assert_array_equal(slow, fast)
            assert slow.dtype == fast.dtype


@pytest.mark.parametrize("values", [(0.0,), (-np.inf,), (np.nan,), (-1.0, 0.0)])
def test_candidates_without_a_difference(values: tuple[float, ...]) -> None:
    """All alike, far more than there is room for: the first in order are kept, or none."""
    found = []
    for way in (Way(False, 64), Way(True, 64)):
        with going(way):
            trie = large()
            step = some_step(trie, 1, 0, values, beams=30)
            found.append(trie.best(1, *step, 20))
    for slow, fast in zip(*found, strict=True):
        np.testing.assert_array_equal(slow, fast)
    if not np.isfinite(values[0]):
        assert len(found[0].scores) == 0


def test_scores_far_apart_keep_the_best() -> None:
    """Masked scores of -1e30 beside ordinary ones do not disturb the running threshold."""
    for way in WAYS:
        with going(way):
            trie = large(25_000)
            step = some_step(trie, 1, 7, (-1e30, -1.0, -1.0000001, -2.0, 1e30), beams=30)
            assert told(trie.best(1, *step, 25)) == slow_best(trie, 1, step, 25)


@pytest.mark.parametrize("compiled", [False, True])
def test_nothing_to_step_from(compiled: bool) -> None:
    with going(Way(compiled, 64)):
        empty = Trie.build(Codes(np.zeros((0, 2), np.uint16), np.zeros(0, np.uint32)), (3, 3))
        best = empty.best(0, [0], [0.0], np.zeros((1, 3), np.float32), [0, 1], 5)
        assert (len(best.scores), best.bounds.tolist()) == (0, [0, 0])
        assert empty.legal_totals(0, [0], np.zeros((1, 3), np.float32)).tolist() == [-np.inf]
        assert empty.docid_codes([]).shape == (0, 2)
        none = large().best(2, [], [], np.zeros((0, 40), np.float32), [0, 0, 0], 5)
        assert (len(none.scores), none.bounds.tolist()) == (0, [0, 0, 0])
        no_query = large().best(2, [], [], np.zeros((0, 40), np.float32), [0], 5)
        assert no_query.bounds.tolist() == [0]


@pytest.mark.parametrize("compiled", [False, True])
def test_one_level_of_65536_codes(compiled: bool) -> None:
    with going(Way(compiled, 64)):
        every = np.random.default_rng(0).permutation(65536).astype(np.uint16)
        trie = Trie.build(Codes(every[:, None], np.arange(65536, dtype=np.uint32)), [65536])
        scores = np.random.default_rng(1).standard_normal((2, 65536)).astype(np.float32)
        best = trie.best(0, [0, 0], [0.0, 1.0], scores, [0, 1, 2], 10)
        expected = np.argsort(-scores, axis=1, kind="stable")[:, :10].ravel()
        np.testing.assert_array_equal(best.codes, expected)
        np.testing.assert_array_equal(best.nodes, expected)
        assert best.parents.tolist() == [0] * 10 + [1] * 10


def test_levels_that_are_hardly_used() -> None:
    rng = np.random.default_rng(0)
    table = np.zeros((500, 6), np.uint16)
    table[:, 2] = rng.integers(0, 100, 500)
    table[:, 4] = rng.integers(0, 100, 500)
    sizes = (1, 2, 100, 1, 100, 2)
    for way in WAYS:
        with going(way):
            trie = Trie.build(Codes(table, np.arange(500, dtype=np.uint32)), sizes)
            for level in range(6):
                step = some_step(trie, level, level, SCORES)
                assert told(trie.best(level, *step, 9)) == slow_best(trie, level, step, 9)
            np.testing.assert_array_equal(trie.codes, table[trie.owner])


def test_a_query_does_not_depend_on_its_companions() -> None:
    with going(Way(True, 64)):
        trie = large()
        step = some_step(trie, 2, 3, tuple(np.linspace(-4, 0, 97)), beams=40)
        together = told(trie.best(2, *step, 50))
        for query, (low, high) in enumerate(zip(step.bounds[:-1], step.bounds[1:], strict=True)):
            alone = trie.best(
                2, step.nodes[low:high], step.base[low:high], step.table[low:high],
                [0, high - low], 50,
            )  # fmt: skip
            shifted = [(s, p + low, c, n) for s, p, c, n in told(alone)[0]]
            assert shifted == together[query]


def test_strange_arrays_give_the_same() -> None:
    """Read-only, strided or of another integer type: all are brought to what was compiled."""
    with going(Way(True, 64)):
        trie = large()
        step = some_step(trie, 2, 3, SCORES, beams=20)
        expected = told(trie.best(2, *step, 7))
        wide = np.zeros((len(step.nodes), 80), np.float32)
        wide[:, ::2] = step.table
        nodes = step.nodes.astype(np.int32)
        base = np.repeat(step.base, 2)[::2]
        base.flags.writeable = False
        found = trie.best(2, nodes, base, wide[:, ::2], step.bounds.tolist(), 7)
        assert told(found) == expected


def test_wrong_steps_are_refused() -> None:
    trie = build(Table((4, 4), [((0, 1), 0), ((2, 1), 1)]))
    table = np.zeros((2, 4), np.float32)
    with pytest.raises(IndexMismatch, match=r"float32\[2, 4\], .* got float32\[1, 4\]"):
        trie.best(0, [0, 0], [0, 0], table[:1], [0, 2], 3)
    with pytest.raises(IndexMismatch, match=r"got float64\[2, 4\]"):
        trie.legal_totals(0, [0, 0], table.astype(np.float64))
    with pytest.raises(IndexMismatch, match="2 beams need as many carried scores"):
        trie.best(0, [0, 0], [0], table, [0, 2], 3)
    for bounds in ([], [0], [1, 2], [0, 3], [0, 2, 1, 2]):
        with pytest.raises(IndexMismatch, match="bounds of 2 beams ascend from 0 to 2"):
            trie.best(0, [0, 0], [0, 0], table, bounds, 3)
    with pytest.raises(IndexMismatch, match="width = 0"):
        trie.best(0, [0, 0], [0, 0], table, [0, 2], 0)
    with pytest.raises(IndexMismatch, match="numbers its docids 0 to 1, got 0 to 2"):
        trie.docid_codes([0, 2])
    with pytest.raises(IndexMismatch, match="one list"):
        trie.leaves([[0]])
    assert as_codes([], 2).codes.shape == (0, 2)
