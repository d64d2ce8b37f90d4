"""Exact search with a model that has learnt something: the same as scoring every item."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from exhaustive import check, item_scores, true_scores
from full_geometry import FullGeometry

from trieline.config import IdSettings, ModelSettings, TrainSettings
from trieline.decode import exact_search
from trieline.ids import codebooks_of, open_docids
from trieline.index import Trie
from trieline.model import Speller, build_speller
from trieline.model.questions import VectorQuestions
from trieline.model.readers import Asked
from trieline.train import Pairs, train
from trieline.types import Codes

DIM, COUNT, WAYS = 16, 80, 4
SIZES = (8, 8, 8, 8)
TINY = ModelSettings(
    width=32, heads=2, head_width=16, feed_forward=64, decoder_layers=1, soft_tokens=2, dropout=0.0
)


class Learnt(NamedTuple):
    """A world of clustered things, and a speller that was taught it."""

    speller: Speller
    codes: Codes
    trie: Trie
    books: list[np.ndarray]
    unseen: np.ndarray  # [Q, D] new ways to ask


def learn(normalise: Any) -> Learnt:
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((10, DIM)).astype(np.float32)
    things = centres[np.arange(COUNT) % 10] + 0.5 * rng.standard_normal((COUNT, DIM))
    things = (things / np.linalg.norm(things, axis=1, keepdims=True)).astype(np.float32)
    items = np.repeat(np.arange(COUNT), WAYS)
    noise = 0.1 * rng.standard_normal((2, len(items), DIM)).astype(np.float32)
    docids = open_docids(IdSettings(sizes=SIZES)).fit(things)
    codes = docids.assign(things)
    trie = Trie.build(codes, SIZES)
    speller = build_speller(TINY, SIZES, dim=DIM)
    train(
        speller,
        VectorQuestions(things[items] + noise[0]),
        Pairs(np.arange(len(items)), items, np.zeros(len(items), np.bool_)),
        codes,
        TrainSettings(
            epochs=25, batch=32, lr=5e-3, precision="fp32", patience=0, normalise=normalise
        ),
        item_vectors=things,
        trie=trie,
    )
    return Learnt(speller, codes, trie, codebooks_of(docids), things[items[::40]] + noise[1, ::40])


@pytest.mark.parametrize("normalise", ["level", "legal"])
def test_a_trained_model_answers_exactly(normalise: Any) -> None:
    world = learn(normalise)
    everyone = VectorQuestions(world.unseen).batch(np.arange(len(world.unseen)))
    assert everyone.vector is not None
    alone = [Asked(vector=vector[None]) for vector in everyone.vector]
    model = [true_scores(world.speller, one, world.codes, normalise) for one in alone]
    rows: list[int] = []
    for omega in (0.0, 5.0):
        votes = FullGeometry(world.books, omega, world.trie).votes(world.unseen)
        found = exact_search(
            world.speller,
            everyone,
            world.trie,
            k=10,
            normalise=normalise,
            votes=votes if omega else None,
        )
        docids = [tuple(map(int, docid)) for docid in world.trie.codes]
        for answer, scores, own in zip(found, model, votes, strict=True):
            earned = dict(zip(docids, own.tolist(), strict=True))
            scores = {docid: score + earned[docid] for docid, score in scores.items()}
            check(answer, world.trie, world.codes, scores, 10)
            best = sorted(item_scores(world.codes, scores).values(), reverse=True)[:10]
            assert answer.complete
            np.testing.assert_allclose(answer.scores, best, atol=1e-3)
        rows += [answer.rows for answer in found]
    if normalise == "legal":
        assert np.median(rows) <= 40, "settled spellings cost nothing"
