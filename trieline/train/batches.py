"""Batches: the questions and target docids of every step, the same whenever a step is asked for.

GENIUS (Kim et al. 2025), query augmentation: a part of the query vectors is mixed with the vector
of their item, dimension by dimension, ``sqrt(s) q + sqrt(1 - s) p`` with s ~ Beta(a, a).

The trap: what is drawn for a step must depend on seed and step alone, not on how many steps came
before in this process, nor on how the step is cut into smaller batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trieline.config import TrainSettings
from trieline.errors import DataError, DimensionError, IndexMismatch
from trieline.model.questions import Questions
from trieline.model.readers import Asked
from trieline.train.pairs import Ints, Pairs, Plan
from trieline.types import Codes, Floats

__all__ = ["Batch", "Batches", "interpolate"]

_STEP = 3  # the stream of random numbers of one step; ``pairs`` has the first two


class Batch(NamedTuple):
    """What goes through the model at once."""

    asked: Asked
    targets: Tensor  # int64 [B, L]
    share: float  # of the whole step: the weight of one of these questions is 1 / step size


class _Drawn(NamedTuple):
    """What chance decides about a step, before it is cut into batches."""

    pairs: Ints  # [S] positions in the pairs
    rows: Ints  # [S] which of its item's docids each is to spell
    mixed: Ints  # [M] places in the step whose query is mixed with its item
    amounts: Floats  # [M, D] how much of the query stays


class Batches:
    """The steps of a training run."""

    def __init__(
        self,
        questions: Questions,
        pairs: Pairs,
        codes: Codes,
        sizes: Sequence[int],
        settings: TrainSettings,
        item_vectors: Floats | None = None,
    ) -> None:
        _check(questions, pairs, codes, sizes, item_vectors)
        self.questions, self.pairs, self.codes = questions, pairs, codes
        self.settings, self.item_vectors = settings, item_vectors
        self.plan = Plan(
            pairs,
            pseudo_share=settings.pseudo_share,
            per_query=settings.pairs_per_query,
            seed=settings.seed,
        )
        self.step_size = settings.batch * settings.accumulate
        self.steps_per_epoch = -(-len(self.plan) // self.step_size)
        self.by_owner = np.argsort(codes.owner, kind="stable")
        numbers = np.arange(int(codes.owner.max()) + 2)
        self.first = np.searchsorted(codes.owner[self.by_owner], numbers)
        self._epoch: tuple[int, Ints] = (-1, np.empty(0, np.int64))

    def size_of(self, number: int) -> int:
        """Questions in a step."""
        at = number % self.steps_per_epoch
        return min(self.step_size, len(self.plan) - at * self.step_size)

    def step(self, number: int, rank: int = 0, world: int = 1) -> Iterator[Batch]:
        """The batches of a step (from 0); of ``world`` processes each takes every world-th pair."""
        drawn = self._draw(number)
        count = len(drawn.pairs)
        for low in range(0, count, self.settings.batch):
            high = min(low + self.settings.batch, count)
            places = np.arange(low + rank, high, world)
            if len(places):
                yield self._batch(drawn, places, len(places) / count)
            else:  # every process takes part in every batch, if only with nothing
                yield self._batch(drawn, np.arange(low, low + 1), 0.0)

    def _draw(self, number: int) -> _Drawn:
        epoch, at = divmod(number, self.steps_per_epoch)
        if self._epoch[0] != epoch:
            self._epoch = (epoch, self.plan.epoch(epoch))
        pairs = self._epoch[1][at * self.step_size : (at + 1) * self.step_size]
        rng = np.random.default_rng((self.settings.seed, _STEP, number))
        items = self.pairs.item[pairs]
        first, count = self.first[items], self.first[items + 1] - self.first[items]
        rows = self.by_owner[first + (rng.random(len(items)) * count).astype(np.int64)]
        if self.item_vectors is None or not self.settings.interpolate:
            return _Drawn(pairs, rows, np.empty(0, np.int64), np.empty((0, 0), np.float32))
        mixed = np.flatnonzero(rng.random(len(pairs)) < self.settings.interpolate_share)
        alpha, shape = self.settings.interpolate, (len(mixed), self.item_vectors.shape[1])
        return _Drawn(pairs, rows, mixed, rng.beta(alpha, alpha, shape).astype(np.float32))

    def _batch(self, drawn: _Drawn, places: Ints, share: float) -> Batch:
        pairs = drawn.pairs[places]
        asked = self.questions.batch(self.pairs.query[pairs])
        if len(drawn.mixed):
            asked = self._mix(asked, drawn, places)
        targets = self.codes.codes[drawn.rows[places]].astype(np.int64)
        return Batch(asked, torch.from_numpy(targets), share)

    def _mix(self, asked: Asked, drawn: _Drawn, places: Ints) -> Asked:
        assert asked.vector is not None and self.item_vectors is not None
        _, here, amount = np.intersect1d(places, drawn.mixed, return_indices=True)
        items = self.pairs.item[drawn.pairs[places[here]]]
        vectors = asked.vector.numpy().copy()
        vectors[here] = interpolate(vectors[here], self.item_vectors[items], drawn.amounts[amount])
        return asked._replace(vector=torch.from_numpy(vectors))


def interpolate(queries: Floats, items: Floats, amounts: NDArray[np.floating]) -> Floats:
    """sqrt(s) q + sqrt(1 - s) p for directions q and p, as long as the query was: [B, D] each."""
    lengths = np.linalg.norm(queries, axis=1, keepdims=True)
    mixed = np.sqrt(amounts) * (queries / np.maximum(lengths, 1e-12))
    mixed += np.sqrt(1 - amounts) * _unit(items)
    result: Floats = (_unit(mixed) * lengths).astype(np.float32)
    return result


def _unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Floats = vectors / np.maximum(lengths, 1e-12)
    return unit


def _check(
    questions: Questions,
    pairs: Pairs,
    codes: Codes,
    sizes: Sequence[int],
    item_vectors: Floats | None,
) -> None:
    if not len(pairs.query):
        raise DataError(
            "there is nothing to train on: no judged query and no pseudo query. Give training "
            "queries with qrels, or items with text and train.titles or train.crops."
        )
    if pairs.query.min() < 0 or pairs.query.max() >= len(questions):
        raise DataError(
            f"pairs ask questions {pairs.query.min()} to {pairs.query.max()}, but there are "
            f"{len(questions)} questions."
        )
    if codes.codes.shape[1] != len(sizes) or (codes.codes >= np.array(sizes)).any():
        raise IndexMismatch(
            f"the docids have {codes.codes.shape[1]} levels with codes up to "
            f"{codes.codes.max(axis=0, initial=0).tolist()}, the model spells sizes "
            f"{list(sizes)}. Build the model for these docids."
        )
    without = np.setdiff1d(pairs.item, codes.owner)
    if len(without):
        raise DataError(
            f"{len(without)} items are asked for but have no docid, item number {without[0]} "
            "for one. Assign docids to all items before training."
        )
    if item_vectors is not None and len(item_vectors) <= pairs.item.max():
        raise DimensionError(
            f"pairs name item number {pairs.item.max()}, but there are {len(item_vectors)} item "
            "vectors. Give one for each item number."
        )
