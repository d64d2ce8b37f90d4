"""How long work tells somebody how far it is, without knowing who looks.

Library functions take ``watch: Watch = silent`` and wrap their loop::

    with watch("encoding items", len(items)) as task:
        for batch in batches:
            ...
            task.advance(len(batch))

The command line passes a watch that draws progress bars; everybody else hears nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

__all__ = ["Task", "Watch", "silent"]


class Task(Protocol):
    """One piece of long work."""

    def advance(self, n: int = 1, note: str = "") -> None:
        """``n`` more units are done; ``note`` is a few words on the state ("loss 2.31")."""


Watch = Callable[[str, int | None], AbstractContextManager[Task]]
"""``watch(what, total)`` opens a Task; ``total`` is None where nobody knows."""


class _Silent:
    def advance(self, n: int = 1, note: str = "") -> None:
        pass


@contextmanager
def silent(what: str, total: int | None) -> Iterator[Task]:
    """The watch of whoever does not want to know."""
    yield _Silent()
