"""Pseudo queries that are vectors: for items that nobody asked for, whatever they are made of.

An item's own vector, and borrowed ones: where queries lie beside their items, new ones should lie
beside an item like theirs. Of a near item x that a real query q asks for, the step from x to q is
taken from the item itself: p + (q - x), all as directions.

Items without a query of their own are spelled in training then, and a step between two kinds of
vectors (a caption never lies where its picture does) is learnt for them too. The trap: an item's
own queries say more than borrowed ones, and are there to be borrowed; so an item never lends to
itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.ids.vectors import unit
from trieline.train.pairs import Ints, Pairs
from trieline.types import Floats

__all__ = ["Borrowed", "borrow"]

_STREAM = 5  # of random numbers; ``pairs``, ``batches`` and ``learner`` have the first four
_NEAR = 8  # items that lend
_BLOCK = 1024  # items compared at a time


class Borrowed(NamedTuple):
    """Questions made for items."""

    vectors: Floats  # [M, D]
    items: Ints  # [M] item number


def borrow(items: Floats, queries: Floats, real: Pairs, count: int, seed: int) -> Borrowed:
    """``count`` questions for each item, of the steps that ``real`` pairs take; none without any.

    They are as long as the queries they are borrowed from.
    """
    lenders = np.unique(real.item)
    if not count or len(lenders) < 2:
        return Borrowed(np.empty((0, items.shape[1]), np.float32), np.empty(0, np.int64))
    rng = np.random.default_rng((seed, _STREAM))
    order = np.argsort(real.item, kind="stable")
    first = np.searchsorted(real.item[order], lenders)
    sizes = np.diff([*first, len(order)])
    near = _near(unit(items), lenders)  # [N, near]
    chosen = np.take_along_axis(near, rng.integers(near.shape[1], size=(len(items), count)), axis=1)
    at = (rng.random(chosen.shape) * sizes[chosen]).astype(np.int64)
    pairs = order[first[chosen] + at].ravel()
    owner = np.repeat(np.arange(len(items)), count)
    asked = queries[real.query[pairs]]
    moved = unit(items[owner]) + unit(asked) - unit(items[real.item[pairs]])
    vectors: Floats = unit(moved) * np.linalg.norm(asked, axis=1, keepdims=True)
    return Borrowed(vectors.astype(np.float32), owner)


def _near(items: Floats, lenders: Ints) -> NDArray[np.int64]:
    """int64[N, near]: places among the lenders of those nearest to each item, not itself."""
    many = min(_NEAR, len(lenders) - 1)
    found = []
    for start in range(0, len(items), _BLOCK):
        block = np.arange(start, min(start + _BLOCK, len(items)))
        near = items[block] @ items[lenders].T
        near[block[:, None] == lenders] = -np.inf
        found.append(np.argpartition(-near, many - 1, axis=1)[:, :many])
    return np.concatenate(found)
