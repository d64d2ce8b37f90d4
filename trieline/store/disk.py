"""Files that survive a crash: atomic writes, records of what a file must be, one writer at a time.

Trap: a rename is durable only once its folder is fsynced; a file's contents only once it is itself.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from trieline.errors import IndexFolderError

if sys.platform != "win32":
    import fcntl

__all__ = [
    "FileRecord",
    "atomic_write",
    "disk_errors",
    "locked",
    "problems_of",
    "record_of",
    "seal",
    "sealed",
    "sync_file",
    "sync_folder",
]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class FileRecord(msgspec.Struct, frozen=True):
    """What a file must be, byte for byte."""

    size: int
    sha256: str


def atomic_write(path: str | Path, content: bytes | Callable[[BinaryIO], object]) -> None:
    """Write one file so that after a crash it is the old one or the new one, whole.

    ``content`` is the bytes, or a function that writes them to the open file it is given.
    """
    path = Path(os.path.realpath(path))  # through a symlink, as open() would
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    if sys.platform == "win32":  # folders cannot be opened there
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # file systems that cannot do it, such as some network ones
            raise
    finally:
        os.close(handle)


def sync_file(file: Path) -> None:
    """Make the contents of a file durable."""
    with file.open("rb+") as handle:  # Windows syncs only what may be written
        os.fsync(handle.fileno())


def record_of(file: Path) -> FileRecord:
    """Size and checksum of a file as it is."""
    with file.open("rb") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
        return FileRecord(handle.tell(), digest)


def problems_of(file: Path, record: FileRecord, *, checksum: bool) -> list[str]:
    """What is wrong with a file, in words: nothing, or one thing."""
    try:
        size = file.stat().st_size
        if size != record.size:
            return [f"{file} has {size} bytes, expected {record.size}"]
        if checksum and record_of(file) != record:
            return [f"{file} has other contents than were saved (sha256 differs)"]
    except OSError as error:
        return [f"{file} cannot be read: {error.strerror}"]
    return []


def sealed(record: msgspec.Struct) -> bytes:
    """A record as JSON text with the key ``seal``, by which damage is noticed."""
    tree = msgspec.json.decode(msgspec.json.encode(record))
    tree["seal"] = seal(tree)
    return msgspec.json.format(msgspec.json.encode(tree), indent=2) + b"\n"


def seal(tree: Mapping[str, Any]) -> str:
    """The checksum of a JSON object's other keys."""
    rest = {key: value for key, value in tree.items() if key != "seal"}
    return hashlib.sha256(msgspec.json.encode(rest, order="sorted")).hexdigest()


@contextmanager
def disk_errors(path: Path, *, every: bool = False) -> Iterator[None]:
    """Turn a full disk (``every``: any failure of the system) into an error in our own words."""
    try:
        yield
    except Exception as error:
        if not ((every and isinstance(error, OSError)) or _disk_is_full(error)):
            raise
        raise IndexFolderError(
            f"cannot write {path}: {error}. What was there before is unchanged. "
            "Free some space or choose a place that can be written, then try again."
        ) from error


def _disk_is_full(error: Exception) -> bool:
    if isinstance(error, OSError):
        # numpy raises one without a number: "100 requested and 0 written"
        return error.errno in _FULL or "requested and" in str(error)
    # safetensors raises an error of its own, with the number in the text only
    return any(f"(os error {number})" in str(error) for number in _FULL)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Be the one writer of an index folder, or fail at once.

    The system frees a flock when its process ends, however it ends; so the file may stay.
    """
    file = folder / "lock"
    with disk_errors(folder, every=True):
        handle = _create(file) if _lacks_flock() else _flock(file)
    try:
        with disk_errors(folder, every=True):
            os.ftruncate(handle, 0)
            os.write(handle, str(os.getpid()).encode())
        yield
    finally:
        os.close(handle)
        if _lacks_flock():
            file.unlink(missing_ok=True)


def _lacks_flock() -> bool:
    return sys.platform == "win32"


def _flock(file: Path) -> int:
    while True:
        handle = os.open(file, os.O_CREAT | os.O_RDWR, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_open_as(handle, file):
                return handle
        except BlockingIOError:
            raise _busy(file, "Wait until it has finished, or stop it.") from None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # a failed first build deleted the file between open and flock


def _is_open_as(handle: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), file.stat())
    except FileNotFoundError:
        return False


def _create(file: Path) -> int:
    try:
        return os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
    except FileExistsError:
        raise _busy(
            file, f"Wait until it has finished; if it died, delete {file} yourself."
        ) from None


def _busy(file: Path, advice: str) -> IndexFolderError:
    who = file.read_text(errors="replace")[:20] or "unknown"
    return IndexFolderError(f"process {who} is writing to {file.parent} right now. {advice}")
