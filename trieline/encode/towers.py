"""What encodes one part of a thing, its text or its picture, before parts are fused.

A tower gives vectors of the length that its model gives them; whoever fuses them scales them.
The trap: a picture's vector must not depend on the batch it is in, so pictures of a batch all have
the model's own size and nothing is padded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from trieline.encode.cache import CachedEncoder
from trieline.encode.pictures import picture_key, pictures_of
from trieline.types import Floats, Item, Query
from trieline.watch import Watch, silent

__all__ = ["PictureModel", "PictureTower", "Things", "Tower", "remember"]

Things = Sequence[Item] | Sequence[Query]


class Tower(Protocol):
    """What encodes one part of a thing."""

    @property
    def dim(self) -> int:
        """D, the length of a vector."""

    def encode(self, things: Things, watch: Watch = silent) -> Floats:
        """float32[N, D], of any length."""


class PictureModel(Protocol):
    """A model that looks at pictures."""

    @property
    def dim(self) -> int:
        """D, the length of a vector."""

    def picture_vectors(self, paths: Sequence[str]) -> Floats:
        """float32[B, D] of the pictures in these files."""


class PictureTower:
    """The tower that looks at pictures. What a cache calls its texts are the pictures' paths."""

    def __init__(self, load: Callable[[], PictureModel], fingerprint: str, batch: int) -> None:
        """``load`` gives the model, when its first vector or its width is asked for."""
        self._load, self.fingerprint, self._batch = load, fingerprint, batch

    @property
    def dim(self) -> int:
        """D, the length of a vector."""
        return self._load().dim

    def texts(self, things: Things) -> list[str]:
        """The path of each thing's picture."""
        return pictures_of(things)

    def encode(self, things: Things, watch: Watch = silent) -> Floats:
        """float32[N, D], of the length that the model gives them."""
        return self.encode_texts(self.texts(things), watch)

    def encode_texts(self, texts: Sequence[str], watch: Watch = silent) -> Floats:
        """float32[N, D] of the pictures at these paths."""
        model = self._load()
        vectors = np.empty((len(texts), model.dim), dtype=np.float32)
        with watch("encoding pictures", len(texts)) as task:
            for start in range(0, len(texts), self._batch):
                some = texts[start : start + self._batch]
                vectors[start : start + len(some)] = model.picture_vectors(some)
                task.advance(len(some))
        return vectors


def remember(tower: PictureTower, cache: Path | None) -> PictureTower | CachedEncoder:
    """The tower with a memory in the folder ``cache``, which knows pictures by their content."""
    if cache is None:
        return tower
    return CachedEncoder(tower, cache, key=picture_key, what="encoding pictures")
