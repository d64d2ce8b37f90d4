"""Codebooks before any refinement, and the least squares that fits them together."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from trieline.ids.assign import Metric, assign, squared_error
from trieline.ids.kmeans import cluster
from trieline.ids.refit import refit
from trieline.ids.start import start_books, training_sample

Floats = NDArray[np.float32]


def level_by_level(items: Floats, sizes: tuple[int, ...]) -> list[Floats]:
    books, left = [], items
    for size in sizes:
        books.append(cluster(left, size, seed=0))
        left = left - books[-1][assign(left, [books[-1]])[:, 0]]
    return books


@pytest.mark.parametrize("seed", range(3))
def test_better_than_levels_that_never_look_back(
    seed: int, clustered: Callable[..., Floats]
) -> None:
    items, sizes = clustered(800, 12, seed), (8, 16, 16, 16)
    plain, ours = level_by_level(items, sizes), start_books(items, sizes)
    before = squared_error(items, assign(items, plain), plain)
    assert squared_error(items, assign(items, ours), ours) < before


@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("beam", [1, 4])
def test_the_same_seed_gives_the_same_books(
    metric: Metric, beam: int, clustered: Callable[..., Floats]
) -> None:
    items = clustered(300, 8)
    once, again = (start_books(items, (8, 8), metric=metric, beam=beam, seed=5) for _ in range(2))
    for first, second in zip(once, again, strict=True):
        np.testing.assert_array_equal(first, second)


def test_a_beam_learns_no_worse_books(clustered: Callable[..., Floats]) -> None:
    items, sizes = clustered(800, 12), (8, 8, 8)
    greedy, beam = start_books(items, sizes), start_books(items, sizes, beam=5)
    assert squared_error(items, assign(items, beam, beam=5), beam) < squared_error(
        items, assign(items, greedy), greedy
    )


@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("items", [1, 2, 5, 20])
def test_few_items_are_kept_exactly(
    items: int, metric: Metric, clustered: Callable[..., Floats]
) -> None:
    vectors = clustered(items, 6)
    books = start_books(vectors, (32, 32), metric=metric)
    assert len(books[0]) <= items
    assert squared_error(vectors, assign(vectors, books, metric=metric), books) < 1e-9


def test_equal_items_use_one_code() -> None:
    items = np.full((50, 3), 2.5, np.float32)
    books = start_books(items, (4, 4))
    assert [len(book) for book in books] == [1, 1]
    assert squared_error(items, assign(items, books), books) == 0


def test_the_sample_is_bounded(clustered: Callable[..., Floats]) -> None:
    items = np.zeros((1 << 15, 1), np.float32)
    assert len(training_sample(items, (8, 8), 0)) == 1 << 14
    assert len(training_sample(items, (8, 256), 0)) == 1 << 15


def one_hot(codes: NDArray[np.integer], sizes: tuple[int, ...]) -> NDArray[np.float64]:
    return np.concatenate(
        [np.eye(size)[codes[:, level]] for level, size in enumerate(sizes)], axis=1
    )


@pytest.mark.parametrize("pull", [0.5, 10.0])
def test_refit_is_ridge_least_squares(pull: float, clustered: Callable[..., Floats]) -> None:
    items, sizes = clustered(120, 5), (6, 4, 3)
    anchors = level_by_level(items, sizes)
    codes = assign(items, anchors)
    chosen, start = one_hot(codes, sizes), np.concatenate(anchors).astype(np.float64)
    gram = chosen.T @ chosen + pull * np.eye(sum(sizes))
    exact = start + np.linalg.solve(gram, chosen.T @ (items - chosen @ start))
    found = refit(items, codes, anchors, anchors, pull=pull, sweeps=300)
    np.testing.assert_allclose(np.concatenate(found), exact, atol=1e-3)


def test_refit_never_raises_the_error_of_the_codes(clustered: Callable[..., Floats]) -> None:
    items, sizes = clustered(300, 8), (8, 8, 8)
    books = level_by_level(items, sizes)
    codes = assign(items, books)
    error = squared_error(items, codes, books)
    for sweeps in (1, 2, 4, 8):
        now = squared_error(items, codes, refit(items, codes, books, books, sweeps=sweeps))
        assert now < error
        error = now


def test_words_without_items_stay(clustered: Callable[..., Floats]) -> None:
    items = clustered(40, 4)
    books = [np.ones((3, 4), np.float32), np.zeros((3, 4), np.float32)]
    codes = np.zeros((40, 2), np.uint16)
    for pull in (0.0, 10.0):
        found = refit(items, codes, books, books, pull=pull)
        np.testing.assert_array_equal(found[0][1:], books[0][1:])
        np.testing.assert_array_equal(found[1][1:], books[1][1:])
