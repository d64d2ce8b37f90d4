"""Codebooks that move batch by batch: the same however a batch is cut, and never for the worse."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from trieline.ids.assign import Metric, assign, squared_error
from trieline.ids.ema import Ema, refine_ema
from trieline.ids.gradient import refine_gradient
from trieline.ids.start import start_books

Floats = NDArray[np.float32]
REFINE = {"ema": refine_ema, "gradient": refine_gradient}


def random_books(sizes: tuple[int, ...], width: int, seed: int = 0) -> list[Floats]:
    rng = np.random.default_rng(seed)
    return [(0.5 * rng.standard_normal((size, width))).astype(np.float32) for size in sizes]


@pytest.mark.parametrize("parts", [2, 3, 64])
@pytest.mark.parametrize(("metric", "beam"), [("l2", 1), ("cosine", 1), ("l2", 3)])
def test_how_a_batch_is_cut_does_not_matter(
    parts: int, metric: Metric, beam: int, clustered: Callable[..., Floats]
) -> None:
    items = clustered(640, 6)
    whole, cut = (
        Ema(random_books((16, 8), 6), metric=metric, beam=beam, decay=0.7, patience=1, dead=0.3)
        for _ in range(2)
    )
    for start in range(0, 640, 64):
        whole.step(items[start : start + 64])
        cut.step(items[start : start + 64], parts=parts)
    assert whole.revived == cut.revived > 0
    for one, other in zip(whole.books, cut.books, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_a_step_is_the_moving_average_written_out(clustered: Callable[..., Floats]) -> None:
    items, books = clustered(50, 4), random_books((5, 3), 4)
    codes = assign(items, books)
    ema = Ema(books, decay=0.8)
    ema.step(items)
    for level in (0, 1):
        other = books[1 - level][codes[:, 1 - level]]
        for v, word in enumerate(books[level]):
            asked = (items - other)[codes[:, level] == v].astype(np.float64)
            count = 50 / len(books[level])
            total = 0.8 * count * word + 0.2 * asked.sum(axis=0)
            expected = total / (0.8 * count + 0.2 * len(asked))
            np.testing.assert_allclose(ema.books[level][v], expected, atol=1e-4)


def test_a_dead_word_comes_back_after_its_patience() -> None:
    rng = np.random.default_rng(0)
    items = rng.standard_normal((200, 3)).astype(np.float32)
    books = [np.concatenate([items[:7], np.full((1, 3), 1e3, np.float32)])]
    ema = Ema(books, decay=0.5, dead=0.05, patience=4)
    counts = []
    for _ in range(12):
        ema.step(items)
        counts.append(ema.revived)
    # .5 ** 5 of the mean is below .05 of it: five steps until it counts as quiet, three more.
    assert counts[:7] == [0] * 7 and counts[-1] == 1
    assert np.abs(ema.books[0][7]).max() < 10
    assert 7 in assign(items, ema.books)


def test_words_that_get_less_than_an_item_a_step_are_not_replaced() -> None:
    rng = np.random.default_rng(0)
    items = rng.standard_normal((4000, 4)).astype(np.float32)
    ema = Ema([items[:512].copy()], decay=0.99)
    for start in range(0, 4000, 128):  # a quarter of an item per word and step
        ema.step(items[start : start + 128])
    assert ema.revived == 0


@pytest.mark.parametrize("how", REFINE)
@pytest.mark.parametrize(("metric", "beam"), [("l2", 1), ("cosine", 1), ("l2", 3)])
def test_refining_helps_bad_books_and_never_hurts(
    how: str, metric: Metric, beam: int, clustered: Callable[..., Floats]
) -> None:
    items = clustered(700, 6)
    good = start_books(items, (8, 8), metric=metric, beam=beam)
    for books in (good, random_books((8, 8), 6)):
        before = squared_error(items, assign(items, books, metric=metric, beam=beam), books)
        better = REFINE[how](items, books, metric=metric, beam=beam, epochs=6, batch=128)
        after = squared_error(items, assign(items, better, metric=metric, beam=beam), better)
        assert after <= before
        assert books is good or after < 0.9 * before


@pytest.mark.parametrize("how", REFINE)
def test_the_same_seed_gives_the_same_books(how: str, clustered: Callable[..., Floats]) -> None:
    items, books = clustered(300, 6), random_books((8, 8), 6)
    untouched = [book.copy() for book in books]
    once, again = (REFINE[how](items, books, epochs=2, seed=1, batch=64) for _ in range(2))
    for first, second, book, kept in zip(once, again, books, untouched, strict=True):
        np.testing.assert_array_equal(first, second)
        np.testing.assert_array_equal(book, kept)


@pytest.mark.parametrize("how", REFINE)
def test_no_epochs_and_one_item(how: str) -> None:
    item = np.ones((1, 3), np.float32)
    books = [np.zeros((1, 3), np.float32)]
    np.testing.assert_array_equal(REFINE[how](item, books, epochs=0)[0], books[0])
    assert REFINE[how](item, books, epochs=3)[0].mean() > 0
