"""What it costs to change a large index, to search a part of it, to open and to compact it.

Random vectors, codes and weights in the shape of the recipe ``genius``: costs do not depend on what
a model has learnt. Baselines, in the same run and in turns: for changes, what they cost when every
one of them writes the stored trie anew; for a filter, the same search without it, and choosing the
items in Python; for opening, making the trie from the catalog; for compacting, a plain copy.

    python bench/living.py                     100,000 items
    python bench/living.py --quick --json      10,000 items; one object: what -> value, bar, holds
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: see trieline.cli.main

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from measures import Row, as_json, as_table

from trieline import Item, Query, Retriever
from trieline.build import write_index
from trieline.catalog import Catalog
from trieline.config import Recipe, load_recipe
from trieline.encode import open_encoder
from trieline.evaluate.table import to_markdown
from trieline.ids import ResidualIds
from trieline.index import Trie
from trieline.living import open_view
from trieline.model import build_speller
from trieline.types import Codes, Floats

__all__ = ["main"]

WIDTH = 64
CHANGES = (
    "encode.kind=precomputed",
    "ids.sizes=[256, 256, 256, 256, 256, 256, 256, 256]",
    "model.dropout=0",
)
PARTS = {"50 %": {"half": 0}, "1 %": {"percent": 7}, "0.01 %": {"rare": 7}}
ASKED = 5  # queries a measurement


class World:
    """A large index, and items to come."""

    def __init__(self, path: Path, items: int, seed: int) -> None:
        self.rng, self.path, self.next = np.random.default_rng(seed), path, items
        self.recipe: Recipe = load_recipe("genius", CHANGES)
        sample = self.vectors(2000)
        docids = ResidualIds(self.recipe.ids, seed).fit(sample)
        table = self.rng.integers(0, 256, (items, 8)).astype(np.uint16)
        write_index(
            path,
            recipe=self.recipe,
            docids=docids,
            encoder=open_encoder(self.recipe.encode, None, dim=WIDTH),
            speller=build_speller(self.recipe.model, docids.sizes, WIDTH, None, seed=seed),
            items=(item_of(n) for n in range(items)),
            codes=Codes(table, np.arange(items, dtype=np.uint32)),
            notes={},
        )
        self.queries = [Query(f"{n}", embedding=v) for n, v in enumerate(self.vectors(ASKED))]

    def vectors(self, count: int) -> Floats:
        return self.rng.standard_normal((count, WIDTH)).astype(np.float32)

    def new(self, count: int) -> list[Item]:
        first, self.next = self.next, self.next + count
        vectors = self.vectors(count)
        return [item_of(first + n)._replace(embedding=v) for n, v in enumerate(vectors)]


def item_of(number: int) -> Item:
    facts = {"half": number % 2, "percent": number % 100, "rare": number % 10_000}
    text = f"the {number}th of many things that somebody may look for one day"
    return Item(f"item-{number}", text, f"Thing {number}", metadata=facts)


def seconds(*calls: Callable[[], object], rounds: int = 1) -> list[float]:
    """The least of several rounds of each call, taken in turns."""
    least = [float("inf")] * len(calls)
    for _ in range(rounds):
        for place, call in enumerate(calls):
            begin = time.perf_counter()
            call()
            least[place] = min(least[place], time.perf_counter() - begin)
    return least


def changes(world: World, rounds: int) -> Iterator[Row]:
    """Adding and removing, one item and a hundred at a time."""
    with Retriever.load(world.path) as retriever:

        def stored() -> None:
            with retriever.folder.writing() as writer:
                writer.replace_derived("trie", retriever.catalog.revision, retriever.trie.arrays())

        for count in (1, 100):
            there: list[list[str]] = []

            def add(count: int = count, there: list[list[str]] = there) -> None:
                items = world.new(count)
                there.append([item.id for item in items])
                retriever.add(items)

            def remove(there: list[list[str]] = there) -> None:
                retriever.remove(there.pop())

            def add_and_store(add: Callable[[], None] = add) -> None:
                add()
                stored()

            def remove_and_store(remove: Callable[[], None] = remove) -> None:
                remove()
                stored()

            both = {"add": (add, add_and_store), "remove": (remove, remove_and_store)}
            found = {name: seconds(*calls, rounds=rounds) for name, calls in both.items()}
            for name, (mine, theirs) in found.items():
                bar = (5 if count == 1 else 2) * count / theirs
                size = "one item" if count == 1 else f"{count} items"
                what = f"{name}, {size} a change"
                yield Row(what, "items/s", count / mine, bar, count / theirs, at_least=True)


def filters(world: World, rounds: int) -> Iterator[Row]:
    """A predicate: choosing the items, and searching among them."""
    with Retriever.load(world.path) as retriever:
        living, catalog = retriever._living, retriever.catalog

        def ask(where: Mapping[str, Any] | None) -> None:
            for query in world.queries:
                hits = retriever.search(query, 10, filter=where)[0]
                assert len(hits) == min(10, catalog.matching(where or {}).size)

        def choose(where: Mapping[str, Any]) -> None:
            living._restricted.clear()
            living.findable(living.view(), where)

        def plainly(where: Mapping[str, Any]) -> list[str]:
            ((key, value),) = where.items()
            facts = ((item.id, item.metadata or {}) for item in catalog.items())
            return [name for name, own in facts if own.get(key) == value]

        for name, where in PARTS.items():
            made, slow = seconds(
                lambda where=where: choose(where), lambda where=where: plainly(where), rounds=rounds
            )
            yield Row(f"filter {name}: choose", "ms", 1e3 * made, 1e3 * slow / 3, 1e3 * slow)
            part, whole = seconds(
                lambda where=where: searched(retriever, world, where),
                lambda: searched(retriever, world, None),
                rounds=rounds,
            )
            ms = 1e3 / ASKED
            yield Row(f"filter {name}: search", "ms", ms * part, 1.2 * ms * whole, ms * whole)
            ask(where)


def searched(retriever: Retriever, world: World, where: Mapping[str, Any] | None) -> None:
    for query in world.queries:
        retriever.search(query, 10, filter=where)


def opening(world: World, rounds: int, updates: int) -> Iterator[Row]:
    """Bringing the trie up to date: after one change, and at opening after many."""
    with Retriever.load(world.path) as retriever:
        retriever.compact()
        folder, catalog = retriever.folder, retriever.catalog

        def rebuild() -> None:
            Trie.build(catalog.codes(), catalog.sizes)

        fresh, anew = seconds(lambda: open_view(folder, catalog), rebuild, rounds=rounds)
        yield Row("open, compacted", "ms", 1e3 * fresh, 1e3 * anew, 1e3 * anew)
        after = []
        for _ in range(rounds):
            retriever.add(world.new(1))
            after += seconds(retriever._living.view)
        yield Row("first search after a change", "ms", 1e3 * min(after), 1e3 * anew, 1e3 * anew)
        for _ in range(updates // 2):
            (item,) = world.new(1)
            retriever.add([item])
            retriever.remove([item.id])
        opened, anew = seconds(lambda: open_view(folder, catalog), rebuild, rounds=rounds)
        what = f"open after {updates:,} small changes"
        yield Row(what, "ms", 1e3 * opened, 1e3 * anew, 1e3 * anew)


def compacting(world: World) -> Iterator[Row]:
    with Catalog.open(world.path / "g000001" / "catalog.sqlite") as catalog:
        copy = world.path.with_name("copy.sqlite")
        (copied,) = seconds(lambda: catalog.copy_to(copy))
        copy.unlink()
    with Retriever.load(world.path) as retriever:
        (compacted,) = seconds(retriever.compact)
    yield Row("compact", "s", compacted, None, copied)


def main(
    items: Annotated[int, typer.Option(help="Items in the index.")] = 100_000,
    updates: Annotated[int, typer.Option(help="Small changes before it is opened again.")] = 1000,
    rounds: Annotated[int, typer.Option(help="Each figure is the best of so many.")] = 5,
    quick: Annotated[bool, typer.Option(help="10,000 items, 200 changes, 3 rounds.")] = False,
    json_out: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    seed: int = 0,
) -> None:
    """Measure; exit 1 where a bar is missed."""
    if quick:
        items, updates, rounds = 10_000, 200, 3
    folder = Path(tempfile.mkdtemp(prefix="living-"))
    try:
        world = World(folder / "a.tl", items, seed)
        rows = [
            *changes(world, rounds),
            *filters(world, rounds),
            *opening(world, rounds, updates),
            *compacting(world),
        ]
    finally:
        shutil.rmtree(folder)
    if json_out:
        json.dump(as_json(rows), sys.stdout, indent=1)
    else:
        print(to_markdown(as_table(rows, f"{items:,} items")))
    raise typer.Exit(0 if all(row.holds is not False for row in rows) else 1)


if __name__ == "__main__":
    typer.run(main)
