"""Vectors that the user brings: with each item and query, or in tables by id.

They are used as they are, neither scaled nor changed. The trap: an item and a query may have the
same id, so items and queries have a table each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from trieline.errors import DataError, DimensionError
from trieline.types import Floats, Item, Query
from trieline.watch import Watch, silent

__all__ = ["PrecomputedEncoder", "VectorTable"]


class VectorTable(Protocol):
    """Vectors by id, such as ``trieline.data.embeddings.Embeddings``."""

    @property
    def width(self) -> int:
        """D, the length of a vector."""

    def __contains__(self, id_: object) -> bool: ...

    def rows(self, ids: Sequence[str]) -> Floats:
        """The vectors of ``ids``, in that order."""


class PrecomputedEncoder:
    """A thing's own ``embedding`` where it has one, else its row of a table."""

    fingerprint = "precomputed"

    def __init__(
        self,
        items: VectorTable | None = None,
        queries: VectorTable | None = None,
        *,
        dim: int | None = None,
    ) -> None:
        """``dim``: what the width must be; else that of the tables, else of the first vector."""
        self._items, self._queries = items, queries
        self._dim = dim
        for name, table in (("items", items), ("queries", queries)):
            if table is None:
                continue
            self._dim = self._dim or table.width
            if table.width != self._dim:
                raise DimensionError(
                    f"the table of {name} has vectors of {table.width} values, expected "
                    f"{self._dim}. Use vectors of the same encoder for items and queries."
                )

    @property
    def dim(self) -> int:
        """D, the length of a vector."""
        if self._dim is None:
            raise DataError(
                "the width of the vectors is not known before the first of them was seen. "
                "Encode the items first, or say dim=."
            )
        return self._dim

    def encode(self, things: Sequence[Item] | Sequence[Query], watch: Watch = silent) -> Floats:
        """float32[N, D]. Every vector must be there, of one width, and finite."""
        if not things:
            return np.zeros((0, self._dim or 0), dtype=np.float32)
        found = self._find(things)
        width = self._dim or int(np.size(found[0]))
        for n, vector in enumerate(found):
            if np.shape(vector) != (width,) or width == 0:
                raise DimensionError(
                    f"the embedding of {_name(things[n])} has shape {list(np.shape(vector))}, "
                    f"expected [{width or 'D'}]. Use vectors of one encoder."
                )
        with np.errstate(over="ignore"):  # too large for float32 is infinite, which is seen below
            vectors = np.array(found, dtype=np.float32)
        good = np.isfinite(vectors).all(axis=1)
        if not good.all():
            raise DimensionError(
                f"the embedding of {_name(things[int(np.argmin(good))])} has NaN or infinite "
                "values. Leave it out or compute its embedding again."
            )
        self._dim = width
        return vectors

    def _find(self, things: Sequence[Item] | Sequence[Query]) -> list[Floats]:
        """The vector of each thing, from itself or from a table."""
        found = [thing.embedding for thing in things]
        gaps = [n for n, vector in enumerate(found) if vector is None]
        for table, kind in ((self._items, Item), (self._queries, Query)):
            if table is None:
                continue
            rows = [n for n in gaps if isinstance(things[n], kind) and things[n].id in table]
            for n, vector in zip(rows, table.rows([things[n].id for n in rows]), strict=True):
                found[n] = vector
        missing = [n for n in gaps if found[n] is None]
        if missing:
            raise DataError(
                f"{_name(things[missing[0]])} has no vector ({len(missing):,} of "
                f"{len(things):,} have none). Give each an embedding, or encode texts with "
                "encode.kind = 'text'."
            )
        return [vector for vector in found if vector is not None]


def _name(thing: Item | Query) -> str:
    return f"{'item' if isinstance(thing, Item) else 'query'} {thing.id!r}"
