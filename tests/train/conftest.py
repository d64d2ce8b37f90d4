"""A tiny world: a dozen things, a few ways to ask for each, and a speller that could learn them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from trieline.config import ModelSettings, TrainSettings
from trieline.index import Trie
from trieline.model import Speller, build_speller
from trieline.model.questions import VectorQuestions
from trieline.train import Pairs
from trieline.types import Codes, Floats

SIZES = (4, 4, 6)
DIM = 8


class World(NamedTuple):
    """What training needs."""

    questions: VectorQuestions
    pairs: Pairs
    codes: Codes
    trie: Trie
    items: Floats  # [N, D]
    settings: TrainSettings
    new_speller: Callable[..., Speller]


@pytest.fixture
def world() -> World:
    rng = np.random.default_rng(7)
    count, ways = 12, 3
    items = rng.standard_normal((count, DIM)).astype(np.float32)
    items /= np.linalg.norm(items, axis=1, keepdims=True)
    asked = np.repeat(np.arange(count), ways)
    near = items[asked] + 0.1 * rng.standard_normal((len(asked), DIM)).astype(np.float32)
    places = rng.choice(np.prod(SIZES), count, replace=False)
    codes = Codes(
        np.stack(np.unravel_index(places, SIZES), 1).astype(np.uint16),
        np.arange(count, dtype=np.uint32),
    )
    pairs = Pairs(np.arange(len(asked)), asked, np.zeros(len(asked), np.bool_))
    settings = TrainSettings(
        epochs=3,
        batch=8,
        lr=3e-3,
        precision="fp32",
        patience=0,
        checkpoint_every=0.0,
        label_smoothing=0.0,
    )
    return World(
        VectorQuestions(near), pairs, codes, Trie.build(codes, SIZES), items, settings, new_speller
    )


def new_speller(seed: int = 0, dropout: float = 0.1) -> Speller:
    """The same seed gives the same speller."""
    tiny = ModelSettings(
        width=32,
        heads=2,
        head_width=16,
        feed_forward=64,
        decoder_layers=1,
        soft_tokens=2,
        dropout=dropout,
    )
    return build_speller(tiny, SIZES, dim=DIM, seed=seed)
