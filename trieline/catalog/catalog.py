"""The catalog itself: add, remove and look up items.

Trap: item numbers outlive the items; a number that a search returns may have been removed since.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from trieline.catalog.changes import (
    CHANGES_TABLE,
    Changes,
    changes_since,
    forget_changes,
    log_change,
    log_problems,
)
from trieline.catalog.database import Database
from trieline.catalog.insertion import ID_INDEX, delete, displace, index_ids, insert, rows_of
from trieline.catalog.rows import ITEM_COLUMNS, State, blobs_of, codes_of, item_of
from trieline.catalog.sql import ask, meta
from trieline.catalog.where import Where
from trieline.errors import DataError, IndexFolderError
from trieline.types import Codes, Item

__all__ = ["Catalog"]

Numbers = NDArray[np.uint32]

_BATCH = 4096  # items written together
_TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    """CREATE TABLE items (number INTEGER PRIMARY KEY, id TEXT NOT NULL, title TEXT, image TEXT,
    modality TEXT, metadata TEXT, text TEXT)""",  # long texts last: filters need not read them
    ID_INDEX,
    "CREATE TABLE docids (number INTEGER PRIMARY KEY, codes BLOB NOT NULL)",
    CHANGES_TABLE,
)
_FROM_1 = (  # to version 2: what happened before is not known
    CHANGES_TABLE,
    "INSERT INTO meta SELECT 'base', value FROM meta WHERE key = 'revision'",
)


class Catalog:
    """Items and their docids in one file. Threads may share it; use it in a ``with`` block."""

    def __init__(self, database: Database) -> None:
        """Not for callers: see ``create`` and ``open``."""
        self._database = database
        try:
            with database.reading() as connection:
                self.sizes: tuple[int, ...] = tuple(json.loads(meta(connection, "sizes")))
                self.fingerprints: dict[str, str] = json.loads(meta(connection, "fingerprints"))
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
        facts: dict[str, int | str] = {
            "sizes": json.dumps([int(size) for size in sizes]),
            "fingerprints": json.dumps(dict(fingerprints or {})),
            "revision": 0,
            "base": 0,
            "next": 0,
            "count": 0,
        }
        return cls(Database.create(Path(path), _TABLES, facts))

    @classmethod
    def open(cls, path: str | Path, *, read_only: bool = False) -> Self:
        """The catalog at ``path``; ``read_only`` also where nothing can be written."""
        return cls(Database.open(Path(path), read_only=read_only, upgrade=_FROM_1))

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
            return int(meta(connection, "revision"))

    @property
    def end(self) -> int:
        """One more than the highest number that was ever given."""
        with self._database.reading() as connection:
            return int(meta(connection, "next"))

    def __len__(self) -> int:
        with self._database.reading() as connection:
            return int(meta(connection, "count"))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.find(name) is not None

    def add(self, items: Iterable[Item], codes: Codes, *, replace: bool = False) -> Numbers:
        """Take in items with their docids (``codes.owner``: place in ``items``); their numbers.

        Items stream. Whatever is wrong with any of them, none is taken in. ``replace``: items
        that have the ids of new ones go, in the same change; else such an id is an error.
        """
        blobs = blobs_of(codes, self.sizes)
        with self._database.changing() as connection:
            first = int(meta(connection, "next"))
            empty = not meta(connection, "count")
            if empty:  # one sort at the end costs less than a look-up per item
                connection.execute("DROP INDEX items_by_id")
            source, added, removed = iter(items), 0, list[int]()
            while batch := list(islice(source, _BATCH)):
                own = blobs.between(added, added + len(batch))
                rows = rows_of(batch, first + added, own)
                if replace and not empty:
                    removed += displace(connection, rows, first)
                insert(connection, rows, own)
                added += len(batch)
            if empty:
                index_ids(connection)
            if added < len(blobs):
                raise DataError(f"docids for {len(blobs)} items, but only {added} items given.")
            _record(connection, first, added, removed)
        return np.arange(first, first + added, dtype=np.uint32)

    def remove(self, ids: Iterable[str]) -> Numbers:
        """Forget these items and their docids; the numbers they had."""
        names = list(dict.fromkeys(_listed(ids)))
        with self._database.changing() as connection:
            numbers = _numbers(connection, names)
            delete(connection, numbers)
            _record(connection, int(meta(connection, "next")), 0, numbers)
        return np.asarray(numbers, np.uint32)

    def changes(self, since: int) -> Changes | None:
        """What happened after a revision; None where that is no longer, or not yet, known."""
        with self._database.reading() as connection:
            base, now = (int(meta(connection, key)) for key in ("base", "revision"))
            return changes_since(connection, since, base, now, self.depth)

    def forget_changes(self, upto: int) -> None:
        """Drop what ``changes`` tells up to a revision, once something else holds that state."""
        with self._database.changing() as connection:
            forget_changes(connection, min(upto, int(meta(connection, "revision"))))

    def compact(self) -> None:
        """Give back the room of removed items. Takes as much free space as the catalog holds.

        Others may read meanwhile; while one goes on reading an older state (up to ten seconds are
        waited for), the file stays as long as it was, until the catalog is closed.
        """
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

    def known(self, ids: Iterable[str]) -> Numbers:
        """The numbers of those of these items that are there."""
        with self._database.reading() as connection:
            found = ask(connection, "SELECT number FROM items WHERE id", _listed(ids))
            return np.asarray([number for (number,) in found], np.uint32)

    def ids(self, numbers: Iterable[int]) -> list[str]:
        """The ids of items, in the order asked."""
        asked = [int(number) for number in numbers]
        with self._database.reading() as connection:
            found = dict(ask(connection, "SELECT number, id FROM items WHERE number", asked))
        return _in_order(asked, found, "number")

    def get(self, numbers: Iterable[int]) -> list[Item]:
        """Items, in the order asked. Embeddings are not kept."""
        asked = [int(number) for number in numbers]
        return _in_order(asked, self.found(asked), "number")

    def found(self, numbers: Iterable[int]) -> dict[int, Item]:
        """Those items that (still) exist, by number: for searches that run during removals."""
        asked = [int(number) for number in numbers]
        with self._database.reading() as connection:
            rows = ask(connection, f"SELECT {ITEM_COLUMNS} FROM items WHERE number", asked)
            return {row[0]: item_of(row) for row in rows}

    def items(self) -> Iterator[Item]:
        """All items in the order of their numbers, as they were when the first was asked for."""
        with self._database.reading() as connection:
            yield from map(
                item_of, connection.execute(f"SELECT {ITEM_COLUMNS} FROM items ORDER BY number")
            )

    def matching(self, where: Where | Mapping[str, Any]) -> Numbers:
        """The numbers of the items that a predicate accepts, ascending: see ``Where``."""
        asked = where if isinstance(where, Where) else Where.of(where)
        condition, values = asked.sql()
        with self._database.reading() as connection:
            question = f"SELECT number FROM items WHERE {condition} ORDER BY number"
            found = (row[0] for row in connection.execute(question, values))
            return np.fromiter(found, np.uint32)

    @contextmanager
    def snapshot(self) -> Iterator[tuple[Codes, Iterator[Item]]]:
        """All docids, and all items in the order of their numbers: of one and the same state."""
        with self._database.reading() as connection:
            rows = connection.execute("SELECT number, codes FROM docids ORDER BY number")
            codes = codes_of(rows, self.depth)
            items = connection.execute(f"SELECT {ITEM_COLUMNS} FROM items ORDER BY number")
            yield codes, map(item_of, items)

    def docids(self, number: int) -> NDArray[np.uint16]:
        """The docids of one item: uint16[rows, L]."""
        with self._database.reading() as connection:
            rows = ask(connection, "SELECT number, codes FROM docids WHERE number", [int(number)])
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
            revision = int(meta(connection, "revision"))
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


def _record(connection: sqlite3.Connection, first: int, added: int, removed: Sequence[int]) -> None:
    """Count and log a change; nothing added and nothing removed is none."""
    if not added and not removed:
        return
    steps = {"revision": 1, "next": added, "count": added - len(removed)}
    connection.executemany(
        "UPDATE meta SET value = value + ? WHERE key = ?", [(n, key) for key, n in steps.items()]
    )
    log_change(connection, int(meta(connection, "revision")), first, removed)


def _numbers(connection: sqlite3.Connection, names: Sequence[str]) -> list[int]:
    found = dict(ask(connection, "SELECT id, number FROM items WHERE id", names))
    return _in_order(names, found, "id")


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
    if facts[0] != meta(connection, "count"):
        yield f"it holds {facts[0]} items, but counts {meta(connection, 'count')}"
    if (facts[1] or 0) >= max(meta(connection, "next"), 1):
        yield f"item number {facts[1]} is not below the next one"
    yield from log_problems(
        connection, int(meta(connection, "base")), int(meta(connection, "revision"))
    )
    rows = connection.execute("SELECT number, codes FROM docids ORDER BY number")
    codes, owner = codes_of(rows, len(sizes))
    for number in owner[(codes >= np.asarray(sizes)).any(axis=1)][:1]:
        yield f"the docid of item number {number} has a code that its level lacks"
