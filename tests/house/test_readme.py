"""Every block of code in the documents is run, in order, as a reader would.

``python`` blocks of one document share a namespace; in ``sh`` and ``console`` blocks each line is
a ``trieline`` command; ``toml`` blocks are recipes; ``json`` and ``jsonl`` blocks must parse. All
run in a folder that holds a small corpus (see ``playground``). What cannot be run here says so in
the document: an HTML comment ``<!-- not run: the reason -->`` on the line before the block.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from trieline import load_recipe

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "CONTRIBUTING.md")
NOT_RUN = re.compile(r"<!-- not run: .{8,} -->")
SHELL = {"sh", "bash", "console", "shell"}
TO_READ = {"", "text", "mermaid"}


class Block(NamedTuple):
    language: str
    code: str
    line: int  # of the first line of code, from 1
    left_out: bool


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a Markdown document."""
    lines = text.splitlines()
    start, language = None, ""
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if start is None:
            start, language = number, line[3:].strip()
            continue
        before = [earlier for earlier in lines[:start] if earlier.strip()][-1:]
        left_out = bool(before) and NOT_RUN.fullmatch(before[0].strip()) is not None
        yield Block(language, "\n".join(lines[start + 1 : number]), start + 2, left_out)
        start = None
    if start is not None:
        raise ValueError(f"the block that opens on line {start + 1} is never closed")


def commands(block: Block) -> list[list[str]]:
    """The arguments of each ``trieline`` command in a shell block."""
    lines = block.code.replace("\\\n", " ").splitlines()
    if block.language == "console":  # the rest is what the command printed
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    found = [words for line in lines if (words := shlex.split(line, comments=True))]
    others = [words for words in found if words[0] != "trieline"]
    if others:
        raise ValueError(f"cannot run {others[0]}: only trieline; else mark it '<!-- not run: -->'")
    return [words[1:] for words in found]


def run_command(arguments: list[str]) -> None:
    from trieline.cli import app

    result = CliRunner().invoke(app, arguments)
    if result.exit_code != 0:
        shown = f"trieline {shlex.join(arguments)} exited with {result.exit_code}\n{result.output}"
        raise AssertionError(shown) from result.exception


def run(block: Block, source: str, namespace: dict[str, Any]) -> None:
    """Run one block."""
    if block.language == "python":
        at_its_line = "\n" * (block.line - 1) + block.code
        exec(compile(at_its_line, source, "exec"), namespace)
    elif block.language in SHELL:
        for arguments in commands(block):
            run_command(arguments)
    elif block.language == "toml":
        Path("block.toml").write_text(block.code, encoding="utf-8")
        load_recipe("block.toml")
    elif block.language == "json":
        json.loads(block.code)
    elif block.language == "jsonl":
        for line in block.code.splitlines():
            json.loads(line)
    elif block.language not in TO_READ:
        raise ValueError(f"no way to run a {block.language!r} block")


@pytest.mark.slow
@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_block_runs(document: str, playground: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    source = ROOT / document
    for block in blocks(source.read_text(encoding="utf-8")):
        if block.left_out:
            continue
        try:
            run(block, str(source), namespace)
        except Exception as error:
            error.add_note(f"in the {block.language} block at {document}:{block.line}")
            raise


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_into_the_project_leads_somewhere(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#\s]+)", text)
    inside = [t for t in targets if not re.match(r"[a-z]+:", t)]
    assert [t for t in inside if not (ROOT / t).exists()] == []


def test_blocks_are_found() -> None:
    text = "Hi\n\n```python\na = 1\n```\n<!-- not run: needs a card -->\n\n```sh\nx\ny\n```\n"
    assert list(blocks(text)) == [
        Block("python", "a = 1", 4, left_out=False),
        Block("sh", "x\ny", 9, left_out=True),
    ]


def test_a_block_that_is_never_closed() -> None:
    with pytest.raises(ValueError, match="opens on line 2"):
        list(blocks("Hi\n```python\na = 1\n"))


def test_commands_are_found() -> None:
    shell = (
        "trieline build corpus \\\n  --out a.tl  # a comment\n\ntrieline search a.tl 'two words'"
    )
    expected = [["build", "corpus", "--out", "a.tl"], ["search", "a.tl", "two words"]]
    assert commands(Block("sh", shell, 1, left_out=False)) == expected
    console = "$ trieline stats a.tl\n24 items\n"
    assert commands(Block("console", console, 1, left_out=False)) == [["stats", "a.tl"]]


def test_another_command_must_be_marked() -> None:
    with pytest.raises(ValueError, match="cannot run \\['pip'"):
        commands(Block("sh", "pip install trieline", 1, left_out=False))


def test_an_error_in_a_block_is_at_its_line() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run(Block("python", "a = 1\nb = a / 0", 7, left_out=False), "README.md", {})
    assert caught.traceback[-1].lineno + 1 == 8
