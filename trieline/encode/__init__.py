"""Vectors for items and queries: ``float32[N, D]``, in the order in which the things were given.

    encoder = open_encoder(EncodeSettings(), cache=Path("~/.cache/trieline").expanduser())
    vectors = encoder.encode(items)                # float32[N, D], unit length

Three kinds: ``text`` (any sentence-transformers model; default MiniLM, offline), ``static``
(averaged token vectors, some hundred times faster, weaker) and ``precomputed`` (the user's own).
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
    from trieline.encode.precomputed import VectorTable

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

    ``cache``: a folder in which vectors of texts are kept and found again, whatever corpus they
    come from. ``device`` and ``precision`` (the settings' where not given) are for ``text``;
    ``items``, ``queries`` (vectors by id) and ``dim`` (what their width must be) for
    ``precomputed``.
    """
    from trieline.encode.cache import CachedEncoder
    from trieline.encode.precomputed import PrecomputedEncoder
    from trieline.encode.static import StaticEncoder
    from trieline.encode.text import TextEncoder

    if settings.kind == "precomputed":
        return PrecomputedEncoder(items, queries, dim=dim)
    encoder: TextEncoder | StaticEncoder
    if settings.kind == "static":
        # "minilm" is what the setting says when nobody chose: it has no static vectors.
        model = "wordllama" if settings.model == "minilm" else settings.model
        encoder = StaticEncoder(model, max_tokens=settings.max_tokens)
    else:
        encoder = TextEncoder(
            settings.model,
            max_tokens=settings.max_tokens,
            batch=settings.batch,
            device=device,
            precision=precision or settings.precision,
        )
    return encoder if cache is None else CachedEncoder(encoder, cache)
