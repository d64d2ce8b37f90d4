"""First light: plain generative retrieval beside what people use today. Writes first-light.md.

    python papers/first_light.py --data DATA          runs every cell that is missing, then the page
    python papers/first_light.py --data DATA --page   the page alone, from the cells that are there

DATA holds nfcorpus, scifact, tldr (BEIR folders) and recsys/beauty (sequences). A cell is one
system on one data set with one seed; it is kept as JSON under --cells and not run again while its
settings are the same. Everything is chosen on the dev split; a cell looks at the test split once.
Survival is over the first 1,000 test queries.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: see trieline.cli.main

import argparse
import hashlib
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from trieline import Retriever, open_dataset, score
from trieline.config import apply, cache_folder, load_recipe, to_mapping
from trieline.data import Dataset, hold_out
from trieline.encode import open_encoder
from trieline.evaluate import Scores, compare
from trieline.evaluate.baselines import Bm25, Dense, last_item, popular
from trieline.evaluate.table import Cell, Column, Spread, Table, to_markdown
from trieline.show import bars
from trieline.types import Hit, Query

SEEDS = (0, 1, 2)
TEXT = ("nfcorpus", "scifact", "tldr")
TEXT_MEASURES = ("Success@1", "R@10", "nDCG@10", "RR@10")
NEXT = ("recsys/beauty",)
NEXT_MEASURES = ("R@5", "R@10", "nDCG@5", "nDCG@10")
OMEGAS = (0.0, 1.0, 3.0, 10.0)
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
TESTED = "nDCG@10"
TIMED = 60  # queries asked one by one


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--cells", type=Path, default=Path(__file__).with_name("first-light"))
    parser.add_argument("--only", help="one data set")
    parser.add_argument("--steps", type=int, help="train that briefly: to try this script")
    parser.add_argument("--page", action="store_true", help="write the page, run nothing")
    options = parser.parse_args()
    options.cells.mkdir(parents=True, exist_ok=True)
    chosen = [name for name in (*TEXT, *NEXT) if options.only in (None, name)]
    if not options.page:  # all sets with one seed before the next, so that the page fills evenly
        for seed in (None, *SEEDS):
            for name in chosen:
                for cell, run in plan(name, options.data, seed, options.steps):
                    fill(options.cells, cell, run)
                    save_page(options.cells)
    save_page(options.cells)


def save_page(cells: Path) -> None:
    page = write_page(cells)
    cells.with_suffix(".md").write_text(page, encoding="utf-8")


# --- cells --------------------------------------------------------------------------------------


def plan(
    name: str, data: Path, seed: int | None, steps: int | None
) -> Iterator[tuple[dict[str, Any], Callable[[], dict[str, Any]]]]:
    """The cells of a data set: what identifies each, and how it is run. Seed None: baselines."""
    recipe, settings = SETTINGS[name]
    source = data / name
    if seed is None:
        for system in ("BM25", "dense") if name in TEXT else ("popular", "last item"):
            yield {"data": name, "system": system}, lambda s=system: baseline(s, name, source)
        return
    changes = (*settings, f"train.seed={seed}", *([f"train.max_steps={steps}"] if steps else []))
    full = to_mapping(load_recipe(recipe, changes))
    cell = {"data": name, "system": recipe, "seed": seed, "recipe": full}
    yield cell, lambda: ours(name, source, recipe, changes)


def fill(cells: Path, cell: Mapping[str, Any], run: Callable[[], dict[str, Any]]) -> None:
    """Run a cell unless it is there; a broken run leaves nothing."""
    file = cells / f"{cell_name(cell)}.json"
    if file.exists():
        return
    sys.stderr.write(f"--- {cell['data']} · {cell['system']} · seed {cell.get('seed', '-')}\n")
    begin = time.perf_counter()
    found = run()
    told = {"cell": cell, "machine": machine(), "seconds": time.perf_counter() - begin, **found}
    part = file.with_suffix(".part")
    part.write_text(json.dumps(told), encoding="utf-8")
    part.replace(file)


def cell_name(cell: Mapping[str, Any]) -> str:
    key = hashlib.sha256(json.dumps(cell, sort_keys=True).encode()).hexdigest()[:10]
    words = [str(cell["data"]), str(cell["system"]), str(cell.get("seed", ""))]
    return "-".join("-".join(words).replace("/", "-").split()) + f"-{key}"


def baseline(system: str, name: str, source: Path) -> dict[str, Any]:
    dataset = split(open_dataset(source))
    queries, qrels = list(dataset.queries("test")), list(dataset.qrels("test"))
    measures = TEXT_MEASURES if name in TEXT else NEXT_MEASURES
    if system == "popular":
        hits = popular(dataset.qrels("train"), [query.id for query in queries], 100)
        return {"measures": measured(hits, qrels, measures)}
    if system == "last item":
        hits = last_item(dataset.queries("train"), dataset.qrels("train"), queries, 100)
        return {"measures": measured(hits, qrels, measures)}
    items = list(dataset.items())
    index: Any
    if system == "BM25":
        index = Bm25(items)
        search = index.search
    else:
        encoder = open_encoder(load_recipe(SETTINGS[name][0]).encode, cache_folder())
        index = Dense([item.id for item in items], encoder.encode(items, bars))
        vectors = {q.id: v for q, v in zip(queries, encoder.encode(queries, bars), strict=True)}

        def search(some: Sequence[Query], k: int) -> list[list[Hit]]:
            return index.search(np.stack([vectors[query.id] for query in some]), k)

    found = search(queries, 100)
    hits = {query.id: own for query, own in zip(queries, found, strict=True)}
    return {
        "measures": measured(hits, qrels, measures),
        "bytes": index.nbytes / len(items),
        "ms": milliseconds(search, queries),
    }


def ours(name: str, source: Path, recipe: str, settings: Sequence[str]) -> dict[str, Any]:
    dataset = split(open_dataset(source))
    measures = TEXT_MEASURES if name in TEXT else NEXT_MEASURES
    cache = cache_folder()
    folder = cache / "first-light.tl"
    begin = time.perf_counter()
    with Retriever.build(
        dataset, recipe, path=folder, settings=settings, cache=cache, watch=bars
    ) as retriever:
        built = time.perf_counter() - begin
        on_dev = {w: dev_score(retriever, dataset, w) for w in OMEGAS} if name in TEXT else {0.0: 0}
        omega = max(on_dev, key=lambda w: on_dev[w])
        queries, qrels = list(dataset.queries("test")), list(dataset.qrels("test"))
        told: dict[str, Any] = {"omega": omega, "dev": on_dev}
        for label, weight in {"plain": 0.0, "geometric": omega}.items():
            if label != "plain" and not weight:
                continue
            retriever.recipe = apply(retriever.recipe, [f"decode.omega={weight}"])
            run = retriever.run(queries, 50, watch=bars)
            told[label] = {
                "measures": measured(run, qrels, measures),
                "survival": retriever.survival(queries[:1000], qrels).levels,
                "ms": milliseconds(retriever.search, queries),
            }
        sizes = retriever.bytes_per_item()
        stats = retriever.stats()
        notes = retriever.folder.manifest.notes["training"]
        return {
            **told,
            "bytes": sizes["trie"],
            "docid_bytes": sizes["docids"],
            "model_bytes": retriever.folder.file("model.safetensors").stat().st_size,
            "collisions": stats.collision_rate,
            "training": notes,
            "build_seconds": built,
        }


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
    """Means of all measures; values of each query for the one that is tested."""
    found = score(run, qrels, names)
    values = {query: round(value, 5) for query, value in found.per_query[TESTED].items()}
    return {"means": found.means, "per_query": {TESTED: values}}


def milliseconds(search: Callable[[list[Query], int], Any], queries: Sequence[Query]) -> float:
    """One query at a time, one thread, the faster of two rounds; query vectors are cached."""
    asked = queries[:: max(1, len(queries) // TIMED)][:TIMED]
    rounds = []
    with one_thread():
        for _ in range(2):
            begin = time.perf_counter()
            for query in asked:
                search([query], 10)
            rounds.append((time.perf_counter() - begin) / len(asked))
    return min(rounds) * 1000


@contextmanager
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(threads)


def machine() -> dict[str, Any]:
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    return {"cpu": model, "threads": torch.get_num_threads(), "torch": torch.__version__}


# --- the page -----------------------------------------------------------------------------------


def write_page(cells: Path) -> str:
    found = [json.loads(file.read_text("utf-8")) for file in sorted(cells.glob("*.json"))]
    parts = [HEAD, *(section(name, found) for name in (*TEXT, *NEXT))]
    parts.append(gaps(found))
    machines = sorted({json.dumps(told["machine"], sort_keys=True) for told in found})
    hours = sum(told["seconds"] for told in found) / 3600
    parts.append(f"Cells took {hours:.1f} hours in all. Machine: {'; '.join(machines)}.\n")
    return "\n".join(parts)


def section(name: str, found: Sequence[dict[str, Any]]) -> str:
    mine = [told for told in found if told["cell"]["data"] == name]
    measures = TEXT_MEASURES if name in TEXT else NEXT_MEASURES
    columns = (
        Column("system"),
        *(Column(measure, best="high") for measure in measures),
        Column("bytes an item", ",.0f", best="low"),
        Column("ms a query", ".1f", best="low"),
        Column("seeds", "d"),
    )
    rows: list[tuple[Cell, ...]] = []
    for system, label in systems_of(mine):
        told = [t for t in mine if t["cell"]["system"] == system]
        shown = [t[label] for t in told if label in t] if label else told
        if shown:
            title = f"{system} + geometry" if label == "geometric" else system
            rows.append(row(title, told, shown, measures))
    lines = [f"## {name}", "", to_markdown(Table(columns, tuple(rows)))]
    lines += [missing(name, mine), *details(mine)]
    return "\n".join(line for line in lines if line is not None)


def systems_of(mine: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    systems = list(dict.fromkeys(told["cell"]["system"] for told in mine))
    fixed = [(s, "") for s in ("BM25", "dense", "popular", "last item") if s in systems]
    own = [s for s in systems if s in ("genius", "tiger")]
    return fixed + [(s, label) for s in own for label in ("plain", "geometric")]


def row(
    title: str,
    told: Sequence[dict[str, Any]],
    shown: Sequence[dict[str, Any]],
    measures: Sequence[str],
) -> tuple[Cell, ...]:
    return (
        title,
        *(spread([s["measures"]["means"][measure] for s in shown]) for measure in measures),
        mean(t["bytes"] for t in told) if "bytes" in told[0] else None,
        mean(s["ms"] for s in shown) if "ms" in shown[0] else None,
        len(shown),
    )


def spread(values: Sequence[float]) -> Cell:
    return Spread(mean(values), stdev(values)) if len(values) > 1 else values[0]


def missing(name: str, mine: Sequence[dict[str, Any]]) -> str:
    seeds = {t["cell"].get("seed") for t in mine}
    lacking = [str(seed) for seed in SEEDS if seed not in seeds]
    return f"Still missing: seeds {', '.join(lacking)}.\n" if lacking else ""


def details(mine: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Survival, training and omega of our own cells."""
    own = [told for told in mine if "training" in told]
    if not own:
        return
    depth = len(own[0]["plain"]["survival"])
    columns = (Column("survival after level"), *(Column(str(i + 1)) for i in range(depth)))
    rows = [
        (
            label,
            *(spread([t[label]["survival"][i] for t in own if label in t]) for i in range(depth)),
        )
        for label in ("plain", "geometric")
        if all(label in t for t in own)
    ]
    yield to_markdown(Table(columns, tuple(rows)))
    omegas = ", ".join(f"{t['omega']:g}" for t in own)
    seconds = mean(t["training"]["seconds"] for t in own)
    steps = mean(t["training"]["best_step"] for t in own)
    shared = mean(t["collisions"] for t in own)
    yield (
        f"Docids: {own[0]['docid_bytes']:.0f} bytes an item; {shared:.1%} of the items share "
        f"theirs. Model: {own[0]['model_bytes'] / 1e6:.1f} MB. Training: {seconds / 60:.1f} "
        f"minutes a seed, best at step {steps:.0f}. Omega, chosen on dev, by seed: {omegas}.\n"
    )


