"""A BEIR folder: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/{train,dev,test}.tsv``.

The layout of Thakur et al., 2021 (arXiv:2104.08663); each file may be gzipped. The traps:
queries.jsonl holds the queries of all splits, so the qrels decide which belong to one; judgements
of items that are not in the corpus occur in published sets and are let through, judgements of
unknown queries are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trieline.data.checks import check_items, check_queries
from trieline.data.columns import Columns
from trieline.data.dataset import require_split
from trieline.data.jsonl import read_objects
from trieline.data.lines import Source, find_file, read_lines, short, whole_number
from trieline.data.records import to_item, to_query
from trieline.data.splits import in_order
from trieline.errors import DataError
from trieline.types import Item, Qrel, Query

__all__ = ["BeirFolder", "is_beir", "read_judgements"]

_COLUMNS = Columns(id="_id")


class BeirFolder:
    """A dataset in BEIR layout, read from its files at every call."""

    def __init__(
        self,
        folder: str | Path,
        *,
        queries: str | Path | None = None,
        qrels: str | Path | None = None,
        keep_empty: bool = False,
    ) -> None:
        """``queries`` (a file) and ``qrels`` (a folder) may stand elsewhere, for example where
        the same corpus is asked in another language. ``keep_empty``: let items without text pass.
        """
        self.folder = Path(folder)
        self.name = self.folder.resolve().name
        corpus = find_file(self.folder, "corpus.jsonl")
        if corpus is None:
            raise DataError(
                f"no corpus.jsonl (or corpus.jsonl.gz) in {self.folder}. A BEIR folder holds "
                "corpus.jsonl, queries.jsonl and qrels/*.tsv."
            )
        self._corpus = corpus
        self._queries = Path(queries) if queries else find_file(self.folder, "queries.jsonl")
        self._qrels = _qrels_files(Path(qrels) if qrels else self.folder / "qrels")
        self._keep_empty = keep_empty
        self._checked: set[str] = set()  # splits whose qrels name known queries only

    def items(self) -> Iterator[Item]:
        """Every item of corpus.jsonl."""
        source = Source(self._corpus)
        return check_items(lambda: self._read_items(source), source, self._keep_empty)

    def splits(self) -> tuple[str, ...]:
        """The splits that have a file of judgements; train, dev, test first."""
        return in_order(self._qrels)

    def queries(self, split: str) -> Iterator[Query]:
        """The queries judged in ``split``, in the order of queries.jsonl."""
        judged = self._judged(split)
        for query in self._all_queries():
            if judged.pop(query.id, None) is not None:
                yield query
        self._refuse_unknown(split, judged)

    def qrels(self, split: str) -> Iterator[Qrel]:
        """The judgements of ``split``, in file order."""
        if split not in self._checked:
            judged = self._judged(split)
            for query in self._all_queries():
                judged.pop(query.id, None)
            self._refuse_unknown(split, judged)
        for _, qrel in read_judgements(self._qrels[split]):
            yield qrel

    def _read_items(self, source: Source) -> Iterator[tuple[int, Item]]:
        for number, record in read_objects(source.path):
            yield number, to_item(record, _COLUMNS, source, number)

    def _read_queries(self, source: Source) -> Iterator[tuple[int, Query]]:
        for number, record in read_objects(source.path):
            yield number, to_query(record, _COLUMNS, source, number)

    def _all_queries(self) -> Iterator[Query]:
        if self._queries is None:
            raise DataError(
                f"{self.folder} has qrels but no queries.jsonl (or queries.jsonl.gz). "
                "Put it beside corpus.jsonl."
            )
        source = Source(self._queries)
        return check_queries(lambda: self._read_queries(source), source)

    def _judged(self, split: str) -> dict[str, int]:
        """Query id -> the line of its first judgement."""
        require_split(self.name, split, self.splits())
        judged: dict[str, int] = {}
        for number, qrel in read_judgements(self._qrels[split]):
            judged.setdefault(qrel.query_id, number)
        return judged

    def _refuse_unknown(self, split: str, left: dict[str, int]) -> None:
        if left:
            id_, number = next(iter(left.items()))
            raise Source(self._qrels[split]).error(
                number,
                f"a query of {self._queries}",
                f"the unknown {id_!r} ({len(left):,} unknown queries in this file)",
            )
        self._checked.add(split)


def is_beir(folder: Path) -> bool:
    """Whether a folder is in BEIR layout."""
    return find_file(folder, "corpus.jsonl") is not None


def read_judgements(path: Path) -> Iterator[tuple[int, Qrel]]:
    """(line number, judgement) of a TSV of query-id, corpus-id, score; its header is left out."""
    source = Source(path)
    first = True
    for number, text in read_lines(path):
        fields = text.split("\t")
        relevance = whole_number(fields[2]) if len(fields) == 3 else None
        if first and len(fields) == 3 and relevance is None:
            first = False  # the header; a file without one loses nothing
            continue
        first = False
        if relevance is None or not fields[0] or not fields[1]:
            fix = "This looks like TREC qrels." if len(text.split()) == 4 else ""
            raise source.error(
                number,
                "query-id<TAB>corpus-id<TAB>score, the score a whole number",
                f"{len(fields)} column{'s' * (len(fields) > 1)}: {short(text, 60)}",
                fix,
            )
        yield number, Qrel(fields[0], fields[1], relevance)


def _qrels_files(folder: Path) -> dict[str, Path]:
    files: dict[str, Path] = {}
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            if path.name.endswith((".tsv", ".tsv.gz")):
                # Sorted order puts x.tsv before x.tsv.gz: the plain file is the one that is read.
                files.setdefault(path.name.partition(".tsv")[0], path)
    return files
