"""Questions that every part of the catalog asks of its database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from trieline.errors import IndexFolderError

__all__ = ["ask", "meta"]

_ASKED = 500  # values in one question; old SQLite takes 999


def meta(connection: sqlite3.Connection, key: str) -> Any:
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    if row is None:
        raise IndexFolderError(f"the catalog does not know its '{key}': it is damaged.")
    return row[0]


def ask(
    connection: sqlite3.Connection, question: str, values: Sequence[int] | Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """The rows of a question that ends in a column, for those that have one of the values there."""
    for start in range(0, len(values), _ASKED):
        some = values[start : start + _ASKED]
        marks = ",".join("?" * len(some))
        yield from connection.execute(f"{question} IN ({marks})", some)
