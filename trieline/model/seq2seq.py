"""The speller: reads a query, gives a score to every code that could come next.

The sequence-to-sequence model of DSI (Tay et al. 2022), TIGER (Rajput et al. 2023) and GENIUS (Kim
et al. 2025): a T5 decoder over docids, a reader for whatever the query is. It knows nothing of what
exists; the index says that while decoding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trieline.config import ModelSettings
from trieline.errors import IndexMismatch, SettingsError
from trieline.model.heads import Alphabet
from trieline.model.readers import (
    Asked,
    HistoryReader,
    Reader,
    TokenReader,
    VectorReader,
    load_text_model,
)
from trieline.model.stepper import TorchStepper
from trieline.model.t5 import Cache, Memory, Shape, Stack

__all__ = ["PRESETS", "Speller", "Spelling", "build_speller", "load_speller", "shapes"]

PRESETS = {
    "cpu": Shape(width=256, heads=4, head_width=64, feed_forward=1024, layers=3),
    "paper": Shape(width=512, heads=8, head_width=64, feed_forward=2048, layers=6),  # T5-small
}


class Spelling(NamedTuple):
    """Where a batch of searches stands: the query as read, and each beam's past."""

    projected: list[tuple[Tensor, Tensor]]  # cross-attention keys and values a layer
    mask: Tensor  # [B, S]
    cache: Cache


