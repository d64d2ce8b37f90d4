"""What a benchmark says: rows with a bar and a baseline, and times taken side by side.

The machine is never quiet. So a figure is the least of several repeats, everything that is compared
is measured in turns in the same run, and what runs in one thread is timed by that thread's own
clock: time that neighbours take from it does not count.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from trieline.evaluate.table import Column, Table

__all__ = ["Row", "as_json", "as_table", "in_turns", "machine", "one_thread"]

Clock = Callable[[], float]


class Row(NamedTuple):
    """One figure. ``at_least``: the bar is to be reached, not to be kept below."""

    what: str
    unit: str
    value: float
    bar: float | None = None
    baseline: float | None = None
    at_least: bool = False
    note: str = ""
    more: Mapping[str, Any] | None = None  # what stands beside it, for programs

    @property
    def holds(self) -> bool | None:
        """None where there is no bar."""
        if self.bar is None:
            return None
        return self.value >= self.bar if self.at_least else self.value <= self.bar


def in_turns(
    works: Mapping[str, Callable[[], Any]],
    rounds: int,
    clock: Clock = time.thread_time,
    warm: bool = True,
) -> dict[str, float]:
    """Milliseconds of each: the least of some rounds, in each of which all take their turn."""
    best = dict.fromkeys(works, float("inf"))
    for number in range(rounds + warm):
        for name, work in works.items():
            start = clock()
            work()
            if number >= warm:
                best[name] = min(best[name], 1e3 * (clock() - start))
    return best


def as_json(rows: Sequence[Row]) -> dict[str, Any]:
    """What -> value, bar, baseline, holds; and what else there is to say."""
    return {
        f"{row.what} ({row.unit})": {
            "value": row.value,
            "bar": row.bar,
            "baseline": row.baseline,
            "holds": row.holds,
            **({"note": row.note} if row.note else {}),
            **(row.more or {}),
        }
        for row in rows
    }


def as_table(rows: Sequence[Row], title: str, baseline: str = "baseline") -> Table:
    """The same for people."""
    figures = (Column("value", ",.4g"), Column("bar"), Column(baseline, ",.4g"))
    cells = []
    for row in rows:
        sign = "≥" if row.at_least else "≤"
        bar = "" if row.bar is None else f"{sign} {row.bar:g}"
        holds = {None: "", True: "yes", False: "NO"}[row.holds]
        cells.append((row.what, row.unit, row.value, bar, row.baseline, holds, row.note))
    columns = (Column("what"), Column("unit"), *figures, Column("holds"), Column("note"))
    return Table(columns, tuple(cells), title)


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    import torch
    import transformers

    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    return {
        "cpu": model,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for torch, BLAS and OpenMP."""
    import torch
    from threadpoolctl import threadpool_limits

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(threads)
