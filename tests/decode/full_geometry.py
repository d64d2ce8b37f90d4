"""The slow twin of ``GeometricPlan.scores``: every reconstruction added up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trieline.index import Trie
from trieline.types import Floats

_BLOCK = 4096


class FullGeometry:
    """The vote on each row of a trie; made once for a trie and asked for many queries."""

    def __init__(self, codebooks: Sequence[Floats], omega: float, trie: Trie) -> None:
        """``codebooks`` [V, D] of each level; all zero where codes do not stand for vectors."""
        self.codebooks = [np.asarray(book, np.float32) for book in codebooks]
        self.omega, self.codes = float(omega), trie.codes
        self.norms = np.zeros(len(self.codes), np.float32)  # r.r of each row
        for low in range(0, len(self.codes), _BLOCK):
            part = slice(low, low + _BLOCK)
            rebuilt = sum(
                book[self.codes[part, level]] for level, book in enumerate(self.codebooks)
            )
            self.norms[part] = np.einsum("rd,rd->r", rebuilt, rebuilt)

    def votes(self, vectors: Floats) -> Floats:
        """vectors [B, D] -> [B, R]"""
        near = np.zeros((len(vectors), len(self.codes)), np.float32)
        for level, book in enumerate(self.codebooks):
            near += (np.asarray(vectors, np.float32) @ book.T)[:, self.codes[:, level]]
        near *= 2.0  # in place: a million rows and a batch of queries fill memory fast enough
        near -= self.norms
        near *= self.omega
        return near
