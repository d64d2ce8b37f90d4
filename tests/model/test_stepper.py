"""Spelling slot by slot gives what teacher forcing gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from trieline.config import ModelSettings
from trieline.model import Asked, Speller, build_speller
from trieline.model.stepper import TorchStepper

SIZES = (5, 4, 6, 3)
DIM = 8


def speller(soft_tokens: int = 3) -> Speller:
    settings = ModelSettings(
        width=16, heads=2, head_width=8, feed_forward=24, decoder_layers=2, soft_tokens=soft_tokens
    )
    return build_speller(settings, SIZES, dim=DIM, seed=1)


def asked(queries: int) -> Asked:
    return Asked(vector=torch.randn(queries, DIM, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize("soft_tokens", [1, 3])
def test_mixed_levels_in_one_call_equal_teacher_forcing(soft_tokens: int) -> None:
    model, questions = speller(soft_tokens), asked(2)
    rng = np.random.default_rng(0)
    docids = np.stack([rng.integers(0, size, 2) for size in SIZES], 1)  # one a query
    with torch.no_grad():
        wanted = model.hidden(questions, torch.from_numpy(docids))  # [2, L, width]
    stepper = TorchStepper(model)
    root = stepper.begin(questions)
    torch.testing.assert_close(root.states, wanted[:, 0], atol=1e-5, rtol=0)
    first = stepper.extend(np.array([1]), docids[1:, 0], np.array([0]), np.array([1]))
    torch.testing.assert_close(first.states[0], wanted[1, 1], atol=1e-5, rtol=0)
    # Query 0 from its root and query 1 from level 2, three codes and two, in one call.
    parents = np.array([0, 2, 3, 4, 5])
    levels = np.array([0, 1, 1, 2, 2])
    queries = np.array([0, 1, 0, 1, 0])
    mixed = stepper.extend(parents, docids[queries, levels], levels, queries)
    assert mixed.slots.tolist() == [3, 4, 5, 6, 7]
    torch.testing.assert_close(mixed.states, wanted[queries, levels + 1], atol=1e-5, rtol=0)


def test_logits_and_totals_are_the_alphabets() -> None:
    model = speller()
    stepper = TorchStepper(model)
    states = stepper.begin(asked(3)).states
    with torch.no_grad():
        np.testing.assert_allclose(stepper.logits(states, 0), model.alphabet.logits(states, 0))
        joint = model.alphabet.joint_logits(states).logsumexp(-1)
    np.testing.assert_allclose(stepper.totals(states), joint, rtol=1e-6)
