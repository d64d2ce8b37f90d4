"""Whether one run is better than another, or lucky: paired tests over the same queries.

The randomisation test swaps the two systems query by query (Smucker, Allan and Carterette, CIKM
2007); the interval of the mean difference is a paired bootstrap; Holm's correction is for many
comparisons at once.
Trap: with three seeds of a model the queries are paired, the seeds are not: compare run with run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.errors import DataError, SettingsError
from trieline.evaluate.score import Scores

__all__ = ["Comparison", "compare", "holm"]

_BLOCK = 1 << 21  # random numbers drawn at a time: 16 MB

Doubles = NDArray[np.float64]


class Comparison(NamedTuple):
    """What separates system ``a`` from system ``b`` on one measure."""

    measure: str
    queries: int
    mean_a: float
    mean_b: float
    difference: float  # mean_a - mean_b
    low: float  # bootstrap interval of the difference
    high: float
    p_value: float  # two-sided randomisation test
    t_p_value: float  # two-sided paired t-test
    wins: int  # queries on which a is better
    losses: int
    ties: int


def compare(
    a: Scores,
    b: Scores,
    measures: Sequence[str] | None = None,
    *,
    rounds: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> list[Comparison]:
    """Compare two runs on the measures both have, query by query."""
    if rounds < 1:
        raise SettingsError(f"rounds = {rounds}: expected at least 1; 10000 is usual.")
    if not 0 < confidence < 1:
        raise SettingsError(f"confidence = {confidence}: expected a share between 0 and 1.")
    return [
        _compare(name, *_paired(a, b, name), rounds, confidence, seed)
        for name in _shared(a, b, measures)
    ]


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for being several (Holm 1979), in the order given."""
    p = np.asarray(p_values, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise SettingsError(f"p-values lie between 0 and 1, got {list(p_values)}.")
    order = np.argsort(p, kind="stable")
    steps = p[order] * np.arange(len(p), 0, -1)
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [float(value) for value in corrected]


def _shared(a: Scores, b: Scores, measures: Sequence[str] | None) -> list[str]:
    both = [name for name in a.per_query if name in b.per_query]
    wanted = both if measures is None else list(measures)
    missing = [name for name in wanted if name not in both]
    if missing or not wanted:
        raise SettingsError(
            f"no comparison on '{', '.join(missing)}': measured in both runs: "
            f"{', '.join(both) or 'nothing'}. Score both runs with the same measures."
        )
    return wanted


def _paired(a: Scores, b: Scores, measure: str) -> tuple[Doubles, Doubles]:
    left, right = a.per_query[measure], b.per_query[measure]
    if left.keys() != right.keys():
        lone = sorted(left.keys() ^ right.keys())
        raise DataError(
            f"the two runs were scored on different queries: {len(lone)} of them in one only, "
            f"e.g. '{lone[0]}'. Score both against the same qrels."
        )
    # Sorted, so that the order of the qrels does not change the drawn samples.
    queries = sorted(left)
    return (
        np.array([left[query] for query in queries], dtype=np.float64),
        np.array([right[query] for query in queries], dtype=np.float64),
    )


def _compare(
    measure: str, a: Doubles, b: Doubles, rounds: int, confidence: float, seed: int
) -> Comparison:
    differences = a - b
    low, high = _interval(differences, rounds, confidence, seed)
    return Comparison(
        measure,
        len(a),
        float(a.mean()),
        float(b.mean()),
        float(differences.mean()),
        low,
        high,
        _randomised(differences, rounds, seed),
        _t_test(differences),
        int((differences > 0).sum()),
        int((differences < 0).sum()),
        int((differences == 0).sum()),
    )


def _randomised(differences: Doubles, rounds: int, seed: int) -> float:
    """Share of sign flips with a mean at least as far from zero, the observed one counted in."""
    moving = differences[differences != 0]  # ties stay zero whichever way they are swapped
    if not len(moving):
        return 1.0
    # Sums of the same numbers in other orders differ in the last bits: do not let that decide.
    bar = abs(moving.sum()) - 1e-9 * np.abs(moving).sum()

    def extreme(rng: np.random.Generator, n: int) -> Doubles:
        signs = rng.integers(0, 2, (n, len(moving)), dtype=np.int8)
        sums: Doubles = 2.0 * (signs @ moving) - moving.sum()
        return sums

    sums = _draw(extreme, len(moving), rounds, seed)
    return float((1 + (np.abs(sums) >= bar).sum()) / (1 + rounds))


def _interval(
    differences: Doubles, rounds: int, confidence: float, seed: int
) -> tuple[float, float]:
    n_queries = len(differences)

    def means(rng: np.random.Generator, n: int) -> Doubles:
        sample: Doubles = differences[rng.integers(0, n_queries, (n, n_queries))].mean(axis=1)
        return sample

    sampled = _draw(means, n_queries, rounds, seed)
    low, high = np.quantile(sampled, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _draw(
    sample: Callable[[np.random.Generator, int], Doubles], width: int, rounds: int, seed: int
) -> Doubles:
    """``rounds`` samples of ``width`` random numbers each, in blocks of bounded size."""
    rng = np.random.default_rng(seed)
    block = max(1, _BLOCK // width)
    return np.concatenate(
        [sample(rng, min(block, rounds - start)) for start in range(0, rounds, block)]
    )


def _t_test(differences: Doubles) -> float:
    if len(differences) == 1 or not differences.any():  # the test says nothing
        return 1.0
    spread = differences.std(ddof=1)
    if spread == 0:  # the same difference on every query
        return 0.0
    from scipy.stats import t

    statistic = differences.mean() / (spread / np.sqrt(len(differences)))
    return float(2 * t.sf(abs(statistic), len(differences) - 1))
