"""Prefix ranking distillation: the prefixes of answers should rank as the answers themselves do.

L_rank = mean over queries and levels of KL(teacher || student), both over the distinct prefixes of
the candidates at hand: PRO, Eq. 5, scores in its appendix A.
    teacher(p) ~ exp(max <q, x_j> / tau) over the candidates j below p     (constant: no gradient)
    student(p) ~ exp(<q, sum of the words of p> / tau)                     (of any j below p)
The trap: all candidates below a prefix have the same student score, so counting them one by one
(``over="items"``, what the released code does, with one teacher for all levels) asks for what no
codebook can give, and pays most for prefixes that hold many candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

__all__ = ["contrastive", "prefix_groups", "rank_loss"]

Over = Literal["prefixes", "items"]


def prefix_groups(codes: NDArray[np.integer]) -> NDArray[np.int64]:
    """int64[L, M]: at each level the number of a candidate's prefix, equal where prefixes are.

    ``codes`` [M, L]; numbers are below M.
    """
    groups = np.zeros((codes.shape[1], len(codes)), np.int64)
    parent = np.zeros(len(codes), np.int64)
    for level, column in enumerate(codes.T):
        parent = np.unique(parent * 65536 + column, return_inverse=True)[1].astype(np.int64)
        groups[level] = parent
    return groups


def rank_loss(
    teacher: Tensor,
    students: Sequence[Tensor],
    groups: Tensor,
    *,
    tau: float,
    candidates: int,
    over: Over = "prefixes",
) -> Tensor:
    """The mean of KL(teacher || student) over queries and levels.

    ``teacher`` [B, M] and, for each level, ``students`` [B, M] are similarities of queries and
    candidates, ``groups`` [L, M] the prefixes of the candidates. Each query ranks the
    ``candidates`` that its teacher puts first.
    """
    import torch

    best, picked = teacher.detach().topk(min(candidates, teacher.shape[1]), dim=1)  # [B, K]
    total = teacher.new_zeros(())
    for student, group in zip(students, groups, strict=True):
        scores = student.gather(1, picked)
        counted = _leaders(group[picked], teacher.shape[1]) if over == "prefixes" else None
        # log 0 stands for what does not count: both distributions give it nothing.
        wanted, given = (_log_softmax(each / tau, counted) for each in (best, scores))
        apart = wanted.exp() * (wanted - given)
        if counted is not None:
            apart = torch.where(counted, apart, 0.0)
        total = total + apart.sum(1).mean()
    return total / len(students)


def contrastive(scores: Tensor, answers: Tensor, others: Tensor, tau: float) -> Tensor:
    """-log of the share that each row gives its answer: InfoNCE, summed over the rows.

    ``scores`` [B, M], ``answers`` [B] the columns; ``others`` [B, M] marks columns that answer the
    row as well: they are no negatives.
    """
    import torch

    own = torch.arange(scores.shape[1], device=scores.device) == answers[:, None]
    logits = (scores / tau).masked_fill(others & ~own, -torch.inf)
    return torch.nn.functional.cross_entropy(logits, answers, reduction="sum")


def _leaders(groups: Tensor, size: int) -> Tensor:
    """bool[B, K]: the first candidate of each prefix, which is the teacher's best below it."""
    import torch

    count = groups.shape[1]
    place = torch.arange(count, device=groups.device).expand_as(groups)
    first = torch.full((len(groups), size), count, device=groups.device)
    first.scatter_reduce_(1, groups, place, "amin")
    return first.gather(1, groups) == place


def _log_softmax(scores: Tensor, counted: Tensor | None) -> Tensor:
    """Over what counts alone; what does not is left at -1e30, whose exponential is 0."""
    if counted is not None:
        scores = scores.masked_fill(~counted, -1e30)
    return scores.log_softmax(1)
