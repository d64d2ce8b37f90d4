"""Our measures against pytrec_eval itself, on random runs with ties, gaps and grades."""

from __future__ import annotations

import numpy as np
import pytest
import pytrec_eval

from trieline.evaluate import score
from trieline.types import Hit, Qrel

NAMES = {
    "nDCG@10": "ndcg_cut_10",
    "nDCG": "ndcg",
    "R@5": "recall_5",
    "R@100": "recall_100",
    "AP": "map",
    "AP@10": "map_cut_10",
    "P@5": "P_5",
    "RR": "recip_rank",
    "Rprec": "Rprec",
    "Success@1": "success_1",
    "Success@10": "success_10",
}


def judge(rng: np.random.Generator) -> tuple[dict[str, dict[str, int]], dict[str, list[str]]]:
    """Thirty queries with one to eight relevant items of three grades; a ranking for most."""
    qrels, rankings = {}, {}
    for number in range(30):
        items = [f"d{i}" for i in rng.permutation(60)]
        grades = {item: int(rng.integers(0, 4)) for item in items[:8]}
        qrels[f"q{number}"] = {**grades, items[9]: 1}
        if number % 7:
            rankings[f"q{number}"] = [items[i] for i in rng.permutation(60)[: rng.integers(1, 50)]]
    return qrels, rankings


@pytest.mark.parametrize("seed", range(3))
def test_pytrec_eval_agrees(seed: int) -> None:
    qrels, rankings = judge(np.random.default_rng(seed))
    # Ties everywhere: pytrec_eval gets the ranks in its own way, ours must follow the list.
    run = {query: [Hit(item, 0.0) for item in items] for query, items in rankings.items()}
    judged = [Qrel(q, item, grade) for q, items in qrels.items() for item, grade in items.items()]
    ours = score(run, judged, list(NAMES))
    falling = {q: {item: 1 / (r + 1) for r, item in enumerate(i)} for q, i in rankings.items()}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, set(NAMES.values())).evaluate(falling)
    for name, measure in NAMES.items():
        expected = {query: theirs[query][measure] if query in theirs else 0.0 for query in qrels}
        assert ours.per_query[name] == pytest.approx(expected)
        assert ours.means[name] == pytest.approx(sum(expected.values()) / len(qrels))
        # What pytrec_eval alone would have said, had the missing queries been forgotten.
        assert ours.means[name] < np.mean([values[measure] for values in theirs.values()])


@pytest.mark.parametrize("cutoff", [1, 5, 10, 100])
def test_reciprocal_rank_with_a_cutoff(cutoff: int) -> None:
    qrels, rankings = judge(np.random.default_rng(9))
    run = {query: [Hit(item, 1.0) for item in items] for query, items in rankings.items()}
    judged = [Qrel(q, item, grade) for q, items in qrels.items() for item, grade in items.items()]
    ours = score(run, judged, [f"RR@{cutoff}", f"RR(rel=2)@{cutoff}"])
    for name, level in ((f"RR@{cutoff}", 1), (f"RR(rel=2)@{cutoff}", 2)):
        for query, grades in qrels.items():
            ranks = (
                rank
                for rank, item in enumerate(rankings.get(query, [])[:cutoff], start=1)
                if grades.get(item, 0) >= level
            )
            assert ours.per_query[name][query] == pytest.approx(1 / next(ranks, np.inf))
