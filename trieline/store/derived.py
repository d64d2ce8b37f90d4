"""Derived sets: arrays that can be made again from the catalog, replaceable at any time.

Trap: a set tells the state of one catalog revision, which need not be the present one.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from trieline.store.disk import (
    FileRecord,
    atomic_write,
    problems_of,
    record_of,
    seal,
    sealed,
    sync_file,
    sync_folder,
)

__all__ = ["Derived", "derived_problems", "map_array", "map_derived", "write_derived"]

Array = NDArray[Any]

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


class Derived(NamedTuple):
    """A stored set: memory-mapped arrays, and the catalog revision that they were made from."""

    revision: int
    arrays: dict[str, Array]


class _Pointer(msgspec.Struct, frozen=True):
    revision: int
    folder: str
    files: dict[str, FileRecord]


def write_derived(generation: Path, name: str, revision: int, arrays: Mapping[str, Array]) -> None:
    """Put arrays made from a catalog revision in place of the set's old ones.

    The pointer is replaced last, so a crash leaves the old set or the new one.
    """
    for word in (name, *arrays):
        if not _NAME.fullmatch(word):
            raise ValueError(f"derived set {name!r}: {word!r} cannot be a file name")
    home = generation / "derived"
    home.mkdir(exist_ok=True)
    old = _folders(home, name)
    number = max((int(folder.suffix[1:]) for folder in old), default=0) + 1
    folder = home / f"{name}.{number:06d}"
    try:
        files = _write_arrays(folder, arrays)
        sync_folder(home)
        pointer = _Pointer(revision, folder.name, files)
        atomic_write(home / f"{name}.json", sealed(pointer))
    except BaseException:
        current = _read(home / f"{name}.json")
        if current is None or current.folder != folder.name:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    for stale in old:
        shutil.rmtree(stale, ignore_errors=True)
    for temporary in home.glob(f".{name}.json.*.tmp"):  # of a writer that was killed
        temporary.unlink(missing_ok=True)


def map_derived(generation: Path, name: str, revision: int | None = None) -> Derived | None:
    """The set as it is stored; None if absent, damaged or not of the ``revision`` asked for."""
    home = generation / "derived"
    pointer = _read(home / f"{name}.json")
    while pointer is not None and revision in (None, pointer.revision):
        arrays = _map(home, pointer)
        if arrays is not None:
            return Derived(pointer.revision, arrays)
        again = _read(home / f"{name}.json")
        if again == pointer:
            return None
        pointer = again  # a writer replaced the set, and deleted its arrays, while we read
    return None


def derived_problems(generation: Path) -> list[str]:
    """What is wrong with the derived sets, in words. Reads every byte."""
    problems = []
    for file in sorted((generation / "derived").glob("*.json")):
        pointer = _read(file)
        if pointer is None:
            problems.append(f"{file} is damaged")
            continue
        for name, record in pointer.files.items():
            problems += problems_of(file.parent / pointer.folder / name, record, checksum=True)
    return problems


def map_array(file: Path) -> Array:
    """The array of a ``.npy`` file, memory-mapped and read-only."""
    array: Array = np.load(file, mmap_mode="r", allow_pickle=False)
    return array


def _write_arrays(folder: Path, arrays: Mapping[str, Array]) -> dict[str, FileRecord]:
    folder.mkdir()
    records = {}
    for key, array in arrays.items():
        file = folder / f"{key}.npy"
        with file.open("wb") as handle:
            np.save(handle, array, allow_pickle=False)
        sync_file(file)
        records[file.name] = record_of(file)
    sync_folder(folder)
    return records


def _folders(home: Path, name: str) -> list[Path]:
    pattern = re.compile(re.escape(name) + r"\.\d{6}")
    return [folder for folder in home.iterdir() if pattern.fullmatch(folder.name)]


def _read(file: Path) -> _Pointer | None:
    try:
        tree = msgspec.json.decode(file.read_bytes())
        if not isinstance(tree, dict) or tree.get("seal") != seal(tree):
            return None
        return msgspec.convert(tree, _Pointer)
    except (OSError, UnicodeDecodeError, msgspec.DecodeError):
        return None


def _map(home: Path, pointer: _Pointer) -> dict[str, Array] | None:
    arrays = {}
    for name, record in pointer.files.items():
        file = home / pointer.folder / name
        if problems_of(file, record, checksum=False):
            return None
        try:
            arrays[name.removesuffix(".npy")] = map_array(file)
        except (OSError, ValueError):
            return None
    return arrays
