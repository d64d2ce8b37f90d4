"""Two sets of codebooks that training cannot tell apart, and beam search can: PRO's Theorem 1.

Appendix A.1. A query q and B + 1 items, the first of them the target, in a space that is a sum of
orthogonal parts:

    S, U          one dimension each: q = s + H u
    A1, A2        B + 1 dimensions each: one direction an item at levels 1 and 2
    A3 ... AL     one dimension a level, where all items use the same word
    R             one dimension that no word reaches: the items' error, alpha^2 each

Code 0 of every level is the query's own: q at level 1, zero below; code j is item j's. In ``kept``
the target's first word has s in it, so its prefix scores 1 and all others 0. In ``pruned`` its
first word has -s instead and its second word +2s: the sum is the same, greedy assignment too, and
the part ``delta`` of the second word's length moves to the first so that every residual is as long
as before. Codes, reconstructions and every training loss are equal, but at level 1 the target comes
last of B + 1 in a beam of B.

With ``modalities`` a level without geometry comes first, and the same happens one level later.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.errors import SettingsError

__all__ = ["Counterexample", "counterexample"]

Doubles = NDArray[np.float64]


class Counterexample(NamedTuple):
    """Everything in float64: the two sides are equal but for rounding."""

    query: Doubles  # [D]
    items: Doubles  # [B + 1, D]; the target is item 0
    codes: NDArray[np.uint16]  # [B + 1, L] what greedy assignment gives, with either codebooks
    query_codes: NDArray[np.uint16]  # [L]
    kept: list[Doubles]  # [V, D] of each level: the target survives
    pruned: list[Doubles]  # ... and is dropped at the first level with geometry


def counterexample(
    beam: int,
    depth: int,
    *,
    modalities: int = 0,
    height: float = 10.0,
    scale: float = 3.0,
    alpha: float = 0.5,
) -> Counterexample:
    """For a beam of B and ``depth`` levels with geometry: H = ``height``, M = ``scale``."""
    if beam < 1 or depth < 2 or modalities < 0:
        raise SettingsError(
            f"beam = {beam}, depth = {depth}, modalities = {modalities}: the theorem holds for "
            "beams from 1, from 2 levels on."
        )
    if not (height > 0 and scale > 2 and alpha > 0):
        raise SettingsError(
            f"height = {height}, scale = {scale}, alpha = {alpha}: the construction needs "
            "height > 0, scale > 2 and alpha > 0."
        )
    count = beam + 1
    axes = np.eye(2 * count + depth + 1)
    s, u, r = axes[0], axes[1], axes[-1]
    first, second = axes[2 : 2 + count], axes[2 + count : 2 + 2 * count]
    query = s + height * u
    kept = [
        np.vstack([query, scale * first]),
        np.vstack([0 * s, scale * second]),
        *(np.vstack([0 * s, scale * axes[2 * count + level]]) for level in range(2, depth)),
    ]
    kept[0][1] += s
    pruned = [book.copy() for book in kept]
    delta = scale - np.sqrt(scale**2 - 4)  # so that 4 + (M - delta)^2 = M^2
    pruned[0][1] += delta * second[0] - 2 * s
    pruned[1][1] += 2 * s - delta * second[0]
    codes = np.ones((count, depth), np.uint16)
    codes[:, :2] = np.arange(1, count + 1)[:, None]
    items = alpha * r + sum(book[codes[:, level]] for level, book in enumerate(kept))
    return _led_by_modality(
        Counterexample(query, items, codes, np.zeros(depth, np.uint16), kept, pruned), modalities
    )


def _led_by_modality(case: Counterexample, modalities: int) -> Counterexample:
    """The items all of modality 0, and words of zero for each."""
    if not modalities:
        return case
    nothing = np.zeros((modalities, len(case.query)))
    return case._replace(
        codes=np.pad(case.codes, ((0, 0), (1, 0))),
        query_codes=np.pad(case.query_codes, (1, 0)),
        kept=[nothing, *case.kept],
        pruned=[nothing.copy(), *case.pruned],
    )
