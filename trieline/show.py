"""What people see in a terminal: progress, answers, tables. Nothing here computes anything.

Progress goes to stderr and results to stdout, so that ``--json`` output can be piped.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from trieline.evaluate.table import Table, to_rich, to_text
from trieline.types import Hit
from trieline.watch import Task

__all__ = ["answers", "as_json", "bars", "line", "note", "table"]

_OUT = Console()
_ERR = Console(stderr=True)
_PAGE = 160  # columns of a table in a file or a pipe, which have no width of their own


class _Bar:
    """A watch's task, drawn."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def advance(self, n: int = 1, note: str = "") -> None:
        if note:
            self._progress.update(self._task, advance=n, note=note)
        else:
            self._progress.update(self._task, advance=n)


@contextmanager
def bars(what: str, total: int | None) -> Iterator[Task]:
    """The watch that draws a progress bar with the time left; a line at the end elsewhere."""
    columns = (
        TextColumn("{task.description:<26}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=_ERR, refresh_per_second=4) as progress:
        yield _Bar(progress, progress.add_task(what, total=total, note=""))


def line(text: str = "") -> None:
    """A line of result."""
    _OUT.print(text, markup=False, highlight=False, soft_wrap=True)


def note(text: str) -> None:
    """A line about what is going on."""
    _ERR.print(text, markup=False, highlight=False, soft_wrap=True)


def as_json(value: Any) -> None:
    """A result for programs."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")


def table(shown: Table) -> None:
    """A table of figures."""
    if _OUT.is_terminal:
        _OUT.print(to_rich(shown))
    else:
        sys.stdout.write(to_text(shown, _PAGE))


def answers(query: str, hits: Sequence[Hit], *, title: str = "") -> None:
    """The hits of one query: rank, score, docid, item. A line each, cut at the terminal's width."""
    line(title or f"“{query}”")
    docids = ["-".join(map(str, hit.docid)) for hit in hits]
    width = max(map(len, docids), default=0)
    for hit, docid in zip(hits, docids, strict=True):
        names = [hit.item_id] if not hit.title.startswith(hit.item_id) else []
        names += [hit.title] if hit.title else []
        text = f"{hit.rank:4d}  {hit.score:8.2f}  {docid:{width}}  {'  '.join(names)}"
        line(text[: _OUT.width] if _OUT.is_terminal else text)
    if not hits:
        line("      nothing found")
