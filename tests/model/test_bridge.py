"""Histories placed among codebooks: the regression, what it reads, what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from trieline.config import ModelSettings
from trieline.errors import IndexMismatch
from trieline.model import Speller, build_speller
from trieline.model.bridge import Bridge, fit_bridge
from trieline.model.questions import HistoryQuestions

SIZES = (5, 4)
WIDTH, DIM, ITEMS = 16, 6, 12


def speller(seed: int = 1) -> Speller:
    settings = ModelSettings(
        query="history", width=WIDTH, heads=2, head_width=8, feed_forward=24, decoder_layers=1
    )
    return build_speller(settings, SIZES, seed=seed)


def questions(count: int = 40) -> HistoryQuestions:
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, ITEMS) for size in SIZES], 1).astype(np.uint16)
    histories = [rng.integers(0, ITEMS, rng.integers(1, 6)) for _ in range(count)]
    return HistoryQuestions(histories, codes, max_history=4)


def pooled(model: Speller, asked: HistoryQuestions, row: int) -> np.ndarray:
    """.7 of the last state and .3 of the mean of one history, read alone, at length one."""
    with torch.no_grad():
        states = model.read(asked.batch(np.array([row]))).states[0].numpy().astype(np.float64)
    state = 0.7 * states[-1] + 0.3 * states.mean(axis=0)
    return state / np.linalg.norm(state)


@pytest.mark.parametrize("ridge", [1e-3, 1.0])
def test_the_regression_is_that_of_augmented_least_squares(ridge: float) -> None:
    """Ridge regression is least squares with sqrt(ridge) * I as further rows, means taken out."""
    model, asked = speller(), questions()
    rng = np.random.default_rng(1)
    goals = (3 * rng.standard_normal((ITEMS, DIM))).astype(np.float32)
    query, item = rng.integers(0, 40, 60), rng.integers(0, ITEMS, 60)
    bridge = fit_bridge(model, asked, query, item, goals, ridge=ridge)
    x = np.stack([pooled(model, asked, row) for row in query])
    y = goals[item] / np.linalg.norm(goals[item], axis=1, keepdims=True)
    above, below = x - x.mean(axis=0), np.sqrt(ridge) * np.eye(WIDTH)
    target = np.concatenate([y - y.mean(axis=0), np.zeros((WIDTH, DIM))])
    weight = np.linalg.lstsq(np.concatenate([above, below]), target, rcond=None)[0]
    np.testing.assert_allclose(bridge.weight, weight, atol=0.01)
    found = bridge.vectors(model, asked.batch(np.arange(40)))
    for row, vector in enumerate(found):
        near = (pooled(model, asked, row) - x.mean(axis=0)) @ weight + y.mean(axis=0)
        length = np.linalg.norm(goals[item], axis=1).mean()
        np.testing.assert_allclose(vector, length * near / np.linalg.norm(near), atol=2e-3)


def test_it_finds_what_can_be_told_from_a_history() -> None:
    """The next item is the last one again; held-out histories point to it."""
    model, asked = speller(), questions(400)
    codes = asked.codes
    words = [np.random.default_rng(n).standard_normal((size, DIM)) for n, size in enumerate(SIZES)]
    goals = sum(word[codes[:, n]] for n, word in enumerate(words)).astype(np.float32)
    last = np.array([history[-1] for history in asked.histories])
    rows = np.arange(400)
    bridge = fit_bridge(model, asked, rows[:300], last[:300], goals)
    placed = bridge.vectors(model, asked.batch(rows[300:]))
    right = goals[last[300:]]
    lengths = np.linalg.norm(right, axis=1) * np.linalg.norm(placed, axis=1)
    assert ((placed * right).sum(axis=1) / lengths).mean() > 0.8
    alone = [bridge.vectors(model, asked.batch(rows[n : n + 1]))[0] for n in (300, 399)]
    np.testing.assert_allclose(placed[[0, -1]], alone, atol=1e-5)


def test_saved_and_refused() -> None:
    model, asked = speller(), questions()
    rows = np.arange(40)
    goals = np.random.default_rng(0).standard_normal((ITEMS, DIM)).astype(np.float32)
    bridge = fit_bridge(model, asked, rows, rows % ITEMS, goals)
    loaded = Bridge.from_arrays(bridge._asdict(), WIDTH, DIM)
    assert loaded.fingerprint == bridge.fingerprint
    other = fit_bridge(speller(2), asked, rows, rows % ITEMS, goals)
    assert other.fingerprint != bridge.fingerprint
    with pytest.raises(IndexMismatch, match=r"weight has shape \(16, 6\), .* need \(16, 7\)"):
        Bridge.from_arrays(bridge._asdict(), WIDTH, DIM + 1)
    with pytest.raises(IndexMismatch, match="length has shape None"):
        Bridge.from_arrays({"weight": bridge.weight, "bias": bridge.bias}, WIDTH, DIM)


def test_states_that_never_vary_place_everything_in_the_middle() -> None:
    model = speller()
    asked = HistoryQuestions([np.array([0])] * 5, np.zeros((1, 2), np.uint16), 4)
    goals = np.ones((1, DIM), np.float32)
    bridge = fit_bridge(model, asked, np.arange(5), np.zeros(5, np.int64), goals, ridge=0.0)
    placed = bridge.vectors(model, asked.batch(np.arange(5)))
    np.testing.assert_allclose(placed, np.ones((5, DIM)), atol=1e-4)
