"""The catalog itself: add, remove and look up items.

Trap: item numbers outlive the items; a number that a search returns may have been removed since.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from trieline.catalog.database import Database
from trieline.catalog.rows import (
    ITEM_COLUMNS,
    State,
    blobs_of,
    codes_of,
    item_of,
    row_of,
    unencodable,
)
from trieline.errors import DataError, IndexFolderError
from trieline.types import Codes, Item

__all__ = ["Catalog"]

Numbers = NDArray[np.uint32]

_BATCH = 4096  # items written together
_ASKED = 500  # values in one question; old SQLite takes 999
_LAST = 2**32  # numbers are uint32
_INDEX = "CREATE UNIQUE INDEX items_by_id ON items (id)"
_TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    """CREATE TABLE items (number INTEGER PRIMARY KEY, id TEXT NOT NULL, title TEXT, text TEXT,
    image TEXT, modality TEXT, metadata TEXT)""",
    _INDEX,
    "CREATE TABLE docids (number INTEGER PRIMARY KEY, codes BLOB NOT NULL)",
)


class Catalog:
    """Items and their docids in one file. Threads may share it; use it in a ``with`` block."""

    def __init__(self, database: Database) -> None:
        """Not for callers: see ``create`` and ``open``."""
        self._database = database
        try:
            with database.reading() as connection:
                self.sizes: tuple[int, ...] = tuple(json.loads(_meta(connection, "sizes")))
                self.fingerprints: dict[str, str] = json.loads(_meta(connection, "fingerprints"))
        except BaseException:
            database.close()
            raise

    @classmethod
    def create(
        cls, path: str | Path, sizes: Sequence[int], fingerprints: Mapping[str, str] | None = None
    ) -> Self:
        """An empty catalog for docids of these many codes per level, at a path that is free."""
        if not sizes or not all(1 <= size <= 65536 for size in sizes):
            raise DataError(f"docid sizes {list(sizes)}: expected levels of 1 to 65536 codes.")
        meta: dict[str, int | str] = {
            "sizes": json.dumps([int(size) for size in sizes]),
            "fingerprints": json.dumps(dict(fingerprints or {})),
            "revision": 0,
            "next": 0,
            "count": 0,
        }
        return cls(Database.create(Path(path), _TABLES, meta))

    @classmethod
    def open(cls, path: str | Path, *, read_only: bool = False) -> Self:
        """The catalog at ``path``; ``read_only`` also where nothing can be written."""
        return cls(Database.open(Path(path), read_only=read_only))

    def close(self) -> None:
        """Let go of the file. Calling it twice is fine."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def path(self) -> Path:
        """Where the file lies."""
        return self._database.path

    @property
    def depth(self) -> int:
        """Codes in a docid."""
        return len(self.sizes)

    @property
    def revision(self) -> int:
        """Grows with every change, in the same transaction."""
        with self._database.reading() as connection:
            return int(_meta(connection, "revision"))

    def __len__(self) -> int:
        with self._database.reading() as connection:
            return int(_meta(connection, "count"))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.find(name) is not None

    def add(self, items: Iterable[Item], codes: Codes) -> Numbers:
        """Take in items with their docids (``codes.owner``: place in ``items``); their numbers.

        Items stream. Whatever is wrong with any of them, none is taken in.
        """
        blobs = blobs_of(codes, self.sizes)
        with self._database.changing() as connection:
            first = int(_meta(connection, "next"))
            empty = not _meta(connection, "count")
            if empty:  # one sort at the end costs less than a look-up per item
                connection.execute("DROP INDEX items_by_id")
            source, added = iter(items), 0
            while batch := list(islice(source, _BATCH)):
                _insert(connection, batch, first + added, blobs.between(added, added + len(batch)))
                added += len(batch)
            if empty:
                _index(connection)
            if added < len(blobs):
                raise DataError(f"docids for {len(blobs)} items, but only {added} items given.")
            if added:
                _count(connection, added=added)
        return np.arange(first, first + added, dtype=np.uint32)

    def remove(self, ids: Iterable[str]) -> Numbers:
        """Forget these items and their docids; the numbers they had."""
        names = list(dict.fromkeys(_listed(ids)))
        with self._database.changing() as connection:
            numbers = _numbers(connection, names)
            values = [(number,) for number in numbers]
            connection.executemany("DELETE FROM items WHERE number = ?", values)
            connection.executemany("DELETE FROM docids WHERE number = ?", values)
            if numbers:
                _count(connection, removed=len(numbers))
        return np.asarray(numbers, np.uint32)

    def compact(self) -> None:
        """Give back the room of removed items. Takes as much free space as the catalog holds."""
        with self._database.writing() as connection:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def copy_to(self, path: str | Path) -> None:
        """One state of the catalog as a new, compact file, while others may go on writing."""
        self._database.copy_to(Path(path))

    def find(self, name: str) -> int | None:
        """The number of one item, or None."""
        with self._database.reading() as connection:
            row = connection.execute("SELECT number FROM items WHERE id = ?", (name,)).fetchone()
            return None if row is None else int(row[0])

    def numbers(self, ids: Iterable[str]) -> Numbers:
        """The numbers of items, in the order asked."""
        with self._database.reading() as connection:
            return np.asarray(_numbers(connection, _listed(ids)), np.uint32)

    def ids(self, numbers: Iterable[int]) -> list[str]:
        """The ids of items, in the order asked."""
        asked = [int(number) for number in numbers]
        with self._database.reading() as connection:
            found = dict(_ask(connection, "SELECT number, id FROM items WHERE number", asked))
        return _in_order(asked, found, "number")

    def get(self, numbers: Iterable[int]) -> list[Item]:
        """Items, in the order asked. Embeddings are not kept."""
        asked = [int(number) for number in numbers]
        return _in_order(asked, self.found(asked), "number")

    def found(self, numbers: Iterable[int]) -> dict[int, Item]:
        """Those items that (still) exist, by number: for searches that run during removals."""
        asked = [int(number) for number in numbers]
        with self._database.reading() as connection:
            rows = _ask(connection, f"SELECT {ITEM_COLUMNS} FROM items WHERE number", asked)
            return {row[0]: item_of(row) for row in rows}

    def items(self) -> Iterator[Item]:
        """All items in the order of their numbers, as they were when the first was asked for."""
        with self._database.reading() as connection:
            yield from map(
                item_of, connection.execute(f"SELECT {ITEM_COLUMNS} FROM items ORDER BY number")
            )

    def docids(self, number: int) -> NDArray[np.uint16]:
        """The docids of one item: uint16[rows, L]."""
        with self._database.reading() as connection:
            rows = _ask(connection, "SELECT number, codes FROM docids WHERE number", [int(number)])
            table = codes_of(rows, self.depth).codes
        if not len(table):
            raise _missing("number", [int(number)])
        return table

    def codes(self) -> Codes:
        """All docids; ``owner`` is the item number."""
        return self.state().codes

    def state(self) -> State:
        """All docids and the revision they belong to, also while others write."""
        with self._database.reading() as connection:
            revision = int(_meta(connection, "revision"))
            rows = connection.execute("SELECT number, codes FROM docids ORDER BY number")
            return State(revision, codes_of(rows, self.depth))

    def verify(self) -> list[str]:
        """Every problem, in words; empty if all is well. Reads every byte."""
        try:
            with self._database.reading() as connection:
                lines = [row[0] for row in connection.execute("PRAGMA integrity_check")]
                if lines == ["ok"]:
                    lines = list(_inconsistencies(connection, self.sizes))
        except IndexFolderError as error:  # so damaged that it cannot be checked
            lines = [str(error)]
        return [f"{self.path}: {line}" for line in lines]


