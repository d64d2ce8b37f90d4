"""Where builds are to fail, and the ways in which the world lets them."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from workshop import tree_of

from trieline.config import Recipe
from trieline.errors import TrielineError
from trieline.retriever import Retriever
from trieline.store.disk import seal

ASKED = "red kettle boils water"


class Targets:
    """A place where nothing is and a place where an index is; a failed build changes neither."""

    def __init__(self, fresh: Path, old: Path) -> None:
        self.fresh, self.old = fresh, old
        self._before = tree_of(old)

    def refuse(
        self, corpus: Any, recipe: str | Path | Recipe, error: type[TrielineError], why: str
    ) -> None:
        """The build fails with this error at both places."""
        for path in (self.fresh, self.old):
            with pytest.raises(error, match=why):
                Retriever.build(corpus, recipe, path=path)
        self.check()

    def check(self) -> None:
        assert not self.fresh.exists()
        left = tree_of(self.old)
        for name, content in self._before.items():
            if name != "lock":
                assert left[name] == content, name
        assert left.keys() - self._before.keys() <= {"lock"}
        with Retriever.load(self.old) as retriever:
            assert len(retriever.search(ASKED)[0]) == 10


def rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a manifest as nobody should, and seal it again."""
    file = path / "manifest.json"
    tree = json.loads(file.read_text("utf-8"))
    change(tree)
    tree["seal"] = seal(tree)
    file.write_text(json.dumps(tree), encoding="utf-8")


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
