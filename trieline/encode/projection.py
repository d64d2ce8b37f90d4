"""Two maps that bring the vectors of any text encoder and any image encoder into one space.

Each map is a linear layer over standardised values, with a hidden layer beside it where asked for:
y = W x + b (+ W2 gelu(W1 x + b1)), then unit length. ``learn_projection`` trains both against each
other (see ``contrast``); ``ridge_projection`` is the closed form that needs no training: features
mapped to the captions' vectors by least squares, captions left as they are.

The file is safetensors: ``texts.*`` and ``pictures.*`` (mean, scale, linear, hidden layers), with
the fingerprints of both encoders, without which the maps mean nothing (see ``learnt``).
The trap: trained on few pairs, the maps know the words of those captions only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trieline.encode.contrast import Contrast, Learnt, learn, seeded
from trieline.encode.learnt import read_learnt, write_learnt
from trieline.errors import DimensionError
from trieline.types import Floats
from trieline.watch import Watch, silent

__all__ = [
    "Map",
    "Pairs",
    "Projection",
    "Shape",
    "learn_projection",
    "load_projection",
    "ridge_projection",
    "save_projection",
]

_FORMAT = "trieline-projection/1"
_BLOCK = 8192  # vectors mapped at once


class Shape(NamedTuple):
    """The size of the maps."""

    dim: int = 256
    hidden: int = 0  # 0: linear
    dropout: float = 0.5  # of what goes in, while training; 0.2 was worse on Flickr8k's validation


class Pairs(NamedTuple):
    """Captions and what they describe."""

    captions: Floats  # [N, Dt]
    features: Floats  # [M, Di]
    owner: NDArray[np.int64]  # [N] row of features that each caption belongs to


class Map(nn.Module):
    """See the module."""

    mean: Tensor
    scale: Tensor

    def __init__(self, width: int, shape: Shape) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))
        self.dropout = nn.Dropout(shape.dropout)
        self.linear = nn.Linear(width, shape.dim)
        self.inner = nn.Linear(width, shape.hidden) if shape.hidden else None
        self.outer = nn.Linear(shape.hidden, shape.dim) if shape.hidden else None

    def forward(self, x: Tensor) -> Tensor:
        """[B, width] -> unit vectors [B, D]."""
        x = self.dropout((x - self.mean) * self.scale)
        y: Tensor = self.linear(x)
        if self.inner is not None and self.outer is not None:
            y = y + self.outer(nn.functional.gelu(self.inner(x)))
        return nn.functional.normalize(y, dim=-1)

    def standardise(self, vectors: Floats) -> None:
        """Mean 0 and deviation 1 for each value of ``vectors``; constant ones count for nothing."""
        spread = vectors.std(axis=0, dtype=np.float64)
        known = spread > 1e-8
        scale = np.where(known, 1 / np.where(known, spread, 1), 0)
        self.mean.copy_(torch.from_numpy(vectors.mean(axis=0, dtype=np.float64)))
        self.scale.copy_(torch.from_numpy(scale))

    def vectors(self, x: Floats, what: str) -> Floats:
        """float32[N, width] -> float32[N, D], each of unit length."""
        width = len(self.mean)
        if x.ndim != 2 or x.shape[1] != width:
            raise DimensionError(
                f"the projection reads {what} of {width} values, got shape {list(x.shape)}. Use "
                "the encoder that it was trained with."
            )
        out = np.empty((len(x), self.linear.out_features), dtype=np.float32)
        with torch.inference_mode():
            for start in range(0, len(x), _BLOCK):
                some = torch.from_numpy(np.ascontiguousarray(x[start : start + _BLOCK], np.float32))
                out[start : start + _BLOCK] = self(some).numpy()
        return out


class Projection(nn.Module):
    """Both maps, and which encoders' vectors they read ("" where nobody said)."""

    def __init__(self, widths: tuple[int, int], shape: Shape) -> None:
        """``widths``: of the vectors of texts and of pictures."""
        super().__init__()
        self.texts, self.pictures = Map(widths[0], shape), Map(widths[1], shape)
        self.shape, self.encoders = shape, ("", "")

    @property
    def dim(self) -> int:
        """D, the length of a vector."""
        return self.shape.dim


