"""Small files for the tests of the readers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

Put = Callable[[str, str | bytes | Iterable[Mapping[str, Any]]], Path]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Writes text, bytes or JSON records to a file below tmp_path; packs it if named .gz."""

    def write(name: str, content: str | bytes | Iterable[Mapping[str, Any]]) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(content, str | bytes):
            content = "".join(json.dumps(record) + "\n" for record in content)
        data = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write
