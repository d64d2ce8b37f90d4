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
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from cells import fastest, fill, find, read_cells, write_text
from numpy.typing import NDArray
from pro_page import (
    NEXT,
    SEEDS,
    SYSTEMS,
    TESTED,
    VARIANTS,
    VARIED,
    WAYS,
    System,
    measures_of,
    write_page,
)
from silent import Silent
from worlds import WORLDS, Histories, World, open_world

from trieline import Retriever, open_dataset, score
from trieline.config import DecodeSettings, Recipe, apply, cache_folder, load_recipe, to_mapping
from trieline.data import hold_out
from trieline.decode import GuidesOf, beam_search
from trieline.encode.precomputed import PrecomputedEncoder
from trieline.errors import IndexFolderError
from trieline.evaluate.baselines import Bm25, Dense
from trieline.ids import open_docids
from trieline.index import Trie
from trieline.lessons import gather, judged_items
from trieline.model import Asked
from trieline.types import Hit, Item, Qrel, Query
from trieline.watch import silent

CHOSEN_BY = "nDCG@10"
CHOOSING = 200  # dev queries that choose
MOST = 1000  # test queries, drawn with seed 0 where there are more
FOLLOWED = 500  # test queries whose prefixes are followed
SCORED = 50  # of these, those for which the decoder scores every prefix
TIMED, ROUNDS, BRIEFLY = 20, 3, 100  # queries, rounds, steps of training
TYPICAL = 100.0  # omega
CLOCKED = ("genius", "PD+VS", "legal", "16 levels", "32 levels")
DIAGNOSED = ("flickr8k text to image", "nfcorpus")
SMALL_BEAM = 20  # of diagnostics, as in the paper
K = 10
TEXTS = ("nfcorpus", "tldr")
TIMES = ("flickr8k text to image", "nfcorpus")
BASELINES = ("dense", "BM25")

TRAINED = (
    "encode.kind=precomputed",
    "encode.model=",
    "train.itself=true",
    "train.borrowed=4",
    "train.batch=128",
    "train.max_steps=2000",
    "train.validation_queries=250",
    "decode.omega=0.0",
)
STEPS_APART = 200  # between looks at dev
RECOMMENDING = (
    "encode.kind=precomputed",
    "encode.model=",
    "model.max_history=10",
    "train.epochs=5",
    "train.evaluate_every=1",
    "decode.omega=0.0",
)


class Work(NamedTuple):
    """A cell to be run, in whichever process."""

    world: str
    system: str
    seed: int | None


class Place(NamedTuple):
    """Where cells are run and kept."""

    data: Path
    cells: Path
    device: str  # of trainings
    searching: str  # device of searches
    steps: int | None


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


def recipe_of(system: System, seed: int, steps: int | None) -> Recipe:
    trained = RECOMMENDING if set(system.worlds) <= set(NEXT) else TRAINED
    changes = [*trained, f"ids.sizes={list(system.sizes)}", *system.changes, f"train.seed={seed}"]
    if steps is not None:
        changes.append(f"train.max_steps={steps}")
    return load_recipe(system.recipe, changes)


@lru_cache(maxsize=2)
def world_of(name: str, data: Path) -> World | Histories:
    return open_world(name, data)


# --- what is asked ------------------------------------------------------------------------------


class Exam(NamedTuple):
    """Queries of a split and what answers them."""

    world: World | Histories
    pool: NDArray[np.int64]  # item numbers that are asked over
    queries: list[Query]
    qrels: list[Qrel]
    barred: dict[str, str]  # query id -> the item that is no candidate

    @classmethod
    def of(cls, world: World | Histories, split: str, most: int) -> Exam:
        queries = world.queries(split)
        if len(queries) > most:
            drawn = np.random.default_rng(0).choice(len(queries), most, replace=False)
            queries = [queries[row] for row in np.sort(drawn)]
        asked = {query.id for query in queries}
        qrels = [qrel for qrel in world.qrels(split) if qrel.query_id in asked]
        return cls(world, world.pool(split), queries, qrels, world.barred(split))

    def vectors(self) -> NDArray[np.float32]:
        return np.stack([query.embedding for query in self.queries if query.embedding is not None])

    @property
    def deep(self) -> int:
        """Hits to ask for."""
        return K + bool(self.barred)

    def answers(self, found: Sequence[Sequence[Hit]]) -> dict[str, list[Hit]]:
        """Without what is no candidate."""
        return {
            query.id: [hit for hit in hits if hit.item_id != self.barred.get(query.id)][:K]
            for query, hits in zip(self.queries, found, strict=True)
        }

    def measured(self, found: Sequence[Sequence[Hit]]) -> dict[str, Any]:
        """Means, and for each judged query by id the rank of its first answer ("-": none)."""
        measures = measures_of(self.world.name)
        scores = score(self.answers(found), self.qrels, [*measures, TESTED])
        ranks = [value for _, value in sorted(scores.per_query[TESTED].items())]
        told = "".join(f"{round(1 / value) - 1}" if value else "-" for value in ranks)
        return {"means": {name: scores.means[name] for name in measures}, "ranks": told}

    def tested(self, found: Sequence[Sequence[Hit]]) -> float:
        return score(self.answers(found), self.qrels, [TESTED]).means[TESTED]

    def value(self, found: Sequence[Sequence[Hit]]) -> float:
        return score(self.answers(found), self.qrels, [CHOSEN_BY]).means[CHOSEN_BY]


