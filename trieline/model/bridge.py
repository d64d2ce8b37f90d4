"""A bridge from histories to codebooks: where the next item should lie, told by the encoder.

Guides compare a query's vector with codebooks, and a history has none. A ridge regression from the
pooled states of the model's encoder to the reconstruction of the item that came next gives it one.
From PRO's released code for TIGER (the paper does not say how): states are pooled as .7 of the last
and .3 of their mean; states, targets and results are brought to length one. Here a result gets the
mean length of the targets, so that codebooks of vectors of any length are compared with rightly.
The trap: a bridge belongs to one model and its docids; after more training it must be fitted again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trieline.errors import IndexMismatch
from trieline.ids.vectors import unit
from trieline.model.questions import Questions
from trieline.model.readers import Asked
from trieline.model.seq2seq import Speller
from trieline.model.t5 import Memory
from trieline.types import Floats
from trieline.watch import Watch, silent

__all__ = ["Bridge", "fit_bridge"]

_LAST = 0.7  # weight of the last state beside the mean of all
_ENOUGH = 1 << 15  # pairs; more change nothing about a few hundred coefficients a coordinate
_BATCH = 256


class Bridge(NamedTuple):
    """history -> length * unit(pooled @ weight + bias)"""

    weight: Floats  # [width of the model, D]
    bias: Floats  # [D]
    length: Floats  # [1]

    def vectors(self, speller: Speller, asked: Asked) -> Floats:
        """float32[B, D]: the histories among the codebooks."""
        with torch.no_grad():
            pooled = _pooled(speller.read(asked.to(speller.device))).cpu().numpy()
        placed: Floats = self.length * unit(unit(pooled) @ self.weight + self.bias)
        return placed

    @property
    def fingerprint(self) -> str:
        """Changes with any coefficient."""
        digest = hashlib.sha256()
        for array in self:
            digest.update(f"{array.shape}\n".encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], width: int, dim: int) -> Self:
        """The inverse of ``_asdict``, checked against the model's width and the codebooks'."""
        shapes = {"weight": (width, dim), "bias": (dim,), "length": (1,)}
        for name, shape in shapes.items():
            found = arrays[name].shape if name in arrays else None
            if found != shape:
                raise IndexMismatch(
                    f"the saved bridge's {name} has shape {found}, model and codebooks need "
                    f"{shape}. Rebuild with 'trieline build'."
                )
        return cls(*(arrays[name].astype(np.float32) for name in cls._fields))


def fit_bridge(
    speller: Speller,
    questions: Questions,
    query: NDArray[np.int64],
    item: NDArray[np.int64],
    reconstructions: Floats,
    *,
    ridge: float = 1e-3,
    seed: int = 0,
    watch: Watch = silent,
) -> Bridge:
    """Least squares with penalty ``ridge`` over pairs of a question and the item that came next.

    ``reconstructions`` [N, D] are what the docids of the items stand for.
    """
    chosen = np.arange(len(query))
    if len(chosen) > _ENOUGH:
        chosen = np.random.default_rng(seed).choice(len(query), _ENOUGH, replace=False)
    lengths = np.linalg.norm(reconstructions[item[chosen]], axis=1)
    sources, targets = [], []
    with watch("bridging histories and codebooks", len(chosen)) as task:
        for low in range(0, len(chosen), _BATCH):
            rows = chosen[low : low + _BATCH]
            with torch.no_grad():
                read = speller.read(questions.batch(query[rows]).to(speller.device))
            sources.append(unit(_pooled(read).cpu().numpy()))
            targets.append(unit(reconstructions[item[rows]]))
            task.advance(len(rows))
    x = np.concatenate(sources).astype(np.float64)
    y = np.concatenate(targets).astype(np.float64)
    middle, goal = x.mean(axis=0), y.mean(axis=0)
    x -= middle
    gram = x.T @ x + ridge * np.eye(x.shape[1])
    # Not ``solve``: states that never vary leave the matrix without full rank where ridge is 0.
    weight = np.linalg.lstsq(gram, x.T @ (y - goal), rcond=None)[0]
    bias = goal - middle @ weight
    length = np.array([lengths.mean()])
    return Bridge(*(part.astype(np.float32) for part in (weight, bias, length)))


def _pooled(memory: Memory) -> Tensor:
    """[B, width]; the states of a question come first, padding after them."""
    count = memory.mask.sum(1)
    mean = (memory.states * memory.mask[:, :, None]).sum(1) / count[:, None]
    last = memory.states[torch.arange(len(count), device=count.device), count - 1]
    return _LAST * last + (1 - _LAST) * mean
