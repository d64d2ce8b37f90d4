"""Feature fusion: one vector for a text with its picture, read from all tokens and patches at once.

In the place of the feature fusion of UniIR (CLIP-FF, BLIP-FF; Wei et al., 2024), and smaller: both
towers stay frozen, and a few transformer layers over [summary; tokens; patches] give what is added
to the sum of the towers' vectors. Untrained that addition is zero, so a new mixer is exactly
``sum``, and training starts from there. It reads things that have both parts only; what has one
keeps its tower's vector, so trained and frozen vectors stay in one space. It is not BLIP: there,
cross-attention inside the text tower is trained along with everything else.
The trap: a mixer belongs to the model that it was trained with; its file says which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from trieline.encode.clip import Clip, open_clip
from trieline.encode.clip_model import States
from trieline.encode.contrast import Contrast, Learnt, learn, seeded
from trieline.encode.learnt import read_learnt, write_learnt
from trieline.encode.pictures import pictures_of
from trieline.encode.towers import Things
from trieline.encode.weights import files_digest
from trieline.encode.wording import texts_of
from trieline.errors import SettingsError
from trieline.types import Floats, Item, Query
from trieline.watch import Watch, silent

__all__ = ["Mixer", "MixerShape", "Mixing", "learn_mixer", "open_mixing", "save_mixer"]

_FORMAT = "trieline-mixer/1"


class MixerShape(NamedTuple):
    """The size of a mixer."""

    width: int = 256
    layers: int = 2
    heads: int = 4
    dropout: float = 0.1


class Mixer(nn.Module):
    """See the module. Symbols: T tokens, P patches, H the mixer's width."""

    def __init__(self, widths: tuple[int, int], dim: int, shape: MixerShape) -> None:
        """``widths``: of the states of texts and of pictures; ``dim``: of the towers' vectors."""
        super().__init__()
        if shape.width % shape.heads:
            raise SettingsError(f"a mixer {shape.width} wide cannot have {shape.heads} heads.")
        self.widths, self.dim, self.shape = widths, dim, shape
        self.said = nn.Linear(widths[0], shape.width)
        self.shown = nn.Linear(widths[1], shape.width)
        self.kinds = nn.Parameter(torch.randn(3, shape.width) * 0.02)  # summary, token, patch
        layer = nn.TransformerEncoderLayer(
            shape.width,
            shape.heads,
            4 * shape.width,
            shape.dropout,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.layers = nn.TransformerEncoder(layer, shape.layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(shape.width)
        self.out = nn.Linear(shape.width, dim)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, states: States, start: Tensor) -> Tensor:
        """States and the towers' sum [B, D] -> unit vectors [B, D]."""
        tokens = self.said(states.texts) + self.kinds[1]  # (B, T, H)
        patches = self.shown(states.pictures) + self.kinds[2]  # (B, P, H)
        summary = self.kinds[0].expand(len(start), 1, -1)  # (B, 1, H)
        there = states.present.new_ones(len(start), 1 + patches.shape[1])
        absent = ~torch.cat([there[:, :1], states.present, there[:, 1:]], dim=1)
        x = self.layers(torch.cat([summary, tokens, patches], dim=1), src_key_padding_mask=absent)
        added = self.out(self.norm(x[:, 0]))
        return nn.functional.normalize(nn.functional.normalize(start, dim=-1) + added, dim=-1)


class Mixing:
    """A mixer with the model whose states it reads, as ``FusedEncoder`` calls it."""

    def __init__(self, clip: Clip, mixer: Mixer, fingerprint: str) -> None:
        self._clip, self._mixer, self.fingerprint = clip, mixer, fingerprint

    def __call__(self, things: Things, texts: Floats, pictures: Floats) -> Floats:
        """Unit vectors [N, D] of things that have both parts."""
        words, paths, size = texts_of(things), pictures_of(things), self._clip.batch
        vectors = np.empty_like(texts)
        with torch.inference_mode():
            for n in range(0, len(words), size):
                states = self._clip.model.states(words[n : n + size], paths[n : n + size])
                start = torch.from_numpy(texts[n : n + size] + pictures[n : n + size])
                mixed = self._mixer(_at_home(states), start)
                vectors[n : n + size] = mixed.numpy()
        return vectors


class _Pairing(nn.Module):
    """The two sides of (thing with both parts, vector of its answer) pairs."""

    def __init__(
        self, clip: Clip, mixer: Mixer, things: Things, start: Floats, end: Floats
    ) -> None:
        super().__init__()
        self.mixer = mixer
        self._clip, self._words, self._paths = clip, texts_of(things), pictures_of(things)
        self._start, self._end = torch.from_numpy(start), torch.from_numpy(end)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        words, paths = ([own[row] for row in rows.tolist()] for own in (self._words, self._paths))
        states = _at_home(self._clip.model.states(words, paths))
        return self.mixer(states, self._start[rows]), self._end[rows]


def learn_mixer(
    clip: Clip,
    pairs: Sequence[tuple[Query | Item, Item]],
    shape: MixerShape | None = None,
    settings: Contrast | None = None,
    watch: Watch = silent,
) -> tuple[Mixer, Learnt]:
    """Train a mixer on (thing with text and picture, item that answers it) pairs.

    Answers keep the vectors that ``sum`` gives them, so an index can hold them before and after.
    The towers run anew in every epoch: their states are too large to be kept.
    """
    how = settings or Contrast()
    things: Things = [thing for thing, _ in pairs]  # type: ignore[assignment]
    answers = [item for _, item in pairs]
    numbers: dict[str, int] = {}
    groups = np.array([numbers.setdefault(item.id, len(numbers)) for item in answers], np.int64)
    towers = open_clip(clip)
    start = towers.encode(things, watch)
    with seeded(how.seed):
        mixer = Mixer(clip.model.widths, clip.model.dim, shape or MixerShape())
    pairing = _Pairing(clip, mixer, things, start, towers.encode(answers, watch))
    return mixer, learn(pairing, groups, how, watch)


def save_mixer(path: str | Path, mixer: Mixer, clip: Clip) -> None:
    """Write a mixer with the fingerprint of the model that it reads."""
    about = {"shape": mixer.shape._asdict(), "model": clip.fingerprint}
    write_learnt(path, _FORMAT, about, mixer.state_dict())


def open_mixing(clip: Clip, path: Path) -> Mixing:
    """The mixer of a file, for the model that it was trained with."""

    def build(about: Mapping[str, Any], tensors: dict[str, Tensor]) -> tuple[Mixer, str]:
        widths = (tensors["said.weight"].shape[1], tensors["shown.weight"].shape[1])
        mixer = Mixer(widths, len(tensors["out.bias"]), MixerShape(**about["shape"]))
        mixer.load_state_dict(tensors)
        return mixer.eval(), str(about["model"])

    fix = "encode.fusion is 'sum', or a file that trieline.encode.mixer.save_mixer wrote."
    mixer, model = read_learnt(path, _FORMAT, build, fix)
    if model != clip.fingerprint:
        raise SettingsError(
            f"encode.fusion = '{path}' was trained with {model}, and encode.model is "
            f"{clip.fingerprint}. Name the model that it was trained with, or train it again."
        )
    return Mixing(clip, mixer, files_digest(path.parent, [path])[:32])


def _at_home(states: States) -> States:
    """States on the CPU, where mixers are small enough to stay; of their own, to be learnt from."""
    return States(*(part.cpu().clone() for part in states))
