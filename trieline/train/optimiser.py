"""The optimiser: AdamW, what it decays, and how fast it learns at each step.

The trap: weight decay is for the matrices between layers. Norms and biases would lose their scale,
and the row of a code that is seldom drawn would shrink between its few gradients.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from trieline.config import TrainSettings
from trieline.model.readers import TokenReader
from trieline.model.seq2seq import Speller

__all__ = ["make_optimiser", "rate_at", "set_rate"]

_PRETRAINED = 0.02
"""Share of the learning rate that a pretrained text model takes: 2e-5 of 1e-3, as fine-tuning
does. At the full rate it would forget what it knows before the new layers can read it."""


def make_optimiser(speller: Speller, settings: TrainSettings) -> torch.optim.AdamW:
    """AdamW over what can be trained."""
    pretrained = set()
    if isinstance(speller.reader, TokenReader) and speller.reader.trained:
        pretrained = set(speller.reader.model.parameters())
    matrices = {m.weight for m in speller.modules() if isinstance(m, nn.Linear)}
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for parameter in speller.parameters():
        if parameter.requires_grad:
            share = _PRETRAINED if parameter in pretrained else 1.0
            decay = settings.weight_decay if parameter in matrices else 0.0
            groups.setdefault((share, decay), []).append(parameter)
    return torch.optim.AdamW(
        [
            {"params": members, "weight_decay": decay, "share": share}
            for (share, decay), members in groups.items()
        ],
        lr=settings.lr,
        fused=speller.device.type in ("cpu", "cuda"),
    )


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """The learning rate of the coming step."""
    for group in optimiser.param_groups:
        group["lr"] = rate * group["share"]


def rate_at(step: int, total: int, settings: TrainSettings) -> float:
    """The learning rate of a step (from 0): up in a line, then down as the schedule says."""
    warm = round(settings.warmup * total)
    if step < warm:
        return settings.lr * (step + 1) / warm
    done = (step - warm) / max(total - warm, 1)
    match settings.schedule:
        case "cosine":
            return settings.lr * 0.5 * (1 + math.cos(math.pi * done))
        case "linear":
            return settings.lr * (1 - done)
        case "constant":
            return settings.lr
