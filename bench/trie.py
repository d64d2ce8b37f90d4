"""What the trie costs: bytes a row, building, restricting, one step of a beam search.

Residual codes of clustered vectors, 16 levels of 512 to 2048 codes, shuffled. The baseline is a
trie of nested Python dictionaries over the first rows of the same table, measured in the same run.

    python bench/trie.py            a million rows, two to three minutes, most of it making codes
    python bench/trie.py --quick    100,000 rows, under half a minute
    python bench/trie.py --json     one object: what -> value, bar, baseline, holds
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from trieline.index import Trie
from trieline.types import Codes

__all__ = ["main"]

SIZES = (512,) * 4 + (1024,) * 8 + (2048,) * 4
BASELINE_ROWS = 50_000  # dictionaries of a million rows would not fit beside everything else
BEAMS = 16 * 50
Dicts = dict[int, Any]


class Line(NamedTuple):
    """One measured figure. ``holds`` is None where there is no bar."""

    what: str
    unit: str
    value: float
    bar: float | None = None
    baseline: float | None = None

    @property
    def holds(self) -> bool | None:
        return None if self.bar is None else self.value <= self.bar


def clustered(rows: int, width: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """float32[rows, width]: clusters of clusters, the large ones much larger than the small."""
    top = rng.standard_normal((200, width), np.float32)
    sub = 0.6 * rng.standard_normal((4000, width), np.float32)
    weight = 1 / np.arange(1, 201) ** 0.7
    cluster = rng.choice(200, rows, p=weight / weight.sum())
    noise = 0.45 * rng.standard_normal((rows, width), np.float32)
    vectors: NDArray[np.float32] = top[cluster] + sub[cluster * 20 + rng.integers(0, 20, rows)]
    return vectors + noise


def residual_codes(rows: int, seed: int, width: int = 32) -> NDArray[np.uint16]:
    """uint16[rows, L]: greedy codes over codebooks of sampled residuals, shrunk to fit."""
    rng = np.random.default_rng(seed)
    left = clustered(rows, width, rng)
    codes = np.empty((rows, len(SIZES)), np.uint16)
    levels = track(range(len(SIZES)), "making codes", console=Console(stderr=True))
    for level in levels:
        book = left[rng.choice(rows, SIZES[level], replace=False)] * (0.7 if level else 1.0)
        half = (book**2).sum(axis=1) / 2
        for start in range(0, rows, 4096):
            block = left[start : start + 4096]
            best = (block @ book.T - half).argmax(axis=1)
            codes[start : start + 4096, level] = best
            block -= book[best]
    return codes


def seconds(work: Callable[[], object], repeats: int) -> float:
    """The fastest of some repeats."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def build_dicts(codes: list[list[int]]) -> Dicts:
    root: Dicts = {}
    for docid in codes:
        node = root
        for code in docid:
            node = node.setdefault(code, {})
    return root


def step_dicts(nodes: list[Dicts]) -> list[tuple[int, int, Dicts]]:
    return [(at, code, node[code]) for at, node in enumerate(nodes) for code in sorted(node)]


def baseline(codes: NDArray[np.uint16], beams: NDArray[np.intp]) -> tuple[float, float, float]:
    """(seconds to build, bytes a row, seconds of a step at level 2) of the dictionaries."""
    docids = codes.tolist()
    spent = seconds(lambda: build_dicts(docids), 1)
    tracemalloc.start()
    root = build_dicts(docids)
    size = tracemalloc.get_traced_memory()[0] / len(docids)
    tracemalloc.stop()
    nodes = [root[first][second] for first, second in codes[beams, :2].tolist()]
    return spent, size, seconds(lambda: step_dicts(nodes), 5)


def measure_build(table: Codes, repeats: int) -> tuple[Trie, list[Line]]:
    part = Codes(table.codes[:BASELINE_ROWS], table.owner[:BASELINE_ROWS])
    small = Trie.build(part, SIZES)
    beams = np.random.default_rng(0).choice(len(part.owner), BEAMS)
    dict_build, dict_bytes, dict_step = baseline(part.codes, beams)
    nodes = small.walk(part.codes[beams, :2])[:, 2]
    trie = Trie.build(table, SIZES)
    part_build = seconds(lambda: Trie.build(part, SIZES), repeats)
    part_step = seconds(lambda: small.expand(2, nodes), 20)
    rows = len(part.owner)
    return trie, [
        Line("build", "s", seconds(lambda: Trie.build(table, SIZES), repeats), bar=6.0),
        Line("bytes a row", "B", trie.nbytes / trie.rows, baseline=dict_bytes),
        Line("node tables, bytes a row", "B", (trie.nbytes - trie.codes.nbytes) / trie.rows),
        Line(f"build, {rows} rows", "s", part_build, baseline=dict_build),
        Line(f"step, {rows} rows", "ms", part_step * 1e3, baseline=dict_step * 1e3),
    ]


def measure_use(trie: Trie, repeats: int) -> list[Line]:
    rng = np.random.default_rng(0)
    lines = []
    for share in (0.5, 0.01, 0.0001):
        allowed = rng.random(trie.rows) < share
        spent = seconds(partial(trie.restrict, allowed), repeats)
        lines.append(Line(f"restrict to {share:.2%}", "ms", spent * 1e3))
    beams = trie.walk(trie.codes[rng.choice(trie.rows, BEAMS)])
    for level in (1, 2, 3, 8):
        spent = seconds(partial(trie.expand, level, beams[:, level]), 20)
        lines.append(Line(f"step of {BEAMS} beams, level {level}", "ms", spent * 1e3))
    some = rng.choice(trie.rows, 100)
    changed = (trie.codes[some] + np.uint16(1)) % np.array(SIZES, np.uint16)
    new = Codes(changed, trie.owner[some])
    insert = seconds(lambda: trie.insert(new), repeats)
    remove = seconds(lambda: trie.remove(trie.owner[some]), repeats)
    lines.append(Line("insert 100 rows", "ms", insert * 1e3))
    lines.append(Line("remove 100 items", "ms", remove * 1e3))
    batch = trie.codes[rng.choice(trie.rows, 256)]
    lines.append(Line("walk 256 docids", "ms", 1e3 * seconds(partial(trie.walk, batch), 5)))
    lines.append(Line("open memory-mapped", "ms", 1e3 * measure_open(trie, repeats)))
    return lines


def measure_open(trie: Trie, repeats: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder) / f"{name}.npy" for name in trie.arrays()}
        for name, array in trie.arrays().items():
            np.save(paths[name], array)

        def load() -> Trie:
            arrays = {name: np.load(path, mmap_mode="r") for name, path in paths.items()}
            return Trie.from_arrays(arrays, SIZES)

        return seconds(load, repeats)


def report(lines: list[Line], trie: Trie) -> Table:
    table = Table("what", "value", "bar", "dictionaries", "holds", title=f"{trie.rows:,} rows")
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
    repeats: int = 3,
    seed: int = 0,
) -> None:
    """Measure the trie, which uses one thread; the fastest of the repeats counts."""
    count = rows or (100_000 if quick else 1_000_000)
    codes = residual_codes(count, seed)
    owner = np.random.default_rng(seed).permutation(count).astype(np.uint32)
    trie, lines = measure_build(Codes(codes, owner), repeats)
    lines += measure_use(trie, repeats)
    if as_json:
        found = {f"{x.what} ({x.unit})": {**x._asdict(), "holds": x.holds} for x in lines}
        json.dump(found, sys.stdout, indent=1)
    else:
        Console().print(report(lines, trie))


if __name__ == "__main__":
    typer.run(main)
