"""From complete docids to items: shared docids give all their items, an item counts once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.decode.steps import Doubles, Ints
from trieline.index import Trie
from trieline.types import Floats, Step

__all__ = ["Complete", "Found", "Trace", "answer", "item_threshold"]

Trace = tuple[Step, ...]


class Found(NamedTuple):
    """The answers to one query, best first."""

    items: NDArray[np.uint32]  # [k] item numbers
    scores: Floats  # [k]
    leaves: Ints  # [k] the trie's leaf of each item's docid
    traces: tuple[Trace, ...]  # [k], empty unless asked for


class Complete(NamedTuple):
    """Docids of one query that were spelled out."""

    leaves: Ints  # [n] nodes of the last level
    scores: Doubles  # [n]


def answer(trie: Trie, complete: Complete, k: int) -> tuple[Found, Ints]:
    """The best ``k`` items, without traces, and which docid each came by.

    Equal scores are ordered by item number.
    """
    items, which = trie.items(complete.leaves)
    order = np.lexsort((items, -complete.scores[which]))
    _, first = np.unique(items[order], return_index=True)
    best = order[np.sort(first)][:k]
    chosen = which[best]
    scores = complete.scores[chosen].astype(np.float32)
    return Found(items[best].astype(np.uint32), scores, complete.leaves[chosen], ()), chosen


def item_threshold(trie: Trie, complete: Complete, k: int) -> float:
    """What a docid must score to change the best ``k`` items; minus infinity with fewer."""
    items, which = trie.items(complete.leaves)
    scores = complete.scores[which]
    order = np.argsort(-scores, kind="stable")
    _, first = np.unique(items[order], return_index=True)
    if len(first) < k:
        return -np.inf
    return float(scores[order[np.sort(first)[k - 1]]])
