"""Planners: what thinks, before anything is spelled, which items may answer a query.

PAG (Lost in Decoding, Eq. 3) and ComGTIR (Eq. 7) score items by sets of tokens; ``GeometricPlan``
by their codes. ``LookAhead`` makes a guide of any of them.

The currency is rows of the trie, which are (docid, item) pairs in docid order: what is below a
prefix is then a slice of the plan, for items of several docids and docids of several items alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trieline.index import Trie
from trieline.types import Floats

__all__ = ["ItemRows", "Plan", "Planner"]

Ints = NDArray[np.int64]


class Plan(NamedTuple):
    """What a planner says to one query."""

    rows: Ints | None  # [n] rows of the trie, ascending, each once; None: all
    scores: Floats  # [n]
    floor: float = 0.0  # what all other rows are taken to score, at most


class Planner(Protocol):
    """Scores items for queries."""

    def plan(self, vectors: Floats, trie: Trie) -> Sequence[Plan]:
        """One plan a query; vectors [B, D] are the queries."""


class ItemRows:
    """The rows of each item in a trie: for planners that score items by number."""

    def __init__(self, trie: Trie) -> None:
        self._order = np.argsort(trie.owner, kind="stable")
        self._owner = trie.owner[self._order]

    def plan(self, items: ArrayLike, scores: ArrayLike, floor: float = 0.0) -> Plan:
        """A plan that gives every docid of an item the item's score.

        ``items`` [n], each once; those that the trie does not hold are passed over.
        """
        wanted, given = np.asarray(items, np.int64), np.asarray(scores, np.float32)
        low = np.searchsorted(self._owner, wanted, "left")
        count = np.searchsorted(self._owner, wanted, "right") - low
        which = np.repeat(np.arange(len(wanted)), count)
        place = np.arange(len(which)) + (low - (np.cumsum(count) - count))[which]
        rows = self._order[place]
        order = np.argsort(rows)
        return Plan(rows[order], given[which[order]], floor)
