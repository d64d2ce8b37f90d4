"""What more items cost: time of a query and bytes an item, beside what people use otherwise.

    python bench/growth.py --json            10,000 to a million items
    python bench/growth.py --quick --json    to 100,000

Ours in the shape PRO (see ``shapes.py``). Beside it transformers' generate with its dictionary of
prefixes, and with the same number of vectors of 384 numbers: flat dense search and HNSW, by faiss.
The last two are another kind of search: they are here for what they take, and their vectors are
random, so that their quality is not. One thread, its own time, the least of several rounds.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: see trieline.cli.main

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer
from decode import one_by_one, searching
from measures import in_turns, one_thread
from rivals import Rival
from shapes import PRO, World, clustered

from trieline.model.packed import pack

__all__ = ["main", "measure"]

WIDTH = 384
SLOW = 100_000  # items up to which dictionaries of prefixes and HNSW are built


def measure(sizes: list[int], rounds: int) -> dict[str, Any]:
    """System -> items -> ms a query and bytes an item."""
    told: dict[str, dict[str, dict[str, float]]] = {}
    for items in sizes:
        world = World(PRO, items)
        (one,) = one_by_one(world.ask(1))
        trie = world.trie.nbytes / world.trie.rows
        works: dict[str, Callable[[], Any]] = {}
        size: dict[str, float | None] = {}
        for precision in ("fp32", "bf16", "int8"):
            works[f"trieline {precision}"] = searching(world, pack(world.speller, precision), one)
            size[f"trieline {precision}"] = trie
        if items <= SLOW:
            rival = Rival(world, "fp32")
            works["generate"], size["generate"] = partial(rival, one), None
        for name, (search, nbytes) in dense(items).items():
            works[name], size[name] = search, nbytes / items
        ms = in_turns(works, rounds)
        for name, spent in ms.items():
            told.setdefault(name, {})[str(items)] = {"ms": spent, "bytes_an_item": size[name]}
    return told


def dense(items: int) -> dict[str, tuple[Callable[[], Any], int]]:
    """faiss: how it is asked, and how many bytes it holds."""
    import faiss

    faiss.omp_set_num_threads(1)
    rng = np.random.default_rng(0)
    vectors = clustered(items, WIDTH, rng)
    query = vectors[:1] + 0.1 * rng.standard_normal((1, WIDTH), np.float32)
    flat = faiss.IndexFlatIP(WIDTH)
    flat.add(vectors)
    found = {"dense, flat": (partial(flat.search, query, 10), vectors.nbytes)}
    if items <= SLOW:
        near = faiss.IndexHNSWFlat(WIDTH, 32, faiss.METRIC_INNER_PRODUCT)
        near.hnsw.efConstruction, near.hnsw.efSearch = 80, 64
        near.add(vectors)
        links = 4 * faiss.vector_to_array(near.hnsw.neighbors).size
        found["dense, HNSW"] = (partial(near.search, query, 10), vectors.nbytes + links)
    return found


def main(
    quick: Annotated[bool, typer.Option(help="To 100,000 items.")] = False,
    rounds: int = 3,
    json_out: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Measure growing corpora."""
    with one_thread():
        told = measure([10_000, 100_000] if quick else [10_000, 100_000, 1_000_000], rounds)
    if json_out:
        json.dump(told, sys.stdout, indent=1)
        return
    for name, sizes in told.items():
        every = ", ".join(f"{int(n):,} items {own['ms']:.2f} ms" for n, own in sizes.items())
        typer.echo(f"{name}: {every}")


if __name__ == "__main__":
    typer.run(main)
