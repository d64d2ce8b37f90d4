"""Learning from pairs: what belongs together comes near, everything else in the batch goes away.

Bidirectional InfoNCE (van den Oord et al. 2018, as in CLIP): for a batch of pairs of unit vectors,
the mean of two cross-entropies, left to right and right to left, of cosines over a temperature that
is learnt too. Stops when the mean reciprocal rank on pairs that were held out no longer rises, and
keeps the best state. Same seed, same machine: same result.
The trap: a picture has several captions, so in a batch of pairs some that look like negatives are
right answers too: pairs of one group are not held against each other, nor split by the holding out.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trieline.errors import TrainError
from trieline.types import Floats
from trieline.watch import Watch, silent

__all__ = ["Contrast", "Learnt", "Pairing", "held_out", "info_nce", "learn", "seeded"]

_COLDEST = math.log(100)  # CLIP's bound on the inverse temperature
_FEWEST = 4  # groups: two to learn from, two to judge by


class Contrast(NamedTuple):
    """How pairs are learnt from."""

    epochs: int = 60
    batch: int = 256
    lr: float = 1e-3
    weight_decay: float = 0.01
    temperature: float = 0.05  # to start with
    held_out: float = 0.1  # share of the groups that decides when to stop
    patience: int = 6  # epochs without improvement; 0 = never stop early
    seed: int = 0


class Learnt(NamedTuple):
    """What came of it."""

    epochs: int  # that were run
    best_epoch: int  # whose state was kept, from 1
    rr: float  # mean reciprocal rank of held-out pairs, both directions, then; -1: no epoch
    temperature: float  # at the end


class Pairing(Protocol):
    """A module that gives the two sides of pairs."""

    def __call__(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Unit vectors [B, D] of both sides of the pairs ``rows``."""


def info_nce(left: Tensor, right: Tensor, scale: Tensor, groups: Tensor) -> Tensor:
    """The loss of a batch; ``scale``: one over the temperature, ``groups`` [B]."""
    logits = scale * left @ right.T  # (B, B)
    same = groups[:, None] == groups[None, :]
    same.fill_diagonal_(False)
    logits = logits.masked_fill(same, -torch.inf)
    target = torch.arange(len(left), device=left.device)
    there = nn.functional.cross_entropy(logits, target)
    back = nn.functional.cross_entropy(logits.T, target)
    return (there + back) / 2


def learn(
    module: nn.Module,
    groups: NDArray[np.int64],
    settings: Contrast | None = None,
    watch: Watch = silent,
) -> Learnt:
    """Train ``module``, a ``Pairing``, on pairs 0 ... N-1 whose answers are ``groups`` [N]."""
    how = settings or Contrast()
    kept = held_out(groups, how.held_out, how.seed)
    rows, exam = np.flatnonzero(~kept), np.flatnonzero(kept)
    draws = np.random.default_rng(how.seed)
    log_scale = nn.Parameter(torch.tensor(-math.log(how.temperature)))
    parts: list[dict[str, Any]] = [
        {"params": list(module.parameters())},
        {"params": [log_scale], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(parts, lr=how.lr, weight_decay=how.weight_decay)
    steps = how.epochs * -(-len(rows) // how.batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, max(steps, 1))
    best, best_epoch, epoch, state = -1.0, 0, 0, copy.deepcopy(module.state_dict())
    with seeded(how.seed), watch("learning from pairs", how.epochs) as task:
        for epoch in range(1, how.epochs + 1):
            module.train()
            for some in _batches(draws.permutation(rows), how.batch):
                left, right = module(torch.from_numpy(some))
                near = torch.from_numpy(groups[some]).to(left.device)
                loss = info_nce(left, right, log_scale.clamp(max=_COLDEST).exp(), near)
                if not bool(torch.isfinite(loss)):
                    raise TrainError(
                        f"the loss became {float(loss)} in epoch {epoch}. Try a smaller lr "
                        f"(now {how.lr}) or a higher temperature."
                    )
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                schedule.step()
            found = _reciprocal_rank(module, exam, groups)
            if found > best:
                best, best_epoch, state = found, epoch, copy.deepcopy(module.state_dict())
            task.advance(1, f"loss {float(loss.detach()):.2f}, RR {found:.3f}")
            if how.patience and epoch - best_epoch >= how.patience:
                break
    module.load_state_dict(state)
    module.eval()
    return Learnt(epoch, best_epoch, best, float((-log_scale.detach()).exp()))


def held_out(groups: NDArray[np.int64], share: float, seed: int) -> NDArray[np.bool_]:
    """Which pairs are held out: all those of a share of the groups, drawn by ``seed``."""
    known = np.unique(groups)
    if not 0 < share < 1 or len(known) < _FEWEST:
        raise TrainError(
            f"{len(known)} groups of pairs and held_out = {share}: expected at least {_FEWEST} "
            "groups and a share between 0 and 1."
        )
    count = min(max(round(share * len(known)), 2), len(known) - 2)
    chosen = np.random.default_rng(seed).choice(known, count, replace=False)
    return np.isin(groups, chosen)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """torch draws from ``seed`` while this lasts, and goes on as before afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def _batches(rows: NDArray[np.int64], size: int) -> Iterator[NDArray[np.int64]]:
    for start in range(0, len(rows), size):
        if len(some := rows[start : start + size]) > 1:  # a pair alone teaches nothing
            yield some


def _reciprocal_rank(
    module: nn.Module, rows: NDArray[np.int64], groups: NDArray[np.int64], block: int = 1024
) -> float:
    """Mean of 1 / rank of the first right answer, over both directions; ties count against."""
    module.eval()
    with torch.inference_mode():
        parts = [
            [side.float().cpu().numpy() for side in module(torch.from_numpy(rows[n : n + block]))]
            for n in range(0, len(rows), block)
        ]
    left, right = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
    own, first = np.unique(groups[rows], return_index=True)
    scores: Floats = left @ right[first].T  # [pairs, groups]
    right_ones = groups[rows][:, None] == own[None, :]
    return float((_rr(scores, right_ones) + _rr(scores.T, right_ones.T)) / 2)


def _rr(scores: Floats, right_ones: NDArray[np.bool_]) -> float:
    best = np.where(right_ones, scores, -np.inf).max(axis=1, keepdims=True)
    ranks = 1 + ((scores >= best) & ~right_ones).sum(axis=1)
    return float((1 / ranks).mean())
