"""The losses: cross-entropy at each level of the docid.

``level``: over all codes of the level. ``legal``: over the children of the target's prefix only, so
that a forced step costs nothing and the probabilities of all docids sum to one.

The trap: label smoothing spreads over what is in the softmax. Over illegal codes it would be
infinite.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from trieline.errors import IndexMismatch
from trieline.index import Trie

__all__ = ["legal_children", "legal_loss", "level_loss"]


def level_loss(logits: Sequence[Tensor], targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """L tensors [B, V], targets [B, L] -> [B], the mean over levels."""
    levels = [
        F.cross_entropy(scores.float(), wanted, reduction="none", label_smoothing=smoothing)
        for scores, wanted in zip(logits, targets.unbind(1), strict=True)
    ]
    return torch.stack(levels).mean(0)


def legal_loss(
    logits: Sequence[Tensor], targets: Tensor, legal: Sequence[Tensor], smoothing: float = 0.0
) -> Tensor:
    """As ``level_loss``, with softmax over the codes that ``legal`` (L tensors [B, V]) allows."""
    levels = []
    for scores, wanted, allowed in zip(logits, targets.unbind(1), legal, strict=True):
        scores = scores.float()
        total = scores.masked_fill(~allowed, float("-inf")).logsumexp(1)
        liked = scores.gather(1, wanted[:, None])[:, 0]
        if smoothing:
            mean = (scores * allowed).sum(1) / allowed.sum(1)
            liked = (1 - smoothing) * liked + smoothing * mean
        levels.append(total - liked)
    return torch.stack(levels).mean(0)


def legal_children(trie: Trie, codes: NDArray[np.int64]) -> list[Tensor]:
    """Which codes may follow each prefix of docids [B, L]: L tensors bool [B, V of the level]."""
    nodes = trie.walk(codes)
    if nodes.min(initial=0) < 0:
        docid = codes[(nodes < 0).any(1)][0].tolist()
        raise IndexMismatch(
            f"docid {docid} is to be learnt, but the trie does not have it. Build the trie from "
            "the docids that are trained."
        )
    legal = []
    for level, size in enumerate(trie.sizes):
        known, which = np.unique(nodes[:, level], return_inverse=True)
        children = trie.expand(level, known)
        allowed = np.zeros((len(known), size), np.bool_)
        allowed[children.parents, children.codes] = True
        legal.append(torch.from_numpy(allowed)[torch.from_numpy(which)])
    return legal
