"""Vectors for items and queries: ``float32[N, D]``, in the order in which the things were given.

    encoder = open_encoder(EncodeSettings(), cache=Path("~/.cache/trieline").expanduser())
    vectors = encoder.encode(items)                # float32[N, D], unit length

Of texts: ``text`` (any sentence-transformers model; default MiniLM, offline) and ``static``
(averaged token vectors, some hundred times faster, weaker). Of texts, of pictures and of both
together: ``clip`` (CLIP, SigLIP) and ``projection`` (a text and an image encoder with trained maps
into one space). Of pictures alone: ``image``. And ``precomputed``, the user's own.
The trap: vectors may only be compared with vectors of the same ``fingerprint``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from trieline.config import EncodeSettings
from trieline.types import Floats, Item, Query
from trieline.watch import Watch, silent

if TYPE_CHECKING:
    from trieline.encode.cache import CachedEncoder
    from trieline.encode.precomputed import VectorTable
    from trieline.encode.static import StaticEncoder
    from trieline.encode.text import TextEncoder
    from trieline.encode.towers import PictureTower

__all__ = ["Encoder", "Precision", "open_encoder"]

Precision = Literal["fp32", "bf16"]


class Encoder(Protocol):
    """What turns things into vectors."""

    @property
    def dim(self) -> int:
        """D, the length of a vector."""

    @property
    def fingerprint(self) -> str:
        """Says which vectors these are: the same string, the same vectors for the same things."""

    def encode(self, things: Sequence[Item] | Sequence[Query], watch: Watch = silent) -> Floats:
        """float32[N, D]; a thing's vector does not depend on the others nor on the order."""


def open_encoder(
    settings: EncodeSettings,
    cache: Path | None = None,
    *,
    device: str = "cpu",
    precision: Precision | None = None,
    items: VectorTable | None = None,
    queries: VectorTable | None = None,
    dim: int | None = None,
) -> Encoder:
    """The encoder of a recipe.

    ``cache``: a folder in which vectors of texts and pictures are kept and found again, whatever
    corpus they come from. ``device`` and ``precision`` (the settings' where not given) are for
    models; ``items``, ``queries`` (vectors by id) and ``dim`` (what their width must be) for
    ``precomputed``.
    """
    from trieline.encode.precomputed import PrecomputedEncoder

    precision = precision or settings.precision
    match settings.kind:
        case "precomputed":
            return PrecomputedEncoder(items, queries, dim=dim)
        case "clip":
            return _clip(settings, cache, device, precision)
        case "image":
            from trieline.encode.fusion import FusedEncoder

            pictures = _pictures(settings, cache, device)
            return FusedEncoder(None, pictures, f"{pictures.fingerprint} norm=l2")
        case "projection":
            return _projection(settings, cache, device, precision)
        case _:
            static = settings.kind == "static"
            return _texts(settings, cache, device, precision, static=static)


def _texts(
    settings: EncodeSettings,
    cache: Path | None,
    device: str,
    precision: Precision,
    *,
    static: bool,
) -> TextEncoder | StaticEncoder | CachedEncoder:
    from trieline.encode.cache import CachedEncoder
    from trieline.encode.static import StaticEncoder
    from trieline.encode.text import TextEncoder

    encoder: TextEncoder | StaticEncoder
    if static:
        # "minilm" is what the setting says when nobody chose: it has no static vectors.
        model = "wordllama" if settings.model == "minilm" else settings.model
        encoder = StaticEncoder(model, max_tokens=settings.max_tokens)
    else:
        encoder = TextEncoder(
            settings.model,
            max_tokens=settings.max_tokens,
            batch=settings.batch,
            device=device,
            precision=precision,
        )
    return encoder if cache is None else CachedEncoder(encoder, cache)


def _clip(
    settings: EncodeSettings, cache: Path | None, device: str, precision: Precision
) -> Encoder:
    from trieline.encode.clip import DEFAULT_CLIP, Clip, open_clip

    clip = Clip(
        DEFAULT_CLIP if settings.model == "minilm" else settings.model,
        max_tokens=settings.max_tokens,
        batch=settings.batch,
        device=device,
        precision=precision,
    )
    return open_clip(clip, cache, settings.fusion)


def _pictures(
    settings: EncodeSettings, cache: Path | None, device: str
) -> PictureTower | CachedEncoder:
    from trieline.encode.efficientnet import EfficientNetLite
    from trieline.encode.towers import PictureTower, remember

    model = EfficientNetLite(settings.image_model, device=device)
    return remember(PictureTower(lambda: model, model.fingerprint, settings.batch), cache)


def _projection(
    settings: EncodeSettings, cache: Path | None, device: str, precision: Precision
) -> Encoder:
    from trieline.encode.projected import fuse_projected
    from trieline.encode.projection import load_projection
    from trieline.encode.weights import files_digest

    file = Path(settings.projection).expanduser()
    maps = load_projection(file)
    pictures = _pictures(settings, cache, device) if settings.image_model else None
    digest = files_digest(file.parent, [file])[:32]
    static = maps.encoders[0].startswith("static ")  # the file knows what it was trained on
    texts = _texts(settings, cache, device, precision, static=static)
    return fuse_projected(texts, pictures, maps, digest)
