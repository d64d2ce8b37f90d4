"""The losses of PRO against loops over prefixes, and their gradients against finite differences."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent))
import plain_pro

from trieline.ids.assign import assign
from trieline.ids.distil import contrastive, prefix_groups, rank_loss

Floats = NDArray[np.float32]


class World:
    """Queries, items and what codes say of the items, in float64."""

    def __init__(self, queries: int, items: int, sizes: tuple[int, ...], seed: int) -> None:
        rng = np.random.default_rng(seed)
        unit = [rng.standard_normal((count, 5)) for count in (queries, items)]
        self.queries, self.items = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in unit)
        self.books = [0.5 * rng.standard_normal((size, 5)) for size in sizes]
        seen = [book.astype(np.float32) for book in self.books]
        self.codes = assign(self.items.astype(np.float32), seen).astype(np.int64)

    def fast(self, words: list[torch.Tensor], asked: torch.Tensor, **how: object) -> torch.Tensor:
        chosen = [word[torch.from_numpy(z)] for word, z in zip(words, self.codes.T, strict=True)]
        students = [asked @ torch.stack(chosen[: n + 1]).sum(0).T for n in range(len(chosen))]
        teacher = torch.from_numpy(self.queries @ self.items.T)
        groups = torch.from_numpy(prefix_groups(self.codes))
        return rank_loss(teacher, students, groups, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("over", ["prefixes", "items"])
@pytest.mark.parametrize("candidates", [2, 7, 30, 500])
@pytest.mark.parametrize("tau", [0.05, 1.0])
def test_the_rank_loss_is_that_of_loops(
    over: Literal["prefixes", "items"], candidates: int, tau: float
) -> None:
    for seed, sizes in enumerate([(2, 3, 4), (8,), (3, 2, 2, 5)]):
        world = World(6, 30, sizes, seed)
        how = {"tau": tau, "candidates": candidates, "over": over}
        words = [torch.from_numpy(book) for book in world.books]
        found = float(world.fast(words, torch.from_numpy(world.queries), **how))
        parts = world.queries, world.items, world.codes, world.books
        assert found == pytest.approx(plain_pro.rank_loss(*parts, **how), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("over", ["prefixes", "items"])
def test_gradients_are_those_of_finite_differences(over: str) -> None:
    """Of the slow loss, with respect to every word and every query."""
    world, step = World(3, 8, (2, 3), 1), 1e-5
    how = {"tau": 0.3, "candidates": 6, "over": over}
    words = [torch.from_numpy(book.copy()).requires_grad_() for book in world.books]
    asked = torch.from_numpy(world.queries.copy()).requires_grad_()
    world.fast(words, asked, **how).backward()

    def slow() -> float:
        parts = world.queries, world.items, world.codes, world.books
        return plain_pro.rank_loss(*parts, asked=moved, **how)  # type: ignore[arg-type]

    moved = world.queries.copy()
    for array, tensor in [*zip(world.books, words, strict=True), (moved, asked)]:
        assert tensor.grad is not None
        for place in np.ndindex(array.shape):
            value = array[place]
            array[place] = value + step
            above = slow()
            array[place] = value - step
            below = slow()
            array[place] = value
            slope = (above - below) / (2 * step)
            assert float(tensor.grad[place]) == pytest.approx(slope, abs=1e-6)
    assert any(float(word.grad.abs().max()) > 0.01 for word in words if word.grad is not None)


def test_codes_that_stand_for_the_items_themselves_lose_nothing() -> None:
    world = World(4, 6, (2, 2), 0)
    world.books, world.codes = [world.items], np.arange(6)[:, None]
    words = [torch.from_numpy(world.items)]
    loss = world.fast(words, torch.from_numpy(world.queries), tau=0.05, candidates=6)
    assert float(loss) == pytest.approx(0.0, abs=1e-9)


def test_a_prefix_counts_once_however_many_items_it_holds() -> None:
    """Two items, one of them ten times: over prefixes nothing changes, over items it does."""
    teacher = torch.tensor([[0.9, 0.1]])
    student, groups = torch.tensor([[0.6, 0.5]]), torch.tensor([[0, 1]])
    often = [0] * 10 + [1]
    for over, same in (("prefixes", True), ("items", False)):
        how = {"tau": 0.5, "candidates": 20, "over": over}
        once = rank_loss(teacher, [student], groups, **how)  # type: ignore[arg-type]
        many = rank_loss(teacher[:, often], [student[:, often]], groups[:, often], **how)  # type: ignore[arg-type]
        assert bool(torch.isclose(once, many)) == same


@given(
    st.lists(st.tuples(*[st.integers(0, 65535)] * 3), min_size=1, max_size=40),
    st.lists(st.integers(0, 39), max_size=20),
)
@settings(max_examples=60, deadline=None)
def test_equal_prefixes_and_no_others_share_a_group(
    rows: list[tuple[int, int, int]], again: list[int]
) -> None:
    codes = np.array([*rows, *(rows[n % len(rows)] for n in again)], np.uint16)
    for level, groups in enumerate(prefix_groups(codes)):
        prefixes = [tuple(row[: level + 1].tolist()) for row in codes]
        assert len(set(prefixes)) == len(set(zip(prefixes, groups.tolist(), strict=True)))
        assert len(set(prefixes)) == len(set(groups.tolist()))
        assert groups.max() < len(codes)


def test_the_contrast_is_that_of_loops() -> None:
    rng = np.random.default_rng(0)
    scores, answers = rng.standard_normal((7, 9)), rng.integers(0, 9, 7)
    others = rng.random((7, 9)) < 0.4
    found = contrastive(
        torch.from_numpy(scores), torch.from_numpy(answers), torch.from_numpy(others), 0.2
    )
    expected = plain_pro.contrast(scores, answers.tolist(), others, 0.2)
    assert float(found) == pytest.approx(expected, rel=1e-9)
