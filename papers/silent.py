"""A speller that says nothing: every code is as likely as any other, so guides alone decide."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from trieline.model import Asked
from trieline.model.stepper import Prefixes
from trieline.types import Floats

__all__ = ["Silent"]

Ints = NDArray[np.int64]


class Silent:
    """In the place of a model (see ``trieline.model.stepper``)."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.sizes, self.device = sizes, torch.device("cpu")

    def stepper(self) -> _Silence:
        return _Silence(self.sizes)


class _Silence:
    def __init__(self, sizes: tuple[int, ...]) -> None:
        self._sizes, self.used = sizes, 0

    def begin(self, asked: Asked) -> Prefixes:
        return self._more(asked.queries, keep=True)

    def extend(
        self, parents: Ints, codes: Ints, levels: Ints, queries: Ints, *, keep: bool = True
    ) -> Prefixes:
        return self._more(len(parents), keep)

    def logits(self, states: torch.Tensor, level: int) -> Floats:
        return np.zeros((len(states), self._sizes[level]), np.float32)

    def totals(self, states: torch.Tensor) -> Floats:
        return np.full(len(states), np.log(sum(self._sizes)), np.float32)

    def _more(self, count: int, keep: bool) -> Prefixes:
        slots = np.arange(self.used, self.used + count)
        self.used += count if keep else 0
        return Prefixes(slots, torch.zeros(count, 0))
