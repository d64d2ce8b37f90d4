"""The best of many candidates, a query at a time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = ["best_of"]

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]


def best_of(select: Doubles, query: Ints, count: int, width: int) -> Ints:
    """The best ``width`` candidates of each query, best first; ties go to the earlier candidate.

    Candidates of minus infinity are forbidden and never kept.
    """
    bounds = np.searchsorted(query, np.arange(count + 1))
    kept = [low + _top(select[low:high], width) for low, high in pairwise(bounds)]
    return np.concatenate(kept) if kept else np.empty(0, np.int64)


def _top(scores: Doubles, width: int) -> Ints:
    if len(scores) > width:
        cut = np.partition(scores, len(scores) - width)[len(scores) - width]
        above = np.flatnonzero(scores > cut)
        tied = np.flatnonzero(scores == cut)[: width - len(above)]
        chosen = np.sort(np.concatenate([above, tied]))
    else:
        chosen = np.arange(len(scores))
    chosen = chosen[scores[chosen] > -np.inf]
    ranked: Ints = chosen[np.argsort(-scores[chosen], kind="stable")]
    return ranked
