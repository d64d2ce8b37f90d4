"""Does a quantity foretell survival? Queries in fifths of it, and Spearman's correlation.

PRO, Figures 2c, 4 and 5. The fifths hold as many queries each as can be, in the order of the
quantity; equal ones keep the order of the queries.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Fifths", "fifths_of", "spearman"]

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]
Shares = tuple[float | None, ...]


class Fifths(NamedTuple):
    """One quantity at one level: its fifths, lowest first, and who survived in each."""

    factor: str  # "K", "m", "epsilon" or "error"
    level: int  # from 1: survival is that of the beam after this level
    means: Shares  # of the quantity; None where a fifth holds no query
    oracle: Shares  # share of queries whose target the oracle's beam holds
    decoder: Shares
    oracle_rho: float | None  # Spearman; None where nothing varies
    decoder_rho: float | None

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return self._asdict()


def fifths_of(factor: str, level: int, values: Doubles, oracle: Bools, decoder: Bools) -> Fifths:
    """``values`` [Q] and who survived, [Q] each."""
    parts = np.array_split(np.argsort(values, kind="stable"), 5)
    return Fifths(
        factor=factor,
        level=level,
        means=tuple(_mean(values[part]) for part in parts),
        oracle=tuple(_mean(oracle[part]) for part in parts),
        decoder=tuple(_mean(decoder[part]) for part in parts),
        oracle_rho=spearman(values, oracle),
        decoder_rho=spearman(values, decoder),
    )


def spearman(values: NDArray[Any], others: NDArray[Any]) -> float | None:
    """Spearman's rank correlation; None where one of the two is the same for all."""
    from scipy.stats import spearmanr

    if len(values) < 2 or np.ptp(values) == 0 or np.ptp(others.astype(np.float64)) == 0:
        return None
    return float(spearmanr(values, others.astype(np.float64)).statistic)


def _mean(values: NDArray[Any]) -> float | None:
    return float(values.mean()) if len(values) else None
