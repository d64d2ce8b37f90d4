"""Questions become the tensors that readers want."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import BertTokenizerFast, PreTrainedTokenizerFast

from trieline.config import ModelSettings
from trieline.errors import DataError, DimensionError, SettingsError
from trieline.model.questions import (
    HistoryQuestions,
    TextQuestions,
    VectorQuestions,
    load_tokenizer,
)
from trieline.types import Query

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "where", "is", "the", "cat"]


@pytest.fixture
def tokenizer() -> Any:
    """Words are tokens; nothing is added at the ends."""
    words = Tokenizer(WordLevel({w: n for n, w in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]")


def test_vectors_by_row(tmp_path: Path) -> None:
    vectors = np.arange(12, dtype=np.float32).reshape(4, 3)
    asked = VectorQuestions(vectors).batch(np.array([2, 0, 2]))
    assert asked.vector is not None
    assert asked.vector.tolist() == [[6, 7, 8], [0, 1, 2], [6, 7, 8]]
    np.save(tmp_path / "v.npy", vectors.astype(np.float16))
    mapped = VectorQuestions(np.load(tmp_path / "v.npy", mmap_mode="r"))
    asked = mapped.batch(np.array([1]))
    assert asked.vector is not None
    assert asked.vector.dtype == torch.float32
    assert len(mapped) == 4


def test_one_vector_is_not_a_table() -> None:
    with pytest.raises(DimensionError, match=r"one table \[Q, D\], got shape \(3,\)"):
        VectorQuestions(np.zeros(3, np.float32))


def test_texts_are_padded_to_the_longest_of_the_batch(tokenizer: Any) -> None:
    questions = TextQuestions(["the cat", "where is the cat", "cat"], tokenizer, 64)
    asked = questions.batch(np.array([2, 0]))
    assert asked.tokens is not None
    assert asked.token_mask is not None
    assert asked.tokens.tolist() == [[7, 0], [6, 7]]
    assert asked.token_mask.tolist() == [[True, False], [True, True]]
    assert asked.queries == 2


def test_long_texts_are_cut_on_the_right(tokenizer: Any) -> None:
    asked = TextQuestions(["where is the cat"], tokenizer, 2).batch(np.array([0]))
    assert asked.tokens is not None
    assert asked.tokens.tolist() == [[4, 5]]


def test_never_more_tokens_than_the_model_has_places_for(tokenizer: Any) -> None:
    tokenizer.model_max_length = 3
    asked = TextQuestions(["where is the cat"], tokenizer, 64).batch(np.array([0]))
    assert asked.tokens is not None
    assert asked.tokens.shape == (1, 3)


def test_a_text_without_tokens_is_named(tokenizer: Any) -> None:
    questions = TextQuestions(["cat", "the", ""], tokenizer, 8)
    with pytest.raises(DataError, match="question 2 \\(''\\) has no tokens"):
        questions.batch(np.array([0, 2]))


def test_tokenizers_are_loaded_from_folders(tmp_path: Path) -> None:
    BertTokenizerFast(vocab={w: n for n, w in enumerate(WORDS)}).save_pretrained(tmp_path)
    settings = ModelSettings(query="tokens", text_model=str(tmp_path), max_tokens=4)
    asked = TextQuestions.of([Query("q", "where is the cat")], settings).batch(np.array([0]))
    assert asked.tokens is not None
    assert asked.tokens.tolist() == [[2, 4, 5, 3]]  # [CLS] where is [SEP]
    with pytest.raises(SettingsError, match="nowhere"):
        load_tokenizer(str(tmp_path / "nowhere"))


def test_histories_keep_the_latest_items() -> None:
    codes = np.array([[0, 1], [2, 3], [4, 5], [6, 7]], np.uint16)
    histories = [np.array([0, 1, 2]), np.array([3])]
    asked = HistoryQuestions(histories, codes, 2).batch(np.array([1, 0]))
    assert asked.history is not None
    assert asked.history_mask is not None
    assert asked.history_mask.tolist() == [[True, False], [True, True]]
    assert asked.history[1].tolist() == [[2, 3], [4, 5]]
    assert asked.history[0, 0].tolist() == [6, 7]


def test_an_empty_history_cannot_be_asked() -> None:
    with pytest.raises(DataError, match="question 1 has an empty history"):
        HistoryQuestions([np.array([0]), np.array([], np.int64)], np.zeros((1, 2), np.uint16), 5)


@pytest.mark.parametrize("item", [-1, 3])
def test_a_history_of_items_that_are_not_there(item: int) -> None:
    with pytest.raises(DataError, match="items 0 to 2"):
        HistoryQuestions([np.array([0, item])], np.zeros((3, 2), np.uint16), 5)


def test_a_history_of_nothing_is_no_setting() -> None:
    with pytest.raises(SettingsError, match="max_history = 0"):
        HistoryQuestions([np.array([0])], np.zeros((1, 2), np.uint16), 0)


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=8), min_size=1, max_size=6),
    st.integers(1, 5),
)
def test_histories_equal_a_plain_loop(histories: list[list[int]], most: int) -> None:
    codes = np.random.default_rng(0).integers(0, 99, (10, 3)).astype(np.uint16)
    questions = HistoryQuestions([np.array(h) for h in histories], codes, most)
    asked = questions.batch(np.arange(len(histories)))
    assert asked.history is not None
    assert asked.history_mask is not None
    for row, history in enumerate(histories):
        kept = asked.history[row][asked.history_mask[row]]
        assert kept.tolist() == codes[history[-most:]].tolist()
