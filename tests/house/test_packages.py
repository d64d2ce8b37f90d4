"""What the code imports is what the package says it needs, and extras are asked for by name."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "trieline").rglob("*.py"))
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
UNDER_ANOTHER_NAME = {"faiss": "faiss-cpu", "pytrec-eval": "pytrec-eval-terrier", "PIL": "pillow"}
NOT_IMPORTED = {"pytrec-eval-terrier"}  # ir-measures computes with it


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=!~; ]", r)[0].lower() for r in requirements}


CORE = names(PROJECT["dependencies"])
EXTRAS = {key: names(value) for key, value in PROJECT["optional-dependencies"].items()}
FOR_USERS = {key: value for key, value in EXTRAS.items() if key not in ("all", "dev")}


def imports(tree: ast.AST) -> Iterator[str]:
    """Top names of every import below ``tree``, under the name they have in pyproject.toml."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found = [node.module or ""]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found = [str(a.value) for a in node.args[:1] if isinstance(a, ast.Constant)]
        else:
            continue
        for name in found:
            top = name.split(".")[0].replace("_", "-")
            if top.replace("-", "_") not in sys.stdlib_module_names and top != "trieline":
                yield UNDER_ANOTHER_NAME.get(top, top)


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_import_is_declared(path: Path) -> None:
    declared = CORE.union(*FOR_USERS.values())
    assert not set(imports(parsed(path))) - declared


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_an_extra_is_imported_where_it_is_needed(path: Path) -> None:
    body = [n for n in parsed(path).body if isinstance(n, ast.Import | ast.ImportFrom)]
    at_the_top = {name for node in body for name in imports(node)}
    assert not at_the_top - CORE


def test_everything_declared_is_used() -> None:
    used = {name for path in FILES for name in imports(parsed(path))}
    assert not CORE - used - NOT_IMPORTED


def missing_extras() -> list[tuple[str, list[Any]]]:
    """Every ``MissingExtra(feature, package, extra)`` in the code, with its constant arguments."""
    found = []
    for path in FILES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("MissingExtra"):
                given = [*node.args, *(k.value for k in node.keywords)]
                constants = [a.value for a in given if isinstance(a, ast.Constant)]
                found.append((f"{path.relative_to(ROOT)}:{node.lineno}", constants))
    return found


def test_a_missing_extra_names_one_that_exists() -> None:
    asked = missing_extras()
    assert asked
    for where, arguments in asked:
        extra = arguments[-1]
        assert extra in FOR_USERS, f"{where}: no extra {extra!r}"
        if len(arguments) == 3:
            assert arguments[1].lower().replace("_", "-") in FOR_USERS[extra], where


def test_all_holds_every_extra() -> None:
    (everything,) = PROJECT["optional-dependencies"]["all"]
    assert set(re.split(r"[\[\],]", everything)[1:-1]) == set(FOR_USERS)


def test_no_version_is_pinned() -> None:
    every = [
        *PROJECT["dependencies"],
        *(r for key in FOR_USERS for r in PROJECT["optional-dependencies"][key]),
    ]
    assert all(re.fullmatch(r"[\w-]+>=[\d.]+", r) for r in every)
