"""One step of a search: what the model says of each code, and the best of the candidates.

Scores come as a table and a base: candidate (p, v) has base[p] + table[p, v], so that the softmax
of a level is one number a prefix and the table is never written again.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trieline.index import Trie
from trieline.model.stepper import Stepper
from trieline.types import Floats

__all__ = ["Doubles", "Ints", "Normalise", "falls", "step_totals"]

Normalise = Literal["level", "legal", "raw", "vocab"]
Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]


def falls(normalise: Normalise) -> bool:
    """Whether the model's score of a prefix can only fall as it grows: it is a log-probability."""
    return normalise != "raw"


def step_totals(
    stepper: Stepper,
    trie: Trie,
    states: Tensor,
    table: Floats,
    level: int,
    nodes: Ints,
    normalise: Normalise,
) -> Doubles:
    """What to subtract from the logits ``table`` [n, V] of some prefixes: float64 [n]."""
    match normalise:
        case "level":
            totals: NDArray[Any] = torch.from_numpy(table).logsumexp(-1).numpy()
        case "vocab":
            totals = stepper.totals(states)
        case "legal":
            totals = trie.legal_totals(level, nodes, table)
        case "raw":
            totals = np.zeros(len(table))
    return totals.astype(np.float64)
