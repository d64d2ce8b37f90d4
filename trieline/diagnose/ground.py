"""What survival is measured on: the prefixes of an index, its vectors, and each query's target.

A query has one target, as in the paper: of its relevant items the one most similar to it, and where
that has several docids the one with the best reconstruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.decode import Guide
from trieline.decode.steps import Normalise
from trieline.diagnose import prefixes
from trieline.errors import SettingsError
from trieline.index import Trie
from trieline.model import Asked
from trieline.model.stepper import Spells
from trieline.types import Floats

__all__ = ["Aim", "Asking", "Decoder", "Ground", "aims_of", "ground_of"]

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]


class Ground(NamedTuple):
    """What all queries of an index are measured on."""

    trie: Trie
    levels: list[prefixes.Level]
    codebooks: Sequence[Floats]  # [V, D] of each level
    used: list[Ints]  # codes of each level that some docid has
    vectors: Floats  # [R, D] the item vector of each row


class Decoder(NamedTuple):
    """How an index spells."""

    speller: Spells
    normalise: Normalise
    guides: Sequence[Guide]


class Asking(NamedTuple):
    """A batch of Q queries."""

    asked: Asked
    vectors: Floats  # [Q, D]
    relevant: Sequence[Ints]  # [Q] item numbers, one or more a query


class Aim(NamedTuple):
    """The target of one query, and what oracle and teacher say."""

    row: int
    codes: Ints  # [L]
    path: Ints  # [L] the places of its prefixes
    oracle: list[Doubles]  # q.x of every prefix's partial reconstruction, level by level
    teacher: Floats  # [R] q.x of every row's item


def ground_of(trie: Trie, codebooks: Sequence[Floats], vectors: Floats) -> Ground:
    """``vectors`` [N, D] by item number."""
    if not any(book.any() for book in codebooks):
        raise SettingsError(
            "these docids stand for no vectors (only ids.scheme = 'residual' has some), so there "
            "is no quantised oracle. 'trieline diagnose search' and 'trieline explain' tell what "
            "beams lose with any docids."
        )
    levels = prefixes.levels_of(trie)
    used = [np.unique(level.code) for level in levels]
    return Ground(trie, levels, codebooks, used, vectors[trie.owner.astype(np.int64)])


def aims_of(ground: Ground, asking: Asking) -> list[Aim]:
    """The targets of a batch."""
    owner = ground.trie.owner
    similar = asking.vectors @ ground.vectors.T  # [Q, R]
    return [
        _aim(ground, query, np.flatnonzero(np.isin(owner, wanted)), teacher)
        for query, wanted, teacher in zip(asking.vectors, asking.relevant, similar, strict=True)
    ]


def _aim(ground: Ground, query: Floats, rows: Ints, teacher: Floats) -> Aim:
    oracle = prefixes.partial_scores(ground.levels, ground.codebooks, query)
    full = oracle[-1][prefixes.path_of(ground.levels, rows)[:, -1]]
    row = int(rows[np.lexsort((rows, -full, -teacher[rows]))[0]])
    path = prefixes.path_of(ground.levels, row)
    codes = [level.code[place] for level, place in zip(ground.levels, path, strict=True)]
    return Aim(row, np.array(codes, np.int64), path, oracle, teacher)
