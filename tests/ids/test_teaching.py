"""Codebooks taught by queries: the objective, and the same result however a batch is cut."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent))
import plain_pro

from trieline.config import IdSettings, ProSettings
from trieline.ids.assign import assign
from trieline.ids.start import start_books
from trieline.ids.teaching import Lesson, Teaching
from trieline.ids.vectors import unit

Floats = NDArray[np.float32]
Clustered = Callable[..., Floats]
WAYS: list[dict[str, Any]] = [
    {},
    {"distil": "items"},
    {"student": "distance"},
    {"quantised": "items"},
    {"project": True},
    {"project": True, "codebooks": "ema"},
]


def lesson(clustered: Clustered, pairs: int, width: int = 6, seed: int = 0) -> Lesson:
    """Queries near their items; some items are asked for twice, some queries have two answers."""
    rng = np.random.default_rng(seed)
    items = unit(clustered(pairs, width, seed))[: max(2, 3 * pairs // 4)]
    answers = np.sort(rng.integers(0, len(items), pairs))
    noise = 0.3 * rng.standard_normal((pairs, width)).astype(np.float32)
    known = rng.random((pairs, len(items))) < 0.02
    known[np.arange(pairs), answers] = True
    kinds = np.zeros((len(items), 0), np.uint16)
    return Lesson(unit(items[answers] + noise), items, answers, known, kinds)


def teaching(given: Lesson, how: dict[str, Any], lr: float = 0.01) -> Teaching:
    settings = IdSettings(scheme="pro", sizes=(8, 16), pro=ProSettings(**how))
    books = start_books(given.items, settings.sizes)
    return Teaching(books, settings, lr=lr)


@pytest.mark.parametrize("how", WAYS, ids=str)
@pytest.mark.parametrize("rank", [0.0, 100.0])
def test_losses_are_those_of_loops(how: dict[str, Any], rank: float, clustered: Clustered) -> None:
    """At first, and after some steps, when vectors may have moved but the teacher has not."""
    given = lesson(clustered, 20)
    weights = {"rq": 3.0, "mse": 5.0, "contrast": 0.7, "tau": 0.2, "candidates": 9}
    taught = teaching(given, {**how, **weights, "contrast_tau": 0.1})
    for steps in range(4):
        books, turn = [book.copy() for book in taught.books], taught.map.copy()
        queries, items = (unit(v + v @ turn.T) for v in (given.queries, given.items))
        found = taught.step(given, rank)
        if steps in (0, 3):
            ranked = plain_pro.rank_loss(
                given.queries,
                given.items,
                assign(items, books),
                books,
                tau=0.2,
                candidates=9,
                over=how.get("distil", "prefixes"),
                student=how.get("student", "product"),
                asked=queries,
            )
            both = how.get("quantised", "both") == "both"
            expected = others(given, queries, items, books, both) / 20 + rank * ranked
            assert found == pytest.approx(expected, rel=1e-4)
    assert bool(np.abs(turn).max() > 1e-3) == bool(how.get("project"))


def others(given: Lesson, queries: Floats, items: Floats, books: list[Floats], both: bool) -> float:
    """.7 L_cl + 3 L_rq + 5 L_mse, summed over the 20 queries."""
    answers = given.answers.tolist()
    of_queries, of_items = assign(queries, books), assign(items, books)
    scores = queries.astype(np.float64) @ items.T
    total = 0.35 * plain_pro.contrast(scores, answers, given.known, 0.1)
    back = scores[:, answers].T
    total += 0.35 * plain_pro.contrast(back, list(range(20)), given.known[:, answers].T, 0.1)
    for n, item in enumerate(answers):
        left = plain_pro.left_over(items[item], of_items[item], books)
        if both:
            left = (left + plain_pro.left_over(queries[n], of_queries[n], books)) / 2
        total += 3 * left
        pairs = zip(books, of_queries[n], of_items[item], strict=True)
        apart = sum((book[one] - book[other] for book, one, other in pairs), np.zeros(6))
        total += 5 * float(apart @ apart)
    return total


@pytest.mark.parametrize("how", WAYS, ids=str)
@pytest.mark.parametrize("parts", [2, 5])
def test_how_a_batch_is_cut_does_not_matter(
    how: dict[str, Any], parts: int, clustered: Clustered
) -> None:
    """One batch of 256, or two of 128 whose gradients and counts add up, three steps in a row."""
    batches = [lesson(clustered, 256, seed=n) for n in range(3)]
    whole, cut = (teaching(batches[0], how, lr=1e-3) for _ in range(2))
    start = [book.copy() for book in whole.books]
    for batch in batches:
        one, other = whole.step(batch, 10.0), cut.step(batch, 10.0, parts=parts)
        assert one == pytest.approx(other, rel=1e-4)
    assert max(np.abs(a - b).max() for a, b in zip(start, whole.books, strict=True)) > 1e-3
    for one_book, other_book in zip(whole.books, cut.books, strict=True):
        np.testing.assert_allclose(one_book, other_book, atol=2e-5)
    np.testing.assert_allclose(whole.map, cut.map, atol=2e-5)


@pytest.mark.parametrize("how", WAYS, ids=str)
def test_teaching_lowers_the_loss(how: dict[str, Any], clustered: Clustered) -> None:
    given = lesson(clustered, 256)
    taught = teaching(given, {**how, "rq": 1.0, "mse": 1.0})
    losses = [taught.step(given, 10.0) for _ in range(40)]
    assert np.mean(losses[-5:]) < 0.9 * losses[0]
    assert bool(np.abs(taught.map).max() > 0) == bool(how.get("project"))


@pytest.mark.parametrize("how", [{}, {"project": True, "codebooks": "ema"}], ids=str)
def test_dead_words_come_back(how: dict[str, Any], clustered: Clustered) -> None:
    given = lesson(clustered, 256)
    settings = IdSettings(scheme="pro", sizes=(8, 16), pro=ProSettings(**how))
    books = start_books(given.items, settings.sizes)
    books[1][3] = 50.0
    taught = Teaching(books, settings, lr=1e-3)
    for _ in range(100):
        taught.step(given, 0.0)
    assert np.abs(taught.books[1][3]).max() < 2
    assert 3 in assign(given.items, taught.books)[:, 1]
