"""The losses against loops that say plainly what they mean."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from trieline.errors import IndexMismatch
from trieline.index import Trie
from trieline.train.loss import legal_children, legal_loss, level_loss
from trieline.types import Codes

SIZES = (3, 2, 5)
DOCIDS = np.array([[0, 0, 1], [0, 0, 4], [0, 1, 0], [2, 1, 3], [2, 1, 3]], np.uint16)


@pytest.fixture
def trie() -> Trie:
    return Trie.build(Codes(DOCIDS, np.arange(len(DOCIDS), dtype=np.uint32)), SIZES)


def scores(count: int) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(count, size, requires_grad=True) for size in SIZES]


def plain_loss(logits: list[Tensor], docids: np.ndarray, legal: bool, smoothing: float) -> list:
    """One question, one level, one code at a time."""
    losses = []
    for row, docid in enumerate(docids.tolist()):
        of_levels = []
        for level, code in enumerate(docid):
            may = range(SIZES[level])
            if legal:
                siblings = [d for d in DOCIDS.tolist() if d[:level] == docid[:level]]
                may = sorted({d[level] for d in siblings})
            values = {c: float(logits[level].detach()[row, c]) for c in may}
            total = math.log(sum(math.exp(v) for v in values.values()))
            wanted = total - values[code]
            spread = sum(total - v for v in values.values()) / len(values)
            of_levels.append((1 - smoothing) * wanted + smoothing * spread)
        losses.append(sum(of_levels) / len(of_levels))
    return losses


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("legal", [False, True])
def test_losses_equal_the_plain_loop(trie: Trie, legal: bool, smoothing: float) -> None:
    docids = DOCIDS[[3, 0, 1, 2, 0]].astype(np.int64)
    logits, targets = scores(len(docids)), torch.from_numpy(docids)
    if legal:
        losses = legal_loss(logits, targets, legal_children(trie, docids), smoothing)
    else:
        losses = level_loss(logits, targets, smoothing)
    expected = plain_loss(logits, docids, legal, smoothing)
    assert losses.tolist() == pytest.approx(expected, abs=1e-5)


def test_legal_children_are_those_of_the_trie(trie: Trie) -> None:
    legal = legal_children(trie, np.array([[0, 0, 4], [2, 1, 3]]))
    allowed = [[np.flatnonzero(row).tolist() for row in level.numpy()] for level in legal]
    assert allowed == [[[0, 2], [0, 2]], [[0, 1], [1]], [[1, 4], [3]]]


def test_legal_probabilities_of_all_docids_sum_to_one(trie: Trie) -> None:
    """One speller's scores for one question: each prefix has its own."""
    rng = np.random.default_rng(0)
    of_prefix: dict[tuple[int, ...], np.ndarray] = {}
    for docid in itertools.product(*map(range, SIZES)):
        for level, size in enumerate(SIZES):
            of_prefix.setdefault(docid[:level], rng.standard_normal(size))
    docids = np.unique(DOCIDS, axis=0).astype(np.int64)
    logits = [
        torch.tensor(np.array([of_prefix[tuple(docid[:level])] for docid in docids.tolist()]))
        for level in range(len(SIZES))
    ]
    losses = legal_loss(logits, torch.from_numpy(docids), legal_children(trie, docids))
    assert float((-losses * len(SIZES)).exp().sum()) == pytest.approx(1.0, abs=1e-5)


def test_a_forced_step_teaches_nothing(trie: Trie) -> None:
    docids = np.array([[2, 1, 3]])
    logits = scores(1)
    legal = legal_children(trie, docids)
    legal_loss(logits, torch.from_numpy(docids), legal).sum().backward()
    taught = [level.grad is not None and bool(level.grad.abs().sum() > 0) for level in logits]
    assert taught == [True, False, False]
    assert all(torch.isfinite(level.grad).all() for level in logits if level.grad is not None)


def test_a_docid_outside_the_trie_cannot_be_learnt(trie: Trie) -> None:
    with pytest.raises(IndexMismatch, match=r"docid \[1, 0, 0\]"):
        legal_children(trie, np.array([[0, 0, 1], [1, 0, 0]]))
