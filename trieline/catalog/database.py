"""One SQLite file, one writer, any number of readers, and errors in our own words.

Trap: a connection sees its own uncommitted changes, so readers never share the writer's.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from trieline.errors import IndexFolderError

__all__ = ["Database", "told"]

_APPLICATION = 0x74726C6E  # "trln"
_VERSION = 2
_BUSY_SECONDS = 10.0
_ADVICE = {
    sqlite3.SQLITE_FULL: "The disk is full; nothing has changed. Free some space, then try again.",
    sqlite3.SQLITE_IOERR: "The disk failed or is full; nothing has changed. Free some space first.",
    sqlite3.SQLITE_BUSY: "Another process is writing to it. Try again when it has finished.",
    sqlite3.SQLITE_READONLY: "It cannot be written to: check its permissions.",
    sqlite3.SQLITE_CANTOPEN: "Check that it exists and may be read, and its folder too.",
}
_DAMAGED = "It is damaged. Restore it from a copy, or build the index again."


class Database:
    """Connections to one catalog file. Threads may share it."""

    def __init__(self, path: Path, *, read_only: bool, upgrade: Sequence[str] = ()) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False
        self._mode = "ro"
        self._writer: sqlite3.Connection | None = None
        self._write_lock = threading.RLock()
        if read_only and not os.access(path.parent, os.W_OK):
            self._mode = self._mode_without_side_files()
        if not read_only:
            self._writer = _connect(path, "rw")
            try:
                _configure(self._writer)
                _upgrade(self._writer, upgrade)
            except BaseException:
                self._writer.close()
                raise
        else:
            self._refuse_older()

    @classmethod
    def create(cls, path: Path, tables: Sequence[str], meta: Mapping[str, int | str]) -> Database:
        """A new file with these tables and rows of the table ``meta``; the path must be free."""
        with told(path):
            path.touch(exist_ok=False)
            connection = _connect(path, "rw")
            try:
                # All at once, and before the log is switched on: the header tells what it is.
                connection.execute("BEGIN")
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {_VERSION}")
                for statement in tables:
                    connection.execute(statement)
                connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
                connection.execute("COMMIT")
            except BaseException:
                path.unlink()
                raise
            finally:
                connection.close()
            return cls(path, read_only=False)

    @classmethod
    def open(cls, path: Path, *, read_only: bool, upgrade: Sequence[str] = ()) -> Database:
        """A file that ``create`` made, or an IndexFolderError that says what it is instead.

        ``upgrade``: the statements that bring a file of the version before up to this one.
        """
        if not path.is_file():
            raise IndexFolderError(f"no catalog at {path}. Build the index with 'trieline build'.")
        with told(path):
            _check_kind(path)
            return cls(path, read_only=read_only, upgrade=upgrade)

    def close(self) -> None:
        """Fold the log into the file, if nobody else has it open, and let go."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        if self._writer is not None:
            with self._write_lock:
                self._writer.close()  # last, because the last one out folds the log

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one state of the catalog, whatever others write meanwhile."""
        with told(self.path):
            connection = self._take()
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                self._give(connection)

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: kept whole when the block ends well, undone whole otherwise."""
        with self.writing() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def copy_to(self, path: Path) -> None:
        """One state of the catalog as a new file, without the room of what was removed."""
        with told(self.path):
            if path.exists():
                raise FileExistsError
            connection = self._take()
            try:
                connection.execute("VACUUM INTO ?", (str(path),))
            except BaseException:
                path.unlink(missing_ok=True)
                raise
            finally:
                self._give(connection)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The writer's connection, outside any transaction."""
        self._refuse_if_closed()
        if self._writer is None:
            raise IndexFolderError(f"{self.path} was opened read-only. Open it for writing.")
        with self._write_lock, told(self.path):
            yield self._writer

    def _take(self) -> sqlite3.Connection:
        with self._lock:
            self._refuse_if_closed()
            if self._idle:
                return self._idle.pop()
        return _connect(self.path, self._mode)

    def _give(self, connection: sqlite3.Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise IndexFolderError(f"{self.path} is closed. Open the catalog again.")

    def _refuse_older(self) -> None:
        with self.reading() as connection:  # not from the header: the log may have a newer one
            version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version < _VERSION:
            raise IndexFolderError(
                f"{self.path} has catalog version {version}, of an older trieline, and was opened "
                f"read-only. Bring it up to version {_VERSION} with: trieline compact INDEX"
            )

    def _mode_without_side_files(self) -> str:
        """How to read where the two files beside a write-ahead log cannot be made."""
        log, shared = (self.path.with_name(self.path.name + end) for end in ("-wal", "-shm"))
        if shared.exists():
            return "ro"  # somebody else made them
        if log.exists() and log.stat().st_size:
            raise IndexFolderError(
                f"{self.path} has changes in {log.name} that cannot be read where nothing can be "
                "written. Copy the index to a folder that can be written, and open it there."
            )
        return "immutable"


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours."""
    try:
        yield
    except FileExistsError:
        raise IndexFolderError(f"{path} already exists. Give another path, or open it.") from None
    except sqlite3.DatabaseError as error:
        if not hasattr(error, "sqlite_errorcode"):  # not the file's fault but ours
            raise
        code = error.sqlite_errorcode & 0xFF
        raise IndexFolderError(f"{path}: {error}. {_ADVICE.get(code, _DAMAGED)}") from error


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    query = "mode=ro&immutable=1" if mode == "immutable" else f"mode={mode}"
    return sqlite3.connect(
        f"{path.resolve().as_uri()}?{query}",
        uri=True,
        isolation_level=None,  # transactions are ours to begin and end
        check_same_thread=False,  # a connection serves one thread at a time, not always the same
        timeout=_BUSY_SECONDS,
    )


def _configure(writer: sqlite3.Connection) -> None:
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("PRAGMA synchronous = FULL")  # durable when a call returns, not some time later
    writer.execute("PRAGMA cache_size = -65536")  # KiB: ids arrive in no order while loading
    writer.execute("PRAGMA journal_size_limit = 67108864")


def _upgrade(writer: sqlite3.Connection, statements: Sequence[str]) -> None:
    """Bring a file of an older version up to date, all at once."""
    writer.execute("BEGIN IMMEDIATE")
    try:
        if writer.execute("PRAGMA user_version").fetchone()[0] < _VERSION:
            for statement in statements:
                writer.execute(statement)
            writer.execute(f"PRAGMA user_version = {_VERSION}")
        writer.execute("COMMIT")
    except BaseException:
        if writer.in_transaction:
            writer.execute("ROLLBACK")
        raise


def _check_kind(path: Path) -> None:
    """Read the header before SQLite does, because opening for writing changes a foreign file."""
    with path.open("rb") as file:
        head = file.read(100)
    if not head.startswith(b"SQLite format 3\0") or len(head) < 100:
        raise IndexFolderError(f"{path} is not an SQLite file, or is truncated. {_DAMAGED}")
    version, application = (int.from_bytes(head[at : at + 4], "big") for at in (60, 68))
    if application != _APPLICATION:
        raise IndexFolderError(f"{path} is another program's SQLite file, not a catalog.")
    if version > _VERSION:
        raise IndexFolderError(
            f"{path} has catalog version {version}; this trieline reads version {_VERSION}. "
            "Upgrade it with: pip install -U trieline"
        )
