"""A CLIP or SigLIP model, loaded and run: token ids or pictures in, vectors or states out.

The traps: transformers 5 answers ``get_text_features`` with an object whose ``pooler_output`` is
the vector; its usual image processors want torchvision, so the ones that resize with Pillow are
taken by name; SigLIP's tokenizer must pad, CLIP's must not (see ``clip``).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trieline.encode.onednn import use_onednn
from trieline.encode.pictures import open_picture
from trieline.encode.sentence import quietly, usable_device
from trieline.errors import SettingsError
from trieline.types import Floats

__all__ = ["ClipModel", "States"]


class States(NamedTuple):
    """The last hidden states of both towers, before they are pooled."""

    texts: Tensor  # [B, T, Dt]
    present: Tensor  # bool[B, T] tokens that are no padding
    pictures: Tensor  # [B, P, Di]


class ClipModel:
    """The model of a folder, on a device, in a precision."""

    def __init__(
        self, folder: Path, *, kind: str, device: str, bf16: bool, max_tokens: int
    ) -> None:
        self._device = usable_device(device)
        self._padded, self._max_tokens = kind == "siglip", max_tokens
        self._one_at_a_time = threading.Lock()
        self._model, self._tokenizer, self._processor = _load(folder, kind)
        self._model.to(self._device)
        self._dtype = torch.bfloat16 if bf16 else torch.float32
        if bf16:
            self._model.to(torch.bfloat16)
        elif self._device.type == "cpu":
            _pool_in_double(self._model)
            use_onednn(self._model)

    @property
    def dim(self) -> int:
        """D, the length of a vector."""
        config = self._model.config
        width = getattr(config, "projection_dim", None) or config.vision_config.hidden_size
        return int(width)

    @property
    def widths(self) -> tuple[int, int]:
        """(Dt, Di), the widths of the states of texts and of pictures."""
        config = self._model.config
        return int(config.text_config.hidden_size), int(config.vision_config.hidden_size)

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text, cut at ``max_tokens``; padded to it for SigLIP."""
        with self._one_at_a_time:
            found = self._tokenizer(
                list(texts),
                truncation=True,
                max_length=self._max_tokens,
                padding="max_length" if self._padded else False,
                return_attention_mask=False,
            )
        ids: list[list[int]] = found["input_ids"]
        return ids

    def text_vectors(self, ids: NDArray[np.int64]) -> Floats:
        """ids [B, T] -> float32[B, D], of the length that the model gives them."""
        with torch.inference_mode():
            found = self._model.get_text_features(torch.from_numpy(ids).to(self._device))
            return _floats(found.pooler_output)

    def picture_vectors(self, paths: Sequence[str]) -> Floats:
        """Pictures -> float32[B, D], of the length that the model gives them."""
        with torch.inference_mode():
            return _floats(self._model.get_image_features(self._pixels(paths)).pooler_output)

    def states(self, texts: Sequence[str], paths: Sequence[str]) -> States:
        """What both towers know of each token and each patch, for things that have both parts."""
        rows = self.tokens(texts)
        length = max(map(len, rows))
        pad = self._tokenizer.pad_token_id or 0
        ids = torch.tensor([row + [pad] * (length - len(row)) for row in rows])
        if self._padded:  # SigLIP's own padding is read by it like any other token
            present = torch.ones_like(ids, dtype=torch.bool)
        else:
            present = torch.arange(length) < torch.tensor([len(row) for row in rows])[:, None]
        with torch.inference_mode():
            # CLIP's texts look back only, so what is padded behind them changes nothing before.
            said = self._model.text_model(ids.to(self._device)).last_hidden_state
            shown = self._model.vision_model(self._pixels(paths)).last_hidden_state
        return States(said.float(), present.to(self._device), shown.float())

    def _pixels(self, paths: Sequence[str]) -> Tensor:
        pictures = [open_picture(path) for path in paths]
        pixels: Tensor = self._processor(images=pictures, return_tensors="pt")["pixel_values"]
        return pixels.to(self._device, self._dtype)


class _InDouble(nn.Module):
    """A module that computes in fp64 between fp32 neighbours."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner.double()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.inner(x.double())
        return y.float()


def _pool_in_double(model: Any) -> None:
    """Replace what sees one row a thing: there, matrix products round by how many rows they have.

    Measured at the size of ViT-B/32, on an AMD EPYC: in fp32 a vector differed by 3e-6 between a
    batch of one and others, with this the bits are the same in batches of 1 to 32. (Where matrices
    are tiny, as in tests, up to 1e-6 remains.) One thing at a time would be exact too, and would
    take 1.3 times as long for pictures, three times as long for texts.
    """
    owners = [model, *(m for m in (model.text_model, model.vision_model) if hasattr(m, "head"))]
    for owner in owners:
        for name in ("text_projection", "visual_projection", "head"):
            if isinstance(getattr(owner, name, None), nn.Module):
                setattr(owner, name, _InDouble(getattr(owner, name)))


def _floats(vectors: Tensor) -> Floats:
    found: Floats = vectors.float().cpu().numpy()
    return found


def _load(folder: Path, kind: str) -> tuple[Any, Any, Any]:
    """(model, tokenizer, image processor)."""
    import transformers

    processor = {
        "clip": transformers.CLIPImageProcessorPil,
        "siglip": transformers.SiglipImageProcessorPil,
    }[kind]
    try:
        with quietly(), torch.random.fork_rng(devices=[]):
            return (
                transformers.AutoModel.from_pretrained(folder, local_files_only=True).eval(),
                transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True),
                processor.from_pretrained(folder, local_files_only=True),
            )
    except Exception as error:  # whatever the library raises, it is about this folder
        raise SettingsError(
            f"{folder} cannot be loaded as a {kind} model with its tokenizer and its image "
            f"processor: {type(error).__name__}: {error}. Save or fetch the model again."
        ) from error
