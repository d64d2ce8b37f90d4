"""Vectors by key in a folder that only grows: what was put there survives a kill, whole.

Each chunk is one file, ``<sha256 of its bytes>.safetensors``, with ``keys`` uint8[n, 32] and
``vectors`` float32[n, D]. It is written under another name and renamed, so a chunk is there or
it is not; its name says what it must contain, so damage is noticed and two processes that write at
once never disturb each other. The trap: a damaged chunk is no error but a gap, to be filled again.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save

from trieline.store.disk import atomic_write, disk_errors
from trieline.types import Floats

__all__ = ["Keys", "Shelf"]

Keys = NDArray[np.uint8]
"""uint8[N, 32]: a sha256 in each row."""

_DAY = 86_400.0


class _Lookup(NamedTuple):
    """All keys of all chunks, to be searched by their first eight bytes."""

    head: NDArray[np.uint64]  # [T] sorted
    keys: Keys  # [T, 32] in that order
    chunk: NDArray[np.int64]  # [T]
    row: NDArray[np.int64]  # [T] inside the chunk


class Shelf:
    """See the module. ``about`` is written into the folder for whoever wonders what it is."""

    def __init__(self, folder: Path, about: str = "") -> None:
        self.folder, self._about = folder, about
        self.dim: int | None = None  # D, once a chunk was seen
        self._chunks: list[tuple[Path, Keys]] = []
        self._seen: set[str] = set()
        self._lookup: _Lookup | None = None
        self._one_at_a_time = threading.Lock()

    def fetch(self, keys: Keys, out: Floats) -> NDArray[np.bool_]:
        """Write the vectors that are here into their rows of ``out``; which ones these are."""
        self.refresh()
        found = np.zeros(len(keys), dtype=bool)
        with self._one_at_a_time:
            left, damaged = np.arange(len(keys)), True
            while damaged:  # what a damaged chunk was to hold may stand in another one as well
                damaged = self._fetch(keys[left], left, out, found)
                left = np.flatnonzero(~found)
        return found

    def put(self, keys: Keys, vectors: Floats) -> None:
        """Add a chunk, durably."""
        content = save({"keys": keys, "vectors": np.ascontiguousarray(vectors, dtype=np.float32)})
        path = self.folder / f"{hashlib.sha256(content).hexdigest()}.safetensors"
        with disk_errors(path, every=True):
            if not self.folder.is_dir():
                self.folder.mkdir(parents=True, exist_ok=True)
                atomic_write(self.folder / "about.txt", f"{self._about}\n".encode())
            atomic_write(path, content)
        self._seen.discard(path.name)  # it may replace a damaged one

    def _fetch(
        self, keys: Keys, into: NDArray[np.int64], out: Floats, found: NDArray[np.bool_]
    ) -> bool:
        """Write what is here of ``keys`` to rows ``into``; True if damaged chunks were dropped."""
        damaged = set()
        for number, wanted, rows in self._places(keys):
            vectors = _read(self._chunks[number][0])
            if vectors is None:
                damaged.add(number)
            else:
                out[into[wanted]] = vectors[rows]
                found[into[wanted]] = True
        if damaged:
            self._chunks = [c for n, c in enumerate(self._chunks) if n not in damaged]
            self._lookup = None
        return bool(damaged)

    def refresh(self) -> None:
        """Learn the keys of chunks that came since the last time."""
        if not self.folder.is_dir():
            return
        with self._one_at_a_time:
            for path in sorted(self.folder.iterdir()):
                if path.suffix == ".tmp":
                    _drop_if_old(path)
                elif path.suffix == ".safetensors" and path.name not in self._seen:
                    self._seen.add(path.name)
                    self._add(path)

    def _add(self, path: Path) -> None:
        try:
            with safe_open(path, framework="numpy") as file:
                keys = file.get_tensor("keys")
                rows, dim = file.get_slice("vectors").get_shape()
        except (SafetensorError, OSError, ValueError):
            return  # truncated or foreign
        if self.dim is None and _read(path) is not None:
            self.dim = int(dim)
        if keys.dtype == np.uint8 and keys.shape == (rows, 32) and dim == self.dim:
            self._chunks.append((path, keys))
            self._lookup = None

    def _places(self, keys: Keys) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
        """For each chunk that has some of ``keys``: its number, positions in ``keys``, its rows."""
        lookup = self._searchable()
        if not len(lookup.head):
            return
        place = np.searchsorted(lookup.head, _head(keys))
        place = np.minimum(place, len(lookup.head) - 1)
        # Two keys that agree in eight bytes and not in all: the second is never found. So be it.
        wanted = np.flatnonzero((lookup.keys[place] == keys).all(axis=1))
        if not len(wanted):
            return
        place = place[wanted]
        order = np.argsort(lookup.chunk[place], kind="stable")
        wanted, place = wanted[order], place[order]
        chunks, starts = np.unique(lookup.chunk[place], return_index=True)
        parts = zip(chunks, np.split(wanted, starts[1:]), np.split(place, starts[1:]), strict=True)
        for chunk, positions, places in parts:
            yield int(chunk), positions, lookup.row[places]

    def _searchable(self) -> _Lookup:
        if self._lookup is None:
            sizes = [len(keys) for _, keys in self._chunks]
            keys = np.concatenate([np.zeros((0, 32), np.uint8), *(k for _, k in self._chunks)])
            rows = np.concatenate([np.zeros(0, np.int64), *map(np.arange, sizes)])
            chunk = np.repeat(np.arange(len(sizes)), sizes)
            order = np.argsort(_head(keys), kind="stable")
            self._lookup = _Lookup(_head(keys)[order], keys[order], chunk[order], rows[order])
        return self._lookup


def _read(path: Path) -> Floats | None:
    """The vectors of a chunk; None where the file is not what its name says."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    if hashlib.sha256(content).hexdigest() != path.stem:
        return None
    vectors: Floats = load(content)["vectors"]
    return vectors


def _head(keys: Keys) -> NDArray[np.uint64]:
    return np.ascontiguousarray(keys[:, :8]).view(">u8").ravel().astype(np.uint64)


def _drop_if_old(path: Path) -> None:
    """What a killed process left half written; a younger one may still be at work."""
    try:
        if time.time() - path.stat().st_mtime > _DAY:
            path.unlink(missing_ok=True)
    except OSError:
        return
