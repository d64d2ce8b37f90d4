"""Vectors that were made before: by the exact text, or picture, and the encoder's fingerprint.

Only what is new is encoded, each text once, and what is encoded is on disk some twenty seconds
later: a killed run goes on where it was. The trap: a key is a checksum of the text, so a corpus
that changed in one place costs one text, and one that is worded otherwise costs all of them.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol

import numpy as np

from trieline.encode.shelf import Keys, Shelf
from trieline.types import Floats, Item, Query
from trieline.watch import Task, Watch, silent

__all__ = ["CachedEncoder", "TextVectors"]

_FIRST_BLOCK, _SMALLEST_BLOCK, _LARGEST_BLOCK = 256, 64, 2048  # texts


class TextVectors(Protocol):
    """An encoder of things that a string stands for, each by itself: texts, paths of pictures."""

    @property
    def dim(self) -> int:
        """D, the length of a vector."""

    @property
    def fingerprint(self) -> str:
        """Says which vectors these are."""

    def texts(self, things: Sequence[Item] | Sequence[Query]) -> list[str]:
        """What is encoded for each thing."""

    def encode_texts(self, texts: Sequence[str], watch: Watch = silent) -> Floats:
        """float32[N, D]."""


class CachedEncoder:
    """An encoder with a memory. Several processes may share the folder."""

    def __init__(
        self,
        encoder: TextVectors,
        folder: Path,
        *,
        seconds: float = 20.0,
        fewest: int = 32,
        key: Callable[[str], bytes] = str.encode,
        what: str = "encoding texts",
    ) -> None:
        """``seconds``: about how much work a kill may cost. ``fewest``: calls with fewer new texts
        than this are not kept: a file for every single question would cost more than it saves.
        ``key``: what a text is known by, where that is not the text: the content of a picture.
        """
        self._encoder, self._key, self._what = encoder, key, what
        self.fingerprint = encoder.fingerprint
        name = hashlib.sha256(self.fingerprint.encode()).hexdigest()
        self._shelf = Shelf(Path(folder) / "vectors" / name, about=self.fingerprint)
        self._seconds, self._fewest = seconds, fewest

    @property
    def dim(self) -> int:
        """D, the length of a vector; from the folder where it can be, to spare loading a model."""
        if self._shelf.dim is None:
            self._shelf.refresh()
        return self._shelf.dim or self._encoder.dim

    def encode(self, things: Sequence[Item] | Sequence[Query], watch: Watch = silent) -> Floats:
        """float32[N, D]: found where they are known, else encoded and kept."""
        texts = self._encoder.texts(things)
        keys, first, inverse = _distinct([self._key(text) for text in texts])
        vectors = np.empty((len(keys), self.dim), dtype=np.float32)
        found = self._shelf.fetch(keys, vectors)
        missing = np.flatnonzero(~found)
        with watch(self._what, len(keys)) as task:
            task.advance(len(keys) - len(missing), "from the cache")
            for start, stop in self._blocks(len(missing)):
                rows = missing[start:stop]
                block = [texts[first[row]] for row in rows]
                vectors[rows] = self._encoder.encode_texts(block, _as_part_of(task))
                if len(missing) >= self._fewest:
                    self._shelf.put(keys[rows], vectors[rows])
        return vectors if len(keys) == len(texts) else vectors[inverse]

    def _blocks(self, total: int) -> Iterator[tuple[int, int]]:
        """(start, stop) of blocks that take about the wanted time each."""
        start, size = 0, _FIRST_BLOCK
        while start < total:
            began = time.monotonic()
            stop = min(start + size, total)
            yield start, stop
            took = max(time.monotonic() - began, 1e-6)
            size = int(
                np.clip((stop - start) / took * self._seconds, _SMALLEST_BLOCK, _LARGEST_BLOCK)
            )
            start = stop


def _distinct(known_by: Sequence[bytes]) -> tuple[Keys, list[int], list[int]]:
    """The key of each different text, where it stands first, and for each text its key's number."""
    numbers: dict[bytes, int] = {}
    first: list[int] = []
    inverse: list[int] = []
    for position, content in enumerate(known_by):
        number = numbers.setdefault(hashlib.sha256(content).digest(), len(first))
        if number == len(first):
            first.append(position)
        inverse.append(number)
    keys = np.frombuffer(b"".join(numbers), dtype=np.uint8).reshape(-1, 32)
    return keys, first, inverse


def _as_part_of(task: Task) -> Watch:
    """A watch whose work counts for ``task``."""

    def watch(what: str, total: int | None) -> AbstractContextManager[Task]:
        return nullcontext(task)

    return watch
