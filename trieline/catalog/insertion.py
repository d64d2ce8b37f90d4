"""Writing batches of items and docids into the tables, and saying why one is refused.

Trap: a batch may hold an id twice, or one that is there already; which of the two it was is found
out only once SQLite has refused.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from trieline.catalog.rows import ITEM_COLUMNS, row_of, unencodable
from trieline.catalog.sql import ask, meta
from trieline.errors import DataError
from trieline.types import Item

__all__ = ["ID_INDEX", "delete", "displace", "index_ids", "insert", "rows_of"]

ID_INDEX = "CREATE UNIQUE INDEX items_by_id ON items (id)"

_LAST = 2**32  # numbers are uint32


def rows_of(items: Sequence[Item], first: int, blobs: Sequence[bytes]) -> list[tuple[Any, ...]]:
    """A batch as rows; ``first`` is the number of its first item."""
    if first + len(items) > _LAST:
        raise DataError("the catalog has used up its 2^32 item numbers. Build the index again.")
    missing = next((i for i in range(len(items)) if i >= len(blobs) or not blobs[i]), None)
    rows: list[tuple[Any, ...]] = [row_of(number, item) for number, item in enumerate(items, first)]
    if missing is not None:
        raise DataError(f"item '{items[missing].id}' has no docid: every item needs one or more.")
    return rows


def displace(
    connection: sqlite3.Connection, rows: Sequence[Sequence[Any]], first: int
) -> list[int]:
    """Take away the items that have the ids of new ones; the numbers they had."""
    try:
        found = ask(connection, "SELECT number FROM items WHERE id", [row[1] for row in rows])
        numbers = [number for (number,) in found if number < first]
    except UnicodeEncodeError:
        raise unencodable(rows) from None
    delete(connection, numbers)
    return numbers


def delete(connection: sqlite3.Connection, numbers: Sequence[int]) -> None:
    values = [(number,) for number in numbers]
    connection.executemany("DELETE FROM items WHERE number = ?", values)
    connection.executemany("DELETE FROM docids WHERE number = ?", values)


def insert(
    connection: sqlite3.Connection, rows: Sequence[Sequence[Any]], blobs: Sequence[bytes]
) -> None:
    try:
        connection.executemany(
            f"INSERT INTO items ({ITEM_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows
        )
    except sqlite3.IntegrityError:
        raise _duplicate(connection, rows) from None
    except UnicodeEncodeError:
        raise unencodable(rows) from None
    numbered = zip((row[0] for row in rows), blobs, strict=True)
    connection.executemany("INSERT INTO docids VALUES (?, ?)", numbered)


def _duplicate(connection: sqlite3.Connection, rows: Sequence[Sequence[Any]]) -> DataError:
    next_number = meta(connection, "next")
    for number, name, *_ in rows:
        other = connection.execute("SELECT number FROM items WHERE id = ?", (name,)).fetchone()
        if other is not None and other[0] != number:
            if other[0] >= next_number:
                return _twice(name)
            return DataError(
                f"item '{name}' is in the catalog already. Remove it first, or replace it."
            )
    raise AssertionError("a row that breaks no rule was refused")


def index_ids(connection: sqlite3.Connection) -> None:
    try:
        connection.execute(ID_INDEX)
    except sqlite3.IntegrityError:
        row = connection.execute(
            "SELECT id FROM items GROUP BY id HAVING count(*) > 1 ORDER BY min(number) LIMIT 1"
        ).fetchone()
        raise _twice(row[0]) from None


def _twice(name: str) -> DataError:
    return DataError(f"item '{name}' is given twice: every item needs an id of its own.")
