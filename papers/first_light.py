"""First light: plain generative retrieval beside what people use today. Writes first-light.md.

    python papers/first_light.py --data DATA                every cell that is missing, the page
    python papers/first_light.py --data DATA --only tldr    of one data set (or several)
    python papers/first_light.py --page                     the page alone, from what is there
    python papers/first_light.py --data DATA --time         the times alone, measured again

DATA holds nfcorpus, scifact, tldr (BEIR folders) and recsys/beauty (sequences). A cell is one
system on one data set with one seed; it is kept as JSON under --cells and not run again while its
settings are the same. Everything is chosen on the dev split; a cell looks at the test split once.
Survival is over the first 1,000 test queries. Times are cells of their own, measured last: all
systems of a data set in turns, one thread, with the index of the first seed.

Training is done with as many threads as OMP_NUM_THREADS says. On two cores, two processes with one
thread each and different --only finish sooner than one with two.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: see trieline.cli.main

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cells import fastest, fill, find, read_cells, write_text
from first_light_page import NEXT, NEXT_MEASURES, SEEDS, TESTED, TEXT, TEXT_MEASURES, write_page

from trieline import Retriever, open_dataset, score
from trieline.config import apply, cache_folder, load_recipe, to_mapping
from trieline.data import Dataset, hold_out
from trieline.encode import open_encoder
from trieline.errors import IndexFolderError
from trieline.evaluate.baselines import Bm25, Dense, last_item, popular
from trieline.show import bars
from trieline.types import Hit, Query

OMEGAS = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0)
TRAINED = ("train.batch=128", "train.max_steps=3000")
SETTINGS = {
    "nfcorpus": ("genius", (*TRAINED, "train.evaluate_every=1.5")),
    "scifact": ("genius", (*TRAINED, "train.evaluate_every=11")),
    "tldr": ("genius", (*TRAINED, "train.evaluate_every=2.5")),
    "recsys/beauty": (
        "tiger",
        ("model.max_history=10", "train.max_steps=2565", "train.evaluate_every=1"),
    ),
}
TIMED, ROUNDS = 40, 5  # queries asked one by one, and how often

Run = Callable[[], dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--cells", type=Path, default=Path(__file__).with_name("first-light"))
    parser.add_argument("--only", nargs="+", choices=(*TEXT, *NEXT), help="some data sets")
    parser.add_argument("--steps", type=int, help="train that briefly: to try this script")
    parser.add_argument("--page", action="store_true", help="write the page, run nothing")
    parser.add_argument("--time", action="store_true", help="measure the times again, only them")
    options = parser.parse_args()
    options.cells.mkdir(parents=True, exist_ok=True)
    chosen = options.only or (*TEXT, *NEXT)
    # All sets with one seed before the next, so that the page fills evenly.
    planned = [
        (cell, run)
        for seed in (None, *SEEDS)
        for name in chosen
        for cell, run in plan(name, options.data, seed, options.steps)
    ]
    timings = [timing(name, options) for name in chosen]
    if options.time:
        planned = []
        for cell, _ in timings:
            if (kept := find(options.cells, cell)) is not None:
                kept.unlink()
    if not options.page:
        for cell, run in [*planned, *timings]:
            fill(options.cells, cell, run)
            save_page(options.cells)
    save_page(options.cells)


def save_page(cells: Path) -> None:
    write_text(cells.with_suffix(".md"), write_page(read_cells(cells)))


# --- cells --------------------------------------------------------------------------------------


def plan(
    name: str, data: Path, seed: int | None, steps: int | None
) -> Iterator[tuple[dict[str, Any], Run]]:
    """The cells of a data set: what identifies each, and how it is run. Seed None: baselines."""
    source = data / name
    if seed is None:
        for system in ("BM25", "dense") if name in TEXT else ("popular", "last item"):
            yield {"data": name, "system": system}, lambda s=system: baseline(s, name, source)
        return
    recipe, changes = changed(name, seed, steps)
    full = to_mapping(load_recipe(recipe, changes))
    cell = {"data": name, "system": recipe, "seed": seed, "recipe": full}
    if name in TEXT:
        cell["omegas"] = OMEGAS
    yield cell, lambda: ours(name, source, recipe, changes)


def changed(name: str, seed: int, steps: int | None) -> tuple[str, tuple[str, ...]]:
    """The recipe of a data set and the settings that differ from it."""
    recipe, settings = SETTINGS[name]
    return recipe, (
        *settings,
        f"train.seed={seed}",
        *([f"train.max_steps={steps}"] if steps else []),
    )


def kept_index(name: str) -> Path:
    """The index of the first seed stays, to be timed."""
    return cache_folder() / "first-light" / f"{name.replace('/', '-')}.tl"


def baseline(system: str, name: str, source: Path) -> dict[str, Any]:
    dataset = split(open_dataset(source))
    queries, qrels = list(dataset.queries("test")), list(dataset.qrels("test"))
    if system == "popular":
        hits = popular(dataset.qrels("train"), [query.id for query in queries], 100)
        return {"measures": measured(hits, qrels, NEXT_MEASURES)}
    if system == "last item":
        hits = last_item(dataset.queries("train"), dataset.qrels("train"), queries, 100)
        return {"measures": measured(hits, qrels, NEXT_MEASURES)}
    index, search = open_baseline(system, name, dataset, queries)
    found = search(queries, 100)
    run = {query.id: own for query, own in zip(queries, found, strict=True)}
    size = index.nbytes / sum(1 for _ in dataset.items())
    return {"measures": measured(run, qrels, TEXT_MEASURES), "bytes": size}


def open_baseline(
    system: str, name: str, dataset: Dataset, queries: Sequence[Query]
) -> tuple[Bm25 | Dense, Callable[[Sequence[Query], int], list[list[Hit]]]]:
    """An index, and how it is asked; the vectors of the queries are ready."""
    items = list(dataset.items())
    if system == "BM25":
        words = Bm25(items)
        return words, words.search
    encoder = open_encoder(load_recipe(SETTINGS[name][0]).encode, cache_folder())
    near = Dense([item.id for item in items], encoder.encode(items, bars))
    vectors = {q.id: v for q, v in zip(queries, encoder.encode(queries, bars), strict=True)}

    def search(some: Sequence[Query], k: int) -> list[list[Hit]]:
        return near.search(np.stack([vectors[query.id] for query in some]), k)

    return near, search


def ours(name: str, source: Path, recipe: str, settings: Sequence[str]) -> dict[str, Any]:
    dataset = split(open_dataset(source))
    measures = TEXT_MEASURES if name in TEXT else NEXT_MEASURES
    first = f"train.seed={SEEDS[0]}" in settings
    path = kept_index(name) if first else kept_index(f"{name}-other-seed")
    path.parent.mkdir(parents=True, exist_ok=True)
    with Retriever.build(
        dataset, recipe, path=path, settings=settings, cache=cache_folder(), watch=bars
    ) as retriever:
        on_dev = {w: dev_score(retriever, dataset, w) for w in OMEGAS} if name in TEXT else {0.0: 0}
        omega = max(on_dev, key=lambda w: on_dev[w])
        queries, qrels = list(dataset.queries("test")), list(dataset.qrels("test"))
        told: dict[str, Any] = {"omega": omega, "dev": on_dev}
        for label, weight in {"plain": 0.0, "geometric": omega}.items():
            if label != "plain" and not weight:
                continue
            retriever.recipe = apply(retriever.recipe, [f"decode.omega={weight}"])
            told[label] = {
                "measures": measured(retriever.run(queries, 50, watch=bars), qrels, measures),
                "survival": retriever.survival(queries[:1000], qrels).levels,
            }
        sizes = retriever.bytes_per_item()
        return {
            **told,
            "bytes": sizes["trie"],
            "docid_bytes": sizes["docids"],
            "model_bytes": retriever.folder.file("model.safetensors").stat().st_size,
            "collisions": retriever.stats().collision_rate,
            "training": retriever.folder.manifest.notes["training"],
        }


def timing(name: str, options: argparse.Namespace) -> tuple[dict[str, Any], Run]:
    """The cell of a data set's times."""
    recipe, changes = changed(name, SEEDS[0], options.steps)
    full = to_mapping(load_recipe(recipe, changes))
    cell = {"data": name, "system": "times", "recipe": full}
    ((trained, _),) = plan(name, options.data, SEEDS[0], options.steps)

    def run() -> dict[str, Any]:
        kept = find(options.cells, trained)
        assert kept is not None, "times come after the cells of the first seed"
        told = json.loads(kept.read_text("utf-8"))
        with open_kept(name, options.data / name, recipe, changes) as retriever:
            return {"ms": times(retriever, name, options.data / name, told["omega"])}

    return cell, run


