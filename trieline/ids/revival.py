"""Words that nobody uses any more, and where they begin again.

The trap: comparing a count per step with a fixed 2 replaces half of a large codebook at every step.
Here a word is dead when its moving count stays below a share of the mean count for many steps, and
counts are those of the whole batch, whichever way it is cut.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trieline.ids.assign import reconstruct
from trieline.types import Floats

__all__ = ["Revival"]


class Revival:
    """Moving counts of the words of each level; ``restarts`` names the dead ones."""

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        decay: float = 0.9,
        dead: float = 0.02,
        patience: int = 20,
        seed: int = 0,
    ) -> None:
        self.decay = decay
        self.dead = dead  # of the mean count
        self.patience = patience  # steps
        self.revived = 0
        self.counts: list[NDArray[np.float64]] = []
        self._sizes = tuple(sizes)
        self._rng = np.random.default_rng(seed)
        self._quiet = [np.zeros(size, dtype=np.int64) for size in sizes]

    def begin(self, items: int) -> None:
        """Before the first step: every word as if it got its share of a batch of ``items``."""
        if not self.counts:
            self.counts = [np.full(size, items / size) for size in self._sizes]

    def count(self, level: int, seen: NDArray[np.float64]) -> None:
        """Move the counts of a level by those of one whole batch."""
        self.counts[level] = self.decay * self.counts[level] + (1 - self.decay) * seen

    def restarts(
        self, level: int, batch: Floats, codes: NDArray[np.uint16], books: Sequence[Floats]
    ) -> tuple[NDArray[np.intp], Floats]:
        """Dead words [n] of a level and their restarts [n, D]: what an item of the batch lacks.

        ``codes`` are the batch's under ``books``. Restarted words get the mean count.
        """
        mean = self.counts[level].mean()
        quiet = self.counts[level] < self.dead * mean
        self._quiet[level] = np.where(quiet, self._quiet[level] + 1, 0)
        gone = np.flatnonzero(self._quiet[level] >= self.patience)[: len(batch)]
        if not len(gone):
            return gone, batch[:0]
        rows = self._rng.choice(len(batch), len(gone), replace=False)
        word = books[level][codes[rows, level]]
        self.counts[level][gone] = mean
        self._quiet[level][gone] = 0
        self.revived += len(gone)
        return gone, batch[rows] - reconstruct(codes[rows], books) + word
