"""What a catalog tells of its past: changes, replaced items, files of an older version."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from trieline.catalog import Catalog, State
from trieline.errors import DataError, IndexFolderError
from trieline.types import Codes, Item

SIZES = (4, 700)


def table(count: int, code: int = 0) -> Codes:
    """One docid an item, its place in the last level."""
    rows = [(code, place) for place in range(count)]
    return Codes(np.array(rows, np.uint16).reshape(-1, 2), np.arange(count, dtype=np.uint32))


def named(names: str) -> list[Item]:
    return [Item(name) for name in names]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.create(tmp_path / "catalog.sqlite", SIZES) as made:
        yield made


def replayed(old: State, catalog: Catalog) -> State | None:
    """An older state, brought up to date."""
    changes = catalog.changes(old.revision)
    if changes is None:
        return None
    kept = ~np.isin(old.codes.owner, changes.removed)
    return State(
        changes.revision,
        Codes(
            np.concatenate([old.codes.codes[kept], changes.added.codes]),
            np.concatenate([old.codes.owner[kept], changes.added.owner]),
        ),
    )


# --- the log -----------------------------------------------------------------------------------


def test_changes_are_told_since_a_revision(catalog: Catalog) -> None:
    catalog.add(named("abc"), table(3))
    catalog.remove(["b"])
    catalog.add(named("bd"), table(2, code=1))
    catalog.remove(["d", "a"])
    changes = catalog.changes(1)
    assert changes is not None
    assert changes.revision == 4
    assert sorted(changes.removed.tolist()) == [0, 1, 4]
    assert (changes.added.owner.tolist(), changes.added.codes.tolist()) == ([3], [[1, 0]])
    assert changes.removed.dtype == changes.added.owner.dtype == np.uint32
    nothing = catalog.changes(4)
    assert nothing is not None
    assert (nothing.removed.tolist(), nothing.added.owner.tolist()) == ([], [])
    assert catalog.changes(5) is None, "nobody knows what is to come"


def test_what_is_forgotten_is_not_told(catalog: Catalog) -> None:
    for name in "abcd":
        catalog.add(named(name), table(1))
    catalog.forget_changes(2)
    assert catalog.changes(1) is None
    changes = catalog.changes(2)
    assert changes is not None
    assert changes.added.owner.tolist() == [2, 3]
    catalog.forget_changes(1)
    assert catalog.changes(2) is not None, "what was forgotten later stays known"
    catalog.forget_changes(99)
    assert catalog.changes(4) is not None
    assert catalog.changes(3) is None
    catalog.add(named("e"), table(1))
    assert catalog.changes(4) is not None
    assert catalog.verify() == []


names = st.sampled_from("abcdefgh")


class CatalogAndItsPast(RuleBasedStateMachine):
    """From any state that the log still reaches, the changes lead to the present one."""

    folder: Path

    @initialize()
    def start(self) -> None:
        self.path = self.folder / f"{id(self)}.sqlite"
        self.catalog = Catalog.create(self.path, SIZES)
        self.there: set[str] = set()
        self.past: list[State] = [self.catalog.state()]
        self.known = 0

    @rule(batch=st.lists(names, min_size=1, max_size=4, unique=True), code=st.integers(0, 3))
    def replace(self, batch: list[str], code: int) -> None:
        self.catalog.add(named("".join(batch)), table(len(batch), code), replace=True)
        self.there.update(batch)

    @precondition(lambda self: self.there)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        some = data.draw(st.sets(st.sampled_from(sorted(self.there)), min_size=1))
        self.catalog.remove(sorted(some))
        self.there -= some

    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        upto = data.draw(st.integers(0, self.catalog.revision))
        self.catalog.forget_changes(upto)
        self.known = max(self.known, upto)

    @invariant()
    def replays(self) -> None:
        if not hasattr(self, "catalog"):
            return
        now = self.catalog.state()
        assert set(self.catalog.ids(now.codes.owner)) == self.there
        assert len(self.catalog) == len(self.there)
        for old in self.past:
            made = replayed(old, self.catalog)
            assert (made is None) == (old.revision < self.known)
            if made is not None:
                assert made.revision == now.revision
                np.testing.assert_array_equal(made.codes.codes, now.codes.codes)
                np.testing.assert_array_equal(made.codes.owner, now.codes.owner)
        self.past.append(now)

    def teardown(self) -> None:
        if hasattr(self, "catalog"):
            assert self.catalog.verify() == []
            self.catalog.close()
            self.path.unlink()


def test_any_state_that_the_log_reaches_can_be_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    monkeypatch.setattr(CatalogAndItsPast, "folder", tmp_path, raising=False)
    run_state_machine_as_test(
        CatalogAndItsPast,
        settings=settings(max_examples=20, stateful_step_count=15, deadline=None),
    )


# --- replacing ---------------------------------------------------------------------------------


def test_an_item_is_replaced_in_one_change(catalog: Catalog) -> None:
    catalog.add(named("abc"), table(3))
    new = [Item("b", "new"), Item("x"), Item("a")]
    assert catalog.add(iter(new), table(3, code=2), replace=True).tolist() == [3, 4, 5]
    assert [item.id for item in catalog.items()] == ["c", "b", "x", "a"]
    assert catalog.get([3]) == [Item("b", "new")]
    assert (len(catalog), catalog.revision) == (4, 2)
    changes = catalog.changes(1)
    assert changes is not None
    assert sorted(changes.removed.tolist()) == [0, 1]
    assert changes.added.owner.tolist() == [3, 4, 5]
    assert catalog.verify() == []


@pytest.mark.parametrize(
    ("items", "why"),
    [
        (named("bb"), "'b' is given twice"),
        ([Item("a"), Item("b", title="\ud800")], "its title is not valid"),
        ([Item("a"), Item("\ud800")], "its id is not valid"),
    ],
)
def test_what_cannot_replace_changes_nothing(catalog: Catalog, items: list[Item], why: str) -> None:
    catalog.add(named("abc"), table(3))
    with pytest.raises(DataError, match=why):
        catalog.add(items, table(2), replace=True)
    assert list(catalog.items()) == named("abc")
    assert (len(catalog), catalog.revision) == (3, 1)


def test_more_than_a_batch_is_replaced(catalog: Catalog) -> None:
    many = [Item(f"n{n}") for n in range(5000)]
    codes = Codes(np.zeros((5000, 2), np.uint16), np.arange(5000, dtype=np.uint32))
    catalog.add(many, codes, replace=True)
    catalog.add(many[::-1], codes, replace=True)
    assert list(catalog.items()) == many[::-1]
    with pytest.raises(DataError, match="'n7' is given twice"):
        catalog.add([*many[:-1], many[7]], codes, replace=True)
    assert catalog.verify() == []


# --- older files -------------------------------------------------------------------------------


def older(path: Path) -> None:
    """Make a catalog what version 1 would have written."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("DROP TABLE changes")
    connection.execute("DELETE FROM meta WHERE key = 'base'")
    columns = "number, id, title, text, image, modality, metadata"
    connection.execute("ALTER TABLE items RENAME TO new")
    connection.execute("DROP INDEX items_by_id")
    connection.execute(
        "CREATE TABLE items (number INTEGER PRIMARY KEY, id TEXT NOT NULL, title TEXT, text TEXT, "
        "image TEXT, modality TEXT, metadata TEXT)"
    )
    connection.execute(f"INSERT INTO items SELECT {columns} FROM new")
    connection.execute("DROP TABLE new")
    connection.execute("CREATE UNIQUE INDEX items_by_id ON items (id)")
    connection.execute("PRAGMA user_version = 1")
    connection.close()


def test_a_file_of_version_1_is_brought_up_to_date(catalog: Catalog) -> None:
    item = Item("a", "text", "title", "image", None, "image", {"k": 1})
    catalog.add([item, Item("b")], table(2))
    catalog.remove(["b"])
    catalog.close()
    older(catalog.path)
    with pytest.raises(IndexFolderError, match="version 1, of an older.*: trieline compact"):
        Catalog.open(catalog.path, read_only=True)
    for _ in range(2):
        with Catalog.open(catalog.path) as again:
            assert list(again.items()) == [item]
            assert again.verify() == []
            assert again.changes(1) is None
            assert again.changes(2) is not None
    with Catalog.open(catalog.path) as again:
        again.add([Item("b", "new")], table(1))
        assert list(again.items()) == [item, Item("b", "new")]
        changes = again.changes(2)
        assert changes is not None
        assert changes.added.owner.tolist() == [2]
        assert again.verify() == []
    with Catalog.open(catalog.path, read_only=True) as reader:
        assert len(reader) == 2
