"""Interaction sequences and the leave-one-out split."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trieline.data.dataset import Dataset
from trieline.data.sequences import SequenceFolder, _places, is_sequences
from trieline.errors import DataError, FormatError
from trieline.types import Item, Qrel, Query

ITEMS = [{"item_id": name, "text": f"text {name}", "brand": 1} for name in "abcdé"]


@pytest.fixture(params=["", ".gz"])
def folder(put, tmp_path: Path, request) -> Path:
    put(f"shop/items.jsonl{request.param}", ITEMS)
    put(
        f"shop/sequences.txt{request.param}",
        "\ufeffu1 a b c d a\r\n\r\nu2\tb\té  c\nu3 a b\nu4 c\n",
    )
    return tmp_path / "shop"


def test_items(folder: Path):
    dataset = SequenceFolder(folder)
    assert isinstance(dataset, Dataset) and is_sequences(folder)
    assert dataset.name == "shop" and dataset.splits() == ("train", "dev", "test")
    items = list(dataset.items())
    assert items[0] == Item("a", text="text a", metadata={"brand": 1})
    assert [item.id for item in items] == list("abcdé")


def test_leave_one_out(folder: Path):
    dataset = SequenceFolder(folder)
    asked = {split: list(dataset.queries(split)) for split in dataset.splits()}
    assert asked["train"] == [
        Query("u1#1", history=("a",)),
        Query("u1#2", history=("a", "b")),
        Query("u3#1", history=("a",)),  # two items: trains only
    ]
    assert asked["dev"] == [
        Query("u1#3", history=("a", "b", "c")),
        Query("u2#1", history=("b",)),
    ]
    assert asked["test"] == [
        Query("u1#4", history=("a", "b", "c", "d")),
        Query("u2#2", history=("b", "é")),
    ]
    assert list(dataset.qrels("train")) == [
        Qrel("u1#1", "b", 1),
        Qrel("u1#2", "c", 1),
        Qrel("u3#1", "b", 1),
    ]
    assert list(dataset.qrels("dev")) == [Qrel("u1#3", "d", 1), Qrel("u2#1", "é", 1)]
    assert list(dataset.qrels("test")) == [Qrel("u1#4", "a", 1), Qrel("u2#2", "c", 1)]


@settings(deadline=None)
@given(st.integers(1, 40))
def test_every_step_is_asked_in_one_split(length: int):
    places = {split: list(_places(length, split)) for split in ("train", "dev", "test")}
    together = places["train"] + places["dev"] + places["test"]
    if length >= 3:
        assert together == list(range(1, length))
        assert places["dev"] == [length - 2] and places["test"] == [length - 1]
    else:
        assert together == places["train"] == list(range(1, length))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("u2 a x b", r"expected an item of .*items\.jsonl, got the unknown 'x'"),
        ("u2", "expected a user and at least one item, got 'u2'"),
        ("u1 b c", "expected a new user, got 'u1' again, first on line 1"),
    ],
)
@pytest.mark.parametrize("ask", ["queries", "qrels"])
def test_bad_lines(put, tmp_path: Path, line: str, message: str, ask: str):
    put("items.jsonl", ITEMS)
    put("sequences.txt", f"u1 a b c\n\n{line}\n")
    with pytest.raises(FormatError, match=r"sequences\.txt line 3: " + message):
        list(getattr(SequenceFolder(tmp_path), ask)("test"))


def test_items_without_text_pass_but_not_twice(put, tmp_path: Path):
    put("sequences.txt", "u1 a b c\n")
    put("items.jsonl", [{"_id": "a", "text": "x"}, {"_id": "b", "text": ""}, {"_id": "a"}])
    with pytest.raises(FormatError, match=r"items\.jsonl line 3: .*'a' again"):
        list(SequenceFolder(tmp_path).items())
    put("items.jsonl", [{"_id": "a", "text": "x"}, {"_id": "b", "text": ""}, {"_id": "c"}])
    assert [item.id for item in SequenceFolder(tmp_path).items()] == ["a", "b", "c"]


def test_missing_files_and_splits(put, tmp_path: Path):
    put("sequences.txt", "u1 a b c\n")
    with pytest.raises(DataError, match=r"no items\.jsonl .* holds items\.jsonl"):
        SequenceFolder(tmp_path)
    put("items.jsonl", ITEMS)
    with pytest.raises(DataError, match=r"no split 'valid'. It has: train, dev, test"):
        list(SequenceFolder(tmp_path).queries("valid"))
