"""Items that the model was not trained on: half a corpus trains, the other half is added later.

    python papers/unseen.py --data DATA                 every cell that is missing, the page
    python papers/unseen.py --data DATA --only tldr     of one data set
    python papers/unseen.py --page                      the page alone, from what is there
    python papers/unseen.py --data DATA --steps 30 --cells /tmp/cells   to try this script

DATA holds tldr and scifact (BEIR folders). A seed splits the items in two halves. Docids are fitted
and the model is trained on the first half alone: its items, and the train and dev queries all of
whose answers are in it. Then ``Retriever.add`` takes in the second half, and the index of both is
asked the test queries: those all of whose answers are in the first half ("seen"), and those all of
whose answers are in the second ("unseen"). Queries with answers in both are left out. The weight of
the codebook's geometry is chosen on the dev queries of the first half, before anything is added.

Beside it, dense search over both halves with the same encoder, which knows no such difference. A
cell is one system with one seed on one data set, kept as JSON under --cells.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: see trieline.cli.main

import argparse
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cells import fill, read_cells, write_text
from first_light import OMEGAS, Run, changed, dev_score, open_baseline, split
from unseen_page import HALVES, MEASURES, SEEDS, SETS, TESTED, write_page

from trieline import Retriever, open_dataset, score
from trieline.config import apply, cache_folder, load_recipe, to_mapping
from trieline.data import Dataset, MemoryDataset
from trieline.show import bars
from trieline.types import Hit, Qrel, Query

WEIGHTS = (10.0, 30.0, 100.0, 300.0, 1000.0)  # of the geometry, after the second half is in


class Halves(NamedTuple):
    """A dataset cut in two by its items."""

    seen: MemoryDataset  # items, and all queries all of whose answers are among them
    unseen: MemoryDataset
    mixed: int  # test queries with answers in both


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--cells", type=Path, default=Path(__file__).with_name("unseen"))
    parser.add_argument("--only", nargs="+", choices=SETS, help="some data sets")
    parser.add_argument("--seeds", nargs="+", type=int, choices=SEEDS, default=SEEDS)
    parser.add_argument("--steps", type=int, help="train that briefly: to try this script")
    parser.add_argument("--page", action="store_true", help="write the page, run nothing")
    options = parser.parse_args()
    options.cells.mkdir(parents=True, exist_ok=True)
    if not options.page:
        for seed in options.seeds:
            for name in options.only or SETS:
                for cell, run in plan(name, options.data / name, seed, options.steps):
                    fill(options.cells, cell, run)
                    save_page(options.cells)
    save_page(options.cells)


def save_page(cells: Path) -> None:
    write_text(cells.with_suffix(".md"), write_page(read_cells(cells)))


def plan(
    name: str, source: Path, seed: int, steps: int | None
) -> Iterator[tuple[dict[str, Any], Run]]:
    """The cells of a data set with one seed: what identifies each, and how it is run."""
    recipe, changes = changed(name, seed, steps)
    full = to_mapping(load_recipe(recipe, changes))
    yield {"data": name, "system": "dense", "seed": seed}, lambda: dense(name, source, seed)
    cell = {"data": name, "system": recipe, "seed": seed, "recipe": full, "omegas": OMEGAS}
    yield cell, lambda: ours(name, source, seed, recipe, changes)
    weighed = {**cell, "system": "weights", "omegas": WEIGHTS}
    yield weighed, lambda: weights(name, source, seed)


# --- halves -------------------------------------------------------------------------------------


def halves(dataset: Dataset, seed: int) -> Halves:
    """Items go by the hash of the seed and their id, queries with their answers."""
    items = list(dataset.items())
    first = {item.id for item in items if drawn(item.id, seed)}
    queries: dict[str, tuple[dict[str, list[Query]], dict[str, list[Qrel]]]] = {
        half: ({}, {}) for half in HALVES
    }
    mixed = 0
    for name in dataset.splits():
        qrels = [qrel for qrel in dataset.qrels(name) if qrel.relevance > 0]
        sides: dict[str, set[str]] = {}
        for qrel in qrels:
            side = "seen" if qrel.item_id in first else "unseen"
            sides.setdefault(qrel.query_id, set()).add(side)
        mixed += name == "test" and sum(len(side) > 1 for side in sides.values())
        asked = list(dataset.queries(name))
        for half, (own, judged) in queries.items():
            own[name] = [query for query in asked if sides.get(query.id) == {half}]
            judged[name] = [qrel for qrel in qrels if sides[qrel.query_id] == {half}]
    made = [
        MemoryDataset(
            [item for item in items if (item.id in first) == (half == "seen")],
            *queries[half],
            name=f"{dataset.name}, {half}",
        )
        for half in HALVES
    ]
    return Halves(*made, mixed)


def drawn(name: str, seed: int) -> bool:
    """Whether an item belongs to the first half."""
    return hashlib.blake2b(f"{seed} {name}".encode(), digest_size=8).digest()[0] < 128


# --- cells --------------------------------------------------------------------------------------


def dense(name: str, source: Path, seed: int) -> dict[str, Any]:
    """Exact search over both halves."""
    dataset = split(open_dataset(source))
    cut = halves(dataset, seed)
    queries = [query for half in cut[:2] for query in half.queries("test")]
    index, search = open_baseline("dense", name, dataset, queries)
    found = dict(zip([query.id for query in queries], search(queries, 100), strict=True))
    size = index.nbytes / sum(1 for _ in dataset.items())
    return {"measures": by_half(found, cut), "mixed": cut.mixed, "bytes": size}


def ours(name: str, source: Path, seed: int, recipe: str, changes: Sequence[str]) -> dict[str, Any]:
    """Train on the first half, add the second, ask for both."""
    cut = halves(split(open_dataset(source)), seed)
    path = kept(name, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    with Retriever.build(
        cut.seen, recipe, path=path, settings=changes, cache=cache_folder(), watch=bars
    ) as retriever:
        before = retriever.stats().collision_rate
        on_dev = {omega: dev_score(retriever, cut.seen, omega) for omega in OMEGAS}
        omega = max(on_dev, key=lambda w: on_dev[w])
        retriever.add(cut.unseen.items(), watch=bars)
        queries = [query for half in cut[:2] for query in half.queries("test")]
        told: dict[str, Any] = {"omega": omega, "dev": on_dev, "mixed": cut.mixed}
        for label, weight in {"plain": 0.0, "geometric": omega}.items():
            if label == "plain" or weight:
                retriever.recipe = apply(retriever.recipe, [f"decode.omega={weight}"])
                told[label] = {"measures": by_half(retriever.run(queries, 50, watch=bars), cut)}
        return {
            **told,
            "items": [sum(1 for _ in half.items()) for half in cut[:2]],
            "collisions": [before, retriever.stats().collision_rate],
            "bytes": retriever.bytes_per_item()["trie"],
            "training": retriever.folder.manifest.notes["training"],
        }


def weights(name: str, source: Path, seed: int) -> dict[str, Any]:
    """What the weight of the geometry gives and takes: the index of both halves, on dev queries."""
    cut = halves(split(open_dataset(source)), seed)
    told = []
    with Retriever.load(kept(name, seed), cache=cache_folder()) as retriever:
        missing = next((i.id for i in cut.unseen.items() if i.id not in retriever.catalog), None)
        assert missing is None, f"{kept(name, seed)} lacks {missing}: run this seed's cell again"
        for omega in WEIGHTS:
            halves_at = [dev_score(retriever, half, omega) for half in cut[:2]]
            told.append({"omega": omega, **dict(zip(HALVES, halves_at, strict=True))})
    return {"weights": told}


def kept(name: str, seed: int) -> Path:
    """Where the index of a seed stays."""
    return cache_folder() / "unseen" / f"{name}-{seed}.tl"


def by_half(run: Mapping[str, Sequence[Hit]], cut: Halves) -> dict[str, Any]:
    """The measures of the test queries of each half, and the tested one query by query."""
    told = {}
    for half, dataset in zip(HALVES, cut[:2], strict=True):
        found = score(run, dataset.qrels("test"), MEASURES)
        values = [round(value, 4) for _, value in sorted(found.per_query[TESTED].items())]
        told[half] = {"means": found.means, "values": values}
    return told


if __name__ == "__main__":
    main()
