"""Saving an index: a new generation is written beside the old one and takes its place at once.

Trap: close the catalog before the draft ends; a catalog with open side files is refused.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trieline.errors import IndexFolderError
from trieline.store.derived import write_derived
from trieline.store.disk import (
    FileRecord,
    atomic_write,
    disk_errors,
    locked,
    record_of,
    sealed,
    sync_file,
    sync_folder,
)
from trieline.store.manifest import LEFTOVER, Manifest, only_ours, read_manifest

__all__ = ["Draft", "draft"]

Array = NDArray[Any]


class Draft:
    """A generation being written. It becomes the index when its ``with`` block ends well."""

    def __init__(self, folder: Path, recipe: Mapping[str, Any]) -> None:
        self.folder = folder  # write here; *.sqlite are live files, everything else is recorded
        self.recipe = dict(recipe)
        self.fingerprints: dict[str, str] = {}
        self.notes: dict[str, Any] = {}

    def save_arrays(self, name: str, arrays: Mapping[str, Array]) -> None:
        """Write ``name.safetensors``: arrays that are read whole."""
        from safetensors.numpy import save_file

        # safetensors scrambles arrays that are not contiguous instead of refusing them.
        whole = {key: np.asarray(array, order="C") for key, array in arrays.items()}
        save_file(whole, self._file(name, ".safetensors"))

    def save_array(self, name: str, array: Array) -> None:
        """Write ``name.npy``: an array that is memory-mapped."""
        with self._file(name, ".npy").open("wb") as file:
            np.save(file, array, allow_pickle=False)

    def save_derived(self, name: str, revision: int, arrays: Mapping[str, Array]) -> None:
        """Write a derived set (see ``IndexFolder.derived``)."""
        write_derived(self.folder, name, revision, arrays)

    def _file(self, name: str, suffix: str) -> Path:
        if not name.endswith(suffix):
            raise ValueError(f"file name {name!r}: expected it to end in {suffix}")
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        return file


@contextmanager
def draft(
    path: str | Path, *, recipe: Mapping[str, Any] | None = None, created: str | None = None
) -> Iterator[Draft]:
    """Write a new index, or a new generation of an index, at ``path``.

    All of it becomes visible when the block ends; after any exception nothing has changed.
    ``created`` is an ISO 8601 time in UTC; now, if not given.
    """
    path = Path(path)
    with disk_errors(path, every=True):
        made = _make_room(path)
    with disk_errors(path), locked(path):
        try:
            _sweep(path)
            folder = path / f"tmp-{secrets.token_hex(4)}"
            with disk_errors(path, every=True):
                folder.mkdir()
            drafted = Draft(folder, recipe or {})
            yield drafted
            with disk_errors(path, every=True):
                _commit(path, drafted, created or datetime.now(UTC).isoformat(timespec="seconds"))
        except BaseException:
            _sweep(path)
            if not (path / "manifest.json").exists():
                _leave(path, made)
            raise
        _sweep(path)


def _make_room(path: Path) -> bool:
    """Refuse what is not ours to overwrite; make the folder. True if there was none."""
    if path.is_dir():
        if (path / "manifest.json").exists():
            read_manifest(path)  # refuses another program's, a newer format, damage
        elif not only_ours(path):
            raise IndexFolderError(
                f"{path} holds files that are not a trieline index: it will not be overwritten. "
                "Give another path, or empty the folder yourself."
            )
        return False
    if path.exists():
        raise IndexFolderError(f"cannot save to {path}: expected a folder, got a file.")
    path.mkdir(parents=True)
    sync_folder(path.parent)
    return True


def _sweep(path: Path) -> None:
    """Delete what no manifest names: older generations, and what a crash left."""
    named = read_manifest(path).folder if (path / "manifest.json").exists() else ""
    for entry in list(path.iterdir()):
        if entry.name == named or not LEFTOVER.fullmatch(entry.name):
            continue
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def _leave(path: Path, made: bool) -> None:
    """Take away the traces of a first build that failed."""
    (path / "lock").unlink(missing_ok=True)
    if made:
        with suppress(OSError):  # somebody has put a file there: it stays
            path.rmdir()


def _commit(path: Path, drafted: Draft, created: str) -> None:
    files, live = _inventory(drafted.folder, mode=(path / "lock").stat().st_mode & 0o666)
    existing = (path / "manifest.json").exists()
    manifest = Manifest(
        trieline=_version(),
        created=created,
        generation=read_manifest(path).generation + 1 if existing else 1,
        recipe=drafted.recipe,
        fingerprints=drafted.fingerprints,
        files=files,
        live=live,
        notes=drafted.notes,
    )
    text = sealed(manifest)
    drafted.folder.rename(path / manifest.folder)
    sync_folder(path)
    atomic_write(path / "manifest.json", text)


def _inventory(folder: Path, mode: int) -> tuple[dict[str, FileRecord], tuple[str, ...]]:
    """Bring everything in the folder to the disk; records of the files, names of the live ones."""
    records, live = {}, []
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        if file.is_dir():
            sync_folder(file)
            continue
        if name.endswith((".sqlite-wal", ".sqlite-journal")):
            raise IndexFolderError(f"cannot save {name}: still in use. Close the catalog first.")
        file.chmod(mode)  # safetensors makes files that only their owner may read
        sync_file(file)
        if name.endswith(".sqlite"):
            live.append(name)
        elif not name.startswith("derived/"):
            records[name] = record_of(file)
    sync_folder(folder)
    return records, tuple(live)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("trieline")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "unknown"
