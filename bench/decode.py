"""The decoding engine against what people use, against its floor, and against its bars.

    python bench/decode.py --json            every row: 3 minutes, the first time 5 more
    python bench/decode.py --quick --json    on 100,000 items, 2 minutes; without the bars that
                                             speak of a million
    python bench/decode.py --only floor      some of the rows

One thread; the least of several rounds in which everything that is compared takes its turn. The
row on a trained model needs two indexes that ``bench/trained.py`` builds once, in some ten minutes;
a quick run leaves that row out until they are there.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: see trieline.cli.main

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from floor import Counted, products
from measures import Row, as_json, as_table, in_turns, one_thread
from rich.console import Console
from rivals import Rival, Variant, step_dictionaries
from shapes import PAG, PRO, PRO_LEVELS, World, residual_codes
from trained import exact_rows

from trieline.decode import Found, GeometricPlan, beam_search
from trieline.decode.steps import Normalise
from trieline.evaluate.table import to_rich
from trieline.index import Trie
from trieline.model import Asked
from trieline.model.linear import Precision
from trieline.model.packed import PackedSpeller, pack
from trieline.types import Codes

__all__ = ["Scale", "main", "rows_of"]

K = 10


class Scale(NamedTuple):
    """How much is measured."""

    items: int = 1_000_000
    rounds: int = 5
    queries: int = 2  # asked one by one in a round


QUICK = Scale(100_000, 2, 1)


def of_a_million(scale: Scale, bar: float) -> float | None:
    """A bar that speaks of a million items, where so many are measured."""
    return bar if scale.items == Scale().items else None


def searching(
    world: World,
    speller: Any,
    asked: Asked,
    normalise: Normalise = "level",
    trie: Trie | None = None,
) -> Callable[[], list[Found]]:
    """One search of all that is asked."""
    return partial(
        beam_search,
        speller,
        asked,
        world.trie if trie is None else trie,
        beam=world.shape.beam,
        k=K,
        normalise=normalise,
    )


def one_by_one(asked: Asked) -> list[Asked]:
    return [asked.some(slice(n, n + 1)) for n in range(asked.queries)]


def each(works: list[Callable[[], Any]]) -> Callable[[], None]:
    def run() -> None:
        for work in works:
            work()

    return run


# --- against transformers -----------------------------------------------------------------------


def generate(scale: Scale) -> Iterator[Row]:
    """The same scores as generate, in fp32; then this level's softmax in lower precisions."""
    world = World(PRO, 10_000)
    queries = one_by_one(world.ask(scale.queries))
    ours: dict[str, Callable[[], Any]] = {}
    packed: dict[str, PackedSpeller] = {}
    for precision, normalise in (("fp32", "vocab"), ("bf16", "level"), ("int8", "level")):
        speller = packed[precision] = pack(world.speller, precision)
        ours[precision] = each([searching(world, speller, one, normalise) for one in queries])
    rivals = {variant: Rival(world, variant, K) for variant in _VARIANTS}
    theirs = {
        f"generate {name}": each([partial(rival, one) for one in queries])
        for name, rival in rivals.items()
    }
    same = _same_ranking(world, packed["fp32"], rivals["fp32"], world.ask(8, seed=1))
    ms = in_turns({**ours, **theirs}, scale.rounds)
    ms = {name: value / len(queries) for name, value in ms.items()}
    note = f"identical top {K} for {same} of 8 queries"
    yield _faster("PRO, vocab, fp32, beside generate", ms, "fp32", "fp32", 3.5, note)
    yield _faster("PRO, vocab, fp32, beside generate 'medium'", ms, "fp32", "medium", 2.2, note)
    yield _faster("PRO, level, bf16, beside generate bf16", ms, "bf16", "bf16", 3.5)
    yield _faster("PRO, level, int8, beside generate int8", ms, "int8", "int8", 4.0)
    yield Row("PRO, vocab: identical top 10", "of 8 queries", same, 8, 8, at_least=True)


