"""What every way of giving items their docids can do.

The trap: ``assign`` gives docids before collisions are settled. Pass its result through
``collisions.resolve``, whatever the scheme; a level that numbers items is still 0 in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from trieline.types import Codes, Floats
from trieline.watch import Watch, silent

__all__ = ["Arrays", "Docids", "Geometric"]

Arrays = Mapping[str, NDArray[np.generic]]
"""Plain named arrays, as safetensors keeps them."""


class Docids(Protocol):
    """Learns docids from the vectors of a corpus, then gives them to any item."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Codes of each level; as many as a docid is long."""

    @property
    def fingerprint(self) -> str:
        """Equal for two of them exactly when they give equal docids."""

    def fit(
        self, items: Floats, *, labels: Sequence[str] | None = None, watch: Watch = silent
    ) -> Self:
        """Learn from ``items`` float32[N, D]; ``labels`` are the items' modalities."""

    def assign(self, items: Floats, *, labels: Sequence[str] | None = None) -> Codes:
        """One row an item, in order; collisions not settled yet."""

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Everything that was learnt; ``load_docids`` reads it back."""


class Geometric(Docids, Protocol):
    """Docids whose codes stand for vectors that add up to the item."""

    @property
    def codebooks(self) -> list[Floats]:
        """float32[V, D] of each level; all zero where a code has no geometry."""

    def reconstruct(self, codes: NDArray[np.uint16]) -> Floats:
        """uint16[R, l] (docids, or prefixes of them) -> float32[R, D]."""
