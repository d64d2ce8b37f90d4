"""What an exact search keeps of one query: prefixes still to be read, and the best items so far.

Prefixes wait in *families*, the children of what one pass read, sorted once. Only the best waiting
prefix of each family is in the heap, so a pass costs what it reads and not what it could read.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["FOUND", "PREFIX", "Best", "Frontier", "Records"]

Records = NDArray[np.void]

PREFIX = np.dtype(
    [
        ("bound", np.float64),  # no docid below scores higher
        ("score", np.float64),  # the model's, so far
        ("slot", np.int64),  # of the prefix without its last code
        ("code", np.int64),  # its last code
        ("level", np.int64),  # how many codes it has
        ("node", np.int64),
        ("low", np.int64),  # rows low to high - 1 are below it
        ("high", np.int64),
        ("forced", np.bool_),  # one docid is below: the rest of its spelling is settled
        ("complete", np.bool_),  # and its score as well: it is the bound
    ]
)

FOUND = np.dtype(
    [
        ("score", np.float64),
        ("item", np.int64),
        ("level", np.int64),  # with ``node``: a prefix that only this item's docid has
        ("node", np.int64),
    ]
)


class Frontier:
    """Prefixes that nobody has read, best bound first; ties go to those that came first."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []  # -bound of its best waiting prefix, family
        self._families: list[Records] = []
        self._bounds: list[list[float]] = []
        self._next: list[int] = []

    @property
    def bound(self) -> float:
        """Nothing below any waiting prefix scores higher."""
        return -self._heap[0][0] if self._heap else -np.inf

    def push(self, family: Records) -> None:
        """``family`` is sorted by bound, the best first."""
        if len(family):
            bounds = family["bound"].tolist()
            heapq.heappush(self._heap, (-bounds[0], len(self._families)))
            self._families.append(family)
            self._bounds.append(bounds)
            self._next.append(0)

    def pop(self, most: int, floor: float) -> Records:
        """The best prefixes, at most so many, none with a bound below ``floor``."""
        first: dict[int, int] = {}
        left = most
        while left > 0 and self.bound >= floor and self._heap:
            family = self._heap[0][1]
            first.setdefault(family, self._next[family])
            self._next[family] += 1
            left -= 1
            if self._next[family] < len(self._bounds[family]):
                bound = self._bounds[family][self._next[family]]
                heapq.heapreplace(self._heap, (-bound, family))
            else:
                heapq.heappop(self._heap)
        taken = [self._families[f][start : self._next[f]] for f, start in first.items()]
        return np.concatenate(taken) if taken else np.empty(0, PREFIX)


class Best:
    """The ``k`` best items offered so far: by score, then item number; an item counts once."""

    def __init__(self, k: int) -> None:
        self.k = k
        self.found: Records = np.empty(0, FOUND)
        self.lost = -np.inf  # the best score of an item that had to go

    @property
    def floor(self) -> float:
        """What scores below it cannot be among the best any more."""
        return float(self.found["score"][-1]) if len(self.found) == self.k else -np.inf

    def offer(self, offered: Records) -> None:
        every: NDArray[Any] = np.concatenate([self.found, offered])
        every = every[np.lexsort((every["item"], -every["score"]))]
        _, first = np.unique(every["item"], return_index=True)
        once = every[np.sort(first)]
        if len(once) > self.k:
            self.lost = max(self.lost, float(once["score"][self.k]))
        self.found = once[: self.k]
