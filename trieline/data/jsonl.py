"""JSON Lines: one JSON object per line; and a file that is one JSON document.

The trap: a JSON array spread over a file is not JSON Lines; it is named as such when it is met.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from trieline.data.lines import read_lines, short
from trieline.errors import DataError, FormatError

__all__ = ["read_document", "read_mapping", "read_objects", "read_records"]

T = TypeVar("T", bound=msgspec.Struct)
V = TypeVar("V")
W = TypeVar("W")

_EXPECTED = "one JSON object per line"
_BYTE = re.compile(r"\(byte (\d+)\)")


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, object) for every line that is not blank."""
    decode = msgspec.json.Decoder().decode
    for number, text in read_lines(path):
        try:
            value = decode(text)
        except msgspec.DecodeError as error:
            raise FormatError(
                path, number, _EXPECTED, f"{short(text.strip(), 60)} ({error})", _hint(text)
            ) from None
        if not isinstance(value, dict):
            raise FormatError(path, number, _EXPECTED, short(text.strip(), 60), _hint(text))
        yield number, value


def read_records(path: Path, kind: type[T]) -> Iterator[tuple[int, T]]:
    """(line number, record) for every line that is not blank; keys that ``kind`` lacks pass."""
    decode = msgspec.json.Decoder(kind).decode
    for number, text in read_lines(path):
        try:
            record = decode(text)
        except msgspec.ValidationError as error:
            raise FormatError(path, number, _fields(kind), _told(error)) from None
        except msgspec.DecodeError as error:
            raise FormatError(
                path, number, _EXPECTED, f"{short(text.strip(), 60)} ({error})", _hint(text)
            ) from None
        yield number, record


def read_document(path: Path, kind: type[T]) -> T:
    """A file that is one JSON object. All of it is in memory, less the keys that ``kind`` lacks."""
    return _decode(path, kind, _fields(kind))


def read_mapping(path: Path, values: type[V]) -> dict[str, V]:
    """A file that is one JSON object whose keys are data and whose values are of one type."""
    return _decode(path, dict[str, values], "an object of name: value")  # type: ignore[valid-type]


def _decode(path: Path, kind: type[W], expected: str) -> W:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}. Check the path.") from None
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        raise FormatError(path, None, expected, _told(error)) from None
    except msgspec.DecodeError as error:
        place = _BYTE.search(str(error))
        line = content.count(b"\n", 0, int(place[1])) + 1 if place else None
        raise FormatError(path, line, "JSON", f"something else ({error})") from None


def _fields(kind: type[msgspec.Struct]) -> str:
    return f"an object with {', '.join(kind.__struct_encode_fields__)}"


def _told(error: msgspec.ValidationError) -> str:
    return f"one that does not fit ({error})"


def _hint(text: str) -> str:
    if text.lstrip().startswith("["):
        return "This is a JSON array; turn it into lines with: jq -c '.[]'."
    return ""
