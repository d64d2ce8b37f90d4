"""The command line, called from a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from trieline import cli
from trieline.errors import TrielineError


def call(*arguments: object, stdin: str | None = None) -> Any:
    result = CliRunner().invoke(cli.app, [str(a) for a in arguments], input=stdin)
    if isinstance(result.exception, TrielineError):
        raise result.exception
    return result


def said(*arguments: object, stdin: str | None = None) -> str:
    """What a command that went well printed."""
    result = call(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


def told(*arguments: object, stdin: str | None = None) -> Any:
    """What it prints for programs: one line of JSON on stdout, whatever goes to stderr."""
    text = said(*arguments, "--json", stdin=stdin)
    assert text.count("\n") == 1
    return json.loads(text)


def file_of(path: Path, items: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
    return path
