"""Ten thousand random steps against a model made of dictionaries, on two retrievers at once."""

from __future__ import annotations

import random
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from workshop import precomputed_recipe, vector_items, vector_queries

from trieline.catalog import database
from trieline.checkup import verify_index
from trieline.data import MemoryDataset
from trieline.errors import DataError
from trieline.retriever import Retriever
from trieline.types import Hit, Item, Query

STEPS, MOST = 10_000, 60
NAMES = [f"item-{n}" for n in range(150)]
GROUPS = ("a", "b", "c")


class World:
    """Two retrievers of one folder, and what must be in it."""

    def __init__(self, path: Path, seed: int) -> None:
        self.luck, self.path = random.Random(seed), path
        self.rng = np.random.default_rng(seed)
        self.open = [Retriever.load(path) for _ in range(2)]
        self.there: dict[str, Item] = {item.id: item for item in self.open[0].catalog.items()}
        self.query = Query("q", embedding=self.rng.normal(size=8).astype(np.float32))

    def one(self) -> Retriever:
        return self.luck.choice(self.open)

    def made(self, name: str) -> Item:
        luck = self.luck
        facts = {"group": luck.choice(GROUPS), "size": luck.randrange(9)}
        if luck.random() < 0.3:
            facts["tags"] = luck.sample(GROUPS, 2)
        vector = self.rng.normal(size=8).astype(np.float32)
        return Item(name, title=f"{luck.random()}", embedding=vector, metadata=facts)

    def step(self, number: int) -> None:
        if number % 20 == 0:
            self.search()
        if number % 500 == 250:
            self.one().compact()
        if number % 1000 == 700:
            self.reopen()
        if len(self.there) > self.luck.randrange(MOST):
            self.remove()
        else:
            self.add()

    def add(self) -> None:
        names = self.luck.sample(NAMES, self.luck.choice((1, 1, 1, 2, 5)))
        items = [self.made(name) for name in names]
        replace = self.luck.random() < 0.5
        if not replace and any(name in self.there for name in names):
            with pytest.raises(DataError, match="is in the catalog already"):
                self.one().add(items)
            return
        assert self.one().add(items, replace=replace) == len(items)
        self.there.update({item.id: item for item in items})

    def remove(self) -> None:
        count = self.luck.choice((1, 1, 2, 4))
        names = self.luck.sample(sorted(self.there), min(count, len(self.there)))
        if self.luck.random() < 0.05:
            with pytest.raises(DataError, match="no item has the id 'nobody'"):
                self.one().remove([*names, "nobody"])
            return
        assert self.one().remove(names) == len(names)
        for name in names:
            del self.there[name]

    def search(self) -> None:
        group, least = self.luck.choice(GROUPS), self.luck.randrange(9)
        filters: list[tuple[Any, set[str]]] = [
            (None, set(self.there)),
            ({"group": group}, self.having(lambda facts: facts["group"] == group)),
            ({"size": {">=": least}}, self.having(lambda facts: facts["size"] >= least)),
            ({"tags": {"contains": group}}, self.having(lambda f: group in f.get("tags", ()))),
        ]
        filter, expected = self.luck.choice(filters)
        hits = self.hits(self.one(), filter)
        assert {hit.item_id for hit in hits} == expected
        assert len(hits) == len(expected)
        assert all(hit.title == self.there[hit.item_id].title for hit in hits)
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)

    def having(self, what: Any) -> set[str]:
        return {name for name, item in self.there.items() if what(item.metadata)}

    def hits(self, retriever: Retriever, filter: Any = None) -> list[Hit]:
        return retriever.search(self.query, 2 * MOST, beam=2 * MOST, filter=filter)[0]

    def reopen(self) -> None:
        place = self.luck.randrange(2)
        expected = self.hits(self.open[place])
        self.open[place].close()
        self.open[place] = Retriever.load(self.path)
        assert self.hits(self.open[place]) == expected


@pytest.fixture
def fast_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody pulls the plug here, so nothing waits for the disk."""
    configure = database._configure

    def hasty(writer: sqlite3.Connection) -> None:
        configure(writer)
        writer.execute("PRAGMA synchronous = OFF")

    monkeypatch.setattr(database, "_configure", hasty)


@pytest.fixture(params=["keep", "extra"])
def world(request: pytest.FixtureRequest, tmp_path: Path, fast_disk: None) -> Iterator[World]:
    items = [item._replace(metadata={"group": "a", "size": 3}) for item in vector_items()]
    queries, qrels = vector_queries(items)
    short = ("train.max_steps=5", "train.min_steps=5", "ids.extra=32")
    recipe = precomputed_recipe(f"ids.collisions={request.param}", *short)
    corpus = MemoryDataset(items, {"train": queries}, {"train": qrels})
    Retriever.build(corpus, recipe, path=tmp_path / "a.tl").close()
    world = World(tmp_path / "a.tl", seed=1)
    yield world
    for retriever in world.open:
        retriever.close()


@pytest.mark.slow
def test_ten_thousand_steps(world: World) -> None:
    steps = STEPS if world.open[0].recipe.ids.collisions == "keep" else STEPS // 10
    for number in range(steps):
        world.step(number)
    first, second = world.open
    assert world.hits(first) == world.hits(second)
    expected = world.hits(first)
    assert {hit.item_id for hit in expected} == set(world.there)
    first.compact()
    assert world.hits(second) == expected
    with Retriever.load(world.path) as again:
        assert world.hits(again) == expected
        assert sorted(item.id for item in again.catalog.items()) == sorted(world.there)
    first.save(world.path.with_name("b.tl"))
    with Retriever.load(world.path.with_name("b.tl")) as saved:
        assert world.hits(saved) == expected
    assert verify_index(world.path) == ([], [])
