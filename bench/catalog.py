"""How fast the catalog loads, reads its docids back and looks items up; how many bytes it takes.

The baseline, in the same run: bare ``executemany`` of the same values into one SQLite table, with
no checks. Wall time suffers from whatever else the machine does; CPU time is this process's own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trieline.catalog import Catalog
from trieline.types import Codes, Item

BAR = 100_000  # items a second
SENTENCE = "a small brown dog runs over wet grass while two children watch from the old bridge"


class Clock(NamedTuple):
    """Seconds that something took."""

    wall: float
    cpu: float


def timed(work: Callable[[], object]) -> Clock:
    """How long work takes, once."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Clock(time.perf_counter() - wall, time.process_time() - cpu)


def corpus(n: int, seed: int) -> tuple[list[Item], Codes]:
    """Items with captions of six to fourteen words, ids in no order, one docid of 8 levels each."""
    rng = np.random.default_rng(seed)
    names, lengths = rng.permutation(n).tolist(), rng.integers(6, 15, n).tolist()
    starts = rng.integers(0, 16, n).tolist()
    words = SENTENCE.split()
    endless = words * 2
    items = [
        Item(f"doc-{name}", " ".join(endless[start : start + length]))
        for name, length, start in zip(names, lengths, starts, strict=True)
    ]
    return items, Codes(rng.integers(0, 256, (n, 8), np.uint16), np.arange(n, dtype=np.uint32))


def floor(path: Path, items: list[Item], codes: Codes) -> None:
    """The baseline."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA cache_size = -65536")
    connection.execute("CREATE TABLE items (number INTEGER PRIMARY KEY, id UNIQUE, text, codes)")

    def rows() -> Iterator[tuple[int, str, str, bytes]]:
        for number, (item, row) in enumerate(zip(items, codes.codes, strict=True)):
            yield number, item.id, item.text, row.tobytes()

    connection.execute("BEGIN")
    connection.executemany("INSERT INTO items VALUES (?, ?, ?, ?)", rows())
    connection.execute("COMMIT")
    connection.close()


def load(path: Path, items: list[Item], codes: Codes) -> None:
    """What is measured, from nothing to a closed file."""
    with Catalog.create(path, [256] * 8) as catalog:
        catalog.add(iter(items), codes)


def measure(folder: Path, n: int, repeats: int, seed: int) -> dict[str, object]:
    """All figures, the best of the repeats."""
    items, codes = corpus(n, seed)
    loads, floors = [], []
    for turn in range(repeats):
        loads.append(timed(lambda turn=turn: load(folder / f"{turn}.sqlite", items, codes)))
        floors.append(timed(lambda turn=turn: floor(folder / f"{turn}.floor", items, codes)))
    with Catalog.open(folder / "0.sqlite", read_only=True) as catalog:
        reads = [timed(catalog.codes) for _ in range(repeats)]
        tens = np.random.default_rng(seed).integers(0, n, (1000, 10))
        gets = timed(lambda: [catalog.get(ten) for ten in tens])
    payload = sum(len(item.id) + len(item.text) for item in items) + codes.codes.nbytes
    return {
        "items": n,
        "load": rate(n, loads) | {"bar": BAR, "holds": n / min(loads).wall >= BAR},
        "baseline": rate(n, floors),
        "codes_seconds": round(min(reads).wall, 3),
        "get_10_microseconds": round(gets.wall * 1000, 1),
        "bytes_an_item": round((folder / "0.sqlite").stat().st_size / n, 1),
        "payload_bytes_an_item": round(payload / n, 1),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, SQLite {sqlite3.sqlite_version}",
        "others": f"load average {os.getloadavg()[0]:.1f}",
    }


def rate(n: int, clocks: list[Clock]) -> dict[str, object]:
    """Items a second, of the best of several runs."""
    return {
        "items_a_second": round(n / min(clocks).wall),
        "items_a_cpu_second": round(n / min(clock.cpu for clock in clocks)),
    }


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary folder if absent")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="catalog-", dir=asked.folder))
    try:
        figures = measure(folder, asked.items, asked.repeats, asked.seed)
    finally:
        shutil.rmtree(folder)
    if asked.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:24} {value}")


if __name__ == "__main__":
    main()
