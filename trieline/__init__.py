"""Generative retrieval: a model spells out the docids of the answers, and only what exists.

The public names below are imported when they are first used: ``import trieline`` itself loads
neither torch nor anything else that takes time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trieline.config import Recipe, load_recipe
    from trieline.data import open_dataset
    from trieline.data.trec import read_run, write_run
    from trieline.errors import TrielineError
    from trieline.evaluate import compare, score
    from trieline.retriever import Retriever
    from trieline.types import Hit, Item, Qrel, Query

__all__ = [
    "Hit",
    "Item",
    "Qrel",
    "Query",
    "Recipe",
    "Retriever",
    "TrielineError",
    "compare",
    "load_recipe",
    "open_dataset",
    "read_run",
    "score",
    "write_run",
]

__version__ = "0.1.0"

_HOME = {
    "Hit": "trieline.types",
    "Item": "trieline.types",
    "Qrel": "trieline.types",
    "Query": "trieline.types",
    "Recipe": "trieline.config",
    "Retriever": "trieline.retriever",
    "TrielineError": "trieline.errors",
    "compare": "trieline.evaluate",
    "load_recipe": "trieline.config",
    "open_dataset": "trieline.data",
    "read_run": "trieline.data.trec",
    "score": "trieline.evaluate",
    "write_run": "trieline.data.trec",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'trieline' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
