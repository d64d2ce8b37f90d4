"""Borrowed queries lie beside their item as real ones lie beside an item like it."""

from __future__ import annotations

import numpy as np
import pytest

from trieline.train.borrow import Borrowed, borrow
from trieline.train.pairs import Pairs
from trieline.types import Floats

ITEMS, WIDTH, NEAR = 40, 6, 8


def world(asked: int = 30) -> tuple[Floats, Floats, Pairs]:
    """Items, queries longer than one, and who asks for whom: only the first ``asked`` items."""
    rng = np.random.default_rng(3)
    items = rng.normal(size=(ITEMS, WIDTH)).astype(np.float32)
    query = np.arange(2 * asked)
    item = query % max(asked, 1)
    queries = (3 * items[item] + rng.normal(size=(len(query), WIDTH))).astype(np.float32)
    return items, queries, Pairs(query, item, np.zeros(len(query), np.bool_))


def unit(vectors: Floats) -> Floats:
    found: Floats = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return found


def allowed(items: Floats, queries: Floats, pairs: Pairs, item: int) -> Floats:
    """Every vector that may be lent to an item, one by one."""
    others = [x for x in np.unique(pairs.item) if x != item]
    near = sorted(others, key=lambda x: -float(unit(items[x]) @ unit(items[item])))[:NEAR]
    found = []
    for query, lender in zip(pairs.query, pairs.item, strict=True):
        if lender in near:
            step = unit(queries[query]) - unit(items[lender])
            length = float(np.linalg.norm(queries[query]))
            found.append(unit(unit(items[item]) + step) * np.float32(length))
    return np.stack(found)


def test_a_step_is_borrowed_from_a_near_item() -> None:
    items, queries, pairs = world()
    made = borrow(items, queries, pairs, 3, seed=0)
    assert np.bincount(made.items).tolist() == [3] * ITEMS
    for vector, item in zip(made.vectors, made.items, strict=True):
        far = np.abs(allowed(items, queries, pairs, int(item)) - vector).max(axis=1)
        assert far.min() < 1e-5


def test_all_near_items_lend() -> None:
    items, queries, pairs = world()
    made = borrow(items, queries, pairs, 400, seed=0)
    own = made.vectors[made.items == ITEMS - 1]
    choice = allowed(items, queries, pairs, ITEMS - 1)
    off = np.abs(own[:, None] - choice).max(axis=2)
    assert set(off.argmin(axis=1)) == set(range(2 * NEAR))  # two queries each


def test_the_seed_decides() -> None:
    first, again, other = (borrow(*world(), 2, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(first.vectors, again.vectors)
    assert not np.array_equal(first.vectors, other.vectors)


@pytest.mark.parametrize(("asked", "count"), [(0, 3), (1, 3), (30, 0)])
def test_nobody_to_borrow_from(asked: int, count: int) -> None:
    """An item does not lend to itself, so one is not enough."""
    made = borrow(*world(asked), count, seed=0)
    assert isinstance(made, Borrowed)
    assert made.vectors.shape == (0, WIDTH) and len(made.items) == 0


def test_two_items_lend_to_each_other() -> None:
    items, queries, pairs = world(2)
    made = borrow(items[:2], queries, pairs, 5, seed=0)
    assert made.items.tolist() == [0] * 5 + [1] * 5
