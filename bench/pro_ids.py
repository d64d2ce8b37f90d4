"""What training docids for their prefixes brings: residual codes and PRO's at the same sizes.

Items and real training queries of a BEIR folder (no pseudo queries), the recipe's encoder, the same
start of the codebooks for everybody. No model: beams are ranked by the codebooks' votes alone (PRO,
Eq. 7), and a dev query's items are followed level by level. Squared error, share of items that
share their codes, share of queries with any relevant item's prefix in the beam after each level
(and the mean share of their relevant items after the last), seconds to learn.

    python bench/pro_ids.py --data nfcorpus
    python bench/pro_ids.py --data nfcorpus --schedules uniform --systems residual,pro --json

Embeddings are kept in the folder that TRIELINE_CACHE names. On a busy machine set
OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import numpy as np
import typer
from numpy.typing import NDArray

from trieline.config import Recipe, apply, cache_folder, load_recipe
from trieline.data import open_dataset
from trieline.decode import Geometric
from trieline.encode import open_encoder
from trieline.evaluate.table import Column, Table, to_markdown
from trieline.ids import Docids, Judged, open_docids, schedule, stats
from trieline.ids.assign import squared_error
from trieline.index import Trie
from trieline.lessons import gather, judged_items
from trieline.types import Codes, Floats
from trieline.watch import silent

__all__ = ["main"]

SYSTEMS: dict[str, tuple[str, ...]] = {
    "residual": ("ids.scheme=residual",),
    "pro": (),
    "no ranking": ("ids.pro.rank=0.0",),
    "products": ("ids.pro.student=product",),
    "items": ("ids.pro.distil=items",),
    "paper weights": ("ids.pro.student=product", "ids.pro.rq=100.0", "ids.pro.mse=100.0"),
    "projection": (
        "ids.pro.student=product",
        "ids.pro.rq=100.0",
        "ids.pro.mse=100.0",
        "ids.pro.project=true",
        "ids.pro.codebooks=ema",
    ),
}


class World(NamedTuple):
    """A data set as vectors."""

    items: Floats  # [N, D]
    judged: Judged
    queries: Floats  # [Q, D] of the dev split
    relevant: list[NDArray[np.int64]]  # item numbers of each
    name: str


class Line(NamedTuple):
    """One system at one schedule."""

    sizes: str
    system: str
    error: float
    collisions: float
    levels: tuple[float, ...]  # any relevant item's prefix alive
    share: float  # of the relevant items, after the last level
    seconds: float


def open_world(data: Path, recipe: Recipe) -> World:
    dataset = open_dataset(data)
    encoder = open_encoder(recipe.encode, cache_folder())
    things = list(dataset.items())
    numbers = {item.id: number for number, item in enumerate(things)}
    items = encoder.encode(things)
    gathered = gather(dataset, numbers, items, recipe, encoder, silent)
    judged = judged_items(gathered, items, numbers, recipe)
    if judged is None or gathered.vectors is None or not gathered.asked.exam:
        raise typer.BadParameter(f"{data} has no training or no dev queries")
    wanted: dict[str, list[int]] = {}
    for qrel in gathered.asked.exam_qrels:
        if qrel.relevance > 0 and qrel.item_id in numbers:
            wanted.setdefault(qrel.query_id, []).append(numbers[qrel.item_id])
    exam = gathered.asked.exam
    held = [row for row, query in enumerate(exam) if query.id in wanted]
    vectors = gathered.vectors[len(gathered.vectors) - len(exam) :][held]
    relevant = [np.array(wanted[exam[row].id]) for row in held]
    return World(items, judged, vectors, relevant, dataset.name)


def survivors(
    docids: Docids, codes: Codes, world: World, beam: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """float[L] twice: any relevant item's prefix alive, and the share that is."""
    trie, guide = Trie.build(codes, docids.sizes), Geometric(docids.codebooks, 1.0)
    some, share = np.zeros((2, trie.depth, len(world.queries)))
    for place, vector in enumerate(docids.project(world.queries)):
        paths = trie.walk(codes.codes[world.relevant[place]])
        state, nodes, carried = guide.start(vector[None], trie), np.zeros(1, np.int64), np.zeros(1)
        for level in range(trie.depth):
            parents, added, children = trie.expand(level, nodes)
            votes = guide.score(state, level, parents, added, children).carry
            assert votes is not None
            scores = carried[parents] + votes
            kept = np.sort(np.argsort(-scores, kind="stable")[:beam])
            state = guide.follow(state, level, parents[kept], added[kept])
            nodes, carried = children[kept], scores[kept]
            alive = np.isin(paths[:, level + 1], nodes)
            some[level, place], share[level, place] = alive.any(), alive.mean()
    return some.mean(axis=1), share.mean(axis=1)


