"""Cutting a dev split."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trieline.data import Dataset, hold_out
from trieline.errors import DataError, SettingsError
from trieline.types import Item, Qrel, Query


class Tiny:
    """Queries of train in the given order, two judgements each; one test query."""

    name = "tiny"

    def __init__(self, train: list[str]) -> None:
        self.train = train

    def items(self) -> Iterator[Item]:
        yield Item("a", "x")

    def splits(self) -> tuple[str, ...]:
        return ("train", "test")

    def queries(self, split: str) -> Iterator[Query]:
        yield from map(Query, self.train if split == "train" else ["t"])

    def qrels(self, split: str) -> Iterator[Qrel]:
        for query in self.queries(split):
            yield Qrel(query.id, "a", 1)
            yield Qrel(query.id, "b", 0)


def ids(dataset: Dataset, split: str) -> list[str]:
    return [query.id for query in dataset.queries(split)]


@settings(deadline=None)
@given(st.sets(st.text(max_size=4), min_size=2, max_size=60), st.floats(0.01, 0.99), st.integers())
def test_train_is_parted_in_two(train: set[str], share: float, seed: int):
    order = sorted(train)
    cut = hold_out(Tiny(order), share=share, seed=seed)
    left, held = ids(cut, "train"), ids(cut, "dev")
    assert left and held and sorted(left + held) == order
    assert left == sorted(left) and held == sorted(held)  # in the order of the file
    assert len(held) == min(max(round(share * len(order)), 1), len(order) - 1)
    for split in ("train", "dev"):
        judged = [qrel.query_id for qrel in cut.qrels(split)]
        assert judged == [id_ for id_ in ids(cut, split) for _ in range(2)]


def test_the_rest_is_as_it_was():
    plain = Tiny(list("abcdefghij"))
    cut = hold_out(plain)
    assert isinstance(cut, Dataset)
    assert cut.name == "tiny" and cut.splits() == ("train", "dev", "test")
    assert list(cut.items()) == list(plain.items())
    assert list(cut.queries("test")) == list(plain.queries("test"))
    assert list(cut.qrels("test")) == list(plain.qrels("test"))


def test_the_seed_decides_and_the_order_does_not():
    many = [f"q{number}" for number in range(500)]
    held = set(ids(hold_out(Tiny(many), seed=3), "dev"))
    assert len(held) == 50
    assert held == set(ids(hold_out(Tiny(many[::-1]), seed=3), "dev"))
    assert held != set(ids(hold_out(Tiny(many), seed=4), "dev"))
    more = set(ids(hold_out(Tiny([*many, "new"]), seed=3), "dev"))
    assert len(held ^ more) <= 2


def test_the_draw_is_the_same_on_every_machine():
    assert ids(hold_out(Tiny(list("abcdefghij")), share=0.3), "dev") == ["c", "f", "i"]


@pytest.mark.parametrize("share", [0, 1, -0.5, 2, float("nan")])
def test_shares_that_make_no_sense(share: float):
    with pytest.raises(SettingsError, match="expected a number between 0 and 1"):
        hold_out(Tiny(["a", "b"]), share=share)


def test_splits_that_cannot_be_cut():
    with pytest.raises(DataError, match="no split 'all'"):
        hold_out(Tiny(["a", "b"]), split="all")
    with pytest.raises(SettingsError, match="already has a split 'test'"):
        hold_out(Tiny(["a", "b"]), name="test")
    with pytest.raises(DataError, match="has 1 queries in 'train'"):
        ids(hold_out(Tiny(["a"])), "dev")
