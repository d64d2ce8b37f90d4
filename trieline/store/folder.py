"""A saved index, opened: its files, its derived sets, and the right to change what may change.

Trap: another process may save the index anew at any time; what is open here stays readable, but
must not be written to any more. ``writing`` notices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from trieline.errors import IndexFolderError
from trieline.store.derived import (
    Derived,
    derived_problems,
    map_array,
    map_derived,
    write_derived,
)
from trieline.store.disk import disk_errors, locked, problems_of
from trieline.store.manifest import REBUILD, Manifest, read_manifest

__all__ = ["IndexFolder", "Writer", "open_folder"]

Array = NDArray[Any]


class IndexFolder(NamedTuple):
    """One saved state of an index, checked when it was opened."""

    path: Path
    manifest: Manifest
    folder: Path  # the generation that the manifest names

    def file(self, name: str) -> Path:
        """Where a file of this index lies."""
        held = sorted((*self.manifest.files, *self.manifest.live))
        if name not in held:
            raise IndexFolderError(f"{self.path} has no file '{name}'. It has: {', '.join(held)}.")
        return self.folder / name

    def arrays(self, name: str) -> dict[str, Array]:
        """The arrays of a ``.safetensors`` file, in memory."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        file = self.file(name)
        try:
            return load_file(file)
        except (SafetensorError, OSError) as error:
            raise self._unreadable(file, error) from error

    def mapped(self, name: str) -> Array:
        """The array of a ``.npy`` file, memory-mapped and read-only."""
        file = self.file(name)
        try:
            return map_array(file)
        except (ValueError, OSError) as error:
            raise self._unreadable(file, error) from error

    def derived(self, name: str, revision: int) -> dict[str, Array] | None:
        """The mapped arrays of a derived set; None if absent, damaged or of another revision.

        None is no error: make the arrays again from the catalog, and store them with ``writing``.
        """
        found = map_derived(self.folder, name, revision)
        return None if found is None else found.arrays

    def newest(self, name: str) -> Derived | None:
        """A derived set of whichever revision is stored; None if absent or damaged.

        It may be older than the catalog, whose ``changes`` then lead on from it.
        """
        return map_derived(self.folder, name)

    def sizes(self) -> dict[str, int]:
        """Bytes on disk of every file of the generation, side files and derived sets included."""
        files = [file for file in sorted(self.folder.rglob("*")) if file.is_file()]
        return {file.relative_to(self.folder).as_posix(): file.stat().st_size for file in files}

    def verify(self) -> list[str]:
        """Every problem, in words; empty if all is well. Reads every byte but the live files'."""
        problems = _problems(self.folder, self.manifest, everything=True)
        return problems + derived_problems(self.folder)

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """The right to change the live files and derived sets: one process at a time has it."""
        with disk_errors(self.path), locked(self.path):
            if not self.is_current():
                raise IndexFolderError(
                    f"{self.path} was saved anew since it was opened, so changes would be lost. "
                    "Load the index again, then change it."
                )
            yield Writer(self.folder)

    def is_current(self) -> bool:
        """Whether nobody has saved the index anew since it was opened."""
        return read_manifest(self.path) == self.manifest

    def _unreadable(self, file: Path, error: Exception) -> IndexFolderError:
        if not self.is_current():
            return IndexFolderError(
                f"{self.path} was saved anew since it was opened. Load the index again."
            )
        return IndexFolderError(f"cannot read {file}: {error}. {REBUILD}")


class Writer(NamedTuple):
    """What may be done inside ``IndexFolder.writing``, beside changing the catalog."""

    folder: Path

    def replace_derived(self, name: str, revision: int, arrays: Mapping[str, Array]) -> None:
        """Store arrays that were made from this catalog revision, in place of the set's old ones.

        Whoever has the old arrays mapped keeps them until they let go.
        """
        write_derived(self.folder, name, revision, arrays)


def open_folder(path: str | Path) -> IndexFolder:
    """The index at ``path``, or an IndexFolderError that says what is wrong with it."""
    path = Path(path)
    while True:
        manifest = read_manifest(path)
        folder = path / manifest.folder
        problems = _problems(folder, manifest, everything=False)
        if not problems:
            return IndexFolder(path, manifest, folder)
        if read_manifest(path) == manifest:  # else saved anew, and this one deleted, meanwhile
            more = f" ({len(problems) - 1} more problems)" if problems[1:] else ""
            raise IndexFolderError(f"damaged index: {problems[0]}{more}. {REBUILD}")


def _problems(folder: Path, manifest: Manifest, *, everything: bool) -> list[str]:
    problems = []
    for name in manifest.live:
        file = folder / name
        if not file.is_file() or not file.stat().st_size:
            problems.append(f"{file} is missing or empty")
    for name, record in manifest.files.items():
        checksum = everything or not name.endswith(".npy")
        problems += problems_of(folder / name, record, checksum=checksum)
    return problems
