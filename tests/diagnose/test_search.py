"""What beams miss, counted: against a beam that misses nothing, and by hand."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "decode"))
from full_geometry import FullGeometry
from toys import DIM, asked, corpus, one, speller

from trieline.decode import Geometric, beam_search, exact_search
from trieline.diagnose import SearchError, compare_searches, search_error
from trieline.evaluate.table import to_text
from trieline.index import Trie

SIZES = (8, 8, 8, 8)
MODEL = speller(SIZES)
QUERIES = 12


@pytest.fixture(scope="module")
def trie() -> Trie:
    return Trie.build(corpus(300, SIZES), SIZES)


def test_a_beam_as_wide_as_the_corpus_misses_nothing(trie: Trie) -> None:
    for normalise in ("level", "legal"):
        part = compare_searches(MODEL, asked(QUERIES), trie, beams=[400], k=10, normalise=normalise)
        told = search_error([part])
        (beam,) = told.beams
        assert told.queries == QUERIES and told.uncertified == 0
        assert (beam.top_1, beam.top_k, beam.recall) == (0.0, 0.0, 1.0)
        assert beam.gap_1 == pytest.approx(0, abs=1e-5)
        assert sum(beam.lost) == beam.spelled == 0


def test_the_figures_are_those_of_the_answers(trie: Trie) -> None:
    questions, k = asked(QUERIES), 4
    beams = (4, 6)
    told = search_error([compare_searches(MODEL, questions, trie, beams=beams, k=k)])
    exact = exact_search(MODEL, questions, trie, k=k)
    assert told.k == k and told.rows == np.median([answer.rows for answer in exact])
    for beam in told.beams:
        found = beam_search(MODEL, questions, trie, beam=beam.beam, k=k)
        pairs = list(zip(exact, found, strict=True))
        missed = [len(set(e.items.tolist()) - set(f.items.tolist())) for e, f in pairs]
        assert beam.recall == pytest.approx(1 - sum(missed) / (k * QUERIES))
        assert beam.top_k == pytest.approx(np.mean([count > 0 for count in missed]))
        assert beam.top_1 == np.mean([e.items[0] != f.items[0] for e, f in pairs])
        assert beam.gap_1 == pytest.approx(
            np.mean([e.scores[0] - f.scores[0] for e, f in pairs]), abs=1e-5
        )
        assert beam.gap_k == pytest.approx(
            np.mean([(e.scores - f.scores).mean() for e, f in pairs]), abs=1e-5
        )
        assert sum(beam.lost) == sum(missed) > 0, "a narrow beam drops some prefix of each"
        assert beam.spelled == 0
    narrow, wider = told.beams
    assert wider.recall >= narrow.recall


def test_the_level_is_the_one_that_dropped_the_prefix(trie: Trie) -> None:
    questions = asked(QUERIES)
    (beam,) = search_error([compare_searches(MODEL, questions, trie, beams=[2], k=2)]).beams
    expected = np.zeros(len(SIZES), int)
    for query in range(QUERIES):
        alone = one(questions, query)
        kept: list[set[int]] = []
        (found,) = beam_search(
            MODEL,
            alone,
            trie,
            beam=2,
            k=2,
            observe=lambda e, kept=kept: kept.append(set(e.nodes[e.kept].tolist())),
        )
        (exact,) = exact_search(MODEL, alone, trie, k=2)
        for item, leaf in zip(exact.items.tolist(), exact.leaves.tolist(), strict=True):
            if item not in found.items:
                path = trie.path(trie.docid(leaf))[1:]
                level = next(
                    n
                    for n, (node, own) in enumerate(zip(path, kept, strict=True))
                    if node not in own
                )
                expected[level] += 1
    assert expected.sum() > 0
    assert beam.lost == tuple(expected)


def test_geometry_is_in_both_searches(trie: Trie) -> None:
    rng = np.random.default_rng(2)
    books = [rng.standard_normal((size, DIM)).astype(np.float32) * 0.4 for size in SIZES]
    questions = asked(QUERIES)
    assert questions.vector is not None
    vectors = questions.vector.numpy()
    part = compare_searches(
        MODEL,
        questions,
        trie,
        beams=[3, 400],
        k=3,
        guides=[Geometric(books, 3.0)],
        vectors=vectors,
        votes=FullGeometry(books, 3.0, trie).votes(vectors),
    )
    narrow, wide = search_error([part]).beams
    assert narrow.recall < 1.0
    assert wide.recall == 1.0 and wide.gap_k < 1e-4


def test_queries_without_a_certificate_are_counted_and_left_out(trie: Trie) -> None:
    questions = asked(QUERIES)
    rows = [answer.rows for answer in exact_search(MODEL, questions, trie, k=5)]
    budget = int(np.median(rows))
    part = compare_searches(MODEL, questions, trie, beams=[5], k=5, budget=budget)
    told = search_error([part, part])
    assert 0 < told.queries < 2 * QUERIES
    assert told.queries + told.uncertified == 2 * QUERIES
    cut = exact_search(MODEL, questions, trie, k=5, budget=budget)
    assert told.uncertified == 2 * sum(not answer.complete for answer in cut)
    left_out = f"({told.uncertified} more are left out: not certified within the budget)"
    assert told.tables()[0].title.endswith(left_out)
    nothing = search_error([compare_searches(MODEL, questions, trie, beams=[5], budget=1)])
    assert nothing.queries == 0 and nothing.uncertified == QUERIES
    assert nothing.tables()


def test_told_to_programs_and_people(trie: Trie) -> None:
    told = search_error([compare_searches(MODEL, asked(3), trie, beams=[2, 5], k=5)])
    plain = json.loads(json.dumps(told.to_json()))
    assert [beam["beam"] for beam in plain["beams"]] == [2, 5]
    assert len(plain["beams"][0]["lost"]) == len(SIZES)
    often, where = (to_text(table, 160) for table in told.tables())
    assert "recall of exact top 5" in often and "level 4" in where
    assert search_error([]) == SearchError(0, 0, 0, 0.0, ())


def test_an_empty_index_differs_from_nothing() -> None:
    trie = Trie.build(corpus(0, SIZES), SIZES)
    told = search_error([compare_searches(MODEL, asked(3), trie, beams=[4])])
    assert told.queries == 3
    assert told.beams[0].top_1 == 0.0 and told.beams[0].recall == 1.0
