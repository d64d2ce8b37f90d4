"""PRO, taken apart: what each of its parts brings, and what lies beyond. Writes pro.md.

    python papers/pro.py --data DATA                         every cell that is missing, the page
    python papers/pro.py --data DATA --only tldr --seeds 0   some of them
    python papers/pro.py --page                              the page alone, from what is there
    python papers/pro.py --data DATA --worlds                make the vectors alone (see worlds.py)
    python papers/pro.py --device cuda --processes 12        on a graphics card, several at a time

A cell is one system on one world with one seed, kept as JSON under --cells and not run again while
its settings are the same. A trained cell is one training, searched in several ways: without the
codebooks' votes, with them (SF), with a look-ahead made of them, and by them alone. Everything is
chosen on dev; a cell looks at the test split once. Cells of worlds that were made need no encoder.
Times are cells of their own, run last and on a CPU alone: one query at a time, one thread, all
systems of a world in turns. Their models are trained for a few steps, which changes the answers and
not the work.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: see trieline.cli.main

import argparse
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
from cells import fill, find, read_cells, write_text
from pro_exam import dense, words, world_of
from pro_page import write_page
from pro_runs import BRIEFLY, CLOCKED, Place, Work, judged, recipe_of, times, trained, varied
from pro_systems import NEXT, SEEDS, SYSTEMS, VARIANTS, VARIED
from worlds import WORLDS, open_world

from trieline.config import to_mapping

TEXTS = ("nfcorpus", "tldr")
TIMES = ("flickr8k text to image", "nfcorpus")
BASELINES = ("dense", "BM25")
NAMED = (*BASELINES, *SYSTEMS, "docids", "times")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--cells", type=Path, default=Path(__file__).with_name("pro"))
    parser.add_argument("--only", nargs="+", choices=WORLDS, help="some worlds")
    parser.add_argument("--systems", nargs="+", choices=NAMED, help="some systems")
    parser.add_argument("--seeds", nargs="+", type=int, help="some seeds")
    parser.add_argument("--steps", type=int, help="train that briefly: to try this script")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--searching", default="", help="the device of searches, if another one")
    parser.add_argument("--processes", type=int, default=1, help="cells at a time")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no cell after that")
    parser.add_argument("--worlds", action="store_true", help="make the worlds' files, no more")
    parser.add_argument("--page", action="store_true", help="write the page, run nothing")
    options = parser.parse_args()
    options.cells.mkdir(parents=True, exist_ok=True)
    if options.worlds:
        for name in options.only or WORLDS:
            open_world(name, options.data)
        return
    if not options.page:
        run_all(list(planned(options)), options)
    save_page(options.cells)


def save_page(cells: Path) -> None:
    write_text(cells.with_suffix(".md"), write_page(read_cells(cells)))


def planned(options: argparse.Namespace) -> Iterator[Work]:
    """Baselines first, then all systems with one seed before the next."""
    worlds = options.only or tuple(WORLDS)
    for world in (name for name in worlds if name not in NEXT):
        for name in BASELINES if world in TEXTS else BASELINES[:1]:
            if not options.systems or name in options.systems:
                yield Work(world, name, None)
    for seed in SEEDS if options.seeds is None else options.seeds:
        for name, system in SYSTEMS.items():
            for world in worlds:
                wanted = not options.systems or name in options.systems
                if wanted and world in system.worlds and seed < system.seeds:
                    yield Work(world, name, seed)
    for world in (name for name in VARIED if name in worlds):
        for name in VARIANTS:
            if not options.systems or "docids" in options.systems:
                yield Work(world, f"docids: {name}", 0)
    for world in TIMES:
        wanted = not options.systems or "times" in options.systems
        if wanted and world in worlds and options.device == "cpu":
            yield Work(world, "times", None)


def run_all(works: Sequence[Work], options: argparse.Namespace) -> None:
    end = time.monotonic() + 60 * options.minutes
    searching = options.searching or options.device
    place = Place(options.data, options.cells, options.device, searching, options.steps)
    if options.processes == 1:
        for work in works:
            if time.monotonic() < end:
                run(work, place, end)
                save_page(options.cells)
        return
    ways = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.processes, ways, initializer=alone) as pool:
        for done in [pool.submit(run, work, place, end) for work in works]:
            done.result()


def alone() -> None:
    """One of several processes on one machine."""
    torch.set_num_threads(1)


def run(work: Work, place: Place, end: float) -> None:
    """Fill one cell, unless time is over."""
    cell = cell_of(work, place.steps)
    if time.monotonic() > end or find(place.cells, cell) is not None:
        return
    match work.system:
        case "dense":
            fill(place.cells, cell, lambda: dense(world_of(work.world, place.data)))
        case "BM25":
            fill(place.cells, cell, lambda: words(work.world, place.data))
        case system if system.startswith("docids: "):
            world = world_of(work.world, place.data)
            fill(place.cells, cell, lambda: judged(world, work))
        case "times":
            fill(place.cells, cell, lambda: times(world_of(work.world, place.data), place))
        case _:
            world = world_of(work.world, place.data)
            fill(place.cells, cell, lambda: trained(world, work, place))


def cell_of(work: Work, steps: int | None) -> dict[str, Any]:
    """What decides a cell's result."""
    cell: dict[str, Any] = {"data": work.world, "system": work.system}
    if work.system == "times":
        cell |= {"systems": CLOCKED, "steps": BRIEFLY}
    if work.system.startswith("docids: "):
        cell |= {"recipe": to_mapping(recipe_of(varied(work.system), 0, steps))}
    elif work.seed is not None:
        recipe = recipe_of(SYSTEMS[work.system], work.seed, steps)
        omegas = SYSTEMS[work.system].omegas
        cell |= {"seed": work.seed, "recipe": to_mapping(recipe), "omegas": omegas}
    return cell


if __name__ == "__main__":
    main()
