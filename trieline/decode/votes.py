"""How much the votes on complete docids can still bring below a prefix.

Summed over all levels, PRO's vote (Eq. 7, see ``guides.Geometric``) is what a docid's full
reconstruction earns: omega * (2 q.r - r.r). It may be of either sign, so only the best one below a
prefix bounds what is still to come.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trieline.types import Floats

__all__ = ["highest"]

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]


def highest(votes: Floats, query: Ints, low: Ints, high: Ints, parents: Ints) -> Doubles:
    """The best of its query's votes in the rows ``low`` to ``high - 1`` of each child: [C].

    No child is empty, and the children of a parent stand together and share out its rows in order.
    """
    best = np.empty(len(low))
    starts = np.flatnonzero(np.diff(parents, prepend=-1))
    for first, end in pairwise([*starts.tolist(), len(low)]):
        rows = votes[query[first], low[first] : high[end - 1]]
        best[first:end] = np.maximum.reduceat(rows, low[first:end] - low[first])
    return best