def text_queries(scale: Scale) -> Iterator[Row]:
    """PAG's shape: a text query, raw dot products."""
    world = World(PAG, 10_000)
    queries = one_by_one(world.ask(scale.queries))
    rival = Rival(world, "fp32", K)
    ours = {
        name: each([searching(world, pack(world.speller, name), one, "raw") for one in queries])
        for name in _PRECISIONS
    }
    theirs = {"generate fp32": each([partial(rival, one) for one in queries])}
    ms = in_turns({**ours, **theirs}, max(2, scale.rounds // 2))
    ms = {name: value / len(queries) for name, value in ms.items()}
    yield _faster("PAG, raw, fp32, beside generate", ms, "fp32", "fp32", 8.0)


_VARIANTS: tuple[Variant, ...] = ("fp32", "medium", "bf16", "int8")
_PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16", "int8")


def _faster(
    what: str, ms: dict[str, float], ours: str, theirs: str, bar: float, note: str = ""
) -> Row:
    mine, other = ms[ours], ms[f"generate {theirs}"]
    more = {"ms": mine, "every_ms": ms}
    return Row(what, "times faster", other / mine, bar, other, True, note, more)


def _same_ranking(world: World, speller: PackedSpeller, rival: Rival, asked: Asked) -> int:
    """For how many queries the first docids are the same, in the same order."""
    same = 0
    for one in one_by_one(asked):
        (found,) = searching(world, speller, one, "vocab")()
        docids = list(dict.fromkeys(world.trie.docid(int(leaf)) for leaf in found.leaves))
        same += docids == rival(one).docids[0][: len(docids)]
    return same


# --- against the floor --------------------------------------------------------------------------


def against_floor(scale: Scale) -> Iterator[Row]:
    """A batch of 16, and the matrix products alone of the same passes."""
    world = World(PRO, 10_000)
    asked = world.ask(16)
    for precision, bar in (("fp32", 1.3), ("bf16", 1.4)):
        speller = pack(world.speller, precision)
        counted = Counted(speller)
        searching(world, counted, asked)()
        ms = in_turns(
            {"ours": searching(world, speller, asked), "floor": products(counted)}, scale.rounds
        )
        more = {"ms": ms["ours"], "rows": counted.rows}
        what = f"PRO, level, {precision}, batch 16, beside its matrix products"
        yield Row(what, "times", ms["ours"] / ms["floor"], bar, ms["floor"], more=more)


# --- the trie -----------------------------------------------------------------------------------


def a_step(scale: Scale) -> Iterator[Row]:
    """Gather and top-k as a real search of 16 queries does them, beside dictionaries."""
    world = World(PRO, scale.items)
    seen: list[tuple[Any, ...]] = []
    best = Trie.best

    def watched(trie: Trie, *given: Any) -> Any:
        seen.append(given)
        return best(trie, *given)

    Trie.best = watched  # type: ignore[method-assign]
    try:
        searching(world, pack(world.speller), world.ask(16))()
    finally:
        Trie.best = best  # type: ignore[method-assign]
    full = [given for given in seen if len(given[1]) == 16 * PRO.beam]
    spent: dict[str, dict[int, float]] = {"ours": {}, "dictionaries": {}}
    for given in full:
        level, nodes, base, table, bounds, width = given
        dicts = _as_dictionaries(world.trie, level, nodes)
        total = np.asarray(base, np.float32)[:, None] + table
        # In a search the scores were just computed: so ours, run some times after the dictionaries
        # have filled the caches with their own things, finds them there too.
        works = {f"ours {n}": partial(world.trie.best, *given) for n in range(_OFTEN)}
        works["dictionaries"] = partial(step_dictionaries, dicts, total, bounds.tolist(), width)
        ms = in_turns(works, 2 + 2 * scale.rounds)
        spent["dictionaries"][level] = ms.pop("dictionaries")
        spent["ours"][level] = min(ms.values())
    ours, theirs = (float(np.mean(list(some.values()))) for some in spent.values())
    more = {"levels_us": {level: 1e3 * ms for level, ms in spent["ours"].items()}}
    note = f"mean over levels {min(spent['ours'])} to {max(spent['ours'])}"
    what = f"a step, 16 x {PRO.beam} beams, {scale.items:,} items"
    yield Row(
        f"{what}, beside dictionaries",
        "times",
        theirs / ours,
        of_a_million(scale, 80),
        theirs,
        True,
        note,
        more,
    )
    yield Row(what, "us", 1e3 * ours, of_a_million(scale, 120), 1e3 * theirs, note=note, more=more)


_OFTEN = 20


def _as_dictionaries(trie: Trie, level: int, nodes: Any) -> list[dict[int, Any]]:
    children = trie.expand(level, nodes)
    dicts: list[dict[int, Any]] = [{} for _ in nodes]
    for parent, code in zip(children.parents.tolist(), children.codes.tolist(), strict=True):
        dicts[parent][code] = {}
    return dicts


def memory(scale: Scale) -> Iterator[Row]:
    """What docids take, in memory and on disk, and how long they take to build."""
    table = residual_codes(scale.items, PRO_LEVELS)
    codes = Codes(table, np.random.default_rng(0).permutation(len(table)).astype(np.uint32))
    built: list[Trie] = []
    works = {"build": lambda: built.append(Trie.build(codes, PRO_LEVELS))}
    seconds = in_turns(works, 3, clock=time.perf_counter)["build"]
    trie, items = built[-1], f"{scale.items:,} items"
    disk = sum(array.nbytes for array in trie.arrays().values()) / trie.rows
    flat = table.nbytes / len(table)
    note = "baseline: the codes alone, two bytes each"
    yield Row(
        f"trie and codes in memory, {items}",
        "bytes an item",
        trie.nbytes / trie.rows,
        of_a_million(scale, 26),
        flat,
        note=note,
    )
    yield Row(
        f"trie and codes on disk, {items}",
        "bytes an item",
        disk,
        of_a_million(scale, 26),
        flat,
        note=note,
    )
    yield Row(f"build from unsorted codes, {items}", "s", seconds / 1e3, of_a_million(scale, 6))


def flat(scale: Scale) -> Iterator[Row]:
    """A hundred times the items, or ten in a quick run."""
    world = World(PRO, 10_000)
    speller, queries = pack(world.speller), one_by_one(world.ask(scale.queries))
    sizes = [size for size in (10_000, 100_000, 1_000_000) if size <= scale.items]
    tries = {size: world.with_items(size) for size in sizes}
    works = {
        str(size): each([searching(world, speller, one, trie=trie) for one in queries])
        for size, trie in tries.items()
    }
    ms = {size: spent / len(queries) for size, spent in in_turns(works, scale.rounds).items()}
    small, large = ms[str(sizes[0])], ms[str(sizes[-1])]
    what = f"PRO, level, fp32: {sizes[-1]:,} items beside {sizes[0]:,}"
    yield Row(what, "times", large / small, 1.15, small, more={"ms": ms})


def planning(scale: Scale) -> Iterator[Row]:
    """Every item scored by table look-ups."""
    table = residual_codes(scale.items, PRO_LEVELS)
    trie = Trie.build(Codes(table, np.arange(len(table), dtype=np.uint32)), PRO_LEVELS)
    rng = np.random.default_rng(0)
    books = [rng.standard_normal((size, 384)).astype(np.float32) / 384 for size in PRO_LEVELS]
    query, plan = rng.standard_normal((1, 384)).astype(np.float32), GeometricPlan(books, 0)
    columns, norms = np.ascontiguousarray(trie.codes.T), np.zeros(trie.rows, np.float32)

    def plain() -> Any:
        total = -norms
        for codes, book in zip(columns, books, strict=True):
            total += (2 * (book @ query[0])).take(codes)
        return total

    works = {"ours": lambda: plan.scores(query, trie), "NumPy": plain}
    ms = in_turns(works, scale.rounds)
    what = f"GeometricPlan, {scale.items:,} items, 16 levels"
    yield Row(what, "ms a query", ms["ours"], 25, ms["NumPy"], note="baseline: NumPy")


# --- a trained model ----------------------------------------------------------------------------


def legal(scale: Scale) -> Iterator[Row]:
    """Exact answers of a model trained with a softmax over legal codes; see ``trained.py``."""
    found = exact_rows(100, scale.rounds, build=scale != QUICK)
    if not found:
        Console(stderr=True).print("no trained index yet: run bench/trained.py once", style="dim")
    yield from found


# --- several at once ----------------------------------------------------------------------------


def at_once(scale: Scale) -> Iterator[Row]:
    """Three threads search at once on two cores; a fair share is one and a half searches' time."""
    world = World(PRO, 10_000)
    speller, asked = pack(world.speller), world.ask(1)
    search = searching(world, speller, asked)
    cores = min(3, len(os.sched_getaffinity(0)))

    def three() -> None:
        threads = [threading.Thread(target=_alone, args=(each([search] * 4),)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    works = {"alone": each([search] * 4), "three": three}
    ms = in_turns(works, scale.rounds, clock=time.perf_counter)
    fair = ms["alone"] * 3 / cores
    note = f"wall time on {cores} cores; whatever else runs on them counts against it"
    yield Row(
        "three searches at once, beside their fair share",
        "times",
        ms["three"] / fair,
        1.3,
        fair,
        note=note,
    )


def _alone(work: Callable[[], None]) -> None:
    with one_thread():
        work()


# --- all of it ----------------------------------------------------------------------------------

ROWS: dict[str, Callable[[Scale], Iterator[Row]]] = {
    "generate": generate,
    "text": text_queries,
    "floor": against_floor,
    "step": a_step,
    "memory": memory,
    "flat": flat,
    "plan": planning,
    "legal": legal,
    "at-once": at_once,
}


def rows_of(scale: Scale, only: list[str]) -> list[Row]:
    """The rows that are asked for."""
    console, rows = Console(stderr=True), []
    with one_thread():
        for name, measure in ROWS.items():
            if not only or name in only:
                console.print(f"measuring: {name}", style="dim")
                rows += measure(scale)
    return rows


def main(
    quick: Annotated[bool, typer.Option(help="100,000 items, two rounds, one query.")] = False,
    json_out: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    only: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(ROWS)}.")] = None,
    rounds: Annotated[int, typer.Option(help="Rounds; 0: as many as it takes.")] = 0,
) -> None:
    """Measure the engine; exit 1 where a bar is missed."""
    scale = QUICK if quick else Scale()
    rows = rows_of(scale._replace(rounds=rounds) if rounds else scale, only or [])
    if json_out:
        json.dump(as_json(rows), sys.stdout, indent=1)
    else:
        Console().print(to_rich(as_table(rows, "the decoding engine, one thread")))
    raise typer.Exit(0 if all(row.holds is not False for row in rows) else 1)


if __name__ == "__main__":
    typer.run(main)
