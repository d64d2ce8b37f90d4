"""Numbered lines of a text file, plain or gzipped, in UTF-8.

The traps: a Windows editor starts the file with a byte order mark and ends lines with CR LF; a
download that broke off leaves half a gzip file; ``str.splitlines`` also cuts at U+2028 and U+0085,
which are ordinary characters inside a text, so only the line feed ends a line here.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from trieline.errors import DataError, FormatError

__all__ = ["LONGEST_LINE", "Source", "find_file", "read_lines", "short", "whole_number"]

LONGEST_LINE = 1 << 26
"""Bytes. A JSON array that was saved as one line must not fill the memory before it is refused."""

_BOM = b"\xef\xbb\xbf"
_WHOLE = re.compile(r"[+-]?[0-9]+(\.0*)?")


class Source(NamedTuple):
    """Where numbered records come from, so that an error can say where it happened."""

    path: Path
    unit: str = "line"  # what is numbered: line, row, document

    def error(self, number: int | None, expected: str, got: str, fix: str = "") -> FormatError:
        if number is not None and self.unit != "line":
            # FormatError counts lines; other units say theirs in words.
            return FormatError(self.path, None, expected, f"{got} in {self.unit} {number}", fix)
        return FormatError(self.path, number, expected, got, fix)


def read_lines(path: Path, *, blank: bool = False) -> Iterator[tuple[int, str]]:
    """(line number from 1, text without its end); blank lines are left out unless asked for."""
    number = 0
    with _open(path) as file:
        try:
            while raw := file.readline(LONGEST_LINE + 1):
                number += 1
                text = _decode(raw, path, number)
                if blank or text.strip():
                    yield number, text
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise FormatError(
                path,
                number + 1,
                "a whole gzip file",
                f"damaged or cut off data ({error})",
                "Copy or download the file again.",
            ) from None


def find_file(folder: Path, name: str) -> Path | None:
    """``folder/name``, or ``folder/name.gz`` where only that exists."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    return None


def whole_number(text: str) -> int | None:
    """The number that ``text`` spells, or None; ``1.0`` counts, since spreadsheets write it so."""
    text = text.strip()
    return int(text.partition(".")[0]) if _WHOLE.fullmatch(text) else None


def short(value: object, limit: int = 80) -> str:
    """A value as an error message quotes it: on one line and not too long."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _open(path: Path) -> BinaryIO:
    try:
        if path.name.endswith(".gz"):
            return cast(BinaryIO, gzip.open(path, "rb"))
        return path.open("rb")
    except FileNotFoundError:
        raise DataError(f"no file at {path}. Check the path.") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}.") from None


def _decode(raw: bytes, path: Path, number: int) -> str:
    if len(raw) > LONGEST_LINE:
        raise FormatError(
            path,
            number,
            f"lines of at most {LONGEST_LINE >> 20} MiB",
            "a longer one",
            "Write one record per line.",
        )
    if number == 1 and raw.startswith(_BOM):
        raw = raw[len(_BOM) :]
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(
            path,
            number,
            "UTF-8 text",
            f"the byte 0x{raw[error.start]:02x} at position {error.start}",
            "Convert the file, for example with: iconv -f latin1 -t utf-8.",
        ) from None
    return text.removesuffix("\n").removesuffix("\r")
