"""Texts and pictures in one space, by CLIP or SigLIP: from a folder or a hub name.

CLIP: Radford et al. 2021, arXiv:2103.00020; SigLIP: Zhai et al. 2023, arXiv:2303.15343. Weights,
tokenizer and resizing are those of transformers; what is here is that no vector depends on what is
encoded beside it, and that both towers have a memory of their own.
The trap: SigLIP was trained on texts padded to its full length and reads its vector off the last
place, so its texts must be padded to just that length; CLIP's never need padding.
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trieline.encode.cache import CachedEncoder
from trieline.encode.fusion import FusedEncoder
from trieline.encode.text import equal_lengths
from trieline.encode.towers import PictureTower, Things, remember
from trieline.encode.weights import locate, model_digest
from trieline.encode.wording import WORDING, texts_of
from trieline.errors import SettingsError
from trieline.types import Floats
from trieline.watch import Watch, silent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trieline.encode import Precision
    from trieline.encode.clip_model import ClipModel

__all__ = ["DEFAULT_CLIP", "Clip", "open_clip"]

DEFAULT_CLIP = "openai/clip-vit-base-patch32"
_KNOWN = ("clip", "siglip")
_BLOCK = 4096  # texts whose token ids are held at once
_MOST_TOKENS = 4096  # in one pass; see trieline.encode.text


class Clip:
    """A model's folder, opened when its first vector, or its width, is asked for."""

    def __init__(
        self,
        model: str = DEFAULT_CLIP,
        *,
        max_tokens: int = 256,
        batch: int = 32,
        device: str = "cpu",
        precision: Precision = "fp32",
    ) -> None:
        """``max_tokens``: cut to what the model reads, 77 for CLIP, 64 for SigLIP."""
        if max_tokens < 3 or batch < 1:
            raise SettingsError(
                f"encode.max_tokens = {max_tokens} and encode.batch = {batch}: expected at least "
                "3 tokens a text and at least 1 text or picture a batch."
            )
        self.folder = locate(model)
        self.kind, longest = _kind_of(self.folder)
        self.max_tokens = min(max_tokens, longest)
        self.batch, self._device, self._precision = batch, device, precision
        self.fingerprint = f"{self.kind} model={model_digest(self.folder)[:32]}"
        self.precision = f"precision={precision}"

    @cached_property
    def model(self) -> ClipModel:
        from trieline.encode.clip_model import ClipModel  # imports torch: seconds

        return ClipModel(
            self.folder,
            kind=self.kind,
            device=self._device,
            bf16=self._precision == "bf16",
            max_tokens=self.max_tokens,
        )


class _Texts:
    """The tower that reads texts; its vectors are of the length that the model gives them."""

    def __init__(self, clip: Clip) -> None:
        self._clip = clip
        self.fingerprint = (
            f"{clip.fingerprint} texts tokens={clip.max_tokens} {clip.precision} wording={WORDING}"
        )

    @property
    def dim(self) -> int:
        return self._clip.model.dim

    def texts(self, things: Things) -> list[str]:
        return texts_of(things)

    def encode(self, things: Things, watch: Watch = silent) -> Floats:
        return self.encode_texts(self.texts(things), watch)

    def encode_texts(self, texts: Sequence[str], watch: Watch = silent) -> Floats:
        clip, model = self._clip, self._clip.model
        vectors = np.empty((len(texts), self.dim), dtype=np.float32)
        with watch("encoding texts", len(texts)) as task:
            for start in range(0, len(texts), _BLOCK):
                ids = model.tokens(texts[start : start + _BLOCK])
                lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
                for rows in equal_lengths(lengths, clip.batch, _MOST_TOKENS):
                    together = np.array([ids[row] for row in rows], dtype=np.int64)
                    vectors[start + rows] = model.text_vectors(together)
                    task.advance(len(rows))
        return vectors


def open_clip(clip: Clip, cache: Path | None = None, fusion: str = "sum") -> FusedEncoder:
    """An encoder of texts, of pictures and of both.

    ``fusion``: "sum", or the file of a trained ``Mixer``, for things that have both.
    """
    texts = _Texts(clip)
    name = f"{clip.fingerprint} pictures {clip.precision}"
    pictures = PictureTower(lambda: clip.model, name, clip.batch)
    fingerprint = f"{texts.fingerprint} fusion=sum norm=l2"
    fuse = None
    if fusion != "sum":
        from trieline.encode.mixer import open_mixing

        fuse = open_mixing(clip, Path(fusion))
        fingerprint = f"{texts.fingerprint} fusion={fuse.fingerprint} norm=l2"
    said = texts if cache is None else CachedEncoder(texts, cache)
    return FusedEncoder(said, remember(pictures, cache), fingerprint, fuse=fuse)


def _kind_of(folder: Path) -> tuple[str, int]:
    """(kind of model, the most tokens that it reads)."""
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        kind, text = config["model_type"], config.get("text_config") or {}
    except (OSError, ValueError, LookupError):
        raise SettingsError(
            f"{folder} has no config.json of transformers. Give the folder or the hub name of a "
            f"CLIP or SigLIP model, such as {DEFAULT_CLIP!r}."
        ) from None
    if kind not in _KNOWN:
        raise SettingsError(
            f"{folder} holds a model of type {kind!r}: encode.kind = 'clip' reads "
            f"{' and '.join(_KNOWN)}."
        )
    return str(kind), int(text.get("max_position_embeddings", 77 if kind == "clip" else 64))
