"""Cells of a results page: runs that are kept as JSON and not repeated while settings are the same.

For the scripts beside this file. A cell is known by what decides its result (data, system, seed,
all settings); its file holds that, the machine, the seconds it took and what was found. Several
processes may fill one folder at a time: a cell that another one runs is passed over.

A setting that trieline got after a cell was run is taken to have been at its default then, so that
a new setting does not make every page run again. A changed default does.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from trieline.config import from_mapping, to_mapping
from trieline.errors import SettingsError

__all__ = [
    "cell_file",
    "fastest",
    "fill",
    "find",
    "machine",
    "one_thread",
    "read_cells",
    "write_text",
]

Cell = Mapping[str, Any]


def cell_file(folder: Path, cell: Cell) -> Path:
    """Where a cell is kept: its name for people, a digest of all that decides it."""
    key = hashlib.sha256(json.dumps(cell, sort_keys=True).encode()).hexdigest()[:10]
    words = [str(cell[part]) for part in ("data", "system", "seed") if part in cell]
    return folder / (re.sub(r"[^\w.+-]+", "-", "-".join(words)) + f"-{key}.json")


def fill(folder: Path, cell: Cell, run: Callable[[], Mapping[str, Any]]) -> None:
    """Run a cell unless it is there, or being run; a broken run leaves nothing."""
    file = cell_file(folder, cell)
    with _alone(file.with_suffix(".lock")) as mine:
        if not mine or find(folder, cell) is not None:
            return
        sys.stderr.write(f"--- {file.stem}\n")
        begin = time.perf_counter()
        found = run()
        told = {"cell": cell, "machine": machine(), "seconds": time.perf_counter() - begin, **found}
        write_text(file, json.dumps(told) + "\n")


@contextmanager
def _alone(lock: Path) -> Iterator[bool]:
    """Whether no other process is at it; a process that dies lets go."""
    with lock.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        try:
            yield True
        finally:
            lock.unlink(missing_ok=True)


def find(folder: Path, cell: Cell) -> Path | None:
    """The file of a cell that was run, with these settings or before some of them existed."""
    exact = cell_file(folder, cell)
    wanted = _complete(cell)
    if exact.exists() or wanted is None:
        return exact if exact.exists() else None
    for file in sorted(folder.glob(exact.name.replace(exact.stem[-10:], "*"))):
        if _complete(json.loads(file.read_text("utf-8"))["cell"]) == wanted:
            return file
    return None


def _complete(cell: Cell) -> dict[str, Any] | None:
    """The cell with its recipe's missing settings at their defaults; None if it has no meaning."""
    plain: dict[str, Any] = json.loads(json.dumps(cell))
    if "recipe" in plain:
        try:
            plain["recipe"] = to_mapping(from_mapping(plain["recipe"], "cell"))
        except SettingsError:  # a setting that is no more
            return None
    return json.loads(json.dumps(plain))


def read_cells(folder: Path) -> list[dict[str, Any]]:
    """All cells that are there."""
    return [json.loads(file.read_text("utf-8")) for file in sorted(folder.glob("*.json"))]


def write_text(file: Path, text: str) -> None:
    """Whole or not at all."""
    part = file.with_suffix(f".{os.getpid()}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(file)


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    return {"cpu": model, "threads": torch.get_num_threads(), "torch": torch.__version__}


def fastest(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Seconds of each call on one thread: the least of several rounds, taken in turns.

    A busy machine slows all of them alike, so that what they say of each other stays true.
    """
    least = dict.fromkeys(calls, float("inf"))
    with one_thread():
        for _ in range(rounds):
            for name, call in calls.items():
                begin = time.perf_counter()
                call()
                least[name] = min(least[name], time.perf_counter() - begin)
    return least


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for torch, BLAS and OpenMP."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(threads)
