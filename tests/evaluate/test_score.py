from __future__ import annotations

from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trieline.errors import DataError, SettingsError
from trieline.evaluate import MEASURES, score
from trieline.types import Hit, Qrel


def hits(*items: str, scores: list[float] | None = None) -> list[Hit]:
    values = scores or [float(len(items) - i) for i in range(len(items))]
    return [Hit(item, value) for item, value in zip(items, values, strict=True)]


QRELS = [Qrel("q1", "a", 2), Qrel("q1", "b", 1), Qrel("q1", "n", 0), Qrel("q2", "c", 1)]


def test_by_hand() -> None:
    run = {"q1": hits("x", "b", "a"), "q2": hits("c")}
    measures = ["Success@1", "R@2", "R(rel=2)@3", "nDCG@3", "RR@10", "AP@100", "P@2", "Rprec", "RR"]
    scores = score(run, QRELS, measures)
    ideal = 2 / log2(2) + 1 / log2(3)
    assert {name: values["q1"] for name, values in scores.per_query.items()} == pytest.approx(
        {
            "Success@1": 0.0,
            "R@2": 0.5,
            "R(rel=2)@3": 1.0,
            "nDCG@3": (1 / log2(3) + 2 / log2(4)) / ideal,
            "RR@10": 0.5,
            "AP@100": (1 / 2 + 2 / 3) / 2,
            "P@2": 0.5,
            "Rprec": 0.5,
            "RR": 0.5,
        }
    )
    assert scores.means["Success@1"] == 0.5
    assert scores.means["RR@10"] == 0.75
    assert list(scores.means) == measures


def test_the_usual_measures_are_the_default() -> None:
    assert tuple(score({"q1": hits("a")}, QRELS).means) == MEASURES


@pytest.mark.parametrize("run", [{}, {"q1": []}, {"q2": hits("c")}, {"q1": [], "q2": hits("c")}])
def test_judged_queries_without_results_count_zero(run: dict[str, list[Hit]]) -> None:
    scores = score(run, QRELS)
    expected = 0.5 if "q2" in run else 0.0
    assert scores.means == dict.fromkeys(MEASURES, expected)
    assert all(list(values) == ["q1", "q2"] for values in scores.per_query.values())


def test_queries_that_nobody_judged_do_not_count() -> None:
    run = {"q1": hits("a"), "q2": hits("c"), "q9": hits("z")}
    assert "q9" not in score(run, QRELS).per_query["RR@10"]
    assert score(run, QRELS).means["RR@10"] == 1.0


def test_a_query_with_nothing_relevant_counts_zero_everywhere() -> None:
    qrels = [Qrel("q1", "a", 1), Qrel("q2", "b", 0)]
    run = {"q1": hits("a"), "q2": hits("b")}
    assert score(run, qrels).means == dict.fromkeys(MEASURES, 0.5)


@pytest.mark.parametrize("measure", ["Success@1", "RR@10", "RR", "nDCG@10", "P@1", "AP"])
@pytest.mark.parametrize("first", ["a", "z"])
def test_the_order_of_hits_is_the_ranking_even_when_scores_tie(measure: str, first: str) -> None:
    second = "z" if first == "a" else "a"
    run = {"q": hits(first, second, scores=[1.0, 1.0])}
    assert score(run, [Qrel("q", first, 1)], [measure]).means[measure] == 1.0
    assert score(run, [Qrel("q", second, 1)], [measure]).means[measure] < 1.0


def test_scores_that_rise_or_are_infinite_do_not_matter() -> None:
    run = {"q": hits("a", "b", "c", scores=[float("-inf"), 0.0, float("nan")])}
    assert score(run, [Qrel("q", "b", 1)], ["RR"]).means["RR"] == 0.5


def test_two_spellings_of_one_measure() -> None:
    means = score({"q1": hits("x", "a")}, QRELS[:1], ["RR@10", "RR(rel=1)@10"]).means
    assert means == {"RR@10": 0.5, "RR(rel=1)@10": 0.5}


@pytest.mark.parametrize(
    "measure", ["nDGC@10", "", "R@", "R @10", "R@10;x", "__import__('os')", "R(rel=x)@1", "NumQ"]
)
def test_unknown_measures_are_named_with_what_is_accepted(measure: str) -> None:
    with pytest.raises(SettingsError, match=r"unknown measure.*AP\[@k\], P@k, R@k.*nDCG\[@k\]"):
        score({}, QRELS, [measure])


@pytest.mark.parametrize(
    ("measure", "says"),
    [
        ("R", "needs a cutoff"),
        ("Rprec@5", "takes no cutoff"),
        ("nDCG(rel=2)@10", "takes no relevance level"),
        ("R@0", "start at 1"),
        ("R(rel=0)@10", "start at 1"),
    ],
)
def test_measures_that_make_no_sense(measure: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        score({}, QRELS, [measure])


def test_no_measures() -> None:
    with pytest.raises(SettingsError, match="no measures were given"):
        score({}, QRELS, [])


def test_no_judgements() -> None:
    with pytest.raises(DataError, match="qrels are empty"):
        score({"q": hits("a")}, [])


def test_contradictory_judgements() -> None:
    with pytest.raises(DataError, match="'q1' has two judgements of item 'a': 2 and 1"):
        score({}, [*QRELS, Qrel("q1", "a", 1)])


def test_an_item_named_twice() -> None:
    with pytest.raises(DataError, match="'q1' has item 'b' twice among its 3 hits"):
        score({"q1": hits("b", "a", "b")}, QRELS)


@given(st.permutations("abcdefgh"), st.sets(st.sampled_from("abcdefgh"), min_size=1))
def test_values_lie_between_zero_and_one_and_more_depth_never_hurts(
    order: list[str], relevant: set[str]
) -> None:
    qrels = [Qrel("q", item, 1) for item in sorted(relevant)]
    means = score({"q": hits(*order)}, qrels, ["R@1", "R@4", "R@8", "Success@1", "RR@4"]).means
    assert 0 <= means["R@1"] <= means["R@4"] <= means["R@8"] == 1
    assert means["Success@1"] <= means["RR@4"] <= 1
