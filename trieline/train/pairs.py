"""Pairs: which question should spell which item, and in what order an epoch goes through them.

Four things keep an epoch sensible on real collections:

- a query with hundreds of relevant items takes turns: at most ``per_query`` of its pairs an epoch,
  others the next time. Measures average over queries, so training should as well; in NFCorpus 1 %
  of the queries hold a fifth of all pairs;
- pseudo queries are a fixed share, however many of them were made; they take turns too;
- an item that no real query asks for gets one of its pseudo queries every epoch, even if that makes
  their share larger: what is never spelled in training is not spelled in a search;
- the order depends on seed and epoch alone, so a resumed run goes on with the same batches.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.errors import DataError
from trieline.types import Qrel

__all__ = ["Matched", "Pairs", "Plan", "join", "match"]

Ints = NDArray[np.int64]

_TURNS, _ORDER = 1, 2  # streams of random numbers of one seed (``batches`` has the next)


class Pairs(NamedTuple):
    """Questions and the items that answer them."""

    query: Ints  # [P] row of the questions
    item: Ints  # [P] item number
    pseudo: NDArray[np.bool_]  # [P] made from the item itself


class Matched(NamedTuple):
    """Judgements as pairs, and what could not be used."""

    pairs: Pairs
    unknown_queries: int  # judgements of queries that are not there
    unknown_items: int  # judgements of items that are not there


def match(
    qrels: Iterable[Qrel],
    queries: Mapping[str, int],
    items: Mapping[str, int],
    *,
    pseudo: bool = False,
) -> Matched:
    """The relevant judgements as numbers; every pair once. Unknown ids are counted."""
    found = array("q")
    unknown_queries = unknown_items = 0
    for qrel in qrels:
        if qrel.relevance <= 0:
            continue
        query, item = queries.get(qrel.query_id), items.get(qrel.item_id)
        unknown_queries += query is None
        unknown_items += item is None
        if query is not None and item is not None:
            found.extend((query, item))
    if not found and (unknown_queries or unknown_items):
        raise DataError(
            f"no judgement can be used: {unknown_queries} name queries and {unknown_items} name "
            "items that are not there. Check that qrels, queries and corpus belong together."
        )
    table = np.unique(np.array(found, np.int64).reshape(-1, 2), axis=0)
    pairs = Pairs(table[:, 0], table[:, 1], np.full(len(table), pseudo))
    return Matched(pairs, unknown_queries, unknown_items)


def join(real: Pairs, pseudo: Pairs, offset: int) -> Pairs:
    """Real and pseudo pairs together, where pseudo questions follow ``offset`` real ones."""
    return Pairs(
        np.concatenate([real.query, pseudo.query + offset]),
        np.concatenate([real.item, pseudo.item]),
        np.concatenate([real.pseudo, pseudo.pseudo]),
    )


class Plan:
    """Which pairs each epoch goes through, in which order; every epoch is of the same length."""

    def __init__(self, pairs: Pairs, *, pseudo_share: float, per_query: int, seed: int) -> None:
        """A share of 0 leaves pseudo pairs out, of 1 real ones, where both are there.

        ``per_query`` 0 puts all pairs of a query into every epoch.
        """
        self.seed = seed
        rng = np.random.default_rng((seed, _TURNS))
        real, pseudo = np.flatnonzero(~pairs.pseudo), np.flatnonzero(pairs.pseudo)
        if len(real) and len(pseudo):
            real = real if pseudo_share < 1.0 else real[:0]
            pseudo = pseudo if pseudo_share > 0.0 else pseudo[:0]
        lonely = pseudo[~np.isin(pairs.item[pseudo], pairs.item[real])]
        if not len(real):
            lonely = lonely[:0]  # all pseudo pairs are in every epoch anyway
        self.real = _Turns(real, pairs.query[real], per_query, rng)
        self.lonely = _Turns(lonely, pairs.item[lonely], 1, rng)
        self.pseudo = rng.permutation(pseudo)
        wanted = len(pseudo)
        if len(real) and len(pseudo):
            wanted = round(self.real.count * pseudo_share / (1.0 - pseudo_share))
        self.drawn = max(0, wanted - self.lonely.count)

    def __len__(self) -> int:
        """Pairs an epoch."""
        return self.real.count + self.lonely.count + self.drawn

    def epoch(self, number: int) -> Ints:
        """Positions in the pairs, in the order of this epoch (from 0)."""
        turn = np.arange(number * self.drawn, (number + 1) * self.drawn)
        drawn = self.pseudo[turn % max(len(self.pseudo), 1)]
        chosen = np.concatenate([self.real.of(number), self.lonely.of(number), drawn])
        return np.random.default_rng((self.seed, _ORDER, number)).permutation(chosen)


class _Turns:
    """At most ``most`` members of each group an epoch, all of them in turn."""

    def __init__(self, members: Ints, groups: Ints, most: int, rng: np.random.Generator) -> None:
        order = np.lexsort((rng.random(len(members)), groups))
        self.members = members[order]
        _, self.first, self.sizes = np.unique(groups[order], return_index=True, return_counts=True)
        self.takes = np.minimum(self.sizes, most) if most else self.sizes
        self.count = int(self.takes.sum())

    def of(self, epoch: int) -> Ints:
        """Members of this epoch: a window on each group that moves on by its own width."""
        group = np.repeat(np.arange(len(self.sizes)), self.takes)
        within = np.arange(self.count) - np.repeat(np.cumsum(self.takes) - self.takes, self.takes)
        place = (epoch * self.takes[group] + within) % self.sizes[group]
        chosen: Ints = self.members[self.first[group] + place]
        return chosen
