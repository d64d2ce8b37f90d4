"""The cells of pro.md that take time: a training, searched every way; docids alone; times."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from cells import fastest
from numpy.typing import NDArray
from pro_exam import Exam, K
from pro_systems import MOST, NEXT, SYSTEMS, TESTED, VARIANTS, WAYS, System
from silent import Silent
from worlds import Histories, World

from trieline import Retriever
from trieline.config import DecodeSettings, Recipe, apply, cache_folder, load_recipe
from trieline.decode import GuidesOf, beam_search
from trieline.encode.precomputed import PrecomputedEncoder
from trieline.errors import IndexFolderError
from trieline.evaluate.baselines import Dense
from trieline.ids import open_docids
from trieline.index import Trie
from trieline.lessons import gather, judged_items
from trieline.model import Asked
from trieline.types import Hit, Item
from trieline.watch import silent

CHOOSING = 200  # dev queries that choose
FOLLOWED = 500  # test queries whose prefixes are followed
SCORED = 50  # of these, those for which the decoder scores every prefix
TIMED, ROUNDS, BRIEFLY = 20, 3, 100  # queries, rounds, steps of training
TYPICAL = 100.0  # omega
CLOCKED = ("genius", "PD+VS", "legal", "16 levels", "32 levels")
DIAGNOSED = ("flickr8k text to image", "nfcorpus")
SMALL_BEAM = 20  # of diagnostics, as in the paper
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


def recipe_of(system: System, seed: int, steps: int | None) -> Recipe:
    trained = RECOMMENDING if set(system.worlds) <= set(NEXT) else TRAINED
    changes = [*trained, f"ids.sizes={list(system.sizes)}", *system.changes, f"train.seed={seed}"]
    if steps is not None:
        changes.append(f"train.max_steps={steps}")
    return load_recipe(system.recipe, changes)


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
