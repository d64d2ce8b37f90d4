"""PRO's objective written out with loops: slow, and plainly what the paper says."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


def rank_loss(
    queries: Array,
    items: Array,
    codes: NDArray[np.integer],
    books: Sequence[Array],
    *,
    tau: float,
    candidates: int,
    over: str = "prefixes",
    student: str = "product",
    asked: Array | None = None,
) -> float:
    """The mean over queries and levels of KL(teacher || student).

    The teacher compares ``queries`` with ``items``; the student compares ``asked`` (the same
    queries, unless they were moved) with what the codes stand for.
    """
    asked = queries if asked is None else asked
    total, by_distance = 0.0, student == "distance"
    for query, moved in zip(queries, asked, strict=True):
        alike = [float(query @ item) for item in items]
        best = sorted(range(len(items)), key=lambda j: -alike[j])[:candidates]
        for level in range(1, len(books) + 1):
            teacher: dict[object, float] = {}
            scored: dict[object, float] = {}
            for j in best:
                prefix = tuple(int(code) for code in codes[j, :level])
                key: object = prefix if over == "prefixes" else j
                teacher[key] = max(teacher.get(key, -math.inf), alike[j])
                words = [book[code] for book, code in zip(books, prefix, strict=False)]
                near = np.sum(words, axis=0)
                scored[key] = float(moved @ near) - by_distance * float(near @ near) / 2
            total += _divergence(list(teacher.values()), list(scored.values()), tau)
    return total / len(queries) / len(books)


def contrast(scores: Array, answers: Sequence[int], others: NDArray[np.bool_], tau: float) -> float:
    """InfoNCE summed over rows; a column that answers the row as well is left out."""
    total = 0.0
    for row, answer in enumerate(answers):
        kept = [j for j in range(scores.shape[1]) if j == answer or not others[row, j]]
        total += _log_sum([scores[row, j] / tau for j in kept]) - scores[row, answer] / tau
    return total


def left_over(vector: Array, codes: NDArray[np.integer], books: Sequence[Array]) -> float:
    """Eq. 24: squared residuals after each level, summed."""
    total, left = 0.0, vector.copy()
    for code, book in zip(codes, books, strict=True):
        left = left - book[code]
        total += float(left @ left)
    return total


def _divergence(teacher: list[float], student: list[float], tau: float) -> float:
    top = [score / tau for score in teacher]
    low = [score / tau for score in student]
    log_p = [score - _log_sum(top) for score in top]
    log_q = [score - _log_sum(low) for score in low]
    return sum(math.exp(p) * (p - q) for p, q in zip(log_p, log_q, strict=True))


def _log_sum(values: list[float]) -> float:
    most = max(values)
    return most + math.log(sum(math.exp(value - most) for value in values))
