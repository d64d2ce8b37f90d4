"""Every module says what it is and what it gives; the public names are there."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

import trieline

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "trieline").rglob("*.py"))


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_a_module_says_what_it_is(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    first = docstring.partition("\n")[0]
    assert len(first) > 15
    assert first.rstrip()[-1] in ".:?", "the first line is a sentence"


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_a_module_lists_all_that_it_gives(path: Path) -> None:
    module = import_module(module_of(path))
    listed = list(module.__all__)
    assert len(listed) == len(set(listed))
    missing = [name for name in listed if not hasattr(module, name)]
    assert not missing, "listed in __all__ but not there"
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    body = ast.parse(path.read_text(encoding="utf-8")).body
    public = {n.name for n in body if isinstance(n, kinds) and not is_command(n)}
    assert not {p for p in public if p[0] != "_"} - set(listed), "public but not in __all__"


def is_command(node: ast.stmt) -> bool:
    """A function that typer calls, and nobody else."""
    decorators = getattr(node, "decorator_list", [])
    return any(ast.unparse(d).startswith(("app.", "upkeep.")) for d in decorators)


def test_each_folder_is_a_room() -> None:
    folders = {f.parent for f in FILES}
    assert [f for f in folders if not (f / "__init__.py").exists()] == []


@pytest.mark.parametrize("name", trieline.__all__)
def test_a_public_name_resolves(name: str) -> None:
    assert getattr(trieline, name) is getattr(trieline, name)
    assert name in dir(trieline)


def test_a_dozen_public_names() -> None:
    assert 8 <= len(trieline.__all__) <= 16


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="trieline.*no attribute 'retrieve'"):
        trieline.retrieve  # noqa: B018


def test_the_package_is_typed() -> None:
    assert (ROOT / "trieline" / "py.typed").is_file()
