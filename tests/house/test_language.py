"""What no module does: print, pickle, evaluate text, start a shell, or act when it is imported."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "trieline").rglob("*.py"))
UNSAFE_MODULES = {"pickle", "dill", "shelve", "marshal", "cloudpickle"}
UNSAFE_CALLS = {"print", "eval", "exec", "compile", "os.system", "os.popen", "torch.save"}
UNSAFE_ARGUMENTS = {("shell", True), ("allow_pickle", True), ("weights_only", False)}


def problems(source: str, *, cli: bool = False) -> list[str]:
    """Every forbidden thing in a module, as ``line: what``."""
    tree = ast.parse(source)
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.stmt | ast.expr)]
    found = [f"{n.lineno}: {what}" for n in nodes if (what := _forbidden(n))]
    if not cli:  # typer's commands are put together at import time
        found += [f"{n.lineno}: acts on import" for n in tree.body if _acts(n)]
    return found


def _forbidden(node: ast.AST) -> str:
    if isinstance(node, ast.Import):
        return ", ".join(a.name for a in node.names if a.name.split(".")[0] in UNSAFE_MODULES)
    if isinstance(node, ast.ImportFrom):
        module = node.module or ""
        return module if module.split(".")[0] in UNSAFE_MODULES else ""
    if isinstance(node, ast.Global):
        return f"global {', '.join(node.names)}"
    if not isinstance(node, ast.Call):
        return ""
    given = {(k.arg, k.value.value) for k in node.keywords if isinstance(k.value, ast.Constant)}
    called = ast.unparse(node.func)
    return called if called in UNSAFE_CALLS or given & UNSAFE_ARGUMENTS else ""


def _acts(node: ast.stmt) -> bool:
    """A statement that does something instead of defining something."""
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    return isinstance(node, ast.For | ast.While | ast.With)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_does_none_of_it(path: Path) -> None:
    found = problems(path.read_text(encoding="utf-8"), cli=path.stem == "cli")
    assert not found


@pytest.mark.parametrize(
    "source",
    [
        "print('x')",
        "def f():\n    print('x')",
        "import pickle",
        "from pickle import loads",
        "import os\ndef f(): os.system('ls')",
        "def f(): return run('ls', shell=True)",
        "def f(path): return np.load(path, allow_pickle=True)",
        "def f(text): return eval(text)",
        "torch.set_num_threads(1)",
        "def f():\n    global x",
    ],
)
def test_each_of_them_is_seen(source: str) -> None:
    assert problems(source)


def test_what_is_fine_is_let_through() -> None:
    fine = "'''Doc.'''\nimport os\nX = frozenset({1})\ndef f(m):\n    m.eval()\n    run(['ls'])\n"
    assert problems(fine) == []