class _Pairing(nn.Module):
    """The two sides of (caption, picture) pairs."""

    def __init__(self, maps: Projection, pairs: Pairs) -> None:
        super().__init__()
        self.maps = maps
        self._captions = torch.from_numpy(np.ascontiguousarray(pairs.captions, np.float32))
        self._features = torch.from_numpy(np.ascontiguousarray(pairs.features, np.float32))
        self._owner = torch.from_numpy(pairs.owner)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        shown = self.maps.pictures(self._features[self._owner[rows]])
        return self.maps.texts(self._captions[rows]), shown


def learn_projection(
    pairs: Pairs,
    shape: Shape | None = None,
    settings: Contrast | None = None,
    watch: Watch = silent,
) -> tuple[Projection, Learnt]:
    """Train both maps on pairs; a share of the pictures, with their captions, says when to stop."""
    how = settings or Contrast()
    _check(pairs)
    with seeded(how.seed):
        maps = Projection((pairs.captions.shape[1], pairs.features.shape[1]), shape or Shape())
    maps.texts.standardise(pairs.captions)
    maps.pictures.standardise(pairs.features)
    learnt = learn(_Pairing(maps, pairs), pairs.owner, how, watch)
    return maps, learnt


def ridge_projection(pairs: Pairs, strength: float = 1.0) -> Projection:
    """Least squares from features to captions' vectors, large weights held down by ``strength``.

    min over W, b of sum |W f + b - c|^2 + strength * N * |W|^2 for standardised features.
    """
    _check(pairs)
    width = pairs.captions.shape[1]
    maps = Projection((width, pairs.features.shape[1]), Shape(dim=width, dropout=0.0))
    maps.pictures.standardise(pairs.features)
    mean, scale = maps.pictures.mean.numpy(), maps.pictures.scale.numpy()
    x = ((pairs.features - mean) * scale).astype(np.float64)  # [M, Di]
    y = pairs.captions.mean(axis=0, dtype=np.float64)
    count = np.bincount(pairs.owner, minlength=len(x)).astype(np.float64)  # captions of each
    said = np.zeros((len(x), width))  # [M, Dt] their sum
    np.add.at(said, pairs.owner, pairs.captions)
    centre = count @ x / count.sum()
    x -= centre
    inner = (x * count[:, None]).T @ x + strength * count.sum() * np.eye(x.shape[1])
    weights = np.linalg.solve(inner, x.T @ (said - count[:, None] * y))  # [Di, Dt]
    with torch.no_grad():
        maps.texts.linear.weight.copy_(torch.eye(width))
        maps.texts.linear.bias.zero_()
        maps.pictures.linear.weight.copy_(torch.from_numpy(weights.T))
        maps.pictures.linear.bias.copy_(torch.from_numpy(y - centre @ weights))
    return maps.eval()


def save_projection(
    path: str | Path, maps: Projection, *, texts: str = "", pictures: str = ""
) -> None:
    """Write both maps. ``texts``, ``pictures``: fingerprints of the encoders they belong to."""
    about = {"shape": maps.shape._asdict(), "texts": texts, "pictures": pictures}
    write_learnt(path, _FORMAT, about, maps.state_dict())


def load_projection(path: str | Path) -> Projection:
    """The maps of a file."""

    def build(about: Mapping[str, Any], tensors: dict[str, Tensor]) -> Projection:
        widths = (len(tensors["texts.mean"]), len(tensors["pictures.mean"]))
        maps = Projection(widths, Shape(**about["shape"]))
        maps.load_state_dict(tensors)
        maps.encoders = (str(about["texts"]), str(about["pictures"]))
        return maps.eval()

    fix = "Make one with learn_projection and save_projection of trieline.encode.projection."
    return read_learnt(path, _FORMAT, build, fix)


def _check(pairs: Pairs) -> None:
    captions, features, owner = pairs
    if captions.ndim != 2 or features.ndim != 2 or owner.shape != (len(captions),):
        raise DimensionError(
            f"captions {list(captions.shape)}, features {list(features.shape)}, owner "
            f"{list(owner.shape)}: expected [N, Dt], [M, Di] and [N]."
        )
    if len(owner) and not (owner.min() >= 0 and owner.max() < len(features)):
        raise DimensionError(f"owner names rows outside the {len(features):,} features.")
    for name, table in (("captions", captions), ("features", features)):
        if not np.isfinite(table).all():
            raise DimensionError(f"the vectors of the {name} have NaN or infinite values.")
