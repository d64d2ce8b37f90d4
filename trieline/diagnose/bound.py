"""When a target's prefix is bound to survive: the quantities of PRO's survival bound, on arrays.

At each level three distributions over all distinct prefixes (appendix A), every one exp(score /
tau), normalised:

    teacher   pi*   the best similarity of any item below the prefix
    oracle    pi-   the similarity of the prefix's partial reconstruction
    decoder   pi~   the score that the beam ranks the prefix by

They travel as logarithms, float64[P]: at a small tau most probabilities are too small for anything
else. A prefix that the decoder never scores (a hard plan forbids it) has minus infinity.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "certified_by_oracle",
    "certified_here",
    "decoder_mismatch",
    "log_distribution",
    "mismatch_slope",
    "ranking_divergence",
    "teacher_margin",
]

Doubles = NDArray[np.float64]


def log_distribution(scores: NDArray[Any], tau: float) -> Doubles:
    """log of exp(scores / tau), normalised."""
    scaled = scores.astype(np.float64) / tau
    top = scaled.max()
    logs: Doubles = scaled - (top + np.log(np.exp(scaled - top).sum()))
    return logs


def ranking_divergence(teacher: Doubles, oracle: Doubles) -> float:
    """K = KL(teacher || oracle), PRO Eq. 1. Never below 0: rounding is cut off."""
    return max(float((np.exp(teacher) * (teacher - oracle)).sum()), 0.0)


def teacher_margin(teacher: Doubles, target: int, beam: int) -> float:
    """m = teacher(target) - the (B + 1)-th largest teacher probability, PRO Eq. 2.

    Where no more than B prefixes exist, nothing stands outside the beam, and the margin is the
    target's own probability: the paper takes V > B for granted and does not say.
    """
    if len(teacher) <= beam:
        return float(np.exp(teacher[target]))
    outside = np.partition(teacher, len(teacher) - beam - 1)[len(teacher) - beam - 1]
    return float(np.exp(teacher[target]) - np.exp(outside))


def decoder_mismatch(oracle: Doubles, decoder: Doubles) -> float:
    """epsilon = total variation between oracle and decoder, PRO Eq. 3 and Eq. 9."""
    return float(np.abs(np.exp(oracle) - np.exp(decoder)).sum() / 2)


def certified_by_oracle(
    divergence: Doubles, margin: Doubles, fits: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Lemma A.7's condition, PRO Eq. 13: K < m^2 / 2 and m > 0, which is sqrt(K / 2) < m / 2.

    Where it holds, the oracle's beam keeps the target if it held the target's parent. A level on
    which all prefixes fit into the beam (``fits``) counts as certified whatever the quantities are:
    nothing is pruned there, which the paper leaves out.
    """
    return certified_here(divergence, np.zeros_like(divergence), margin, fits)


def certified_here(
    divergence: Doubles, mismatch: Doubles, margin: Doubles, fits: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Theorem 2's condition, PRO Eq. 4: sqrt(K / 2) + epsilon < m / 2.

    Where it holds at every level so far, the target is in the decoder's beam. ``fits`` as above.
    """
    holds: NDArray[np.bool_] = fits | (np.sqrt(divergence / 2) + mismatch < margin / 2)
    return holds


def mismatch_slope(oracle: Doubles, decoder: Doubles, votes: NDArray[Any]) -> float:
    """How fast the mismatch below one prefix grows with the weight of votes, at weight 0.

    PRO Proposition A.9, Eq. 22: minus the covariance, under the decoder, of a code's vote and of
    whether the oracle gives it more than the decoder does. Below zero, a little more geometry
    brings the decoder nearer to the oracle. Distributions over the codes that may follow, as
    logarithms. The proposition excludes ties; a tied code counts as not underweighted.
    """
    weight = np.exp(decoder)
    under = oracle > decoder
    mean = float(weight @ votes)
    return -float((weight * (votes - mean))[under].sum())
