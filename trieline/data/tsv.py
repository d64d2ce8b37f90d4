"""Tab-separated tables, with a header line or without one.

A table without a header has two columns (id, text) or three (id, title, text); any other shape
needs ``header=``. The trap: a tab or a line break inside a field cannot be written in this format,
and quotation marks are ordinary characters, so a text may begin with one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from pathlib import Path

from trieline.data.lines import read_lines, short
from trieline.errors import FormatError

__all__ = ["read_rows"]

_HEADERLESS = {2: ("id", "text"), 3: ("id", "title", "text")}


def read_rows(
    path: Path, known: Collection[str], header: Sequence[str] | None = None
) -> Iterator[tuple[int, dict[str, str]]]:
    """(line number, column -> field). ``known``: lower-case names that make a first line a header.

    With ``header`` the file has no header line and these are the names of its columns.
    """
    lines = read_lines(path)
    if header is None:
        first = next(lines, None)
        if first is None:
            return
        header = _read_header(path, first, known)
        if header is None:
            header = _headerless(path, first)
            lines = chain([first], lines)
    for number, text in lines:
        fields = text.split("\t")
        if len(fields) != len(header):
            raise FormatError(
                path,
                number,
                f"{len(header)} columns ({', '.join(header)}) with tabs between",
                f"{len(fields)}: {short(text, 60)}",
            )
        yield number, dict(zip(header, fields, strict=True))


def _read_header(path: Path, first: tuple[int, str], known: Collection[str]) -> list[str] | None:
    number, text = first
    names = [name.strip() for name in text.split("\t")]
    if not any(name.lower() in known for name in names):
        return None
    if len(set(names)) < len(names):
        raise FormatError(path, number, "different column names", short(text))
    return names


def _headerless(path: Path, first: tuple[int, str]) -> tuple[str, ...]:
    number, text = first
    columns = text.count("\t") + 1
    if columns not in _HEADERLESS:
        raise FormatError(
            path,
            number,
            "a header line, or rows of id<TAB>text or id<TAB>title<TAB>text",
            f"{columns} column{'s' * (columns > 1)}: {short(text, 60)}",
            "Add a header line, or name the columns with header=.",
        )
    return _HEADERLESS[columns]