class Speller(nn.Module):
    """Query in, logits over the codes of each level out."""

    def __init__(self, alphabet: Alphabet, reader: Reader, decoder: Stack) -> None:
        super().__init__()
        self.alphabet, self.reader, self.decoder = alphabet, reader, decoder

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.alphabet.sizes

    @property
    def device(self) -> torch.device:
        return self.alphabet.start.device

    def read(self, asked: Asked) -> Memory:
        memory: Memory = self.reader(asked)
        return memory

    def hidden(self, asked: Asked, codes: Tensor) -> Tensor:
        """Teacher forcing: codes [B, L] -> states [B, L, width], state l having seen codes < l."""
        shifted = self.alphabet.embed_all(codes[:, :-1])
        start = self.alphabet.start.expand(len(codes), 1, -1)
        return self.decoder.decode(torch.cat([start, shifted], 1), self.read(asked))

    def forward(self, asked: Asked, codes: Tensor) -> list[Tensor]:
        """Logits of every level under teacher forcing: L tensors [B, V of the level]."""
        hidden = self.hidden(asked, codes).unbind(1)
        # One split, not a slice a level: each slice's gradient would fill the whole table.
        heads = torch.split(self.alphabet.output, list(self.sizes))
        return [nn.functional.linear(h, head) for h, head in zip(hidden, heads, strict=True)]

    def begin(self, asked: Asked) -> Spelling:
        """Read the queries, once for all their beams."""
        memory = self.read(asked)
        projected = self.decoder.project(memory)
        return Spelling(projected, memory.mask, Cache(self.decoder.shape.layers))

    def step(self, spelling: Spelling, codes: Tensor | None, level: int) -> Tensor:
        """States [B, W, width] from which level ``level`` is spelled.

        ``codes`` [B, W] are the codes of level - 1, None at level 0. The caller has reordered the
        cache so that its row b*W + w belongs to beam w of query b.
        """
        if codes is None:
            embedded = self.alphabet.start.expand(len(spelling.mask), 1, -1)
        else:
            embedded = self.alphabet.embed(codes, level - 1)
        return self.decoder.step(embedded, spelling.projected, spelling.mask, spelling.cache, level)

    def stepper(self) -> TorchStepper:
        """Spells one batch of queries, slot by slot."""
        return TorchStepper(self)

    def fingerprint(self) -> str:
        """Changes when any weight does."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]


def shapes(settings: ModelSettings) -> tuple[Shape, Shape]:
    """(encoder, decoder) sizes: the preset, with what the settings change."""
    preset = PRESETS[settings.preset]
    shape = preset._replace(
        width=settings.width or preset.width,
        heads=settings.heads or preset.heads,
        head_width=settings.head_width or preset.head_width,
        feed_forward=settings.feed_forward or preset.feed_forward,
        layers=settings.decoder_layers or preset.layers,
        dropout=settings.dropout,
    )
    encoder_layers = settings.encoder_layers
    if encoder_layers < 0:
        encoder_layers = shape.layers if settings.query == "history" else 0
    return shape._replace(layers=encoder_layers), shape


def build_speller(
    settings: ModelSettings,
    sizes: Sequence[int],
    dim: int | None = None,
    codebooks: Sequence[np.ndarray] | None = None,
    seed: int = 0,
) -> Speller:
    """A speller of these sizes with random weights, the same for the same seed.

    ``dim`` is the width of query vectors (query = "embedding"); ``codebooks`` start the code
    embeddings where the settings ask for it.
    """
    encoder_shape, decoder_shape = shapes(settings)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        alphabet = Alphabet(sizes, decoder_shape.width)
        decoder = Stack(decoder_shape, cross=True)
        reader = _reader(settings, alphabet, encoder_shape, dim)
        speller = Speller(alphabet, reader, decoder)
        _start_weights(speller)
    if settings.init_from_codebooks and codebooks is not None:
        alphabet.start_from_codebooks(codebooks, seed)
    return speller.eval()


def load_speller(
    settings: ModelSettings,
    sizes: Sequence[int],
    weights: Mapping[str, NDArray[Any]],
    dim: int | None = None,
) -> Speller:
    """The speller that was saved as these weights."""
    speller = build_speller(settings, sizes, dim)
    expected = speller.state_dict()
    missing, foreign = sorted(set(expected) - set(weights)), sorted(set(weights) - set(expected))
    if missing or foreign:
        raise IndexMismatch(
            f"the saved model lacks {len(missing)} tensors ({', '.join(missing[:2])}) and has "
            f"{len(foreign)} unknown ones ({', '.join(foreign[:2])}): its settings are not those "
            "of this recipe. Rebuild with 'trieline build'."
        )
    for name, tensor in expected.items():
        if tuple(tensor.shape) != weights[name].shape:
            raise IndexMismatch(
                f"the saved model's {name} has shape {weights[name].shape}, this index needs "
                f"{tuple(tensor.shape)}. Rebuild with 'trieline build', or load the model that "
                "was trained for it."
            )
    speller.load_state_dict({name: torch.tensor(array) for name, array in weights.items()})
    return speller


def _reader(settings: ModelSettings, alphabet: Alphabet, shape: Shape, dim: int | None) -> Reader:
    match settings.query:
        case "embedding":
            if dim is None:
                raise SettingsError("model.query = 'embedding' needs the width of the vectors.")
            return VectorReader(dim, settings.soft_tokens, shape)
        case "tokens":
            model = load_text_model(settings.text_model)
            return TokenReader(model, shape.width, settings.train_text_model)
        case "history":
            return HistoryReader(alphabet, shape)


def _start_weights(speller: Speller) -> None:
    """T5's own starting scales; a pretrained text model keeps its weights."""
    for stack in (speller.decoder, getattr(speller.reader, "encoder", None)):
        if stack is None:
            continue
        shape = stack.shape
        inner = shape.heads * shape.head_width
        for block in stack.layers():
            for attention in (block.self_attention, block.cross_attention):
                if attention is None:
                    continue
                nn.init.normal_(attention.q.weight, std=(shape.width * shape.head_width) ** -0.5)
                nn.init.normal_(attention.k.weight, std=shape.width**-0.5)
                nn.init.normal_(attention.v.weight, std=shape.width**-0.5)
                nn.init.normal_(attention.o.weight, std=inner**-0.5)
            nn.init.normal_(block.feed_forward.up.weight, std=shape.width**-0.5)
            if block.feed_forward.gate is not None:
                nn.init.normal_(block.feed_forward.gate.weight, std=shape.width**-0.5)
            nn.init.normal_(block.feed_forward.down.weight, std=shape.feed_forward**-0.5)
        nn.init.normal_(stack.bias.table.weight, std=shape.width**-0.5)
