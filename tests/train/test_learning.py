"""From questions to found items: spellers learn a small corpus and find their way around it."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

from trieline.config import DecodeSettings, ModelSettings, TrainSettings
from trieline.index import Trie
from trieline.model import Alphabet, Speller, build_speller
from trieline.model.questions import HistoryQuestions, Questions, VectorQuestions
from trieline.model.readers import Asked, TokenReader
from trieline.model.t5 import Shape, Stack
from trieline.train import Pairs, Validation, train
from trieline.types import Codes, Qrel

SIZES = (8, 8, 8)
TINY = ModelSettings(
    width=32, heads=2, head_width=16, feed_forward=64, decoder_layers=1, soft_tokens=2, dropout=0.0
)
SETTINGS = TrainSettings(epochs=60, batch=32, lr=5e-3, precision="fp32", patience=0)


def docids(count: int) -> tuple[Codes, Trie]:
    places = np.random.default_rng(1).choice(np.prod(SIZES), count, replace=False)
    codes = np.stack(np.unravel_index(places, SIZES), 1).astype(np.uint16)
    table = Codes(codes, np.arange(count, dtype=np.uint32))
    return table, Trie.build(table, SIZES)


def pairs_of(items: np.ndarray) -> Pairs:
    return Pairs(np.arange(len(items)), items, np.zeros(len(items), np.bool_))


def validation(questions: Questions, items: np.ndarray, trie: Trie, normalise: Any) -> Validation:
    queries = {str(row): row for row in range(len(items))}
    numbers = {str(number): number for number in range(int(items.max()) + 1)}
    qrels = [Qrel(str(row), str(item), 1) for row, item in enumerate(items.tolist())]
    decode = DecodeSettings(beam=8, normalise=normalise)
    return Validation(questions, qrels, queries, numbers, trie, decode, measure="Success@1")


@pytest.mark.parametrize("normalise", ["level", "legal"])
def test_new_questions_find_their_items(normalise: Any) -> None:
    """Twenty items in a space of vectors, six noisy ways to ask for each, and four held out."""
    rng = np.random.default_rng(0)
    things = rng.standard_normal((20, 16)).astype(np.float32)
    things /= np.linalg.norm(things, axis=1, keepdims=True)

    def ask(ways: int) -> tuple[VectorQuestions, np.ndarray]:
        items = np.repeat(np.arange(len(things)), ways)
        noise = rng.standard_normal((len(items), 16)).astype(np.float32)
        return VectorQuestions(things[items] + 0.12 * noise), items

    (questions, items), (unseen, unseen_items) = ask(6), ask(4)
    codes, trie = docids(len(things))
    speller = build_speller(TINY, SIZES, dim=16)
    measure = validation(unseen, unseen_items, trie, normalise)
    before = measure(speller)
    report = train(
        speller,
        questions,
        pairs_of(items),
        codes,
        msgspec.structs.replace(SETTINGS, normalise=normalise, evaluate_every=10),
        item_vectors=things,
        trie=trie,
        validate=measure,
    )
    assert before < 0.3
    assert report.measure == measure(speller) > 0.85
    assert report.loss is not None
    assert report.loss < 0.5


def test_the_next_item_of_a_history_is_found() -> None:
    """Items follow each other on a ring: after n comes n + 1."""
    count = 12
    codes, trie = docids(count)
    starts = np.repeat(np.arange(count), 4)
    histories = [
        np.arange(start, start + 1 + way) % count
        for start, way in zip(starts, np.arange(len(starts)) % 4, strict=True)
    ]
    following = np.array([(history[-1] + 1) % count for history in histories])
    questions = HistoryQuestions(histories, codes.codes, 3)
    model = msgspec.structs.replace(TINY, query="history", encoder_layers=1)
    speller = build_speller(model, SIZES)
    train(speller, questions, pairs_of(following), codes, SETTINGS)
    assert validation(questions, following, trie, "level")(speller) > 0.9


class WordQuestions:
    """Every question is one word of its own."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def batch(self, rows: np.ndarray) -> Asked:
        tokens = torch.from_numpy(rows + 1)[:, None]
        return Asked(tokens=tokens, token_mask=torch.ones_like(tokens, dtype=torch.bool))


@pytest.mark.parametrize("train_model", [True, False])
def test_words_are_learnt_through_a_text_model(train_model: bool) -> None:
    count = 12
    torch.manual_seed(0)
    bert = BertModel(
        BertConfig(
            vocab_size=count + 1,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
        )
    )
    before = {name: tensor.clone() for name, tensor in bert.state_dict().items()}
    shape = Shape(width=32, heads=2, head_width=16, feed_forward=64, layers=1, dropout=0.0)
    reader = TokenReader(bert, 32, train_model)
    speller = Speller(Alphabet(SIZES, 32), reader, Stack(shape, cross=True))
    codes, trie = docids(count)
    items, questions = np.arange(count), WordQuestions(count)
    train(
        speller,
        questions,
        pairs_of(items),
        codes,
        msgspec.structs.replace(SETTINGS, epochs=150),
    )
    assert validation(questions, items, trie, "level")(speller) > 0.9
    changed = [n for n, t in bert.state_dict().items() if not torch.equal(t, before[n])]
    assert bool(changed) == train_model
