"""Checkpoints: everything that a run needs to go on as if it had never stopped, in one file.

A safetensors file. Tensors ``model.*`` (weights now), ``best.*`` (weights of the best evaluation)
and ``optimiser.KEY.*`` (its moments); in the header's metadata ``format``, ``key`` (of settings and
data) and ``state`` (JSON: a ``Progress``). A finished run keeps ``model.*`` only. There are no
random states to save: every step draws from its own seed.

The trap: two files, tensors and scalars, could come from different moments. So one file holds both,
and replaces the one before in a single rename.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from trieline.store.disk import atomic_write, disk_errors

__all__ = [
    "Checkpoint",
    "Progress",
    "Unusable",
    "load_checkpoint",
    "load_weights",
    "save_checkpoint",
    "weights_of",
]

_FORMAT = "trieline training 1"


class Progress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a run stands."""

    step: int = 0  # steps done
    best: float | None = None  # the best measure so far
    best_step: int = 0
    stale: int = 0  # evaluations since the best
    loss: float | None = None  # mean over the last logged steps
    seconds: float = 0.0
    stopped_early: bool = False
    finished: bool = False


class Checkpoint(NamedTuple):
    """What was saved."""

    progress: Progress
    tensors: dict[str, Tensor]

    def part(self, name: str) -> dict[str, Tensor]:
        """The tensors "NAME.*", without "NAME."."""
        cut = len(name) + 1
        return {k[cut:]: t for k, t in self.tensors.items() if k.startswith(f"{name}.")}


class Unusable(Exception):
    """There is a checkpoint that cannot be gone on from; says why."""


def save_checkpoint(path: Path, key: str, progress: Progress, tensors: dict[str, Tensor]) -> None:
    """Replace the checkpoint at ``path``; after a crash it is the old one or the new one."""
    metadata = {
        "format": _FORMAT,
        "key": key,
        "state": msgspec.json.encode(progress).decode(),
    }
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with disk_errors(path):
        atomic_write(path, save(whole, metadata))


def load_checkpoint(path: Path, key: str) -> Checkpoint | None:
    """What was saved under this key; None where nothing was."""
    if not path.exists():
        return None
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != _FORMAT:
                raise Unusable("it is not a checkpoint of this version")
            if metadata.get("key") != key:
                raise Unusable("it belongs to other settings or other data")
            progress = msgspec.json.decode(metadata["state"], type=Progress)
            names = list(file.keys())
            return Checkpoint(progress, {name: file.get_tensor(name).clone() for name in names})
    except (SafetensorError, msgspec.MsgspecError, KeyError, OSError) as error:
        raise Unusable(f"it is damaged: {error}") from None


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name; one that goes by two names comes once."""
    seen: set[int] = set()
    weights = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            weights[name] = tensor.detach()
    return weights


def load_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """The inverse of ``weights_of``."""
    with torch.no_grad():
        for name, tensor in weights_of(model).items():
            tensor.copy_(weights[name])