def gaps(found: Sequence[dict[str, Any]]) -> str:
    """How far from dense, per set, with a paired test on the first seed."""
    lines = ["## The gap to dense search, nDCG@10", ""]
    columns = (
        Column("data"),
        Column("system"),
        Column("ours"),
        Column("dense"),
        Column("difference", "+.3f"),
        Column("95 % from", "+.3f"),
        Column("to", "+.3f"),
        Column("p", ".4f"),
    )
    rows: list[tuple[Cell, ...]] = []
    for name in TEXT:
        mine = [t for t in found if t["cell"]["data"] == name]
        dense = next((t for t in mine if t["cell"]["system"] == "dense"), None)
        own = next((t for t in mine if t["cell"].get("seed") == SEEDS[0]), None)
        if dense is None or own is None:
            continue
        for label in ("plain", "geometric"):
            if label not in own:
                continue
            a, b = (Scores(**side["measures"]) for side in (own[label], dense))
            (tested,) = compare(a, b, [TESTED])
            rows.append((name, f"genius, {label}", *tested[2:7], tested.p_value))
    lines.append(to_markdown(Table(columns, tuple(rows))))
    lines.append(
        "Paired over the test queries of seed 0: bootstrap interval, randomisation test.\n"
    )
    return "\n".join(lines)


HEAD = """# First light

Written by `papers/first_light.py`; do not edit. Text retrieval after GENIUS (recipe `genius`) and
recommendation after TIGER (recipe `tiger`), trained here, beside BM25 (bm25s, k1 .9, b .4), exact
dense search with the same encoder (all-MiniLM-L6-v2), and for recommendation the most popular
items and what most often followed the last item. "+ geometry" is the same trained model with the
codebook's vote of PRO Eq. 7 in the beam, its weight chosen on dev. Mean ± standard deviation over
seeds; every choice was made on dev; the test split was searched once a cell. Bytes an item: what a
search reads (trie with docids; fp32 vectors; BM25's arrays), without the model and without texts.
Milliseconds: one query at a time, one thread, the query's vector given, beam 50.
"""


if __name__ == "__main__":
    main()
