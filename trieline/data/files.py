"""Items and queries in one table each: JSON Lines, TSV or Parquet, told apart by the file's name.

Columns are found by their names (see ``columns``) or named by the user with
``columns={"id": "asin", "text": "description"}``; all others become metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from trieline.data import jsonl, parquet, trec, tsv
from trieline.data.beir import read_judgements
from trieline.data.checks import check_items, check_queries
from trieline.data.columns import (
    ITEM_NAMES,
    PEEK,
    QUERY_NAMES,
    Columns,
    Names,
    find_columns,
    known_ids,
)
from trieline.data.dataset import require_split
from trieline.data.lines import Source, read_lines
from trieline.data.records import to_item, to_query
from trieline.errors import DataError, SettingsError
from trieline.types import Item, Qrel, Query

__all__ = ["SUFFIXES", "TableFiles", "is_table", "read_items", "read_queries"]

SUFFIXES = (".jsonl", ".jsonl.gz", ".tsv", ".tsv.gz", ".parquet")

Rows = Iterator[tuple[int, dict[str, Any]]]
Chosen = Mapping[str, str]


class TableFiles:
    """A dataset whose items, queries and judgements stand in files of their own."""

    def __init__(
        self,
        items: str | Path,
        *,
        queries: Mapping[str, str | Path] | None = None,
        qrels: Mapping[str, str | Path] | None = None,
        columns: Chosen | None = None,
        query_columns: Chosen | None = None,
        keep_empty: bool = False,
    ) -> None:
        """``queries`` and ``qrels``: split -> file; judgements in BEIR's or TREC's format."""
        self.name = Path(items).name.partition(".")[0]
        self._items = Path(items)
        self._queries = {split: Path(path) for split, path in (queries or {}).items()}
        self._qrels = {split: Path(path) for split, path in (qrels or {}).items()}
        self._columns, self._query_columns = columns, query_columns
        self._keep_empty = keep_empty
        if odd := self._queries.keys() ^ self._qrels.keys():
            raise SettingsError(
                f"split {min(odd)!r} has only one of queries and qrels: give both files."
            )

    def items(self) -> Iterator[Item]:
        """Every item of the file."""
        return read_items(self._items, self._columns, keep_empty=self._keep_empty)

    def splits(self) -> tuple[str, ...]:
        """The splits that were given files."""
        return tuple(self._qrels)

    def queries(self, split: str) -> Iterator[Query]:
        """The queries of the split's file that are judged in it, in file order."""
        judged = {qrel.query_id for qrel in self.qrels(split)}
        for query in self._all_queries(split):
            if query.id in judged:
                yield query

    def qrels(self, split: str) -> Iterator[Qrel]:
        """The judgements of the split's file; every query must be known."""
        require_split(self.name, split, self.splits())
        known = {query.id for query in self._all_queries(split)}
        path = self._qrels[split]
        for number, qrel in _read_qrels(path):
            if qrel.query_id not in known:
                raise Source(path).error(
                    number, f"a query of {self._queries[split]}", f"the unknown {qrel.query_id!r}"
                )
            yield qrel

    def _all_queries(self, split: str) -> Iterator[Query]:
        return read_queries(self._queries[split], self._query_columns)


def is_table(path: Path) -> bool:
    """Whether the file's name ends like that of a table this module reads."""
    return path.name.lower().endswith(SUFFIXES)


def read_items(
    path: str | Path,
    columns: Chosen | None = None,
    *,
    header: tuple[str, ...] | None = None,
    keep_empty: bool = False,
) -> Iterator[Item]:
    """Every item of a table. ``header`` names the columns of a TSV file without a header line."""
    source, rows = _open(Path(path), ITEM_NAMES, columns, header)
    found = _columns(rows, ITEM_NAMES, columns, source, content=not keep_empty)

    def read() -> Iterator[tuple[int, Item]]:
        for number, row in rows():
            yield number, to_item(row, found, source, number)

    return check_items(read, source, keep_empty)


def read_queries(
    path: str | Path, columns: Chosen | None = None, *, header: tuple[str, ...] | None = None
) -> Iterator[Query]:
    """Every query of a table."""
    source, rows = _open(Path(path), QUERY_NAMES, columns, header)
    found = _columns(rows, QUERY_NAMES, columns, source)

    def read() -> Iterator[tuple[int, Query]]:
        for number, row in rows():
            yield number, to_query(row, found, source, number)

    return check_queries(read, source)


def _open(
    path: Path, names: Names, columns: Chosen | None, header: tuple[str, ...] | None
) -> tuple[Source, Callable[[], Rows]]:
    name = path.name.lower()
    if name.endswith(".parquet"):
        return Source(path, "row"), partial(parquet.read_rows, path)
    if name.endswith((".tsv", ".tsv.gz")):
        return Source(path), lambda: tsv.read_rows(path, known_ids(names, columns), header)
    if name.endswith((".jsonl", ".jsonl.gz")):
        return Source(path), partial(jsonl.read_objects, path)
    raise DataError(f"cannot tell the format of {path}. Expected a name in {', '.join(SUFFIXES)}.")


def _columns(
    rows: Callable[[], Rows],
    names: Names,
    chosen: Chosen | None,
    source: Source,
    content: bool = True,
) -> Columns:
    head = [row for _, row in islice(rows(), PEEK)]
    if not head:
        return Columns()  # nothing to name; whoever needs a record will say so
    found = find_columns(chain.from_iterable(head), names, chosen, source, content)
    if source.path.name.lower().endswith((".tsv", ".tsv.gz")) and found.embedding in head[0]:
        raise source.error(
            None,
            "a table of texts",
            f"a column {found.embedding!r}",
            "Keep embeddings in Parquet, JSON Lines, .npy or safetensors.",
        )
    return found


def _read_qrels(path: Path) -> Iterator[tuple[int, Qrel]]:
    _, first = next(read_lines(path), (0, ""))
    if first.count("\t") == 2:
        return read_judgements(path)
    return trec.read_judgements(path)
