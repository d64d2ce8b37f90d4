"""Each row of the table of systems, written out in plain loops."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from plain import beam_of_dicts, geometric_votes, planned_looks, step_scores
from worlds import (
    SIZES,
    Docid,
    asked,
    books,
    corpus,
    docids_of,
    one_of,
    rows_of,
    speller,
    vectors_of,
)

from trieline.decode import Found, Geometric, Guide, ItemRows, LookAhead, Plan, beam_search
from trieline.errors import IndexMismatch, SettingsError
from trieline.index import Trie
from trieline.types import Floats

MODEL, BOOKS, QUESTIONS = speller(), books(), asked(4)
VECTORS = vectors_of(QUESTIONS)
TRIE = Trie.build(corpus(90, items=50), SIZES)
ROWS, DOCIDS = rows_of(TRIE), docids_of(TRIE)


class Told:
    """A planner that was told its scores: item -> score, for each query of ``VECTORS``."""

    def __init__(self, scores: Sequence[dict[int, float]], floor: float = 0.0) -> None:
        self.scores, self.floor = scores, floor

    def plan(self, vectors: Floats, trie: Trie) -> list[Plan]:
        rows = ItemRows(trie)
        asked = [int(np.flatnonzero((vector == VECTORS).all(axis=1))[0]) for vector in vectors]
        told = [self.scores[at] for at in asked]
        return [rows.plan(list(some), list(some.values()), self.floor) for some in told]


def told(low: float = 0.0, high: float = 20.0, share: float = 0.3, seed: int = 1) -> Told:
    rng = np.random.default_rng(seed)
    items = [np.flatnonzero(rng.random(50) < share).tolist() for _ in VECTORS]
    return Told([{i: float(rng.uniform(low, high)) for i in some} for some in items])


def steps(at: int, normalise: str) -> dict[Docid, float]:
    return step_scores(MODEL, one_of(QUESTIONS, at), DOCIDS, normalise)


def search(
    guides: list[Guide], normalise: str, width: int = 6, k: int = 6, at: slice = slice(None)
) -> list[Found]:
    questions = QUESTIONS._replace(vector=QUESTIONS.vector[at])
    return beam_search(
        MODEL,
        questions,
        TRIE,
        beam=width,
        k=k,
        normalise=normalise,
        guides=guides,
        vectors=VECTORS[at],
    )


def same(found: Found, expected: dict[Docid, float], atol: float = 2e-3) -> None:
    """The docids that were found, in order, with their scores."""
    best = {}
    for leaf, score in zip(found.leaves, found.scores, strict=True):
        best.setdefault(TRIE.docid(int(leaf)), float(score))
    ranked = sorted(expected, key=lambda docid: -expected[docid])
    assert list(best) == [docid for docid in ranked if docid in best]
    assert list(best)[:1] == ranked[:1]
    for docid, score in best.items():
        assert score == pytest.approx(expected[docid], abs=atol)


@pytest.mark.parametrize("standardise", [False, True])
@pytest.mark.parametrize("width", [2, 6])
def test_pro(standardise: bool, width: int) -> None:
    guide = Geometric(BOOKS, 3.0, standardise)
    answers = search([guide], "level", width, k=2)
    for at, found in enumerate(answers):
        votes = geometric_votes(DOCIDS, BOOKS, VECTORS[at], 3.0, standardise)
        same(found, beam_of_dicts(steps(at, "level"), DOCIDS, width, carry=votes))


@pytest.mark.parametrize("plan", ["soft", "hard"])
@pytest.mark.parametrize("reduce", ["max", "mean", "min"])
@pytest.mark.parametrize("width", [2, 6])
def test_pag_and_comgtir(plan: str, reduce: str, width: int) -> None:
    planner = told()
    answers = search([LookAhead(planner, plan=plan, reduce=reduce, weight=0.5)], "raw", width, k=2)
    for at, found in enumerate(answers):
        half = {item: score / 2 for item, score in planner.scores[at].items()}
        looks = planned_looks(ROWS, half, reduce, 0.0 if plan == "soft" else -np.inf)
        wide, expected = width, beam_of_dicts(steps(at, "raw"), DOCIDS, width, look=looks)
        while wide < len(DOCIDS) and len({item for docid, item in ROWS if docid in expected}) < 2:
            wide *= 2  # two docids of one item: k items are asked for
            expected = beam_of_dicts(steps(at, "raw"), DOCIDS, wide, look=looks)
        same(found, expected)


@pytest.mark.parametrize("reduce", ["max", "mean", "min"])
def test_guides_add_up(reduce: str) -> None:
    planner = told(seed=3)
    guides: list[Guide] = [Geometric(BOOKS, 2.0), LookAhead(planner, reduce=reduce)]
    for at, found in enumerate(search(guides, "level")):
        votes = geometric_votes(DOCIDS, BOOKS, VECTORS[at], 2.0)
        looks = planned_looks(ROWS, planner.scores[at], reduce, 0.0)
        same(found, beam_of_dicts(steps(at, "level"), DOCIDS, 6, carry=votes, look=looks))


@pytest.mark.parametrize("reduce", ["max", "mean", "min"])
def test_a_wide_beam_ranks_as_scoring_every_docid(reduce: str) -> None:
    planner = told(seed=4, share=0.9)
    answers = search([LookAhead(planner, reduce=reduce)], "level", width=len(DOCIDS), k=50)
    for at, found in enumerate(answers):
        looks = planned_looks(ROWS, planner.scores[at], reduce, 0.0)
        model = steps(at, "level")
        total = {d: sum(model[d[:n]] for n in range(1, 4)) + looks[d] for d in DOCIDS}
        same(found, total)
        best = {}
        for docid, item in ROWS:
            best[item] = max(best.get(item, -np.inf), total[docid])
        assert found.scores == pytest.approx(sorted(best.values(), reverse=True), abs=2e-3)


def test_where_planned_scores_are_negative_being_planned_is_still_better() -> None:
    planner = told(-30.0, -10.0)
    for at, found in enumerate(search([LookAhead(planner)], "level")):
        lowest = min(planner.scores[at].values())
        looks = planned_looks(ROWS, planner.scores[at], "max", lowest)
        same(found, beam_of_dicts(steps(at, "level"), DOCIDS, 6, look=looks))


def test_a_planner_says_what_is_left_out_may_score() -> None:
    planner = told(5.0, 9.0)
    planner.floor = 4.0
    for at, found in enumerate(search([LookAhead(planner)], "level")):
        looks = planned_looks(ROWS, planner.scores[at], "max", 4.0)
        same(found, beam_of_dicts(steps(at, "level"), DOCIDS, 6, look=looks))


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_a_hard_plan_finds_planned_docids_only_and_all_of_them(weight: float) -> None:
    planner = Told([{3: 1.0, 17: 2.0}, {}, {int(TRIE.owner[0]): 5.0}, {9: 0.0, 1000: 3.0}])
    found = search([LookAhead(planner, plan="hard", weight=weight)], "level", width=20, k=20)
    for answer, planned in zip(found, planner.scores, strict=True):
        docids = {docid for docid, item in ROWS if item in planned}
        assert {TRIE.docid(int(leaf)) for leaf in answer.leaves} <= docids
        assert set(answer.items.tolist()) == {item for docid, item in ROWS if docid in docids}
        assert np.isfinite(answer.scores).all()


@pytest.mark.parametrize("plan", ["soft", "hard"])
def test_an_empty_plan(plan: str) -> None:
    empty = Told([{}] * len(VECTORS))
    answers = search([LookAhead(empty, plan=plan, reduce="mean")], "level")
    for answer, unguided in zip(answers, search([], "level"), strict=True):
        expected = [] if plan == "hard" else unguided.items.tolist()
        assert answer.items.tolist() == expected


@pytest.mark.parametrize("reduce", ["max", "min"])
def test_alone_as_in_a_batch(reduce: str) -> None:
    planner = told(seed=6)
    guides: list[Guide] = [Geometric(BOOKS, 2.0), LookAhead(planner, plan="hard", reduce=reduce)]
    together = search(guides, "level")
    for at, found in enumerate(together):
        (alone,) = search(guides, "level", at=slice(at, at + 1))
        assert alone.items.tolist() == found.items.tolist()
        np.testing.assert_allclose(alone.scores, found.scores, atol=1e-5)


@pytest.mark.parametrize("standardise", [False, True])
def test_the_table_holds_what_is_scored(standardise: bool) -> None:
    """Beams of many children and of few, which are scored in two ways."""
    rng = np.random.default_rng(0)
    book = rng.standard_normal((200, 8)).astype(np.float32)
    guide = Geometric([book], 1.5, standardise)
    state = rng.standard_normal((3, 8)).astype(np.float32)
    parents = np.array([0] * 200 + [1] * 3 + [2] * 13)
    codes = np.r_[np.arange(200), [0, 7, 199], np.arange(50, 63)]
    score = guide.score(state, 0, parents, codes, codes)
    table = guide.table(state, 0)
    assert table.shape == (3, 200) and table.dtype == np.float32
    np.testing.assert_allclose(score.carry, table[parents, codes], rtol=1e-4, atol=1e-4)
    nobody = np.empty(0, np.int64)
    assert guide.score(state, 0, nobody, nobody, nobody).carry.shape == (0,)


def test_items_without_rows_are_passed_over() -> None:
    plan = ItemRows(TRIE).plan([7, 10_000, 3], [1.0, 9.0, 2.0])
    assert plan.rows.tolist() == np.flatnonzero(np.isin(TRIE.owner, [3, 7])).tolist()
    assert plan.scores.tolist() == [{7: 1.0, 3: 2.0}[i] for i in TRIE.owner[plan.rows].tolist()]


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (Plan(np.array([2, 1]), np.zeros(2, np.float32)), "must ascend"),
        (Plan(np.array([1, 1]), np.zeros(2, np.float32)), "must ascend"),
        (Plan(np.array([1, TRIE.rows]), np.zeros(2, np.float32)), f"below {TRIE.rows}"),
        (Plan(np.array([-1, 4]), np.zeros(2, np.float32)), "must ascend"),
        (Plan(np.array([1, 2]), np.zeros(3, np.float32)), "for 2 rows"),
        (Plan(None, np.zeros(3, np.float32)), f"for {TRIE.rows} rows"),
    ],
)
def test_a_plan_for_another_trie_is_refused(plan: Plan, says: str) -> None:
    class Wrong:
        def plan(self, vectors: Floats, trie: Trie) -> list[Plan]:
            return [plan] * len(vectors)

    with pytest.raises(IndexMismatch, match=says):
        LookAhead(Wrong()).start(VECTORS, TRIE)


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(SettingsError, match="from 0 upwards"):
        LookAhead(told(), weight=-1.0)
