"""What cells found, as the page needs it: means over seeds, comparisons, verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, stdev
from typing import Any

import numpy as np
from pro_systems import TESTED

from trieline.evaluate import Scores, compare
from trieline.evaluate.compare import Comparison
from trieline.evaluate.table import Cell, Spread

Told = dict[str, Any]


def short(sizes: Sequence[int]) -> str:
    """8 x 512, or 2 x 256, 4 x 512."""
    counts: list[list[int]] = []
    for size in sizes:
        if counts and counts[-1][1] == size:
            counts[-1][0] += 1
        else:
            counts.append([1, size])
    return ", ".join(f"{count} x {size}" for count, size in counts)


def cells_of(found: Sequence[Told], world: str, system: str, way: str) -> list[Told]:
    """What was found by a system searched one way, a seed each."""
    own = [t for t in found if (t["cell"]["data"], t["cell"]["system"]) == (world, system)]
    return [t for t in own if way in t.get("ways", ())]


def spread(values: Sequence[float]) -> Cell:
    return Spread(mean(values), stdev(values)) if len(values) > 1 else values[0]


def _reciprocal(ranks: str) -> np.ndarray:
    """1 / rank of the first answer of each query, 0 where there is none among ten."""
    return np.array([0.0 if own == "-" else 1 / (int(own) + 1) for own in ranks])


def scores_of(cells: Sequence[Told], way: str) -> Scores:
    """Each query's mean over the seeds."""
    values = np.mean([_reciprocal(t["ways"][way]["ranks"]) for t in cells], axis=0)
    each = {f"{place:09d}": float(value) for place, value in enumerate(values)}
    return Scores({TESTED: float(values.mean())}, {TESTED: each})


def effect_of(
    found: Sequence[Told], world: str, ours: tuple[str, str], theirs: tuple[str, str]
) -> tuple[Comparison, int] | None:
    """A comparison over the seeds that both have (a baseline has none), and how many they are."""
    a, b = cells_of(found, world, *ours), cells_of(found, world, *theirs)
    if all("seed" in t["cell"] for t in (*a, *b)):
        seeds = {t["cell"]["seed"] for t in a} & {t["cell"]["seed"] for t in b}
        a, b = ([t for t in own if t["cell"]["seed"] in seeds] for own in (a, b))
    if not a or not b:
        return None
    (compared,) = compare(scores_of(a, ours[1]), scores_of(b, theirs[1]), [TESTED])
    return compared, len(a)


def verdict_of(seen: Comparison, papers: bool) -> str:
    if seen.p_value >= 0.05:
        return "not seen" if papers else "no difference seen"
    if papers:
        return "reproduced" if seen.difference > 0 else "the opposite"
    return "better" if seen.difference > 0 else "worse"


def diagnosed(found: Sequence[Told], world: str, system: str, way: str) -> Told | None:
    own = [
        t[f"diagnosed {way}"]
        for t in found
        if (t["cell"]["data"], t["cell"]["system"]) == (world, system) and f"diagnosed {way}" in t
    ]
    return own[0] if own else None
