"""How good a run is: the usual measures, per query and on average.

Measures are written as ir_measures writes them: ``nDCG@10``, ``R@10``, ``RR@10``, ``Success@1``,
``AP@100``, ``R(rel=2)@10``; every figure is ir_measures' own.
Traps: pytrec_eval averages over the queries that are in the run and breaks equal scores by item id.
Here every judged query counts (no results: zero), and the order of the hits is the ranking.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from typing import Any, NamedTuple

from trieline.errors import DataError, SettingsError
from trieline.types import Hit, Qrel, Run

__all__ = ["MEASURES", "Scores", "score"]

MEASURES = ("Success@1", "R@10", "nDCG@10", "RR@10")
"""What is measured when nobody says."""

# name -> (a cutoff is a must, takes a relevance level)
_ACCEPTED = {
    "AP": (False, True),
    "P": (True, True),
    "R": (True, True),
    "RR": (False, True),
    "Rprec": (False, True),
    "Success": (True, True),
    "nDCG": (False, False),
}
_SPELLING = re.compile(r"(?P<name>[A-Za-z]+)(?:\(rel=(?P<rel>[0-9]+)\))?(?:@(?P<cutoff>[0-9]+))?")


class Scores(NamedTuple):
    """The measures of one run."""

    means: dict[str, float]  # measure -> mean over the judged queries
    per_query: dict[str, dict[str, float]]  # measure -> query id -> value


def score(run: Run, qrels: Iterable[Qrel], measures: Sequence[str] = MEASURES) -> Scores:
    """Measure a run. Queries nobody judged are left out; judged ones without hits count zero."""
    named = _measures(measures)
    judged = _by_query(qrels)
    ranked = {query: _falling(query, run.get(query, ())) for query in judged}
    ranked = {query: hits for query, hits in ranked.items() if hits}
    per_query = {name: dict.fromkeys(judged, 0.0) for name in named}
    by_measure = {measure: name for name, measure in named.items()}
    if ranked:
        import ir_measures

        for metric in ir_measures.iter_calc(list(by_measure), judged, ranked):
            per_query[by_measure[metric.measure]][metric.query_id] = float(metric.value)
    # Two spellings of one measure ("RR@10", "RR(rel=1)@10") share one calculation.
    for name, measure in named.items():
        per_query[name] = dict(per_query[by_measure[measure]])
    means = {name: fsum(values.values()) / len(judged) for name, values in per_query.items()}
    return Scores(means, per_query)


def _measures(names: Sequence[str]) -> dict[str, Any]:
    if isinstance(names, str):
        names = (names,)
    if not names:
        raise SettingsError(f"no measures were given. Accepted: {_accepted()}.")
    return {name: _measure(name) for name in names}


def _measure(text: str) -> Any:
    """Our own parser: that of ir_measures needs parts of ``ast`` that Python 3.14 dropped."""
    found = _SPELLING.fullmatch(text)
    if found is None or found["name"] not in _ACCEPTED:
        raise SettingsError(f"unknown measure '{text}'. Accepted: {_accepted()}.")
    needs_cutoff, takes_level = _ACCEPTED[found["name"]]
    level, cutoff = found["rel"], found["cutoff"]
    if needs_cutoff and cutoff is None:
        raise SettingsError(f"measure '{text}' needs a cutoff, e.g. {text}@10.")
    if found["name"] == "Rprec" and cutoff is not None:
        raise SettingsError(f"measure '{text}': Rprec takes no cutoff.")
    if level is not None and not takes_level:
        raise SettingsError(f"measure '{text}': {found['name']} takes no relevance level.")
    if "0" in (str(int(value)) for value in (level, cutoff) if value is not None):
        raise SettingsError(f"measure '{text}': cutoffs and relevance levels start at 1.")
    import ir_measures

    settings = {"rel": level, "cutoff": cutoff}
    return getattr(ir_measures, found["name"])(
        **{key: int(value) for key, value in settings.items() if value is not None}
    )


def _accepted() -> str:
    names = (f"{name}@k" if must else f"{name}[@k]" for name, (must, _) in _ACCEPTED.items())
    return ", ".join(names).replace("Rprec[@k]", "Rprec") + "; R(rel=2)@k counts grades from 2"


def _by_query(qrels: Iterable[Qrel]) -> dict[str, dict[str, int]]:
    judged: dict[str, dict[str, int]] = {}
    for query, item, relevance in qrels:
        grades = judged.setdefault(query, {})
        if grades.setdefault(item, int(relevance)) != relevance:
            raise DataError(
                f"query '{query}' has two judgements of item '{item}': {grades[item]} and "
                f"{relevance}. Expected one: remove the wrong line from the qrels."
            )
    if not judged:
        raise DataError("the qrels are empty: a run is measured against at least one judgement.")
    return judged


def _falling(query: str, hits: Sequence[Hit]) -> Mapping[str, float]:
    """Scores that fall with the rank, whatever the hits' own scores (ties, log sums) are."""
    falling = {hit.item_id: float(len(hits) - rank) for rank, hit in enumerate(hits)}
    if len(falling) != len(hits):
        twice = Counter(hit.item_id for hit in hits).most_common(1)[0][0]
        raise DataError(
            f"query '{query}' has item '{twice}' twice among its {len(hits)} hits. "
            "Expected every item once: keep its best rank."
        )
    return falling