def dense(world: World) -> dict[str, Any]:
    exam = Exam.of(world, "test", MOST)
    index = Dense([str(world.ids[row]) for row in exam.pool], world.vectors[exam.pool])
    found = index.search(exam.vectors(), exam.deep)
    told = {"ways": {"dense": exam.measured(found)}, "bytes": index.nbytes / len(exam.pool)}
    return told | {"notes": world.notes}


def words(name: str, data: Path) -> dict[str, Any]:
    dataset = open_dataset(data / name)
    dataset = dataset if "dev" in dataset.splits() else hold_out(dataset)
    exam = Exam.of(world_of(name, data), "test", MOST)
    texts = {query.id: query for query in dataset.queries("test")}
    index = Bm25(list(dataset.items()))
    found = index.search([texts[query.id] for query in exam.queries], exam.deep)
    size = index.nbytes / len(exam.world.ids)
    return {"ways": {"BM25": exam.measured(found)}, "bytes": size}


# --- what is trained ----------------------------------------------------------------------------


def trained(world: World | Histories, work: Work, place: Place) -> dict[str, Any]:
    system = SYSTEMS[work.system]
    recipe = recipe_of(system, work.seed or 0, place.steps)
    if work.world not in NEXT:
        pairs = world.pairs / (1 - recipe.train.pseudo_share)
        apart = STEPS_APART * recipe.train.batch / pairs
        recipe = apply(recipe, [f"train.evaluate_every={apart}"])
    path = kept_index(work)
    with open_kept(path, recipe, world, place) as retriever:
        told = asked(retriever, world, work)
    shutil.rmtree(path)
    return told


def kept_index(work: Work) -> Path:
    """Where an index is while it is built and asked, so that an interrupted cell goes on."""
    name = f"{work.world}-{work.system}-{work.seed}".replace(" ", "-")
    return cache_folder() / "pro" / f"{name}.tl"


