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
from collections.abc import Sequence
from functools import partial
from typing import Annotated

import numpy as np
import typer
from measures import Row, as_json, as_table, in_turns
from numpy.typing import NDArray
from rich.console import Console
from shapes import PRO_LEVELS as SIZES
from shapes import residual_codes
from threadpoolctl import threadpool_limits

from trieline.decode import Geometric, GeometricLook, GeometricPlan, LookAhead
from trieline.evaluate.table import to_rich
from trieline.index import Trie
from trieline.types import Codes, Floats

__all__ = ["main"]

WIDTH = 384
BEAMS = 50


def take_and_add(
    columns: NDArray[np.uint16], books: Sequence[Floats], norms: Floats, query: Floats
) -> Floats:
    total = -norms
    for codes, book in zip(columns, books, strict=True):
        total += (2 * (book @ query)).take(codes)
    return total


def max_of_each(scores: Floats, low: NDArray[np.int64], high: NDArray[np.int64]) -> Floats:
    return np.array([scores[a:b].max() for a, b in zip(low, high, strict=True)])


def measure_plan(trie: Trie, books: list[Floats], query: Floats, repeats: int) -> list[Row]:
    everything, some = GeometricPlan(books, 0), GeometricPlan(books, 1000)
    few = trie.restrict(np.arange(trie.rows) < 2000)
    GeometricPlan(books, 10).plan(query, few)  # compiles
    build = in_turns({"": lambda: everything.bytes_a_row(trie)}, 1, warm=False)[""]
    some.bytes_a_row(trie)
    half = trie.restrict(np.random.default_rng(0).random(trie.rows) < 0.5)
    filtered = in_turns({"": lambda: everything.bytes_a_row(half)}, 1, warm=False)[""]
    columns = np.ascontiguousarray(trie.codes.T)
    norms = np.zeros(trie.rows, np.float32)
    works = {
        "scan": lambda: everything.scores(query, trie),
        "top": lambda: some.plan(query, trie),
        "plain": lambda: take_and_add(columns, books, norms, query[0]),
    }
    scan, top, plain = in_turns(works, repeats).values()
    return [
        Row("plan: score all rows", "ms", scan, bar=25, baseline=plain),
        Row("plan: and take the best 1000", "ms", top),
        Row("plan: lay out a trie", "ms", build),
        Row("plan: lay out half of it again", "ms", filtered),
        Row("plan: kept for scanning, a row", "B", everything.bytes_a_row(trie)),
    ]


def measure_steps(trie: Trie, books: list[Floats], query: Floats, repeats: int) -> list[Row]:
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

            works = {
                "ours": partial(guide.score, state, level, parents, codes, children),
                "theirs": partial(max_of_each, scores, low, high),
            }
            ours, theirs = in_turns(works, repeats).values()
            looks = name == "geometric look"
            what = f"{name}, {len(nodes)} beams, {len(children)} candidates"
            lines.append(Row(what, "ms", ours, baseline=theirs if looks else None))
            kept = np.sort(np.argsort(-max_of_each(scores, low, high))[:BEAMS])
            state, nodes = guide.follow(state, level, parents[kept], codes[kept]), children[kept]
    return lines


def main(
    quick: Annotated[bool, typer.Option(help="100,000 rows.")] = False,
    rows: Annotated[int, typer.Option(help="Rows; beats --quick.")] = 0,
    json_out: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    repeats: int = 7,
    seed: int = 0,
) -> None:
    """Measure the guides on one thread, one query; the fastest of the repeats counts."""
    count = rows or (100_000 if quick else 1_000_000)
    rng = np.random.default_rng(seed)
    table = Codes(residual_codes(count, SIZES, seed), rng.permutation(count).astype(np.uint32))
    trie = Trie.build(table, SIZES)
    books = [rng.standard_normal((size, WIDTH)).astype(np.float32) / WIDTH for size in SIZES]
    query = rng.standard_normal((1, WIDTH)).astype(np.float32)
    with threadpool_limits(1):
        lines = measure_plan(trie, books, query, repeats)
        lines += measure_steps(trie, books, query, repeats)
    if json_out:
        json.dump(as_json(lines), sys.stdout, indent=1)
    else:
        Console().print(to_rich(as_table(lines, f"{trie.rows:,} rows; baseline: NumPy")))


if __name__ == "__main__":
    typer.run(main)
