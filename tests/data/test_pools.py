"""A split may be asked over some of the items only."""

from __future__ import annotations

import pytest

from trieline.data import MemoryDataset, hold_out, pool_of
from trieline.errors import DataError
from trieline.types import Item, Qrel, Query


def dataset(**pools: list[str]) -> MemoryDataset:
    queries = {split: [Query(f"{split}{n}", "x") for n in range(8)] for split in ("train", "test")}
    qrels = {split: [Qrel(query.id, "a", 1) for query in own] for split, own in queries.items()}
    return MemoryDataset([Item("a", "x"), Item("b", "y")], queries, qrels, pools=pools)


def test_a_dataset_says_what_a_split_is_asked_over() -> None:
    assert pool_of(dataset(test=["b", "a", "b"]), "test") == {"a", "b"}
    assert pool_of(dataset(test=["b"]), "train") is None


def test_a_cut_split_has_the_pool_it_was_cut_from() -> None:
    cut = hold_out(dataset(train=["a"]))
    assert pool_of(cut, "dev") == pool_of(cut, "train") == {"a"}
    assert pool_of(cut, "test") is None


def test_a_pool_of_strangers_is_refused() -> None:
    with pytest.raises(DataError, match=r"pool of 'test' names item 'c'.*2 are not"):
        dataset(test=["a", "d", "c"])
