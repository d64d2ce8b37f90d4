"""What every way of giving items their docids can do.

The trap: ``assign`` does not know what other items got. Pass its result through
``collisions.resolve``, whatever the scheme, before it is stored: a last level that only tells
items apart (tree, atomic, ``collisions="extra"``) is 0 for everybody until then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from trieline.config import IdSettings
from trieline.errors import IndexMismatch, SettingsError
from trieline.types import Codes, Floats
from trieline.watch import Watch, silent

__all__ = [
    "Arrays",
    "Docids",
    "Judged",
    "fingerprint_of",
    "named_array",
    "one_row_an_item",
    "unfitted",
]

Arrays = Mapping[str, NDArray[np.generic]]
"""Plain named arrays, as safetensors keeps them."""


class Judged(NamedTuple):
    """Training queries as vectors, and the items that answer them."""

    queries: Floats  # [Q, D]
    query: NDArray[np.int64]  # [P] row of a query
    item: NDArray[np.int64]  # [P] row of an item that answers it


class Docids(Protocol):
    """Learns from the vectors of a corpus, then gives docids to any item."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Codes of each level of a docid, the level that tells items apart included."""

    @property
    def codebooks(self) -> list[Floats]:
        """float32[V, D] of each level; all zero where the codes do not stand for vectors."""

    @property
    def fingerprint(self) -> str:
        """The same for two of them that give the same docids, and for no others."""

    def fit(
        self,
        items: Floats,
        *,
        labels: Sequence[str] | None = None,
        judged: Judged | None = None,
        watch: Watch = silent,
    ) -> Self:
        """Learn from ``items`` float32[N, D]; ``labels`` are the items' modalities.

        ``judged`` is for schemes that learn from queries; others do not look at it.
        """

    def project(self, vectors: Floats) -> Floats:
        """Vectors of items or queries [n, D], brought to where the codebooks are."""

    def assign(self, items: Floats, *, labels: Sequence[str] | None = None) -> Codes:
        """One row an item, in order, collisions not settled."""

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """What was learnt; ``load_docids`` reads it back."""


def one_row_an_item(codes: NDArray[np.uint16]) -> Codes:
    """The table in which row i belongs to item i."""
    return Codes(np.ascontiguousarray(codes), np.arange(len(codes), dtype=np.uint32))


def fingerprint_of(settings: IdSettings, arrays: Arrays) -> str:
    """sha256 over the settings and every array: name, type, shape, bytes."""
    # Read back, so that 0 and 0.0 are one setting: a default may be either, what was saved is not.
    told = msgspec.to_builtins(msgspec.convert(msgspec.to_builtins(settings), IdSettings))
    # Docids from before there was PRO, or a setting of it, keep theirs.
    if settings.scheme != "pro":
        del told["pro"]
    elif settings.pro.quantised == "both":
        del told["pro"]["quantised"]
    digest = hashlib.sha256(msgspec.json.encode(told))
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def named_array(arrays: Arrays, name: str) -> NDArray[np.generic]:
    """The array of this name, or an error that says which one is missing."""
    if name not in arrays:
        raise IndexMismatch(
            f"the saved docids have no array '{name}', only {', '.join(sorted(arrays)) or 'none'}. "
            "They were saved with other settings: rebuild with 'trieline build'."
        )
    return arrays[name]


def unfitted() -> SettingsError:
    """What to raise where docids are used before they were learnt."""
    return SettingsError("these docids have learnt nothing yet: call fit(items), or load_docids().")