def open_kept(path: Path, recipe: Recipe, world: World | Histories, place: Place) -> Retriever:
    """The index as it was kept; built where it is not there, or of other settings."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(IndexFolderError):
        kept = Retriever.load(path, device=place.searching)
        if kept.recipe == recipe and len(kept) == len(world.ids):
            return kept
        kept.close()
    cache, device = cache_folder(), place.device
    Retriever.build(world.dataset(), recipe, path=path, cache=cache, device=device).close()
    return Retriever.load(path, device=place.searching)


def asked(retriever: Retriever, world: World | Histories, work: Work) -> dict[str, Any]:
    """Dev chooses, then test is asked over its own items, every way once."""
    base, system = retriever.recipe, SYSTEMS[work.system]
    choosing, most = (2000, 10**9) if work.world in NEXT else (CHOOSING, MOST)
    dev, test = Exam.of(world, "dev", choosing), Exam.of(world, "test", most)
    ways: dict[str, Any] = {}
    chosen: dict[str, tuple[str, ...]] = {}
    for way in system.ways:
        tried = {}
        # The exact search ranks by the scores of the look ahead, and so is weighed like it.
        own = (ways["look"]["omega"],) if way == "exact" else system.omegas
        for omega in own if WAYS[way].weighed else (1.0,):
            settings = WAYS[way].settings(omega)
            retriever.recipe = apply(base, settings)
            tried[omega] = dev.value(search(retriever, dev, way, dev.pool))
        omega = max(tried, key=lambda weight: tried[weight])
        chosen[way] = WAYS[way].settings(omega)
        ways[way] = {"dev": tried, "omega": omega}
    outside = np.setdiff1d(np.arange(len(world.ids)), test.pool)
    if len(outside):
        retriever.remove([str(name) for name in world.ids[outside]])
    for way in system.ways:
        retriever.recipe = apply(base, chosen[way])
        ways[way] |= test.measured(search(retriever, test, way, None))
        if way in ("plain", "SF"):
            some = test.queries[:FOLLOWED]
            ways[way]["survival"] = retriever.survival(some, test.qrels).levels
    told: dict[str, Any] = {"ways": ways, "bytes": retriever.bytes_per_item()["trie"]}
    told |= {"collisions": retriever.stats().collision_rate, "items": len(test.pool)}
    told["training"] = retriever.folder.manifest.notes["training"]
    if system.diagnosed and work.world in DIAGNOSED and work.seed == 0:
        for way in ("plain", "SF"):
            retriever.recipe = apply(base, chosen[way])
            told[f"diagnosed {way}"] = diagnosed(retriever, test)
    return told


def diagnosed(retriever: Retriever, exam: Exam) -> dict[str, Any]:
    """What the bound says; the mismatch, for which every prefix is scored, of fewer queries."""
    world = exam.world
    items = [Item(str(world.ids[row]), embedding=world.vectors[row]) for row in exam.pool]
    many, few = (
        retriever.diagnose_survival(
            exam.queries[:asked], exam.qrels, items=items, beam=SMALL_BEAM, mismatch=mismatch
        ).to_json()
        for asked, mismatch in ((FOLLOWED, False), (SCORED, True))
    )
    for level, other in zip(many["levels"], few["levels"], strict=True):
        level |= {name: other[name] for name in ("mismatch", "certified", "certified_so_far")}
    return {**many, "scored": few["queries"]}


def varied(name: str) -> System:
    """The docids of a variant."""
    recipe, *changes = VARIANTS[name.partition(": ")[2]]
    return System(recipe, SYSTEMS["PD"].sizes, tuple(changes))


def judged(world: World | Histories, work: Work) -> dict[str, Any]:
    """Docids without a model: how well dev is answered by scoring all of them."""
    recipe = recipe_of(varied(work.system), 0, None)
    encoder, numbers = PrecomputedEncoder(dim=world.vectors.shape[1]), list(map(str, world.ids))
    rows = {name: row for row, name in enumerate(numbers)}
    gathered = gather(world.dataset(), rows, world.vectors, recipe, encoder, silent)
    docids = open_docids(recipe.ids, recipe.train.seed)
    taught = judged_items(gathered, world.vectors, rows, recipe)
    docids.fit(world.vectors, judged=taught)
    placed, made = docids.project(world.vectors), docids.assign(world.vectors)
    rebuilt = docids.reconstruct(made.codes)
    exam = Exam.of(world, "dev", MOST)
    own = Dense([numbers[row] for row in exam.pool], _raised(rebuilt[exam.pool]), metric="dot")
    asked = docids.project(exam.vectors())
    found = own.search(np.concatenate([asked, np.ones((len(asked), 1), np.float32)], 1), K)
    error = float(((placed - rebuilt) ** 2).sum(axis=1).mean())
    return {"found": exam.measured(found)["means"] | {"error": error, TESTED: exam.tested(found)}}


def _raised(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """With a coordinate more, so that the product with (q, 1) ranks as the distance to q does."""
    lower = -(vectors**2).sum(axis=1, keepdims=True) / 2
    return np.concatenate([vectors, lower], axis=1)


def times(world: World | Histories, place: Place) -> dict[str, Any]:
    """Milliseconds a query of each system, searched each way."""
    exam = Exam.of(world, "test", TIMED)
    one_by_one = [exam._replace(queries=[query]) for query in exam.queries]
    index = Dense([str(world.ids[row]) for row in exam.pool], world.vectors[exam.pool])
    calls: dict[str, Callable[[], Any]] = {
        "dense dense": lambda: [index.search(one.vectors(), K) for one in one_by_one]
    }
    with ExitStack() as opened:
        for name in CLOCKED:
            recipe = recipe_of(SYSTEMS[name], 0, BRIEFLY)
            path = kept_index(Work(world.name, f"{name} timed", 0))
            retriever = opened.enter_context(open_kept(path, recipe, world, place))
            outside = np.setdiff1d(np.arange(len(world.ids)), exam.pool)
            if len(outside):
                retriever.remove([str(name) for name in world.ids[outside]])
            for way in SYSTEMS[name].ways:
                settings = apply(retriever.recipe, WAYS[way].settings(TYPICAL))

                def ask(retriever: Retriever = retriever, settings=settings, way=way) -> None:
                    retriever.recipe = settings
                    for one in one_by_one:
                        search(retriever, one, way, None)

                calls[f"{name} {way}"] = ask
        spent = fastest(calls, ROUNDS)
    return {"ms": {name: 1000 * s / TIMED for name, s in spent.items()}}


def search(
    retriever: Retriever, exam: Exam, way: str, pool: NDArray[np.int64] | None
) -> list[list[Hit]]:
    """The hits of one way of searching."""
    allowed = None
    if pool is not None and len(pool) < len(exam.world.ids):
        allowed = np.isin(np.arange(len(exam.world.ids)), pool)
    if WAYS[way].model:
        exact = WAYS[way].exact
        return retriever.search(exam.queries, exam.deep, filter=allowed, exact=exact)
    trie = retriever.trie if allowed is None else retriever.trie.restrict(allowed)
    return geometric(retriever, exam, trie, retriever.recipe.decode)


def geometric(
    retriever: Retriever, exam: Exam, trie: Trie, decode: DecodeSettings
) -> list[list[Hit]]:
    """By the codebooks alone, no model."""
    vectors = retriever.docids.project(exam.vectors())
    guides, names, answers = GuidesOf(retriever.docids)(decode), exam.world.ids, []
    for start in range(0, len(vectors), decode.batch):
        some = vectors[start : start + decode.batch]
        found = beam_search(
            Silent(trie.sizes),
            Asked(vector=torch.from_numpy(some)),
            trie,
            beam=decode.beam,
            k=exam.deep,
            guides=guides,
            vectors=some,
        )
        for own in found:
            ranked = enumerate(zip(own.items, own.scores, strict=True), start=1)
            answers.append([Hit(str(names[i]), float(v), rank=rank) for rank, (i, v) in ranked])
    return answers


if __name__ == "__main__":
    main()
