"""Docids judged by themselves, before any model learns to spell them.

Beside the figures of ``ids.stats``, and level by level:

    error left   squared distance of items from the partial reconstruction of the level, as a share
                 of that from their mean
    hit rate     embedding hit rate: of an item's k nearest items by vector (Euclidean, itself left
                 out), the share that has the same prefix; a mean over items
    by chance    the same with k items drawn at random in place of the nearest
    oracle       share of queries of which a relevant item's prefix is in the beam, when prefixes
                 are ranked by their partial reconstruction's similarity to the query (PRO)
    geometry     the same ranked by its distance (PRO Eq. 7 alone, without any model)

Judging ids without training by embedding hit rate and Gini is the idea of FORGE (2509.20904); the
definition of the hit rate is ours.
The trap: a level of few codes has a high hit rate by chance, so read it against that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.diagnose import prefixes
from trieline.errors import SettingsError
from trieline.evaluate.table import Cell, Column, Table
from trieline.ids import Stats
from trieline.ids.assign import reconstruct
from trieline.index import Trie
from trieline.types import Codes, Floats

__all__ = [
    "Judgement",
    "LevelJudgement",
    "error_left",
    "hit_rates",
    "nearest_items",
    "oracle_survival",
    "read_sizes",
    "schedule_of",
    "schedules_table",
    "written",
]

Ints = NDArray[np.int64]
Shares = list[float]

_BLOCK = 256  # items whose distances to all are held together


class LevelJudgement(NamedTuple):
    """One level; None is what cannot be known of these docids or was not asked."""

    error_left: float | None
    hit_rate: float | None
    by_chance: float | None
    oracle: float | None
    geometry: float | None


class Judgement(NamedTuple):
    """Docids of a corpus in figures."""

    sizes: tuple[int, ...]
    schedule: str  # of the levels whose codes stand for vectors: see ``schedule_of``
    stats: Stats
    levels: tuple[LevelJudgement, ...]
    near: int  # k of the hit rate
    looked_at: int  # items whose neighbours were looked at
    queries: int
    asked: str  # which queries: "dev", "pseudo"
    beam: int

    @property
    def bits(self) -> float:
        """Of a docid, each code taking no more than it needs."""
        return sum(math.log2(size) for size in self.sizes)

    @property
    def bytes(self) -> int:
        """Of a docid as it is stored, two a code."""
        return 2 * len(self.sizes)

    def to_json(self) -> dict[str, Any]:
        """For programs: the figures of ``stats``, and the others beside them."""
        told, own = self.stats.to_json(), self._asdict()
        del own["stats"]
        levels = [
            {**known, **more._asdict()}
            for known, more in zip(told["levels"], self.levels, strict=True)
        ]
        size = {"sizes": list(self.sizes), "bytes": self.bytes, "bits": self.bits}
        return {**told, **own, **size, "levels": levels}

    def tables(self) -> list[Table]:
        """For people: how codes are used, then what the docids know."""
        columns = (
            Column("level", "d"),
            Column("codes", ",d"),
            Column("prefixes", ",d"),
            Column("error left", ".1%"),
            Column("hit rate", ".1%"),
            Column("by chance", ".1%"),
            Column("oracle", ".1%"),
            Column("geometry", ".1%"),
        )
        rows: list[tuple[Cell, ...]] = [
            (known.level, known.size, known.prefixes, *more)
            for known, more in zip(self.stats.levels, self.levels, strict=True)
        ]
        title = f"hit rate of the {self.near} nearest of {self.looked_at:,} items"
        if not self.looked_at:
            title = "no vectors of items"
        if self.queries:
            title += f"; survival in a beam of {self.beam}, {self.queries:,} queries ({self.asked})"
        return [*self.stats.tables(), Table(columns, tuple(rows), title)]


def schedule_of(sizes: Sequence[int]) -> str:
    """How sizes change from the first level to the last: ascending, uniform, descending, mixed."""
    steps = list(pairwise(sizes))
    if all(a == b for a, b in steps):
        return "uniform"
    if all(a <= b for a, b in steps):
        return "ascending"
    return "descending" if all(a >= b for a, b in steps) else "mixed"


def schedules_table(judged: Sequence[Judgement]) -> Table:
    """One row a candidate, the best figures bold: to choose sizes by."""
    columns = (
        Column("sizes"),
        Column("schedule"),
        Column("bytes", "d"),
        Column("bits", ".1f"),
        Column("error left", ".1%", "low"),
        Column("collisions", ".1%", "low"),
        Column("Gini, mean", ".3f", "low"),
        *(Column(f"hit rate {level}", ".1%", "high") for level in (1, 2)),
        *(
            Column(f"{who} {level}", ".1%", "high")
            for who in ("oracle", "geometry")
            for level in (1, 2, "last")
        ),
    )
    rows = []
    for one in judged:
        first, last = one.levels[0], one.levels[-1]
        second = one.levels[min(1, len(one.levels) - 1)]
        row: list[Cell] = [written(one.sizes), one.schedule, one.bytes, one.bits]
        row += [last.error_left, one.stats.collision_rate]
        row.append(sum(level.gini for level in one.stats.levels) / len(one.levels))
        row += [first.hit_rate, second.hit_rate]
        row += [level.oracle for level in (first, second, last)]
        row += [level.geometry for level in (first, second, last)]
        rows.append(tuple(row))
    title = ""
    if judged and judged[0].queries:
        one = judged[0]
        title = f"survival in a beam of {one.beam}, {one.queries:,} queries ({one.asked}), by level"
    return Table(columns, tuple(rows), title)


def written(sizes: Sequence[int]) -> str:
    """Sizes in short, as the command line reads them: 64x2,128x6."""
    runs: list[list[int]] = []
    for size in sizes:
        if runs and runs[-1][0] == size:
            runs[-1][1] += 1
        else:
            runs.append([size, 1])
    return ",".join(f"{size}x{count}" if count > 1 else f"{size}" for size, count in runs)


def read_sizes(text: str) -> tuple[int, ...]:
    """The inverse of ``written``."""
    sizes: list[int] = []
    for run in text.split(","):
        size, _, count = run.strip().partition("x")
        try:
            sizes += [int(size)] * (int(count) if count else 1)
        except ValueError:
            raise SettingsError(
                f"sizes '{text}': expected codes a level, such as 256,256,512 or 256x2,512."
            ) from None
    return tuple(sizes)


def error_left(vectors: Floats, codes: Codes, codebooks: Sequence[Floats]) -> Shares | None:
    """Of each level; ``vectors`` [N, D] by item number. None where codes stand for no vectors."""
    if not any(book.any() for book in codebooks):
        return None
    items = vectors[codes.owner.astype(np.int64)]
    whole = float(((items - items.mean(axis=0)) ** 2).sum(dtype=np.float64))
    shares = []
    for level in range(len(codebooks)):
        left = items - reconstruct(codes.codes[:, : level + 1], codebooks)
        shares.append(float((left**2).sum(dtype=np.float64)) / max(whole, 1e-30))
    return shares


def nearest_items(vectors: Floats, probes: Ints, k: int) -> Ints:
    """int64[n, k]: the items nearest to each of some items, which are left out themselves.

    Fewer columns where there are not as many others.
    """
    k = min(k, len(vectors) - 1)
    halves = np.einsum("nd,nd->n", vectors, vectors) / 2
    found = np.empty((len(probes), k), np.int64)
    for low in range(0, len(probes), _BLOCK):
        own = probes[low : low + _BLOCK]
        near = vectors[own] @ vectors.T - halves
        near[np.arange(len(own)), own] = -np.inf
        found[low : low + _BLOCK] = np.argpartition(-near, k - 1, axis=1)[:, :k] if k else 0
    return found


def hit_rates(codes: Codes, probes: Ints, others: Ints, items: int) -> Shares:
    """Of each level: how many of the ``others`` [n, k] share a prefix with their probe [n].

    Items are numbered below ``items``; of an item of several docids any may share.
    """
    order = np.argsort(codes.owner, kind="stable")
    counts = np.bincount(codes.owner.astype(np.int64), minlength=items)
    most = int(counts.max(initial=0))
    held = np.full((items, most), -1, np.int64)  # the rows of each item
    held[np.arange(most) < counts[:, None]] = order
    group, shares = np.zeros(len(codes.codes), np.int64), []
    for column in codes.codes.T.astype(np.int64):
        group = np.unique(group * 65536 + column, return_inverse=True)[1].astype(np.int64)
        # Where an item has no further docid, probes and others have different places: no match.
        own = np.where(held >= 0, group[held], -1)
        other = np.where(held >= 0, group[held], -2)[others]  # [n, k, rows]
        same = (own[probes][:, None, :, None] == other[:, :, None, :]).any(axis=(2, 3))
        shares.append(float(same.mean()) if same.size else 0.0)
    return shares


def oracle_survival(
    trie: Trie,
    codebooks: Sequence[Floats],
    vectors: Floats,
    relevant: Sequence[Ints],
    beam: int,
) -> tuple[Shares, Shares]:
    """(by similarity, by distance): for each level the share of queries of which some relevant
    item's prefix is in the beam. ``relevant`` holds item numbers."""
    levels = prefixes.levels_of(trie)
    squares, owner = prefixes.squares_of(trie, levels, codebooks), trie.owner
    alive = np.zeros((2, len(vectors), trie.depth), np.bool_)
    for q, (query, wanted) in enumerate(zip(vectors, relevant, strict=True)):
        paths = prefixes.path_of(levels, np.flatnonzero(np.isin(owner, wanted)))  # [rows, L]
        for way, lengths in enumerate((None, squares)):
            scores = prefixes.partial_scores(levels, codebooks, query, lengths)
            for level, kept in enumerate(prefixes.oracle_beam(levels, scores, beam)):
                alive[way, q, level] = kept[paths[:, level]].any()
    similarity, distance = alive.mean(axis=1)
    return similarity.tolist(), distance.tolist()
