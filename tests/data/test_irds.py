"""Datasets of ir_datasets, on collections made in the test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import ir_datasets
import pytest
from ir_datasets.datasets.base import Dataset as Registered
from ir_datasets.formats import BaseDocs, BaseQrels, BaseQueries, GenericDoc, TrecQrel, TrecQuery

from trieline.data import irds, open_dataset
from trieline.data.dataset import Dataset
from trieline.data.irds import IrDataset
from trieline.errors import DataError, FormatError, MissingExtra
from trieline.types import Item, Qrel, Query


class Page(NamedTuple):
    doc_id: str
    title: str
    body: str
    year: int
    raw: bytes

    def default_text(self) -> str:
        return f"{self.title} {self.body}"


class Odd(NamedTuple):
    doc_id: str
    parts: tuple[str, ...]

    def default_text(self) -> str:
        return " ".join(self.parts)


class Docs(BaseDocs):
    def __init__(self, docs: list[Any]) -> None:
        self.docs = docs

    def docs_iter(self) -> Iterator[Any]:
        return iter(self.docs)


class Queries(BaseQueries):
    def __init__(self, queries: list[Any]) -> None:
        self.rows = queries

    def queries_iter(self) -> Iterator[Any]:
        return iter(self.rows)


class Qrels(BaseQrels):
    def __init__(self, qrels: list[Any]) -> None:
        self.rows = qrels

    def qrels_iter(self) -> Iterator[Any]:
        return iter(self.rows)


DOCS = Docs([Page("d1", "T", "body", 1999, b"<html>"), Page("d2", "", "other", 2000, b"")])
QUERIES = Queries(
    [
        TrecQuery("q1", "short", "a description", "a narrative"),
        TrecQuery("q2", "second", "second", ""),
        TrecQuery("q3", "never judged", "", ""),
    ]
)


def judged(*rows: tuple[str, str, int]) -> Qrels:
    return Qrels([TrecQrel(query, doc, relevance, "0") for query, doc, relevance in rows])


@pytest.fixture
def register(monkeypatch):
    def add(name: str, *parts: Any) -> None:
        monkeypatch.setitem(ir_datasets.registry._registered, name, Registered(*parts))

    return add


def test_documents_queries_and_judgements(register):
    register("tiny", DOCS, QUERIES, judged(("q2", "d1", 2), ("q1", "d2", 0)))
    dataset = open_dataset("irds:tiny")
    assert isinstance(dataset, Dataset)
    assert dataset.name == "tiny" and dataset.splits() == ("test",)
    assert list(dataset.items()) == [
        Item("d1", text="body", title="T", metadata={"year": 1999}),
        Item("d2", text="other", metadata={"year": 2000}),
    ]
    assert list(dataset.queries("test")) == [
        Query("q1", "short", metadata={"description": "a description", "narrative": "a narrative"}),
        Query("q2", "second", metadata={"narrative": ""}),
    ]
    assert list(dataset.qrels("test")) == [Qrel("q2", "d1", 2), Qrel("q1", "d2", 0)]


def test_parts_are_splits(register):
    register("tiny", DOCS, QUERIES)
    register("tiny/train", DOCS, QUERIES, judged(("q1", "d1", 1)))
    register("tiny/validation", DOCS, QUERIES, judged(("q2", "d1", 1)))
    register("tiny/test", DOCS, QUERIES)  # no judgements: not a split
    dataset = IrDataset("tiny")
    assert dataset.splits() == ("train", "dev")
    assert [query.id for query in dataset.queries("dev")] == ["q2"]
    assert IrDataset("irds:tiny/train").splits() == ("train",)
    assert IrDataset("tiny/validation").splits() == ("dev",)
    with pytest.raises(DataError, match=r"no split 'test'. It has: train, dev"):
        list(dataset.queries("test"))


def test_documents_only(register):
    register("tiny", Docs([GenericDoc("d1", "x"), Odd("d2", ("a", "b"))]))
    dataset = IrDataset("tiny")
    assert dataset.splits() == ()
    assert list(dataset.items()) == [
        Item("d1", text="x"),
        Item("d2", text="a b", metadata={"parts": ["a", "b"]}),
    ]


def test_bad_collections(register):
    docs = Docs([GenericDoc("d1", "x"), GenericDoc("d2", ""), GenericDoc("d1", "y")])
    register("tiny", docs, QUERIES, judged(("q1", "d1", 1), ("q9", "d1", 1)))
    dataset = IrDataset("tiny")
    with pytest.raises(FormatError, match=r"irds:tiny: expected a new id, got 'd1' .* in record 3"):
        list(dataset.items())
    with pytest.raises(DataError, match=r"irds:tiny test judgement 2: .* the unknown 'q9'"):
        list(dataset.qrels("test"))
    register("empty", Docs([GenericDoc("d1", "x"), GenericDoc("d2", "")]))
    with pytest.raises(FormatError, match=r"1 of 2 items are empty\) in record 2"):
        list(IrDataset("empty").items())
    assert len(list(IrDataset("empty", keep_empty=True).items())) == 2
    register("bare", QUERIES)
    with pytest.raises(DataError, match="irds:bare has no documents"):
        list(IrDataset("bare").items())


def test_a_file_that_cannot_be_fetched(register):
    class Unreachable(BaseDocs):
        def docs_iter(self) -> Iterator[Any]:
            raise ConnectionError("no route to host")
            yield

    register("tiny", Unreachable())
    with pytest.raises(DataError, match="could not read 'tiny': no route to host"):
        list(IrDataset("tiny").items())


def test_unknown_names(register):
    register("tinycollection", DOCS)
    with pytest.raises(DataError, match=r"no dataset 'tinycolection'. Did you mean tinycollection"):
        open_dataset("irds:tinycolection")
    with pytest.raises(DataError, match=r"no dataset 'qqqqqqqq'. All names"):
        open_dataset("irds:qqqqqqqq")


def test_without_ir_datasets(monkeypatch):
    def refuse(name: str):
        raise ImportError(name)

    monkeypatch.setattr(irds, "import_module", refuse)
    with pytest.raises(MissingExtra, match=r"need ir_datasets. .*trieline\[irds\]"):
        open_dataset("irds:tiny")
