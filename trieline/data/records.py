"""A record of a file (column -> value) taken apart into an Item or a Query.

What has no role of its own becomes metadata; a nested ``metadata`` object is merged into it, and
where both have a key, the outer one wins. Relative image paths count from the file's folder.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trieline.data.columns import Columns
from trieline.data.lines import Source, short
from trieline.errors import DimensionError, FormatError
from trieline.types import Floats, Item, Query

__all__ = ["to_item", "to_query"]


def to_item(values: dict[str, Any], columns: Columns, source: Source, number: int) -> Item:
    """The item of one record. ``values`` is used up."""
    record = _Record(values, source, number)
    id_ = record.id(columns.id)
    return Item(
        id_,
        text=record.text(columns.text),
        title=record.text(columns.title),
        image=record.image(columns.image),
        embedding=record.vector(columns.embedding, id_),
        modality=record.text(columns.modality) or "text",
        metadata=record.rest(),
    )


def to_query(values: dict[str, Any], columns: Columns, source: Source, number: int) -> Query:
    """The query of one record. ``values`` is used up."""
    record = _Record(values, source, number)
    id_ = record.id(columns.id)
    return Query(
        id_,
        text=record.text(columns.text),
        image=record.image(columns.image),
        embedding=record.vector(columns.embedding, id_),
        history=record.ids(columns.history),
        modality=record.text(columns.modality) or "text",
        metadata=record.rest(),
    )


class _Record:
    """Each call takes its column out; what is left at the end is metadata."""

    __slots__ = ("number", "source", "values")

    def __init__(self, values: dict[str, Any], source: Source, number: int) -> None:
        self.values, self.source, self.number = values, source, number

    def id(self, column: str) -> str:
        value = self.values.pop(column, None)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        raise self.error(f"a non-empty string or a whole number in {column!r}", value)

    def text(self, column: str) -> str:
        value = self.values.pop(column, None)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(f"a string in {column!r}", value)
        return value

    def image(self, column: str) -> str | None:
        path = self.text(column)
        if not path:
            return None
        return path if "://" in path else str(self.source.path.parent / path)

    def vector(self, column: str, id_: str) -> Floats | None:
        value = self.values.pop(column, None)
        if value is None:
            return None
        try:
            with np.errstate(over="ignore"):  # what overflows becomes infinite and is refused
                vector = np.asarray(value, dtype=np.float32)
        except (TypeError, ValueError):
            raise self.error(f"a list of numbers in {column!r}", value) from None
        if isinstance(value, str) or vector.ndim != 1 or not len(vector):
            raise self.error(f"a list of numbers in {column!r}", value)
        if not np.isfinite(vector).all():
            raise DimensionError(
                f"{self.source.path} {self.source.unit} {self.number}: the embedding of {id_!r} "
                "has NaN or infinite values. Leave the item out or compute its embedding again."
            )
        return vector

    def ids(self, column: str) -> tuple[str, ...]:
        value = self.values.pop(column, None)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(id_, str) for id_ in value):
            raise self.error(f"a list of item ids in {column!r}", value)
        return tuple(value)

    def rest(self) -> dict[str, Any] | None:
        values = self.values
        if "metadata" in values:
            inner = values["metadata"]
            if isinstance(inner, dict):
                del values["metadata"]
                values = {**inner, **values}
            elif inner is None:
                del values["metadata"]
        for key, value in values.items():
            if isinstance(value, np.ndarray):  # a Parquet column of floats that is no embedding
                values[key] = value.tolist()
        return values or None

    def error(self, expected: str, value: object) -> FormatError:
        got = "nothing" if value is None else f"{type(value).__name__} {short(value, 60)}"
        return self.source.error(self.number, expected, got)
