"""Texts and pictures in one space that a projection made, whatever encoders they come from.

A text goes through the text encoder and the one map, a picture through the image encoder and the
other; an item or a query that brings an ``embedding`` is taken to bring its picture's features, so
an index can be built without the pictures. What has both parts gets the sum of both, of unit
length. The trap: the maps read the vectors of the encoders that they were trained with; where the
projection's file says which these were, others are refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from trieline.encode.fusion import FusedEncoder
from trieline.encode.pictures import has_picture
from trieline.encode.projection import Projection
from trieline.encode.towers import Things
from trieline.errors import DimensionError, SettingsError
from trieline.types import Floats, Item, Query
from trieline.watch import Watch, silent

if TYPE_CHECKING:
    from trieline.encode import Encoder

__all__ = ["fuse_projected"]


class _Texts:
    """A text encoder with its map."""

    def __init__(self, encoder: Encoder, maps: Projection) -> None:
        self._encoder, self._maps = encoder, maps

    @property
    def dim(self) -> int:
        return self._maps.dim

    def encode(self, things: Things, watch: Watch = silent) -> Floats:
        return self._maps.texts.vectors(self._encoder.encode(things, watch), "texts")


class _Pictures:
    """An image encoder, or the features that things bring, with its map."""

    def __init__(self, encoder: Encoder | None, maps: Projection) -> None:
        self._encoder, self._maps = encoder, maps

    @property
    def dim(self) -> int:
        return self._maps.dim

    def encode(self, things: Things, watch: Watch = silent) -> Floats:
        brought = np.array([thing.embedding is not None for thing in things])
        features = np.empty((len(things), len(self._maps.pictures.mean)), dtype=np.float32)
        for row in np.flatnonzero(brought).tolist():
            features[row] = _features(things[row], features.shape[1])
        rest = np.flatnonzero(~brought).tolist()
        if rest:
            if self._encoder is None:
                raise SettingsError(
                    f"{things[rest[0]].id!r} brings no features, and encode.image_model = '' says "
                    "that all do. Give it an embedding, or name the image model."
                )
            some: Things = [things[row] for row in rest]  # type: ignore[assignment]
            features[rest] = self._encoder.encode(some, watch)
        return self._maps.pictures.vectors(features, "features of pictures")


def fuse_projected(
    texts: Encoder, pictures: Encoder | None, maps: Projection, digest: str
) -> FusedEncoder:
    """An encoder of texts, of pictures and of both. ``digest``: a checksum of the projection."""
    for part, named, encoder in zip(
        ("texts", "pictures"), maps.encoders, (texts, pictures), strict=True
    ):
        if named and encoder is not None and named != encoder.fingerprint:
            raise SettingsError(
                f"the projection was trained on {part} encoded by '{named}', and these settings "
                f"encode them by '{encoder.fingerprint}'. Set encode to what it was trained with."
            )
    shown = "" if pictures is None else pictures.fingerprint
    named = hashlib.sha256(f"{texts.fingerprint}\n{shown}".encode()).hexdigest()[:32]
    return FusedEncoder(
        _Texts(texts, maps),
        _Pictures(pictures, maps),
        f"projection maps={digest} encoders={named} fusion=sum norm=l2",
        has_picture=_has_features,
    )


def _has_features(thing: Item | Query) -> bool:
    return thing.embedding is not None or has_picture(thing)


def _features(thing: Item | Query, width: int) -> Floats:
    vector: Floats | Sequence[float] | None = thing.embedding
    found: Floats = np.asarray(vector, dtype=np.float32)
    if found.shape != (width,):
        raise DimensionError(
            f"the features of {thing.id!r} have shape {list(found.shape)}, and the projection "
            f"reads [{width}]. Bring features of the image model that it was trained with."
        )
    return found