def open_kept(name: str, source: Path, recipe: str, changes: Sequence[str]) -> Retriever:
    """The index of the first seed; built again where it is gone or of other settings."""
    path = kept_index(name)
    wanted = load_recipe(recipe, changes)
    try:
        kept = Retriever.load(path, cache=cache_folder())
        if kept.recipe == wanted:
            return kept
        kept.close()
    except IndexFolderError:
        pass
    dataset = split(open_dataset(source))
    path.parent.mkdir(parents=True, exist_ok=True)
    return Retriever.build(
        dataset, recipe, path=path, settings=changes, cache=cache_folder(), watch=bars
    )


def times(retriever: Retriever, name: str, source: Path, omega: float) -> dict[str, float]:
    """Milliseconds a query of every system, one query at a time, vectors of queries ready."""
    dataset = split(open_dataset(source))
    queries = list(dataset.queries("test"))
    asked = queries[:: max(1, len(queries) // TIMED)][:TIMED]
    calls: dict[str, Callable[[], Any]] = {}
    for label, weight in {"plain": 0.0, "geometric": omega}.items():
        settings = apply(retriever.recipe, [f"decode.omega={weight}"])

        def ask(settings: Any = settings) -> None:
            retriever.recipe = settings
            for query in asked:
                retriever.search([query], 10)

        if label == "plain" or weight:
            calls[label] = ask
    for system in ("BM25", "dense") if name in TEXT else ():
        _, search = open_baseline(system, name, dataset, asked)
        calls[system] = lambda search=search: [search([query], 10) for query in asked]
    return {name: 1000 * s / len(asked) for name, s in fastest(calls, ROUNDS).items()}


def dev_score(retriever: Retriever, dataset: Dataset, omega: float) -> float:
    """nDCG@10 on at most 500 dev queries: what omega is chosen by."""
    retriever.recipe = apply(retriever.recipe, [f"decode.omega={omega}"])
    queries = list(dataset.queries("dev"))[:500]
    asked = {query.id for query in queries}
    qrels = [qrel for qrel in dataset.qrels("dev") if qrel.query_id in asked]
    return score(retriever.run(queries, 10, watch=bars), qrels, ["nDCG@10"]).means["nDCG@10"]


def split(dataset: Dataset) -> Dataset:
    """With a dev split; the build cuts the same one."""
    return dataset if "dev" in dataset.splits() else hold_out(dataset)


def measured(run: Mapping[str, Sequence[Hit]], qrels: Any, names: Sequence[str]) -> dict[str, Any]:
    """Means of all measures; for the one that is tested, values of all judged queries by id."""
    found = score(run, qrels, names)
    values = [round(value, 4) for _, value in sorted(found.per_query[TESTED].items())]
    return {"means": found.means, "values": values}


if __name__ == "__main__":
    main()
