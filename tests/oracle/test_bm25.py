"""Our BM25 baseline against bm25s asked directly, and against the formula in plain Python."""

from __future__ import annotations

import re
from collections import Counter
from math import log

import bm25s
import numpy as np
import pytest

from trieline.evaluate import bm25
from trieline.types import Item, Query

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lamda mu".split()


@pytest.fixture(scope="module")
def corpus() -> list[Item]:
    rng = np.random.default_rng(0)
    common = rng.zipf(1.6, size=(200, 30)) % len(WORDS)
    texts = [" ".join(WORDS[i] for i in row[: rng.integers(1, 30)]) for row in common]
    return [Item(f"d{i}", f"{text} word{i % 40} and the", "Title") for i, text in enumerate(texts)]


@pytest.fixture(scope="module")
def queries() -> list[Query]:
    rng = np.random.default_rng(1)
    words = [[*rng.choice(WORDS, 3), f"word{rng.integers(40)}", "the"] for _ in range(25)]
    return [Query(f"q{i}", " ".join(asked)) for i, asked in enumerate(words)]


def test_bm25s_asked_directly(corpus: list[Item], queries: list[Query]) -> None:
    index = bm25s.BM25(k1=0.9, b=0.4)
    texts = [f"{item.title} {item.text}" for item in corpus]
    index.index(bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False)
    asked = bm25s.tokenize([q.text for q in queries], stopwords="en", show_progress=False)
    places, scores = index.retrieve(asked, k=10, show_progress=False)
    found = bm25(corpus, queries, 10)
    for query, row, expected in zip(queries, places, scores, strict=True):
        hits = found[query.id]
        assert [hit.score for hit in hits] == pytest.approx(expected.tolist())
        # bm25s breaks ties as it likes, so items are compared above the last score.
        above = {hit.item_id for hit in hits if hit.score > hits[-1].score}
        assert above <= {corpus[i].id for i in row}


def test_the_formula(corpus: list[Item], queries: list[Query]) -> None:
    """Lucene's BM25: idf = ln(1 + (N - n + .5) / (n + .5)), tf / (tf + k1 (1 - b + b l / avg))."""
    texts = [spell(f"{item.title} {item.text}") for item in corpus]
    holders = Counter(word for text in texts for word in set(text))
    mean = sum(map(len, texts)) / len(texts)
    found = bm25(corpus, queries, len(corpus), k1=1.2, b=0.75)
    for query in queries:
        expected = {}
        for item, text in zip(corpus, texts, strict=True):
            counts, norm = Counter(text), 1.2 * (1 - 0.75 + 0.75 * len(text) / mean)
            total = 0.0
            for word in spell(query.text):
                idf = log(1 + (len(texts) - holders[word] + 0.5) / (holders[word] + 0.5))
                total += idf * counts[word] / (counts[word] + norm)
            if total > 0:
                expected[item.id] = total
        hits = found[query.id]
        assert {hit.item_id: hit.score for hit in hits} == pytest.approx(expected, rel=1e-5)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def spell(text: str) -> list[str]:
    return [w for w in re.findall(r"\b\w\w+\b", text.lower()) if w not in {"and", "the"}]
