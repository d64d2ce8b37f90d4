"""Random changes to a catalog against a model made of dictionaries."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from trieline.catalog import Catalog
from trieline.errors import DataError
from trieline.types import Codes, Item

SIZES = (3, 700)

names = st.text("ab'é\x00✓", min_size=1, max_size=2)
json_values = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-1, 1) | st.text("aé")
items = st.builds(
    Item,
    id=names,
    text=st.text("xyz \n✓", max_size=9),
    title=st.text(max_size=3),
    embedding=st.none(),
    image=st.none() | st.text("p/", max_size=2),
    modality=st.sampled_from(["text", "image", ""]),
    metadata=st.none() | st.dictionaries(st.text(max_size=2), json_values | st.lists(json_values)),
)
rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 699)), min_size=1, max_size=3)


class CatalogAndModel(RuleBasedStateMachine):
    """The same steps on both sides; after each, the same contents."""

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.catalog = Catalog.create(Path(self.folder.name) / "catalog.sqlite", SIZES)
        self.items: dict[int, Item] = {}
        self.docids: dict[int, list[tuple[int, int]]] = {}
        self.next = self.revision = 0

    def number(self, name: str) -> int | None:
        return next((n for n, item in self.items.items() if item.id == name), None)

    @rule(batch=st.lists(st.tuples(items, rows), max_size=6), seed=st.integers(0, 99))
    def add(self, batch: list[tuple[Item, list[tuple[int, int]]]], seed: int) -> None:
        pairs = [(i, row) for i, (_, rows_of) in enumerate(batch) for row in rows_of]
        np.random.default_rng(seed).shuffle(pairs)
        table = np.array([row for _, row in pairs], np.uint16).reshape(-1, 2)
        codes = Codes(table, np.array([i for i, _ in pairs], np.uint32))
        ids = [item.id for item, _ in batch]
        if len(set(ids)) < len(ids) or any(self.number(name) is not None for name in ids):
            with pytest.raises(DataError, match="given twice|in the catalog already"):
                self.catalog.add((item for item, _ in batch), codes)
            return
        numbers = self.catalog.add((item for item, _ in batch), codes)
        assert numbers.tolist() == list(range(self.next, self.next + len(batch)))
        for i, (item, _) in enumerate(batch):
            self.items[self.next + i] = item
            self.docids[self.next + i] = [row for j, row in pairs if j == i]
        self.next += len(batch)
        self.revision += bool(batch)

    @rule(data=st.data(), more=st.lists(names, max_size=1))
    def remove(self, data: st.DataObject, more: list[str]) -> None:
        known = [item.id for item in self.items.values()]
        some = data.draw(st.lists(st.sampled_from(known), max_size=4)) if known else []
        gone = [self.number(name) for name in dict.fromkeys(some + more)]
        if None in gone:
            with pytest.raises(DataError, match="never added, or has been removed"):
                self.catalog.remove(some + more)
            return
        assert self.catalog.remove(iter(some + more)).tolist() == gone
        for number in gone:
            assert number is not None
            del self.items[number], self.docids[number]
        self.revision += bool(gone)

    @rule()
    def reopen(self) -> None:
        self.catalog.close()
        self.catalog = Catalog.open(self.catalog.path)

    @rule()
    def compact(self) -> None:
        self.catalog.compact()

    @rule()
    def copy(self) -> None:
        path = self.catalog.path.with_name(f"copy-{self.catalog.path.name}")
        self.catalog.copy_to(path)
        self.catalog.close()
        self.catalog = Catalog.open(path)

    @invariant()
    def same(self) -> None:
        if not hasattr(self, "catalog"):
            return
        numbers = list(self.items)
        assert list(self.catalog.items()) == list(self.items.values())
        assert self.catalog.get(numbers[::-1]) == list(self.items.values())[::-1]
        assert self.catalog.found(range(self.next)) == self.items
        revision, codes = self.catalog.state()
        assert (len(self.catalog), revision) == (len(self.items), self.revision)
        assert codes.owner.tolist() == [n for n in numbers for _ in self.docids[n]]
        assert list(map(tuple, codes.codes.tolist())) == [
            r for n in numbers for r in self.docids[n]
        ]
        for number, item in self.items.items():
            assert self.catalog.find(item.id) == number
            assert list(map(tuple, self.catalog.docids(number).tolist())) == self.docids[number]

    def teardown(self) -> None:
        if hasattr(self, "catalog"):
            assert self.catalog.verify() == []
            self.catalog.close()
            self.folder.cleanup()


TestCatalogAndModel = CatalogAndModel.TestCase
TestCatalogAndModel.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
