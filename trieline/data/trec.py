"""TREC runs and qrels, in both directions, plain or gzipped.

A run line is ``query Q0 item rank score tag``, a judgement ``query 0 item relevance``. The trap:
trec_eval ignores the rank column and ranks by score, equal scores by item id from the end of the
alphabet; so do we, both when we read and when we write. It holds scores in single precision, so
scores that differ by less than one part in ten million are equal to it and not to us.
"""

from __future__ import annotations

import gzip
import math
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BufferedWriter, TextIOWrapper
from pathlib import Path
from typing import TextIO

from trieline.data.lines import Source, read_lines, short, whole_number
from trieline.errors import DataError, SettingsError, TrielineError
from trieline.types import Hit, Qrel, Run

__all__ = [
    "rank",
    "read_fields",
    "read_judgements",
    "read_qrels",
    "read_run",
    "write_qrels",
    "write_run",
]

# Only what C calls white space separates fields: an id may hold a no-break space.
_GAP = re.compile(r"[ \t\r\f\v]+")
# Also what would be lost on the way: byte order marks, half surrogates, C's end of a string.
_UNWRITABLE = re.compile(r"[ \t\r\n\f\v\x00\ufeff\ud800-\udfff]")


def read_run(path: str | Path) -> dict[str, list[Hit]]:
    """Query id -> its hits, best first, ranked by score."""
    source = Source(Path(path))
    found: dict[str, dict[str, float]] = {}
    for number, fields in read_fields(source, "query Q0 item rank score tag"):
        query_id, _, item_id, _, text, _ = fields
        score = _score(text)
        if score is None:
            raise source.error(number, "a number as score (5th column)", repr(text))
        hits = found.setdefault(query_id, {})
        if item_id in hits:
            raise source.error(number, f"each item once for query {query_id!r}", repr(item_id))
        hits[item_id] = score
    return {
        query_id: rank([Hit(item_id, score) for item_id, score in hits.items()])
        for query_id, hits in found.items()
    }


def write_run(path: str | Path, run: Run, tag: str = "trieline") -> None:
    """Writes a run; ``tag`` names the system. A query without hits leaves no line."""
    if not tag or _UNWRITABLE.search(tag):
        raise SettingsError(f"tag {short(tag)}: a TREC run needs one word.")
    with _written(Path(path)) as file:
        for query_id, hits in run.items():
            start = f"{_writable(query_id, 'query')} Q0"
            seen: set[str] = set()
            for hit in rank(hits):
                if hit.item_id in seen:
                    raise DataError(f"query {query_id!r} has item {hit.item_id!r} twice.")
                seen.add(hit.item_id)
                item_id = _writable(hit.item_id, "item")
                file.write(f"{start} {item_id} {hit.rank} {float(hit.score)!r} {tag}\n")


def read_qrels(path: str | Path) -> Iterator[Qrel]:
    """The judgements of a file, in its order."""
    for _, qrel in read_judgements(Path(path)):
        yield qrel


def read_judgements(path: Path) -> Iterator[tuple[int, Qrel]]:
    """(line number, judgement)."""
    source = Source(path)
    for number, fields in read_fields(source, "query 0 item relevance"):
        query_id, _, item_id, text = fields
        relevance = whole_number(text)
        if relevance is None:
            raise source.error(number, "a whole number as relevance (4th column)", repr(text))
        yield number, Qrel(query_id, item_id, relevance)


def write_qrels(path: str | Path, qrels: Iterable[Qrel]) -> None:
    """Writes judgements in the order they come."""
    with _written(Path(path)) as file:
        for qrel in qrels:
            query_id = _writable(qrel.query_id, "query")
            item_id = _writable(qrel.item_id, "item")
            file.write(f"{query_id} 0 {item_id} {int(qrel.relevance)}\n")


def rank(hits: Sequence[Hit]) -> list[Hit]:
    """The hits in trec_eval's order, with their ranks from 1."""
    if bad := [hit for hit in hits if math.isnan(hit.score)]:
        raise DataError(f"the score of item {bad[0].item_id!r} is NaN: it cannot be ranked.")
    backwards = sorted(hits, key=lambda hit: hit.item_id, reverse=True)
    ordered = sorted(backwards, key=lambda hit: hit.score, reverse=True)
    return [hit._replace(rank=place) for place, hit in enumerate(ordered, 1)]


def read_fields(source: Source, form: str) -> Iterator[tuple[int, list[str]]]:
    """(line number, fields) of a table between white space; ``form`` names its columns."""
    width = form.count(" ") + 1
    for number, text in read_lines(source.path):
        fields = _GAP.split(text.strip(" \t\r\f\v"))
        if len(fields) != width:
            raise source.error(
                number, f"'{form}'", f"{len(fields)} column{'s' * (len(fields) > 1)}: {short(text)}"
            )
        yield number, fields


def _score(text: str) -> float | None:
    try:
        score = float(text) if "_" not in text else math.nan
    except ValueError:
        return None
    return None if math.isnan(score) else score


def _writable(id_: str, kind: str) -> str:
    if not id_ or _UNWRITABLE.search(id_):
        raise DataError(
            f"{kind} id {short(id_)} cannot stand in a TREC file: ids need at least one character "
            "and neither white space nor NUL. Rename it."
        )
    return id_


@contextmanager
def _written(path: Path) -> Iterator[TextIO]:
    """A text file that appears under its name when it is complete, or not at all."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as raw:
            if path.name.endswith(".gz"):
                # No name and no time inside, so that equal runs are equal files.
                with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed, _text(packed) as file:
                    yield file
            else:
                with _text(raw) as file:
                    yield file
        part.replace(path)
    except BaseException as error:
        with suppress(OSError):
            part.unlink()
        if isinstance(error, OSError):
            raise TrielineError(
                f"cannot write {path}: {error.strerror}. What stood there before is unchanged."
            ) from error
        raise


def _text(raw: gzip.GzipFile | BufferedWriter) -> TextIOWrapper:
    return TextIOWrapper(raw, encoding="utf-8", newline="\n")
