"""The codes as a planner, and as a look ahead."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from plain import beam_of_dicts, geometric_votes, reconstruction_score, step_scores
from worlds import (
    DIM,
    SIZES,
    asked,
    books,
    corpus,
    docids_of,
    one_of,
    rows_of,
    speller,
    vectors_of,
)

from trieline.decode import (
    Geometric,
    GeometricLook,
    GeometricPlan,
    LookAhead,
    PrefixBounds,
    beam_search,
)
from trieline.errors import DimensionError, IndexMismatch, SettingsError
from trieline.index import Trie
from trieline.types import Codes

MODEL, BOOKS, QUESTIONS = speller(), books(), asked(16)
VECTORS = vectors_of(QUESTIONS)
TRIE = Trie.build(corpus(90, items=50), SIZES)


def expected_scores(trie: Trie, query: np.ndarray) -> list[float]:
    return [reconstruction_score(docid, BOOKS, query) for docid, _ in rows_of(trie)]


def test_every_row_is_scored_by_its_reconstruction() -> None:
    scores = GeometricPlan(BOOKS).scores(VECTORS, TRIE)
    assert scores.dtype == np.float32
    for query, row in zip(VECTORS, scores, strict=True):
        np.testing.assert_allclose(row, expected_scores(TRIE, query), atol=1e-5)


def test_inner_product_keeps_no_norms() -> None:
    plan = GeometricPlan(BOOKS, metric="ip")
    reconstructions = sum(book[TRIE.codes[:, at]] for at, book in enumerate(BOOKS))
    np.testing.assert_allclose(
        plan.scores(VECTORS, TRIE), VECTORS @ reconstructions.T, atol=1e-5, rtol=1e-5
    )
    assert plan.bytes_a_row(TRIE) == 2 * len(SIZES)
    assert GeometricPlan(BOOKS).bytes_a_row(TRIE) == 2 * len(SIZES) + 4


@pytest.mark.parametrize("n", [1, 5, 30, 70, 90, 200, 0])
def test_the_best_are_planned_and_those_that_tie(n: int) -> None:
    planner = GeometricPlan(BOOKS, n)
    for scores, plan in zip(
        planner.scores(VECTORS, TRIE), planner.plan(VECTORS, TRIE), strict=True
    ):
        if n == 0 or n >= TRIE.rows:
            assert plan.rows is None
            assert plan.scores.tolist() == scores.tolist()
            continue
        cut = np.sort(scores)[-n]
        assert plan.rows.tolist() == np.flatnonzero(scores >= cut).tolist()
        assert plan.scores.tolist() == scores[plan.rows].tolist()
        assert plan.floor == pytest.approx(float(cut))
        docids = {tuple(row) for row in TRIE.codes[plan.rows].tolist()}
        sharing = [row for row, docid in enumerate(TRIE.codes.tolist()) if tuple(docid) in docids]
        assert plan.rows.tolist() == sharing, "a docid's items are planned all or none"


def test_bounds_are_the_best_below() -> None:
    for query, bounds in zip(VECTORS, GeometricPlan(BOOKS).bounds(VECTORS, TRIE, 3.0), strict=True):
        scores = 3.0 * np.array(expected_scores(TRIE, query))
        nodes = TRIE.walk(TRIE.codes)
        for level in range(4):
            below = bounds.below(level, nodes[:, level])
            prefixes = [tuple(row[:level]) for row in TRIE.codes.tolist()]
            best = [
                max(s for s, p in zip(scores, prefixes, strict=True) if p == q) for q in prefixes
            ]
            np.testing.assert_allclose(below, best, atol=1e-4)


@pytest.mark.parametrize("omega", [0.5, 4.0])
def test_a_look_ahead_ends_with_the_scores_of_carried_votes(omega: float) -> None:
    """What is carried telescopes to what the look ahead sees at a complete docid."""
    wide = len(docids_of(TRIE))
    carried, looked = (
        beam_search(MODEL, QUESTIONS, TRIE, beam=wide, k=50, guides=[guide], vectors=VECTORS)
        for guide in (Geometric(BOOKS, omega), GeometricLook(BOOKS, omega))
    )
    for one, other in zip(carried, looked, strict=True):
        assert len(one.items) == len(set(TRIE.owner.tolist()))
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-4)
        ours = dict(zip(one.items.tolist(), one.scores.tolist(), strict=True))
        theirs = dict(zip(other.items.tolist(), other.scores.tolist(), strict=True))
        assert ours == pytest.approx(theirs, abs=1e-4)


@pytest.mark.parametrize("width", [1, 3, 8])
def test_a_look_ahead_prunes_by_what_can_still_be_reached(width: int) -> None:
    docids = docids_of(TRIE)
    answers = beam_search(
        MODEL,
        QUESTIONS,
        TRIE,
        beam=width,
        k=1,
        guides=[GeometricLook(BOOKS, 6.0)],
        vectors=VECTORS,
    )
    for at, found in enumerate(answers[:5]):
        steps = step_scores(MODEL, one_of(QUESTIONS, at), docids, "level")
        whole = {docid: 6 * reconstruction_score(docid, BOOKS, VECTORS[at]) for docid in docids}
        looks = {
            docid[:level]: max(whole[d] for d in docids if d[:level] == docid[:level])
            for docid in docids
            for level in (1, 2, 3)
        }
        expected = beam_of_dicts(steps, docids, width, look=looks)
        votes = geometric_votes(docids, BOOKS, VECTORS[at], 6.0)
        best = max(expected, key=lambda docid: expected[docid])
        assert TRIE.docid(int(found.leaves[0])) == best
        assert found.scores[0] == pytest.approx(expected[best], abs=1e-3)
        total = sum(steps[best[:n]] + votes[best[:n]] for n in (1, 2, 3))
        assert found.scores[0] == pytest.approx(total, abs=1e-3)


@pytest.mark.parametrize("k", [1, 4])
def test_where_geometry_decides_a_narrow_beam_loses_nothing(k: int) -> None:
    """At most k - 1 prefixes of a level lead to anything better than the k-th best docid."""
    trie = Trie.build(corpus(90), SIZES)  # an item of several docids would be told once
    guide = GeometricLook(BOOKS, 1e5)
    answers = beam_search(MODEL, QUESTIONS, trie, beam=k, k=k, guides=[guide], vectors=VECTORS)
    for query, found in zip(VECTORS, answers, strict=True):
        whole = {docid: reconstruction_score(docid, BOOKS, query) for docid in docids_of(trie)}
        nearest = sorted(whole, key=lambda docid: -whole[docid])[:k]
        reached = dict.fromkeys(trie.docid(int(leaf)) for leaf in found.leaves)
        assert list(reached) == nearest[: len(reached)]


def test_all_rows_planned_is_the_same_look() -> None:
    guides = (GeometricLook(BOOKS, 2.0), LookAhead(GeometricPlan(BOOKS, 0), weight=2.0))
    one, other = (
        beam_search(MODEL, QUESTIONS, TRIE, beam=4, k=4, guides=[guide], vectors=VECTORS)
        for guide in guides
    )
    for mine, yours in zip(one, other, strict=True):
        assert mine.items.tolist() == yours.items.tolist()
        assert mine.scores.tolist() == yours.scores.tolist()


@pytest.mark.parametrize("reduce", ["max", "mean", "min"])
def test_alone_as_in_a_batch(reduce: str) -> None:
    for guide in (
        LookAhead(GeometricPlan(BOOKS, 20), plan="hard", reduce=reduce, weight=5.0),
        LookAhead(GeometricPlan(BOOKS, 0), reduce=reduce, weight=5.0),
        GeometricLook(BOOKS, 5.0),
    ):
        together = beam_search(MODEL, QUESTIONS, TRIE, beam=5, k=5, guides=[guide], vectors=VECTORS)
        for at, found in enumerate(together):
            (alone,) = beam_search(
                MODEL,
                one_of(QUESTIONS, at),
                TRIE,
                beam=5,
                k=5,
                guides=[guide],
                vectors=VECTORS[at : at + 1],
            )
            assert alone.items.tolist() == found.items.tolist()
            np.testing.assert_allclose(alone.scores, found.scores, atol=1e-5)


def test_a_hard_plan_of_codes_spells_the_planned() -> None:
    planner = GeometricPlan(BOOKS, 7)
    guide = LookAhead(planner, plan="hard")
    answers = beam_search(MODEL, QUESTIONS, TRIE, beam=60, k=60, guides=[guide], vectors=VECTORS)
    for found, plan in zip(answers, planner.plan(VECTORS, TRIE), strict=True):
        assert set(found.items.tolist()) == set(TRIE.owner[plan.rows].tolist())


class TestLayingOut:
    def test_changed_tries_take_over_what_is_known(self) -> None:
        planner = GeometricPlan(BOOKS)
        planner.scores(VECTORS, TRIE)
        rng = np.random.default_rng(3)
        more = Trie.build(corpus(40, seed=9), SIZES)
        for trie in (
            TRIE.restrict(rng.random(50) < 0.5),
            TRIE.remove([1, 2, 3]),
            TRIE.insert(Codes(more.codes, more.owner)),
            more,
            Trie.build(Codes(np.zeros((0, 3), np.uint16), np.zeros(0, np.uint32)), SIZES),
        ):
            fresh = GeometricPlan(BOOKS).scores(VECTORS, trie)
            np.testing.assert_array_equal(planner.scores(VECTORS, trie), fresh)

    def test_a_trie_is_let_go(self) -> None:
        planner = GeometricPlan(BOOKS)
        for seed in range(3):
            planner.scores(VECTORS, Trie.build(corpus(30, seed=seed), SIZES))
        gc.collect()
        assert len(planner._shelves) == 0

    def test_last_levels_without_geometry_cost_nothing(self) -> None:
        flat = [np.zeros_like(BOOKS[0]), BOOKS[1], np.zeros_like(BOOKS[2])]
        planner = GeometricPlan(flat)
        assert planner.bytes_a_row(TRIE) == 2 * 2 + 4
        for query, row in zip(VECTORS, planner.scores(VECTORS, TRIE), strict=True):
            expected = [reconstruction_score(docid, flat, query) for docid, _ in rows_of(TRIE)]
            np.testing.assert_allclose(row, expected, atol=1e-5)
        nothing = GeometricPlan([np.zeros_like(book) for book in BOOKS], 3)
        assert not nothing.scores(VECTORS, TRIE).any()
        assert len(nothing.plan(VECTORS, TRIE)[0].rows) == TRIE.rows, "all tie"

    def test_threads_may_share_it(self) -> None:
        planner = GeometricPlan(BOOKS, 5)
        found: list[list[int]] = []

        def work() -> None:
            found.append(planner.plan(VECTORS, TRIE)[0].rows.tolist())

        threads = [Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 4 and all(rows == found[0] for rows in found)

    def test_other_codebooks_are_refused(self) -> None:
        with pytest.raises(IndexMismatch, match=r"levels of \(5, 4, 6\) codes.*\(5, 4, 3\) words"):
            GeometricPlan(books(sizes=(5, 4, 3))).plan(VECTORS, TRIE)
        with pytest.raises(IndexMismatch, match="codebooks"):
            GeometricPlan(BOOKS[:2]).plan(VECTORS, TRIE)

    def test_vectors_of_another_encoder_are_refused(self) -> None:
        with pytest.raises(DimensionError, match=r"shape \(16, 5\).*expected \[queries, 8\]"):
            GeometricPlan(BOOKS).plan(VECTORS[:, :5], TRIE)

    def test_scores_of_another_trie_are_refused(self) -> None:
        with pytest.raises(IndexMismatch, match=f"3 scores for a trie of {TRIE.rows} rows"):
            PrefixBounds(TRIE, np.zeros(3, np.float32))

    def test_a_negative_plan_is_refused(self) -> None:
        with pytest.raises(SettingsError, match="n = -1 planned rows"):
            GeometricPlan(BOOKS, -1)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), depth=st.integers(1, 9), n=st.integers(0, 12))
def test_any_trie(data: st.DataObject, depth: int, n: int) -> None:
    """Depth 1, one item, all items one docid, docids of several items, items of several docids."""
    sizes = tuple(data.draw(st.lists(st.integers(1, 4), min_size=depth, max_size=depth)))
    row = st.tuples(*(st.integers(0, size - 1) for size in sizes), st.integers(0, 5))
    table = np.array(data.draw(st.lists(row, max_size=15)), np.int64).reshape(-1, depth + 1)
    trie = Trie.build(Codes(table[:, :-1].astype(np.uint16), table[:, -1].astype(np.uint32)), sizes)
    rng = np.random.default_rng(depth)
    words = [rng.standard_normal((size, DIM)).astype(np.float32) for size in sizes]
    planner = GeometricPlan(words, n)
    scores = planner.scores(VECTORS[:2], trie)
    for query, found in zip(VECTORS, scores, strict=False):
        expected = [reconstruction_score(docid, words, query) for docid, _ in rows_of(trie)]
        np.testing.assert_allclose(found, expected, atol=1e-3, rtol=1e-4)
        bounds = PrefixBounds(trie, found)
        assert bounds.below(0, [0]).tolist() == [found.max(initial=-np.inf)]
        leaves = trie.walk(trie.codes)[:, -1]
        assert bounds.below(depth, leaves).tolist() == found.tolist()
    for found, plan in zip(scores, planner.plan(VECTORS[:2], trie), strict=True):
        rows = np.arange(trie.rows) if plan.rows is None else plan.rows
        assert len(rows) >= min(n or trie.rows, trie.rows)
        left_out = np.delete(found, rows)
        assert left_out.max(initial=-np.inf) < plan.scores.min(initial=np.inf)
