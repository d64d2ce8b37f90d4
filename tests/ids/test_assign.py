"""Assignment against loops that are slow and obviously right."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from trieline.ids import assign as room
from trieline.ids.assign import Metric, assign, hypotheses, reconstruct, squared_error

Floats = NDArray[np.float32]
Found = tuple[float, tuple[int, ...]]  # squared distance, codes


def books_of(sizes: Sequence[int], width: int, seed: int) -> list[Floats]:
    rng = np.random.default_rng(seed)
    return [
        (rng.standard_normal((size, width)) / (level + 1)).astype(np.float32)
        for level, size in enumerate(sizes)
    ]


def plain_beam(x: Floats, books: Sequence[Floats], beam: int, metric: Metric) -> list[Found]:
    """Every partial sum by every word, one at a time, in float64."""
    live: list[Found] = [(0.0, ())]
    for book in books:
        grown: list[Found] = []
        for _, codes in live:
            left = x.astype(np.float64)
            for level, code in enumerate(codes):
                left = left - books[level][code]
            angles = [-left @ word / np.linalg.norm(word) for word in book.astype(np.float64)]
            nearest = sorted(range(len(book)), key=angles.__getitem__)[:beam]
            tried = range(len(book)) if metric == "l2" else nearest
            grown += [(float(((left - book[v]) ** 2).sum()), (*codes, v)) for v in tried]
        live = sorted(grown)[:beam]
    return live


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    width=st.integers(2, 5),  # along a line all angles are equal
    beam=st.integers(1, 7),
    metric=st.sampled_from(["l2", "cosine"]),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=60)
def test_the_beam_is_that_of_plain_loops(
    sizes: list[int], width: int, beam: int, metric: Metric, seed: int
) -> None:
    books = books_of(sizes, width, seed)
    items = np.random.default_rng(seed + 1).standard_normal((4, width)).astype(np.float32)
    found = hypotheses(items, books, metric=metric, beam=beam)
    for row, x in enumerate(items):
        expected = plain_beam(x, books, beam, metric)
        left = x - reconstruct(found[row], books)
        costs = (left.astype(np.float64) ** 2).sum(axis=1)
        assert found.shape[1] == len(expected)
        np.testing.assert_allclose(costs, [cost for cost, _ in expected], rtol=1e-3, atol=1e-4)
        assert len({tuple(codes) for codes in found[row].tolist()}) == len(expected)


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_greedy_takes_the_nearest_word_at_each_level(
    metric: Metric, clustered: Callable[..., Floats]
) -> None:
    items, books = clustered(80, 6), books_of((7, 5, 3), 6, 1)
    codes = assign(items, books, metric=metric)
    for x, row in zip(items, codes, strict=True):
        left = x.astype(np.float64)
        for book, code in zip(books, row, strict=True):
            far = ((left - book) ** 2).sum(axis=1)
            angle = -(book @ left) / np.linalg.norm(book, axis=1)
            assert code == int(np.argmin(far if metric == "l2" else angle))
            left = left - book[code]  # the word itself, whatever was matched


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_blocks_change_nothing(
    beam: int, metric: Metric, clustered: Callable[..., Floats], monkeypatch: pytest.MonkeyPatch
) -> None:
    items, books = clustered(300, 6), books_of((7, 5, 3), 6, 1)
    whole = assign(items, books, metric=metric, beam=beam)
    monkeypatch.setattr(room, "_ROWS", 16)
    np.testing.assert_array_equal(assign(items, books, metric=metric, beam=beam), whole)


def test_a_wider_beam_leaves_less(clustered: Callable[..., Floats]) -> None:
    items, books = clustered(400, 8), books_of((16, 16, 16), 8, 2)
    errors = [squared_error(items, assign(items, books, beam=w), books) for w in (1, 4, 16)]
    assert errors[0] > errors[1] > errors[2]


def test_a_beam_of_everything_finds_the_best_of_all(clustered: Callable[..., Floats]) -> None:
    items, books = clustered(30, 4), books_of((4, 3, 5), 4, 3)
    every = np.stack(np.meshgrid(*map(np.arange, (4, 3, 5)), indexing="ij"), -1).reshape(-1, 3)
    sums = reconstruct(every, books)
    best = ((items[:, None] - sums) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(assign(items, books, beam=60), every[best])


def test_equal_words_give_the_first_code() -> None:
    books = [np.ones((3, 2), np.float32), np.zeros((2, 2), np.float32)]
    assert assign(np.ones((5, 2), np.float32), books).tolist() == [[0, 0]] * 5


def test_a_level_of_65536_codes() -> None:
    book = np.stack(np.divmod(np.arange(65536), 256), axis=1).astype(np.float32)
    items = np.array([[255.0, 255.0], [0.2, 6.9], [128.0, 0.4]], np.float32)
    assert assign(items, [book])[:, 0].tolist() == [65535, 7, 32768]


@pytest.mark.parametrize("beam", [1, 3])
def test_no_items(beam: int) -> None:
    assert assign(np.empty((0, 4), np.float32), books_of((3, 3), 4, 0), beam=beam).shape == (0, 2)


def test_a_prefix_is_a_part_of_the_sum() -> None:
    books = books_of((4, 4, 4), 3, 0)
    codes = np.array([[1, 2, 3]])
    np.testing.assert_allclose(reconstruct(codes[:, :2], books)[0], books[0][1] + books[1][2])
    np.testing.assert_array_equal(reconstruct(codes[:, :0], books), np.zeros((1, 3)))


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_going_on_from_a_known_beam(
    beam: int, metric: Metric, clustered: Callable[..., Floats]
) -> None:
    items, books = clustered(200, 6), books_of((7, 5, 3, 4), 6, 1)
    whole = hypotheses(items, books, metric=metric, beam=beam)
    for levels in (1, 2, 4):
        known = hypotheses(items, books[:levels], metric=metric, beam=beam)
        grown = hypotheses(items, books, metric=metric, beam=beam, known=known)
        np.testing.assert_array_equal(grown, whole)
