"""Small files, small functions, and names that say what is inside."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("trieline", "tests", "tools", "bench", "examples", "papers")
FILES = sorted(f for folder in FOLDERS for f in (ROOT / folder).rglob("*.py"))
SAYS_NOTHING = {"utils", "util", "helpers", "helper", "common", "base", "misc", "functions", "lib"}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_is_small(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 400


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_function_is_small(path: Path) -> None:
    big = {f.name: lines(f) for f in functions(path) if lines(f) >= 60}
    assert not big


def test_most_functions_are_much_smaller() -> None:
    sizes = sorted(
        lines(f) for p in FILES if p.is_relative_to(ROOT / "trieline") for f in functions(p)
    )
    assert sizes[len(sizes) // 2] <= 18


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_name_says_what_is_inside(path: Path) -> None:
    inside = path.relative_to(ROOT).with_suffix("").parts
    assert not SAYS_NOTHING.intersection(inside)
