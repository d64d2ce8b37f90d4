"""What guides cost: the codes as a planner, and a step of looking ahead.

    python bench/guides.py            a million rows, two minutes, most of it making codes
    python bench/guides.py --quick    100,000 rows, half a minute
    python bench/guides.py --json     one object: what -> value, bar, baseline, holds

Residual codes of clustered vectors, 16 levels of 512 to 2048 codes, as in ``bench/trie.py``. The
baseline of a scan is NumPy, one ``take`` and one sum a level; that of a look ahead a loop over the
candidates that takes each one's maximum. Both are measured in turns with ours.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits
from trie import SIZES, Line, residual_codes

from trieline.decode import Geometric, GeometricLook, GeometricPlan, LookAhead
from trieline.index import Trie
from trieline.types import Codes, Floats

__all__ = ["main"]

WIDTH = 384
BEAMS = 50


def in_turns(works: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """The fastest repeat of each, in milliseconds of this thread's time, measured in turns.

    All of it is computing in one thread; time that others take from it is not counted.
    """
    best = [float("inf")] * len(works)
    for _ in range(repeats):
        for at, work in enumerate(works):
            start = time.thread_time()
            work()
            best[at] = min(best[at], (time.thread_time() - start) * 1e3)
    return best


def take_and_add(
    columns: NDArray[np.uint16], books: Sequence[Floats], norms: Floats, query: Floats
) -> Floats:
    total = -norms
    for codes, book in zip(columns, books, strict=True):
        total += (2 * (book @ query)).take(codes)
    return total


def max_of_each(scores: Floats, low: NDArray[np.int64], high: NDArray[np.int64]) -> Floats:
    return np.array([scores[a:b].max() for a, b in zip(low, high, strict=True)])


def measure_plan(trie: Trie, books: list[Floats], query: Floats, repeats: int) -> list[Line]:
    everything, some = GeometricPlan(books, 0), GeometricPlan(books, 1000)
    few = trie.restrict(np.arange(trie.rows) < 2000)
    GeometricPlan(books, 10).plan(query, few)  # compiles
    (build,) = in_turns([lambda: everything.bytes_a_row(trie)], 1)
    some.bytes_a_row(trie)
    half = trie.restrict(np.random.default_rng(0).random(trie.rows) < 0.5)
    (filtered,) = in_turns([lambda: everything.bytes_a_row(half)], 1)
    columns = np.ascontiguousarray(trie.codes.T)
    norms = np.zeros(trie.rows, np.float32)
    scan, top, plain = in_turns(
        [
            lambda: everything.scores(query, trie),
            lambda: some.plan(query, trie),
            lambda: take_and_add(columns, books, norms, query[0]),
        ],
        repeats,
    )
    return [
        Line("plan: score all rows", "ms", scan, bar=25, baseline=plain),
        Line("plan: and take the best 1000", "ms", top),
        Line("plan: lay out a trie", "ms", build),
        Line("plan: lay out half of it again", "ms", filtered),
        Line("plan: kept for scanning, a row", "B", everything.bytes_a_row(trie)),
    ]


def measure_steps(trie: Trie, books: list[Floats], query: Floats, repeats: int) -> list[Line]:
    """The first levels, where most rows are below the beam."""
    guides = {
        "look ahead, best 1000": LookAhead(GeometricPlan(books, 1000)),
        "look ahead, mean of 1000": LookAhead(GeometricPlan(books, 1000), reduce="mean"),
        "geometric look": GeometricLook(books, 1.0),
        "geometric votes": Geometric(books, 1.0),
    }
    scores = GeometricPlan(books, 0).scores(query, trie)[0]
    lines = []
    for name, guide in guides.items():
        state, nodes = guide.start(query, trie), np.zeros(1, np.int64)
        for level in range(3):
            parents, codes, children = trie.expand(level, nodes)
            low, high = trie.interval(level + 1, children)

            ours, theirs = in_turns(
                [
                    partial(guide.score, state, level, parents, codes, children),
                    partial(max_of_each, scores, low, high),
                ],
                repeats,
            )
            looks = name == "geometric look"
            what = f"{name}, {len(nodes)} beams, {len(children)} candidates"
            lines.append(Line(what, "ms", ours, baseline=theirs if looks else None))
            kept = np.sort(np.argsort(-max_of_each(scores, low, high))[:BEAMS])
            state, nodes = guide.follow(state, level, parents[kept], codes[kept]), children[kept]
    return lines


def report(lines: list[Line], trie: Trie) -> Table:
    table = Table("what", "value", "bar", "NumPy", "holds", title=f"{trie.rows:,} rows")
    for line in lines:
        bar = "" if line.bar is None else f"{line.bar:g} {line.unit}"
        other = "" if line.baseline is None else f"{line.baseline:.3g} {line.unit}"
        holds = "" if line.holds is None else ("yes" if line.holds else "NO")
        table.add_row(line.what, f"{line.value:.3g} {line.unit}", bar, other, holds)
    return table


def main(
    quick: Annotated[bool, typer.Option(help="100,000 rows.")] = False,
    rows: Annotated[int, typer.Option(help="Rows; beats --quick.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    repeats: int = 7,
    seed: int = 0,
) -> None:
    """Measure the guides on one thread, one query; the fastest of the repeats counts."""
    count = rows or (100_000 if quick else 1_000_000)
    rng = np.random.default_rng(seed)
    table = Codes(residual_codes(count, seed), rng.permutation(count).astype(np.uint32))
    trie = Trie.build(table, SIZES)
    books = [rng.standard_normal((size, WIDTH)).astype(np.float32) / WIDTH for size in SIZES]
    query = rng.standard_normal((1, WIDTH)).astype(np.float32)
    with threadpool_limits(1):
        lines = measure_plan(trie, books, query, repeats)
        lines += measure_steps(trie, books, query, repeats)
    if as_json:
        found = {f"{x.what} ({x.unit})": {**x._asdict(), "holds": x.holds} for x in lines}
        json.dump(found, sys.stdout, indent=1)
    else:
        Console().print(report(lines, trie))


if __name__ == "__main__":
    typer.run(main)
