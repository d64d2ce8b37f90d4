"""What else votes on a prefix while the beam is narrowed.

A guide gives each candidate two numbers: what the beam carries on with, and what only ranks this
once: select = carried + step + carry + look, and carried grows by step + carry. Guides add up.

Candidates travel flat, sorted by query: ``parents[c]`` is the live beam that candidate c extends,
``codes[c]`` the code it adds, ``nodes[c]`` where that leads in the trie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trieline.index import Trie
from trieline.types import Floats

__all__ = ["Geometric", "Guide", "Score"]

Ints = NDArray[np.int64]

_FEW = 16  # below a sixteenth of the codes, single products are cheaper than the whole matrix


class Score(NamedTuple):
    """A guide's vote on each candidate: float [C], or None where it has no say.

    Minus infinity forbids a candidate: it is never kept, as if it did not exist.
    """

    carry: NDArray[np.floating[Any]] | None = None
    look: NDArray[np.floating[Any]] | None = None


class Guide(Protocol):
    """Votes on candidates; its state follows the beams."""

    @property
    def name(self) -> str:
        """What explanations call it."""

    def start(self, vectors: Floats, trie: Trie) -> Any:
        """State of one live beam a query (the empty prefix); vectors [B, D] are the queries."""

    def score(self, state: Any, level: int, parents: Ints, codes: Ints, nodes: Ints) -> Score:
        """The vote on each candidate."""

    def follow(self, state: Any, level: int, parents: Ints, codes: Ints) -> Any:
        """State after beam i became the child ``codes[i]`` of the old beam ``parents[i]``."""


class Geometric:
    """The codebook votes: how much nearer a code brings the reconstruction to the query.

    PRO Eq. 7: omega * (2 r.c - c.c) with r = query - partial reconstruction. Summed over all levels
    it is |q|^2 - |q - reconstruction|^2. The released code standardises the bias over the codebook
    first, so its omega is not the paper's; ``standardise`` gives that, and sums to nothing simple.
    """

    name = "geometry"

    def __init__(
        self, codebooks: Sequence[Floats], omega: float, standardise: bool = False
    ) -> None:
        self.codebooks = [np.ascontiguousarray(book, dtype=np.float32) for book in codebooks]
        self.norms = [np.einsum("vd,vd->v", book, book) for book in self.codebooks]
        self.omega, self.standardise = float(omega), standardise

    def start(self, vectors: Floats, trie: Trie) -> Floats:
        return np.asarray(vectors, dtype=np.float32)  # residuals [n, D]

    def table(self, state: Floats, level: int) -> Floats:
        """float32[n, V]: the vote for every code of the level, legal or not, of every live beam."""
        bias = 2.0 * (state @ self.codebooks[level].T) - self.norms[level]
        if self.standardise:
            spread = bias.std(axis=1, keepdims=True)
            bias = (bias - bias.mean(axis=1, keepdims=True)) / np.maximum(spread, 1e-6)
        votes: Floats = np.float32(self.omega) * bias
        return votes

    def score(self, state: Floats, level: int, parents: Ints, codes: Ints, nodes: Ints) -> Score:
        """Beams with few children, which are most of them below the first levels, are spared the
        whole table. Whether one is depends on its own children alone, not on the batch."""
        size = len(self.codebooks[level])
        fan_out = np.bincount(parents, minlength=len(state))
        full = np.flatnonzero(self.standardise | (fan_out > size / _FEW))
        votes = np.empty(len(codes), np.float32)
        row = np.full(len(state), -1, np.int64)
        row[full] = np.arange(len(full))
        listed = row[parents] >= 0
        if len(full):
            votes[listed] = self.table(state[full], level)[row[parents[listed]], codes[listed]]
        alone = np.flatnonzero(~listed)
        words = self.codebooks[level][codes[alone]]
        near = 2.0 * np.einsum("cd,cd->c", state[parents[alone]], words)
        votes[alone] = np.float32(self.omega) * (near - self.norms[level][codes[alone]])
        return Score(carry=votes)

    def follow(self, state: Floats, level: int, parents: Ints, codes: Ints) -> Floats:
        residuals: Floats = state[parents] - self.codebooks[level][codes]
        return residuals
