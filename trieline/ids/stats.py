"""How docids are spread: which codes are used, how evenly, and where items still look alike.

Entropy of a level is that of its codes over all rows, in bits; perplexity is 2 to its power: the
number of codes that an even spread of the same entropy would use. The Gini coefficient of a level
is 0 where all its codes have as many rows and near 1 where a few codes have them all; unused codes
count.
The trap: full utilisation says little. What counts is how evenly codes are used (perplexity) and
how soon prefixes tell items apart (colliding).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.errors import IndexMismatch
from trieline.evaluate.table import Column, Table
from trieline.types import Codes

__all__ = ["LevelStats", "Stats", "stats"]


class LevelStats(NamedTuple):
    """One level."""

    level: int  # from 1
    size: int
    used: int  # codes with at least one row
    utilisation: float  # used / size
    entropy: float  # bits
    perplexity: float
    gini: float  # of the rows of each code
    prefixes: int  # different prefixes that end at this level
    colliding: float  # share of items that share their prefix with another item


class Stats(NamedTuple):
    """All levels, and the docids as a whole."""

    items: int
    rows: int  # an item owns one row or several
    docids: int  # different ones
    collision_rate: float  # share of items that share a docid with another item
    largest: int  # items of the most crowded docid
    levels: tuple[LevelStats, ...]

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {**self._asdict(), "levels": [level._asdict() for level in self.levels]}

    def tables(self) -> list[Table]:
        """For people: the docids as a whole, then level by level."""
        whole = (
            Column("items", ",d"),
            Column("rows", ",d"),
            Column("docids", ",d"),
            Column("collisions", ".1%"),
            Column("most items of a docid", ",d"),
        )
        columns = (
            Column("level", "d"),
            Column("codes", ",d"),
            Column("used", ",d"),
            Column("utilisation", ".1%"),
            Column("entropy", ".2f"),
            Column("perplexity", ",.1f"),
            Column("Gini", ".3f"),
            Column("prefixes", ",d"),
            Column("colliding", ".1%"),
        )
        return [
            Table(whole, (self[:5],), "docids"),
            Table(columns, self.levels, "codes of each level"),
        ]


def stats(codes: Codes, sizes: Sequence[int]) -> Stats:
    """The figures of ``codes`` [R, L]."""
    rows, depth = codes.codes.shape
    if depth != len(sizes):
        raise IndexMismatch(
            f"the docids have {depth} codes, but {len(sizes)} sizes were given: {tuple(sizes)}."
        )
    owners, owner = np.unique(codes.owner, return_inverse=True)
    groups = np.zeros(rows, dtype=np.int64)
    levels, largest = [], 0
    for level, size in enumerate(sizes):
        column = codes.codes[:, level].astype(np.int64)
        groups = np.unique(groups * 65536 + column, return_inverse=True)[1].astype(np.int64)
        colliding, largest = _crowding(groups, owner, len(owners))
        levels.append(_level(level + 1, column, size, groups, colliding))
    return Stats(
        items=len(owners),
        rows=rows,
        docids=int(groups.max(initial=-1)) + 1,
        collision_rate=levels[-1].colliding if levels else 0.0,
        largest=largest,
        levels=tuple(levels),
    )


def _level(
    number: int,
    column: NDArray[np.int64],
    size: int,
    groups: NDArray[np.int64],
    colliding: float,
) -> LevelStats:
    counts = np.bincount(column)
    counts = counts[counts > 0]
    shares = counts / max(1, len(column))
    entropy = float(-(shares * np.log2(shares)).sum()) + 0.0  # -0.0 becomes 0.0
    return LevelStats(
        level=number,
        size=size,
        used=len(counts),
        utilisation=len(counts) / size,
        entropy=entropy,
        perplexity=2.0**entropy,
        gini=_gini(counts, size),
        prefixes=int(groups.max(initial=-1)) + 1,
        colliding=colliding,
    )


def _gini(counts: NDArray[np.int64], size: int) -> float:
    """Of ``size`` codes, of which those with rows have ``counts``."""
    if not len(counts):
        return 0.0
    ranks = np.arange(size - len(counts) + 1, size + 1)  # the unused come first
    return float((2 * ranks - size - 1) @ np.sort(counts) / (size * counts.sum()))


def _crowding(
    groups: NDArray[np.int64], owner: NDArray[np.integer], owners: int
) -> tuple[float, int]:
    """Share of items in a group with another item, and the items of the largest group."""
    if not len(groups):
        return 0.0, 0
    pairs = np.sort(groups * owners + owner)
    pairs = pairs[np.diff(pairs, prepend=-1) > 0]  # rows of one item in one group count once
    group, who = np.divmod(pairs, owners)
    items = np.bincount(group)
    crowded = np.zeros(owners, dtype=np.bool_)
    crowded[who[items[group] > 1]] = True
    return float(crowded.mean()), int(items.max())