def measure(world: World, recipe: Recipe, sizes: Sequence[int], system: str, beam: int) -> Line:
    changes = [f"ids.sizes={list(sizes)}", *SYSTEMS[system]]
    settings = apply(recipe, changes).ids
    start = time.perf_counter()
    docids = open_docids(settings, recipe.train.seed).fit(world.items, judged=world.judged)
    seconds = time.perf_counter() - start
    codes = docids.assign(world.items)
    some, share = survivors(docids, codes, world, beam)
    placed = docids.project(world.items)
    return Line(
        "-".join(map(str, sizes)),
        system,
        squared_error(placed, codes.codes, docids.codebooks),
        stats(codes, docids.sizes).collision_rate,
        tuple(some.tolist()),
        float(share[-1]),
        seconds,
    )


def nearest(world: World, beam: int) -> Line:
    """The dense encoder's first answers: what no codes are expected to exceed by much."""
    order = np.argsort(-(world.queries @ world.items.T), axis=1, kind="stable")[:, :beam]
    hits = [np.isin(own, row) for own, row in zip(world.relevant, order, strict=True)]
    some = float(np.mean([hit.any() for hit in hits]))
    return Line("", "dense", 0.0, 0.0, (some,), float(np.mean([hit.mean() for hit in hits])), 0.0)


def report(lines: list[Line], world: World, beam: int) -> Table:
    columns = (
        Column("codes"),
        Column("system"),
        Column("squared error", ".4f"),
        Column("shared codes", ".2%"),
        Column("alive after each level"),
        Column("of all relevant", ".3f"),
        Column("seconds", ".0f"),
    )
    rows = [
        line._replace(levels=cast(Any, " ".join(f"{value:.3f}" for value in line.levels)))
        for line in lines
    ]
    title = f"{world.name}: {len(world.items):,} items, {len(world.queries)} queries, beam {beam}"
    return Table(columns, tuple(rows), title)


def verdicts(lines: list[Line]) -> dict[str, Any]:
    """Sizes and system -> its last level against residual codes of the same sizes."""
    bars = {line.sizes: line.levels[-1] for line in lines if line.system == "residual"}
    return {
        f"{line.sizes or 'vectors'}, {line.system}: alive": {
            "value": line.levels[-1],
            "bar": bars.get(line.sizes),
            "holds": line.levels[-1] >= bars.get(line.sizes, 0.0),
            **line._asdict(),
        }
        for line in lines
    }


def main(
    data: Annotated[Path, typer.Option(help="A BEIR folder with train and dev queries.")],
    levels: Annotated[int, typer.Option(help="Levels of a docid.")] = 8,
    bits: Annotated[int, typer.Option(help="Bits of a docid.")] = 72,
    schedules: Annotated[str, typer.Option(help="Of vocabulary sizes.")] = "ascending,uniform",
    systems: Annotated[str, typer.Option(help=f"Of {', '.join(SYSTEMS)}.")] = ",".join(SYSTEMS),
    beam: Annotated[int, typer.Option(help="Prefixes kept.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    seed: int = 0,
) -> None:
    """Measure; exit 1 where the recipe's docids keep fewer queries alive than residual codes."""
    changes = ["train.titles=false", "train.crops=0", f"train.seed={seed}"]
    recipe = load_recipe("pro", changes)
    world = open_world(data, recipe)
    lines = [nearest(world, beam)]
    for name in schedules.split(","):
        for system in systems.split(","):
            sizes = schedule(cast(Any, name), levels, bits)
            lines.append(measure(world, recipe, sizes, system, beam))
            print(f"{name}, {system}: {lines[-1].seconds:.0f} s", file=sys.stderr)
    found = verdicts(lines)
    if as_json:
        json.dump(found, sys.stdout, indent=1)
    else:
        print(to_markdown(report(lines, world, beam)))
    ours = [each["holds"] for each in found.values() if each["system"] == "pro"]
    raise typer.Exit(0 if all(ours) else 1)


if __name__ == "__main__":
    typer.run(main)