def _meta(connection: sqlite3.Connection, key: str) -> Any:
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    if row is None:
        raise IndexFolderError(f"the catalog does not know its '{key}': it is damaged.")
    return row[0]


def _count(connection: sqlite3.Connection, *, added: int = 0, removed: int = 0) -> None:
    steps = {"revision": 1, "next": added, "count": added - removed}
    connection.executemany(
        "UPDATE meta SET value = value + ? WHERE key = ?", [(n, key) for key, n in steps.items()]
    )


def _insert(
    connection: sqlite3.Connection, items: Sequence[Item], first: int, blobs: Sequence[bytes]
) -> None:
    """Write a batch; ``first`` is the number of its first item."""
    if first + len(items) > _LAST:
        raise DataError("the catalog has used up its 2^32 item numbers. Build the index again.")
    rows = [row_of(number, item) for number, item in enumerate(items, first)]
    missing = next((i for i in range(len(items)) if i >= len(blobs) or not blobs[i]), None)
    if missing is not None:
        raise DataError(f"item '{items[missing].id}' has no docid: every item needs one or more.")
    try:
        connection.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    except sqlite3.IntegrityError:
        raise _duplicate(connection, rows) from None
    except UnicodeEncodeError:
        raise unencodable(rows) from None
    connection.executemany("INSERT INTO docids VALUES (?, ?)", enumerate(blobs, first))


