"""Figures on the prefix survival of an index: per level, against the bound, and what foretells it.

PRO: the curves of Figures 2a and 6a, the means of Table 1, the fifths of Figures 2c, 4 and 5, and
how many queries Theorem 2 certifies. ``charts`` draws them. The paper gives one Spearman figure
(-.59) and not what it is over; here there is one a level, and one over levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.diagnose import bound
from trieline.diagnose.fifths import Fifths, fifths_of, spearman
from trieline.diagnose.retention import Retention
from trieline.evaluate.table import Cell, Column, Table

__all__ = ["LevelPruning", "Pruning", "pruning_of"]

Bools = NDArray[np.bool_]


class LevelPruning(NamedTuple):
    """One level. Shares and means are over queries; None is what was not measured."""

    level: int  # from 1
    prefixes: int  # distinct ones
    oracle_token: float  # see ``retention`` for these six
    oracle_legal: float
    oracle_beam: float
    decoder_token: float
    decoder_legal: float
    decoder_beam: float
    divergence: float  # mean K
    margin: float  # mean m
    positive: float  # share with m > 0: the teacher ranks the target among the B best
    mismatch: float | None  # mean epsilon
    oracle_certified: int  # queries for which Lemma A.7 holds here
    oracle_certified_so_far: int  # ... and at all levels before
    certified: int | None  # queries for which Theorem 2's condition holds here
    certified_so_far: int | None
    forks: int  # queries for which several codes may follow the prefix of the level before
    helped: float | None  # share of these where more geometry lessens the mismatch (Prop. A.9)


class Pruning(NamedTuple):
    """An index and some queries. What each query gave is in ``queries``, and not in the JSON."""

    beam: int
    tau: float
    levels: tuple[LevelPruning, ...]
    fifths: tuple[Fifths, ...]
    divergence_rho: float | None  # mean K of a query against the levels its target survives
    margin_rho: float | None  # the same of m; both for the oracle's beam
    queries: Retention

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "queries": len(self.queries.error),
            "beam": self.beam,
            "tau": self.tau,
            "levels": [level._asdict() for level in self.levels],
            "fifths": [fifths.to_json() for fifths in self.fifths],
            "divergence_rho": self.divergence_rho,
            "margin_rho": self.margin_rho,
        }

    def tables(self) -> list[Table]:
        """For people: survival, the bound, then the fifths of each quantity."""
        found = [_survival(self), _bound(self)]
        for factor, title in _FACTORS.items():
            own = [fifths for fifths in self.fifths if fifths.factor == factor]
            if own:
                found.append(_fifths(own, title))
        return found

    def draw(self, folder: str | Path) -> list[Path]:
        """Write the plots, as PNG files, and give their paths."""
        from trieline.diagnose.charts import draw_pruning

        return draw_pruning(self, Path(folder))


_FACTORS = {
    "K": "share of targets in the beam by fifths of the ranking divergence K, lowest first",
    "m": "share of targets in the beam by fifths of the teacher margin m, lowest first",
    "epsilon": "share of targets in the beam by fifths of the decoder mismatch, lowest first",
    "error": "share of targets in the beam by fifths of the reconstruction error, lowest first",
}


def pruning_of(seen: Retention, *, beam: int, tau: float) -> Pruning:
    """The figures of what was followed."""
    depth, fits = len(seen.prefixes), seen.prefixes <= beam
    by_oracle = bound.certified_by_oracle(seen.divergence, seen.margin, fits)
    by_both = None
    if not np.isnan(seen.mismatch).any():
        by_both = bound.certified_here(seen.divergence, seen.mismatch, seen.margin, fits)
    levels = tuple(_level(seen, level, by_oracle, by_both) for level in range(depth))
    survived = seen.oracle_beam.sum(axis=1)
    return Pruning(
        beam=beam,
        tau=tau,
        levels=levels,
        fifths=tuple(_all_fifths(seen)),
        divergence_rho=spearman(seen.divergence.mean(axis=1), survived),
        margin_rho=spearman(seen.margin.mean(axis=1), survived),
        queries=seen,
    )


def _level(seen: Retention, level: int, by_oracle: Bools, by_both: Bools | None) -> LevelPruning:
    def share(alive: Bools) -> float:
        return float(alive[:, level].mean())

    def here(holds: Bools) -> tuple[int, int]:
        return int(holds[:, level].sum()), int(holds[:, : level + 1].all(axis=1).sum())

    slope = seen.slope[:, level]
    forks = slope[~np.isnan(slope)]
    found = here(by_oracle)
    proven = (None, None) if by_both is None else here(by_both)
    return LevelPruning(
        level=level + 1,
        prefixes=int(seen.prefixes[level]),
        oracle_token=share(seen.oracle_token),
        oracle_legal=share(seen.oracle_legal),
        oracle_beam=share(seen.oracle_beam),
        decoder_token=share(seen.decoder_token),
        decoder_legal=share(seen.decoder_legal),
        decoder_beam=share(seen.decoder_beam),
        divergence=float(seen.divergence[:, level].mean()),
        margin=float(seen.margin[:, level].mean()),
        positive=float((seen.margin[:, level] > 0).mean()),
        mismatch=None if by_both is None else float(seen.mismatch[:, level].mean()),
        oracle_certified=found[0],
        oracle_certified_so_far=found[1],
        certified=proven[0],
        certified_so_far=proven[1],
        forks=len(forks),
        helped=float((forks < 0).mean()) if len(forks) else None,
    )


def _all_fifths(seen: Retention) -> list[Fifths]:
    known = {"K": seen.divergence, "m": seen.margin, "epsilon": seen.mismatch}
    found = [
        fifths_of(
            name,
            level + 1,
            values[:, level],
            seen.oracle_beam[:, level],
            seen.decoder_beam[:, level],
        )
        for name, values in known.items()
        if not np.isnan(values).any()
        for level in range(len(seen.prefixes))
    ]
    last = seen.oracle_beam[:, -1], seen.decoder_beam[:, -1]
    return [*found, fifths_of("error", len(seen.prefixes), seen.error, *last)]


def _survival(told: Pruning) -> Table:
    columns = (
        Column("level", "d"),
        Column("prefixes", ",d"),
        *(
            Column(f"{who}: {what}", ".1%")
            for who in ("oracle", "decoder")
            for what in ("token", "legal", "in beam")
        ),
    )
    count = len(told.queries.error)
    title = f"prefix survival, beam {told.beam}: share of {count:,} targets"
    return Table(columns, tuple(level[:8] for level in told.levels), title)


def _bound(told: Pruning) -> Table:
    columns = (
        Column("level", "d"),
        Column("K", ".3g"),
        Column("m", ".3g"),
        Column("m > 0", ".1%"),
        Column("epsilon", ".3f"),
        Column("oracle certified", ",d"),
        Column("so far", ",d"),
        Column("certified", ",d"),
        Column("so far", ",d"),
        Column("forks", ",d"),
        Column("geometry would help", ".1%"),
    )
    title = f"the survival bound at tau = {told.tau:g}: means, and queries that are certified"
    return Table(columns, tuple((level[0], *level[8:]) for level in told.levels), title)


def _fifths(own: Sequence[Fifths], title: str) -> Table:
    columns = (
        Column("level", "d"),
        Column("beam of"),
        *(Column(name, ".1%") for name in ("1st", "2nd", "3rd", "4th", "5th")),
        Column("Spearman", "+.2f"),
    )
    rows: list[tuple[Cell, ...]] = []
    for fifths in own:
        rows.append((fifths.level, "oracle", *fifths.oracle, fifths.oracle_rho))
        rows.append((fifths.level, "decoder", *fifths.decoder, fifths.decoder_rho))
    return Table(columns, tuple(rows), title)
