"""The text encoder against the libraries themselves, with MiniLM's real weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trieline.encode.text import TextEncoder
from trieline.encode.weights import locate
from trieline.types import Floats

SENTENCES = [
    "A trie is a tree of prefixes.",
    "The kettle boils, and the water for the tea is ready.",
    "Vectors of one length point in many directions.",
    "Rivers carry sand to the sea!",
    "12,400 items in 3.5 seconds",
]


def texts() -> list[str]:
    """From a word to more than fits, in no order."""
    rng = np.random.default_rng(0)
    lengths = [1, 40, 3, 12, 2, 5, 1, 7, 20, 4]
    return ["?", *(" ".join(rng.choice(SENTENCES, size=n)) for n in lengths)]


@pytest.fixture(scope="module")
def ours() -> Floats:
    return TextEncoder(max_tokens=128).encode_texts(texts())


def test_sentence_transformers(ours: Floats) -> None:
    from sentence_transformers import SentenceTransformer

    model: Any = SentenceTransformer(str(locate("minilm")), device="cpu")
    model.max_seq_length = 128
    theirs = model.encode(texts(), normalize_embeddings=True, show_progress_bar=False)
    assert np.abs(ours - theirs).max() < 1e-5


def test_transformers_one_text_at_a_time_and_mean_pooling(ours: Floats) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder: Path = locate("minilm")
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModel.from_pretrained(folder).eval()
    for text, vector in zip(texts(), ours, strict=True):
        tokens = tokenizer(text, truncation=True, max_length=128, return_tensors="pt")
        with torch.inference_mode():
            mean = model(**tokens).last_hidden_state[0].mean(dim=0).numpy()
        assert np.abs(vector - mean / np.linalg.norm(mean)).max() < 1e-5


def test_bf16_keeps_the_directions(ours: Floats) -> None:
    rounded = TextEncoder(max_tokens=128, precision="bf16").encode_texts(texts())
    assert (rounded * ours).sum(axis=1).min() > 0.999


def test_a_vector_depends_on_nothing_but_its_text(ours: Floats) -> None:
    encoder = TextEncoder(max_tokens=128, batch=3)
    order = np.random.default_rng(2).permutation(len(ours))
    shuffled = encoder.encode_texts([texts()[n] for n in order])
    assert np.abs(shuffled - ours[order]).max() < 1e-6
    alone = np.concatenate([encoder.encode_texts([text]) for text in texts()])
    assert np.abs(alone - ours).max() < 1e-6
