"""The least that a search can take: its matrix products alone, on the rows that it really read.

A search is run once and the number of rows of each of its passes is written down. Then the
products of those passes are timed and nothing else: packed weights of the same shapes, inputs that
are ready. Attention, norms, caches, the trie and all of Python are what the engine adds to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trieline.model import Asked
from trieline.model.linear import Linear, Rows, narrowed
from trieline.model.packed import PackedSpeller, PackedStepper
from trieline.model.stepper import Prefixes

__all__ = ["Counted", "Pass", "products"]


class Pass(NamedTuple):
    """Products of one kind on so many rows: the layers (level -1), or the head of a level."""

    rows: int
    level: int


class Counted:
    """A speller that writes down what it is asked for."""

    def __init__(self, speller: PackedSpeller) -> None:
        self.speller, self.passes = speller, list[Pass]()
        self.sizes, self.device = speller.sizes, speller.device

    def stepper(self) -> Any:
        return _Counting(self.speller, self.passes)

    @property
    def rows(self) -> int:
        """That went through the layers."""
        return sum(some.rows for some in self.passes if some.level < 0)


class _Counting(PackedStepper):
    def __init__(self, speller: PackedSpeller, passes: list[Pass]) -> None:
        super().__init__(speller)
        self.passes = passes

    def begin(self, asked: Asked) -> Prefixes:
        self.passes.append(Pass(asked.queries, -1))
        return super().begin(asked)

    def extend(self, parents: Any, *rest: Any, **options: Any) -> Prefixes:
        self.passes.append(Pass(len(parents), -1))
        return super().extend(parents, *rest, **options)

    def logits(self, states: Tensor, level: int) -> Any:
        self.passes.append(Pass(len(states), level))
        return super().logits(states, level)


def products(counted: Counted) -> Callable[[], None]:
    """What runs the products of the passes that were counted."""
    speller = counted.speller
    alone = speller.speller.reader.__class__.__name__ == "VectorReader"
    # [inputs, outputs) of each product of a layer, and how often it stands in one
    width, inner = speller.speller.alphabet.width, speller.inner
    hidden = speller.speller.decoder.shape.feed_forward
    ready: dict[tuple[int, int], Rows] = {}

    def given(rows: int, columns: int) -> Rows:
        if (rows, columns) not in ready:
            x = torch.randn(rows, columns)
            if speller.precision != "fp32":
                x = x.bfloat16()
            made = Rows(x, torch.ones(rows).numpy())
            ready[rows, columns] = narrowed(made) if speller.precision == "int8" else made
        return ready[rows, columns]

    work: list[tuple[Linear, Rows, bool]] = []
    for some in counted.passes:
        x = given(some.rows, width)
        if some.level >= 0:
            work.append((speller.spelled[some.level], x, False))
            continue
        for layer in speller.layers:
            work.append((layer.look_back, x, False))
            work.append((layer.say_back, given(some.rows, inner), False))
            if not alone:
                work.append((layer.ask, x, False))
                work.append((layer.say_query, given(some.rows, inner), False))
            work.append((layer.up, x, True))
            work.append((layer.down, given(some.rows, hidden), False))

    @torch.inference_mode()
    def run() -> None:
        for linear, rows, relu in work:
            linear(rows, relu)

    return run
