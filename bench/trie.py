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
from typing import Annotated, Any

import numpy as np
import typer
from measures import Row, as_json, as_table
from numpy.typing import NDArray
from rich.console import Console
from shapes import PRO_LEVELS, residual_codes

from trieline.evaluate.table import to_rich
from trieline.index import Trie
from trieline.types import Codes

__all__ = ["main"]

SIZES = PRO_LEVELS
BASELINE_ROWS = 50_000  # dictionaries of a million rows would not fit beside everything else
BEAMS = 16 * 50
Dicts = dict[int, Any]


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


def measure_build(table: Codes, repeats: int) -> tuple[Trie, list[Row]]:
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
        Row("build", "s", seconds(lambda: Trie.build(table, SIZES), repeats), bar=6.0),
        Row("bytes a row", "B", trie.nbytes / trie.rows, baseline=dict_bytes),
        Row("node tables, bytes a row", "B", (trie.nbytes - trie.codes.nbytes) / trie.rows),
        Row(f"build, {rows} rows", "s", part_build, baseline=dict_build),
        Row(f"step, {rows} rows", "ms", part_step * 1e3, baseline=dict_step * 1e3),
    ]


def measure_use(trie: Trie, repeats: int) -> list[Row]:
    rng = np.random.default_rng(0)
    lines = []
    for share in (0.5, 0.01, 0.0001):
        allowed = rng.random(trie.rows) < share
        spent = seconds(partial(trie.restrict, allowed), repeats)
        lines.append(Row(f"restrict to {share:.2%}", "ms", spent * 1e3))
    beams = trie.walk(trie.codes[rng.choice(trie.rows, BEAMS)])
    for level in (1, 2, 3, 8):
        spent = seconds(partial(trie.expand, level, beams[:, level]), 20)
        lines.append(Row(f"step of {BEAMS} beams, level {level}", "ms", spent * 1e3))
    some = rng.choice(trie.rows, 100)
    changed = (trie.codes[some] + np.uint16(1)) % np.array(SIZES, np.uint16)
    new = Codes(changed, trie.owner[some])
    insert = seconds(lambda: trie.insert(new), repeats)
    remove = seconds(lambda: trie.remove(trie.owner[some]), repeats)
    lines.append(Row("insert 100 rows", "ms", insert * 1e3))
    lines.append(Row("remove 100 items", "ms", remove * 1e3))
    batch = trie.codes[rng.choice(trie.rows, 256)]
    lines.append(Row("walk 256 docids", "ms", 1e3 * seconds(partial(trie.walk, batch), 5)))
    lines.append(Row("open memory-mapped", "ms", 1e3 * measure_open(trie, repeats)))
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


def main(
    quick: Annotated[bool, typer.Option(help="100,000 rows.")] = False,
    rows: Annotated[int, typer.Option(help="Rows; beats --quick.")] = 0,
    json_out: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    repeats: int = 3,
    seed: int = 0,
) -> None:
    """Measure the trie, which uses one thread; the fastest of the repeats counts."""
    count = rows or (100_000 if quick else 1_000_000)
    codes = residual_codes(count, SIZES, seed)
    owner = np.random.default_rng(seed).permutation(count).astype(np.uint32)
    trie, lines = measure_build(Codes(codes, owner), repeats)
    lines += measure_use(trie, repeats)
    if json_out:
        json.dump(as_json(lines), sys.stdout, indent=1)
    else:
        title = f"{trie.rows:,} rows; baseline: nested dictionaries"
        Console().print(to_rich(as_table(lines, title)))


if __name__ == "__main__":
    typer.run(main)
