"""How many queries still have their answer's prefix in the beam after each level.

PRO, section 3 (prefix survival). A query with several relevant items survives a level when any of
their prefixes does; the cumulative figure counts a prefix only where all its shorter ones lived,
which a beam guarantees by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.decode.beam import Expansion
from trieline.index import Trie

__all__ = ["Survival", "SurvivalCounter", "survival"]


class Survival(NamedTuple):
    """Share of queries alive after each level, level 1 first."""

    levels: tuple[float, ...]
    queries: int


class SurvivalCounter:
    """Watches searches (``observe``) and counts. One per batch of queries, in batch order."""

    def __init__(self, trie: Trie, targets: Sequence[NDArray[np.uint16]]) -> None:
        """``targets[b]`` [rows, L] are the docids of the relevant items of query b."""
        rows = [np.asarray(t, dtype=np.uint16).reshape(-1, trie.depth) for t in targets]
        self._query = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
        self._path = trie.walk(np.concatenate(rows)) if rows else np.zeros((0, trie.depth + 1))
        self._alive = np.zeros((trie.depth, len(rows)), dtype=bool)

    def observe(self, expansion: Expansion) -> None:
        query, node = expansion.query[expansion.kept], expansion.nodes[expansion.kept]
        live = set(zip(query.tolist(), node.tolist(), strict=True))
        wanted = self._path[:, expansion.level + 1].tolist()
        for b, target in zip(self._query.tolist(), wanted, strict=True):
            if target >= 0 and (b, target) in live:
                self._alive[expansion.level, b] = True

    @property
    def alive(self) -> NDArray[np.bool_]:
        """[L, B]"""
        return self._alive


def survival(counters: Sequence[SurvivalCounter]) -> Survival:
    """All batches together."""
    if not counters:
        return Survival((), 0)
    alive = np.concatenate([counter.alive for counter in counters], axis=1)
    return Survival(tuple(float(share) for share in alive.mean(axis=1)), alive.shape[1])
