"""Datasets of the ir_datasets catalogue, named ``irds:NAME``, for example ``irds:vaswani``.

A name with registered parts (``irds:beir/scifact`` has ``/train`` and ``/test``) offers them as
splits; one that is a part itself offers that split; any other with judgements offers ``test``. The
trap: the default text of many collections repeats the title, so title and body are taken from
their own fields where these exist.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from trieline.data.checks import check_items, check_queries
from trieline.data.dataset import require_split
from trieline.data.lines import Source
from trieline.errors import DataError, MissingExtra
from trieline.types import Item, Qrel, Query

__all__ = ["PREFIX", "IrDataset"]

PREFIX = "irds:"

T = TypeVar("T")

_PARTS = {
    "train": ("train",),
    "dev": ("dev", "validation", "valid", "val"),
    "test": ("test",),
}
_BODIES = ("text", "body", "abstract", "contents", "content", "plaintext", "passage")


class IrDataset:
    """A dataset of ir_datasets. Files are fetched by ir_datasets when they are first needed."""

    def __init__(self, name: str, *, keep_empty: bool = False) -> None:
        """``name`` with or without ``irds:``."""
        self._key = name.removeprefix(PREFIX)
        self.name = self._key
        self._source = Source(Path(PREFIX + self._key), "record")
        self._keep_empty = keep_empty
        self._whole = _load(self._key)
        self._parts = _find_parts(self._key, self._whole)

    def items(self) -> Iterator[Item]:
        """Every document."""
        docs = self._documents()
        return check_items(lambda: self._read_items(docs), self._source, self._keep_empty)

    def splits(self) -> tuple[str, ...]:
        """Those of train, dev and test that have queries and judgements."""
        return tuple(self._parts)

    def queries(self, split: str) -> Iterator[Query]:
        """The queries judged in ``split``."""
        judged = {qrel.query_id for qrel in self._judgements(split)}
        for query in self._all_queries(split):
            if query.id in judged:
                yield query

    def qrels(self, split: str) -> Iterator[Qrel]:
        """The judgements of ``split``; every query must be known."""
        require_split(self.name, split, self.splits())
        known = {query.id for query in self._all_queries(split)}
        for number, qrel in enumerate(self._judgements(split), 1):
            if qrel.query_id not in known:
                raise DataError(
                    f"{PREFIX}{self._key} {split} judgement {number}: expected a query of the "
                    f"dataset, got the unknown {qrel.query_id!r}."
                )
            yield qrel

    def _documents(self) -> Any:
        if self._whole.has_docs():
            return self._whole
        raise DataError(f"{PREFIX}{self._key} has no documents. Choose a dataset that has.")

    def _read_items(self, docs: Any) -> Iterator[tuple[int, Item]]:
        for number, doc in enumerate(self._fetched(docs.docs_iter()), 1):
            yield number, _to_item(doc)

    def _all_queries(self, split: str) -> Iterator[Query]:
        part = self._parts[split]

        def read() -> Iterator[tuple[int, Query]]:
            for number, query in enumerate(self._fetched(part.queries_iter()), 1):
                yield number, _to_query(query)

        return check_queries(read, self._source)

    def _judgements(self, split: str) -> Iterator[Qrel]:
        require_split(self.name, split, self.splits())
        for qrel in self._fetched(self._parts[split].qrels_iter()):
            yield Qrel(qrel.query_id, qrel.doc_id, int(qrel.relevance))

    def _fetched(self, stream: Iterator[T]) -> Iterator[T]:
        """``stream``, with failures to fetch a file told as such."""
        try:
            yield from stream
        except (OSError, RuntimeError) as error:
            raise DataError(
                f"ir_datasets could not read {self._key!r}: {error}. It fetches files on first "
                f"use; see https://ir-datasets.com/{self._key.partition('/')[0]}.html."
            ) from error


def _load(key: str) -> Any:
    try:
        library = import_module("ir_datasets")
    except ImportError:
        raise MissingExtra("ir_datasets collections", "ir_datasets", "irds") from None
    try:
        return library.load(key)
    except KeyError:
        near = difflib.get_close_matches(key, [str(name) for name in library.registry], n=3)
        hint = f" Did you mean {', '.join(near)}?" if near else ""
        raise DataError(
            f"ir_datasets knows no dataset {key!r}.{hint} All names: https://ir-datasets.com."
        ) from None


def _find_parts(key: str, whole: Any) -> dict[str, Any]:
    """Split -> the dataset that holds its queries and judgements."""
    library = import_module("ir_datasets")
    parts: dict[str, Any] = {}
    for split, names in _PARTS.items():
        for name in names:
            try:
                part = library.load(f"{key}/{name}")
            except KeyError:
                continue
            if part.has_queries() and part.has_qrels():
                parts[split] = part
                break
    if not parts and whole.has_queries() and whole.has_qrels():
        last = key.rpartition("/")[2]
        named = next((split for split, names in _PARTS.items() if last in names), "test")
        parts[named] = whole
    return parts


def _to_item(doc: Any) -> Item:
    fields = doc._asdict()
    id_ = fields.pop("doc_id")
    title = _string(fields.pop("title", ""))
    body = next((name for name in _BODIES if isinstance(fields.get(name), str)), None)
    text = fields.pop(body) if body else _string(doc.default_text())
    return Item(id_, text=text, title=title, metadata=_metadata(fields))


def _to_query(query: Any) -> Query:
    fields = query._asdict()
    id_ = fields.pop("query_id")
    # Topics of TREC have a title, a description and a narrative; the title is what is asked.
    text = _string(query.default_text())
    rest = {name: value for name, value in fields.items() if value != text}
    return Query(id_, text=text, metadata=_metadata(rest))


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _metadata(fields: dict[str, Any]) -> dict[str, Any] | None:
    """What can be written as JSON; raw bytes of web pages are left out."""
    kept = {name: value for name, value in fields.items() if not isinstance(value, bytes)}
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(kept))
    return plain or None