def _duplicate(connection: sqlite3.Connection, rows: Sequence[Sequence[Any]]) -> DataError:
    next_number = _meta(connection, "next")
    for number, name, *_ in rows:
        other = connection.execute("SELECT number FROM items WHERE id = ?", (name,)).fetchone()
        if other is not None and other[0] != number:
            if other[0] >= next_number:
                return _twice(name)
            return DataError(f"item '{name}' is in the catalog already. Remove it first.")
    raise AssertionError("a row that breaks no rule was refused")


def _index(connection: sqlite3.Connection) -> None:
    try:
        connection.execute(_INDEX)
    except sqlite3.IntegrityError:
        row = connection.execute(
            "SELECT id FROM items GROUP BY id HAVING count(*) > 1 ORDER BY min(number) LIMIT 1"
        ).fetchone()
        raise _twice(row[0]) from None


def _twice(name: str) -> DataError:
    return DataError(f"item '{name}' is given twice: every item needs an id of its own.")


def _numbers(connection: sqlite3.Connection, names: Sequence[str]) -> list[int]:
    found = dict(_ask(connection, "SELECT id, number FROM items WHERE id", names))
    return _in_order(names, found, "id")


def _ask(
    connection: sqlite3.Connection, question: str, values: Sequence[int] | Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """The rows of a question that ends in a column, for those that have one of the values there."""
    for start in range(0, len(values), _ASKED):
        some = values[start : start + _ASKED]
        marks = ",".join("?" * len(some))
        yield from connection.execute(f"{question} IN ({marks})", some)


def _in_order(asked: Sequence[Any], found: Mapping[Any, Any], what: str) -> list[Any]:
    if missing := [key for key in asked if key not in found]:
        raise _missing(what, missing)
    return [found[key] for key in asked]


def _missing(what: str, keys: Sequence[object]) -> DataError:
    more = f", nor {len(keys) - 1} more" if keys[1:] else ""
    return DataError(
        f"no item has the {what} {keys[0]!r}{more}: it was never added, or has been removed."
    )


def _listed(ids: Iterable[str]) -> list[str]:
    if isinstance(ids, str):
        raise DataError(f"expected a list of item ids, got one text: {ids!r}.")
    return list(ids)


def _inconsistencies(connection: sqlite3.Connection, sizes: Sequence[int]) -> Iterator[str]:
    for one, other in (("items", "docids"), ("docids", "items")):
        question = f"SELECT number FROM {one} EXCEPT SELECT number FROM {other} LIMIT 1"
        for (number,) in connection.execute(question):
            yield f"number {number} is among the {one} but not among the {other}"
    facts = connection.execute("SELECT count(*), max(number) FROM items").fetchone()
    if facts[0] != _meta(connection, "count"):
        yield f"it holds {facts[0]} items, but counts {_meta(connection, 'count')}"
    if (facts[1] or 0) >= max(_meta(connection, "next"), 1):
        yield f"item number {facts[1]} is not below the next one"
    rows = connection.execute("SELECT number, codes FROM docids ORDER BY number")
    codes, owner = codes_of(rows, len(sizes))
    for number in owner[(codes >= np.asarray(sizes)).any(axis=1)][:1]:
        yield f"the docid of item number {number} has a code that its level lacks"
