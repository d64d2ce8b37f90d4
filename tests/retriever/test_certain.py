"""Certified answers and search errors through the public door: Python and the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from terminal import call, said, told
from workshop import ITEMS, dataset, small_recipe

from trieline.certain import Certified
from trieline.errors import DataError, SettingsError
from trieline.retriever import Retriever

ASKED = ["red kettle boils water", "something for the garden", "a golden lamp"]


@pytest.fixture(scope="module", params=["level", "legal", "geometry"])
def opened(request: pytest.FixtureRequest, built: Path, words: Path) -> Iterator[Retriever]:
    """The built index, searched in another way."""
    more = "omega=20.0" if request.param == "geometry" else f"normalise={request.param}"
    with Retriever.load(built) as retriever:
        retriever.recipe = small_recipe(words, f"decode.{more}")
        retriever._asker.recipe = retriever.recipe
        yield retriever


def test_certified_answers_are_those_of_the_widest_beam(opened: Retriever) -> None:
    certified = opened.search_exact(ASKED, 6)
    widest = opened.search(ASKED, 6, beam=10_000)
    for answer, hits in zip(certified, widest, strict=True):
        assert answer.complete and answer.certified == 6
        assert [hit.item_id for hit in answer.hits] == [hit.item_id for hit in hits]
        np.testing.assert_allclose(
            [hit.score for hit in answer.hits], [hit.score for hit in hits], atol=1e-3
        )
        assert [hit.docid for hit in answer.hits] == [hit.docid for hit in hits]
        assert [hit.rank for hit in answer.hits] == [1, 2, 3, 4, 5, 6]
        assert answer.bound <= answer.hits[-1].score + 1e-4
    assert opened.search(ASKED, 6, exact=True) == [answer.hits for answer in certified]


def test_a_filter_and_everything(opened: Retriever) -> None:
    wanted = [item.id for item in ITEMS if item.id.startswith("golden")]
    (answer,) = opened.search_exact(ASKED[0], 99, filter=wanted)
    assert {hit.item_id for hit in answer.hits} == set(wanted)
    assert answer.complete and answer.bound == -np.inf
    (nothing,) = opened.search_exact(ASKED[0], 3, filter=[])
    assert nothing == Certified([], 0, -np.inf, 1, complete=True)


def test_a_budget_is_kept_and_its_certificate_holds(opened: Retriever) -> None:
    (truth,) = opened.search_exact(ASKED[0], 42)
    scores = {hit.item_id: hit.score for hit in truth.hits}
    for budget in range(1, truth.rows + 1):
        (answer,) = opened.search_exact(ASKED[0], 5, budget=budget)
        assert answer.rows <= budget
        missed = set(scores) - {hit.item_id for hit in answer.hits}
        assert answer.bound >= max(scores[item] for item in missed) - 1e-4
        for hit, true in zip(answer.hits[: answer.certified], truth.hits, strict=False):
            assert hit.score == pytest.approx(true.score, abs=1e-4)
    assert answer.complete


def test_search_errors_are_reported(opened: Retriever) -> None:
    queries = list(dataset().queries("dev"))
    error = opened.search_error(queries, beams=(1, 10_000), k=5)
    assert error.queries == len(queries) and error.k == 5
    narrow, wide = error.beams
    assert narrow.beam == 1 and narrow.recall <= wide.recall == 1.0
    assert wide.top_1 == wide.top_k == 0.0


def test_a_certificate_in_words() -> None:
    def words(hits: int, certified: int, rows: int, complete: bool) -> str:
        return Certified([None] * hits, certified, -7.314, rows, complete).text()  # type: ignore[list-item]

    assert words(10, 10, 34, True) == "the 10 best, certified; 34 prefixes read"
    assert words(1, 1, 1, True) == "the best one, certified; 1 prefix read"
    assert words(0, 0, 1, True) == "nothing to be found; 1 prefix read"
    spent = "nothing else can score above -7.31; 1,200 prefixes read"
    assert words(9, 6, 1200, False) == f"budget spent: the first 6 are certain; {spent}"
    assert words(9, 1, 1200, False) == f"budget spent: the first is certain; {spent}"
    assert words(9, 0, 1200, False) == f"budget spent: no answer is certain yet; {spent}"


def test_on_the_command_line(built: Path) -> None:
    text = said("search", built, *ASKED, "-k", 4, "--exact")
    assert text.count("the 4 best, certified;") == len(ASKED)
    answers = told("search", built, *ASKED, "-k", 4, "--exact")
    assert [answer["query"] for answer in answers] == ASKED
    assert all(answer["complete"] and answer["certified"] == 4 for answer in answers)
    (everything,) = told("search", built, ASKED[0], "-k", 99, "--exact")
    assert everything["bound"] is None, "minus infinity is not JSON"
    assert len(everything["hits"]) == len(ITEMS)
    short = said("search", built, ASKED[0], "-k", 4, "--exact", "--budget", 2)
    assert "budget spent: " in short
    for option in (("--beam", 5), ("--trace",)):
        with pytest.raises(SettingsError, match="--exact searches without one"):
            call("search", built, ASKED[0], "--exact", *option)


def test_diagnosis_on_the_command_line(built: Path, tmp_path: Path) -> None:
    asked = tmp_path / "queries.txt"
    asked.write_text("\n".join([*ASKED, "", "blue rake"]), encoding="utf-8")
    error = told("diagnose", "search", built, "--queries", asked, "--beam", 1, "--beam", 9)
    assert error["queries"] == 4
    assert [beam["beam"] for beam in error["beams"]] == [1, 9]
    text = said("diagnose", "search", built, "--queries", asked, "-k", 3, "--limit", 2)
    assert "against the exact top 3: 2 queries" in text
    assert "level 3" in text
    asked.write_text("\n", encoding="utf-8")
    with pytest.raises(DataError, match="nothing to compare"):
        call("diagnose", "search", built, "--queries", asked)
    codes = told("diagnose", "codes", built)
    assert codes["items"] == len(ITEMS)
    assert "codes of each level" in said("diagnose", "codes", built)


def test_scores_that_are_not_bounded_are_refused(built: Path, words: Path) -> None:
    with Retriever.load(built) as retriever:
        retriever.recipe = small_recipe(words, "decode.normalise=raw")
        with pytest.raises(SettingsError, match="'raw'.*needs 'level', 'legal' or 'vocab'"):
            retriever.search_exact(ASKED)
