"""What happened to a catalog, change by change: enough to bring a trie of an older state up to it.

Item numbers only grow and are never used again. So what was added after a revision are the items
from a number on, and only the numbers of removed items have to be written down.

Trap: the log begins after the revision ``base``; older states cannot be brought up to date.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.catalog.rows import codes_of
from trieline.types import Codes

__all__ = [
    "CHANGES_TABLE",
    "Changes",
    "changes_since",
    "forget_changes",
    "log_change",
    "log_problems",
]

Numbers = NDArray[np.uint32]

CHANGES_TABLE = (
    "CREATE TABLE changes (revision INTEGER PRIMARY KEY, first INTEGER NOT NULL, removed BLOB)"
)


class Changes(NamedTuple):
    """What leads from an older state of the catalog to the present one."""

    revision: int  # that they lead to
    removed: Numbers  # items that went; some of them may have come after the older state
    added: Codes  # docids of the items that came and are still there; owners are item numbers


def log_change(
    connection: sqlite3.Connection, revision: int, first: int, removed: Sequence[int]
) -> None:
    """Write down the change that leads to ``revision``; ``first``: its first new item number."""
    blob = np.asarray(removed, "<u4").tobytes() if len(removed) else None
    connection.execute("INSERT INTO changes VALUES (?, ?, ?)", (revision, first, blob))


def changes_since(
    connection: sqlite3.Connection, old: int, base: int, now: int, depth: int
) -> Changes | None:
    """The changes after the revision ``old``; None where the log does not go back so far."""
    if not base <= old <= now:
        return None
    question = "SELECT first, removed FROM changes WHERE revision > ? ORDER BY revision"
    told = connection.execute(question, (old,)).fetchall()
    gone = np.frombuffer(b"".join(blob for _, blob in told if blob is not None), "<u4")
    first = told[0][0] if told else 2**32
    rows = connection.execute(
        "SELECT number, codes FROM docids WHERE number >= ? ORDER BY number", (first,)
    )
    return Changes(now, gone.astype(np.uint32), codes_of(rows, depth))


def forget_changes(connection: sqlite3.Connection, upto: int) -> None:
    """Let the log begin after ``upto``, unless it begins later already."""
    connection.execute("DELETE FROM changes WHERE revision <= ?", (upto,))
    connection.execute("UPDATE meta SET value = max(value, ?) WHERE key = 'base'", (upto,))


def log_problems(connection: sqlite3.Connection, base: int, now: int) -> Iterator[str]:
    """What does not fit together in the log, in words."""
    told = connection.execute("SELECT revision, first, removed FROM changes ORDER BY revision")
    expected, last = base + 1, 0
    for revision, first, removed in told:
        if revision != expected or first < last:
            yield f"its log has a change to revision {revision} where {expected} was expected"
            return
        expected, last = expected + 1, first
        numbers = np.frombuffer(removed or b"", "<u4").tolist()
        there = "SELECT 1 FROM items WHERE number = ?"
        for number in numbers:
            if connection.execute(there, (number,)).fetchone() is not None:
                yield f"item number {number} is there, but its log says that it was removed"
                return
    if expected != now + 1:
        yield f"its log ends at revision {expected - 1}, the catalog is at {now}"
