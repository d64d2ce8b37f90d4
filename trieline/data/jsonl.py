"""JSON Lines: one JSON object per line.

The trap: a JSON array spread over a file is not JSON Lines; it is named as such when it is met.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from trieline.data.lines import read_lines, short
from trieline.errors import FormatError

__all__ = ["read_objects"]

_EXPECTED = "one JSON object per line"


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


def _hint(text: str) -> str:
    if text.lstrip().startswith("["):
        return "This is a JSON array; turn it into lines with: jq -c '.[]'."
    return ""
