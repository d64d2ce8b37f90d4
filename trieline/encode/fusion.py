"""One vector for what has a text, a picture, or both: the parts are encoded apart, then fused.

``sum`` is CLIP-SF of UniIR (Wei et al., 2024, arXiv:2311.17136): the vectors of the text and of the
picture, as their towers give them, are added, and the sum gets unit length; a thing with one part
has that part's vector. It is learnt nowhere: it holds as far as both towers share one space.
The trap: the longer vector of the two weighs more, so towers that give vectors of unit length weigh
both parts alike and CLIP's own do not quite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trieline.encode.pictures import has_picture, has_words
from trieline.encode.towers import Things, Tower
from trieline.errors import DataError, DimensionError
from trieline.types import Floats, Item, Query
from trieline.watch import Watch, silent

__all__ = ["Fuse", "FusedEncoder", "sum_vectors", "unit"]

Has = Callable[[Item | Query], bool]


class Fuse(Protocol):
    """What makes one vector of two."""

    def __call__(self, things: Things, texts: Floats, pictures: Floats) -> Floats:
        """The vectors [N, D] of things that have both parts, from the vectors of each part."""


class FusedEncoder:
    """See the module."""

    def __init__(
        self,
        texts: Tower | None,
        pictures: Tower,
        fingerprint: str,
        *,
        fuse: Fuse | None = None,
        has_picture: Has = has_picture,
    ) -> None:
        """Without ``texts`` only pictures are read. ``has_picture``: whose picture is encoded."""
        self._texts, self._pictures = texts, pictures
        self._fuse, self._has_picture = fuse or sum_vectors, has_picture
        self.fingerprint = fingerprint

    @property
    def dim(self) -> int:
        """D, the length of a vector."""
        return self._pictures.dim

    def encode(self, things: Things, watch: Watch = silent) -> Floats:
        """float32[N, D], each vector of unit length."""
        words = _rows(things, has_words if self._texts else lambda thing: False)
        seen = _rows(things, self._has_picture)
        self._refuse_empty(things, words | seen)
        said = np.zeros((len(things), self.dim), dtype=np.float32)
        shown = np.zeros((len(things), self.dim), dtype=np.float32)
        if self._texts is not None and words.any():
            said[words] = self._texts.encode(_some(things, words), watch)
        if seen.any():
            shown[seen] = self._pictures.encode(_some(things, seen), watch)
        vectors = said + shown  # one of them is zero, unless a thing has both
        both = words & seen
        if both.any():
            vectors[both] = self._fuse(_some(things, both), said[both], shown[both])
        return unit(vectors, things)

    def _refuse_empty(self, things: Things, full: NDArray[np.bool_]) -> None:
        if full.all():
            return
        thing = things[int(np.argmin(full))]
        kind = "item" if isinstance(thing, Item) else "query"
        wanted = "a text or a picture" if self._texts else "a picture: this encoder reads no text"
        raise DataError(
            f"{kind} {thing.id!r} has nothing to encode ({len(full) - int(full.sum()):,} of "
            f"{len(full):,}): expected {wanted}."
        )


def sum_vectors(things: Things, texts: Floats, pictures: Floats) -> Floats:
    """The fusion of CLIP-SF."""
    return texts + pictures


def unit(vectors: Floats, things: Things) -> Floats:
    """Each vector scaled to unit length."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    good = np.isfinite(lengths[:, 0]) & (lengths[:, 0] > 0)
    if not good.all():
        thing = things[int(np.argmin(good))]
        raise DimensionError(
            f"the vector of {thing.id!r} is zero, NaN or infinite. Try precision 'fp32', or fetch "
            "the model again: its weights may be damaged."
        )
    scaled: Floats = vectors / lengths
    return scaled


def _rows(things: Things, has: Has) -> NDArray[np.bool_]:
    return np.fromiter((has(thing) for thing in things), dtype=bool, count=len(things))


def _some(things: Things, chosen: NDArray[np.bool_]) -> Things:
    return [thing for thing, take in zip(things, chosen, strict=True) if take]  # type: ignore[return-value]
