"""Prefix survival of the plain beam on toy tries, against a slow count."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "decode"))
sys.path.insert(0, str(Path(__file__).parent))
from plain import step_scores
from toys import SIZES, asked, corpus, docids, one, speller

from trieline.decode import beam_search
from trieline.diagnose import SurvivalCounter, survival
from trieline.index import Trie

MODEL, CODES = speller(), corpus(80)
TRIE = Trie.build(CODES, SIZES)
QUESTIONS = asked(6)
STEPS = [step_scores(MODEL, one(QUESTIONS, b), docids(CODES), "level") for b in range(6)]


def counted(targets: list[np.ndarray], beam: int, batch: int = 6) -> SurvivalCounter:
    counter = SurvivalCounter(TRIE, targets)
    questions = QUESTIONS._replace(vector=QUESTIONS.vector[:batch])
    beam_search(MODEL, questions, TRIE, beam=beam, k=1, observe=counter.observe)
    return counter


def live_prefixes(query: int, beam: int) -> list[set[tuple[int, ...]]]:
    """The beam after each level, in plain loops."""
    live: dict[tuple[int, ...], float] = {(): 0.0}
    after = []
    for level in range(len(SIZES)):
        scores = {
            d[: level + 1]: live[d[:level]] + STEPS[query][d[: level + 1]]
            for d in docids(CODES)
            if d[:level] in live
        }
        best = sorted(scores, key=lambda prefix: -scores[prefix])[:beam]
        live = {prefix: scores[prefix] for prefix in best}
        after.append(set(live))
    return after


@settings(max_examples=25, deadline=None)
@given(
    beam=st.integers(1, 40),
    wanted=st.lists(st.lists(st.integers(0, 79), min_size=1, max_size=4), min_size=6, max_size=6),
)
def test_survival_equals_a_slow_count(beam: int, wanted: list[list[int]]) -> None:
    targets = [CODES.codes[numbers] for numbers in wanted]
    told = survival([counted(targets, beam)])
    alive = np.zeros((3, 6), bool)
    for query, rows in enumerate(targets):
        for level, prefixes in enumerate(live_prefixes(query, beam)):
            alive[level, query] = any(tuple(row[: level + 1].tolist()) in prefixes for row in rows)
    assert told.queries == 6
    assert told.levels == pytest.approx(alive.mean(axis=1).tolist())
    assert list(told.levels) == sorted(told.levels, reverse=True), "a beam forgets for good"


def test_a_beam_that_holds_everything_loses_nothing() -> None:
    targets = [CODES.codes[[number]] for number in range(6)]
    assert survival([counted(targets, 500)]) == ((1.0, 1.0, 1.0), 6)


def test_a_narrower_beam_never_loses_less_in_the_end() -> None:
    targets = [CODES.codes[[number]] for number in range(6)]
    first = [survival([counted(targets, beam)]).levels[0] for beam in (1, 2, 3, 4, 5)]
    assert first == sorted(first)
    assert first[-1] == 1.0, "the first level has five codes"


def test_batches_are_counted_together() -> None:
    targets = [CODES.codes[[number]] for number in (3, 14, 15, 9, 26, 53)]
    whole = counted(targets, 3)
    halves = []
    for low in (0, 3):
        counter = SurvivalCounter(TRIE, targets[low : low + 3])
        questions = QUESTIONS._replace(vector=QUESTIONS.vector[low : low + 3])
        beam_search(MODEL, questions, TRIE, beam=3, k=1, observe=counter.observe)
        halves.append(counter)
    np.testing.assert_array_equal(
        np.concatenate([half.alive for half in halves], axis=1), whole.alive
    )
    assert survival(halves) == survival([whole])


def test_a_docid_that_is_not_in_the_trie_never_lives() -> None:
    free = next(row for row in np.ndindex(*SIZES) if tuple(row) not in set(docids(CODES)))
    targets = [np.array([free], np.uint16)] + [CODES.codes[[number]] for number in range(5)]
    assert not counted(targets, 500).alive[2, 0]


def test_nobody_was_asked() -> None:
    assert survival([]) == ((), 0)
