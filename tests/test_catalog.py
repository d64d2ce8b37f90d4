"""The catalog against a model made of dictionaries, and every way to misuse it."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from trieline.catalog import Catalog, State
from trieline.errors import DataError, IndexFolderError, IndexMismatch
from trieline.types import Codes, Item

SIZES = (4, 65536)


def codes(rows: list[list[tuple[int, int]]]) -> Codes:
    """The docids of items, one list of rows each."""
    table = [row for item in rows for row in item]
    owner = [number for number, item in enumerate(rows) for _ in item]
    return Codes(np.array(table, np.uint16).reshape(-1, 2), np.array(owner, np.uint32))


def simple(names: list[str]) -> tuple[list[Item], Codes]:
    """Items whose docids tell their places in the list."""
    return [Item(name, text=name) for name in names], codes([[(1, i)] for i in range(len(names))])


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.create(tmp_path / "catalog.sqlite", SIZES, {"encoder": "e1"}) as made:
        yield made


def test_items_come_back_as_they_were(catalog: Catalog) -> None:
    items = [
        Item("a"),
        Item(
            "ä/\x00'\"", "text\x00 ✓", "title", "pic.png", None, "image", {"k": [1, 2.5, None, "é"]}
        ),
        Item("c", image="", modality="", metadata={}),
    ]
    numbers = catalog.add(iter(items), codes([[(0, 0)], [(3, 65535), (0, 1)], [(1, 1)]]))
    assert numbers.dtype == np.uint32
    assert numbers.tolist() == [0, 1, 2]
    assert list(catalog.items()) == items
    assert catalog.get(numbers[::-1]) == items[::-1]
    assert catalog.get([1, 1]) == [items[1], items[1]]
    assert catalog.ids([2, 0]) == ["c", "a"]
    assert catalog.numbers(["c", "a"]).tolist() == [2, 0]
    assert catalog.find(items[1].id) == 1
    assert catalog.find("z") is None
    assert "a" in catalog
    assert "z" not in catalog
    assert 7 not in catalog
    assert catalog.docids(1).tolist() == [[3, 65535], [0, 1]]
    assert catalog.docids(1).dtype == np.uint16
    assert catalog.verify() == []


def test_what_it_knows_of_itself(catalog: Catalog) -> None:
    assert (catalog.sizes, catalog.depth, catalog.fingerprints) == (SIZES, 2, {"encoder": "e1"})
    assert (len(catalog), catalog.revision) == (0, 0)
    assert catalog.codes().codes.shape == (0, 2)
    catalog.add(*simple(["a", "b"]))
    catalog.remove(["a"])
    assert (len(catalog), catalog.revision) == (1, 2)
    with Catalog.open(catalog.path) as again:
        assert (again.sizes, again.fingerprints) == (catalog.sizes, catalog.fingerprints)
        assert (len(again), again.revision) == (1, 2)


def test_nothing_to_do_is_no_change(catalog: Catalog) -> None:
    assert catalog.add([], codes([])).tolist() == []
    assert catalog.remove([]).tolist() == []
    assert catalog.get([]) == []
    assert catalog.numbers([]).tolist() == []
    assert catalog.revision == 0


def test_owners_in_any_order_keep_the_order_of_an_items_rows(catalog: Catalog) -> None:
    table = np.array([[3, 1], [1, 9], [3, 0], [2, 2], [1, 8]])
    catalog.add([Item(n) for n in "abc"], Codes(table, np.array([2, 0, 2, 1, 0])))
    assert catalog.docids(0).tolist() == [[1, 9], [1, 8]]
    assert catalog.docids(2).tolist() == [[3, 1], [3, 0]]
    assert catalog.codes().owner.tolist() == [0, 0, 1, 2, 2]


def test_numbers_are_never_used_again(catalog: Catalog) -> None:
    catalog.add(*simple(["a", "b", "c"]))
    assert catalog.remove(["c", "b", "c"]).tolist() == [2, 1]
    assert catalog.add(*simple(["b"])).tolist() == [3]
    catalog.remove(["a", "b"])
    assert catalog.add(*simple(["a"])).tolist() == [4]


def test_more_than_a_question_holds(catalog: Catalog) -> None:
    names = [f"n{i}" for i in range(5000)]
    catalog.add(*simple(names))
    order = np.random.default_rng(0).permutation(5000)
    assert catalog.ids(order) == [names[i] for i in order]
    assert [item.id for item in catalog.get(order)] == [names[i] for i in order]
    assert catalog.numbers([names[i] for i in order]).tolist() == order.tolist()
    assert catalog.codes().codes[:, 1].tolist() == list(range(5000))
    assert len(catalog.remove(names[::2])) == 2500
    assert catalog.found(order).keys() == set(range(1, 5000, 2))


ITEM = Item("a")
ONE = codes([[(0, 0)]])
BAD: dict[str, tuple[list[Item], Codes, type[Exception], str]] = {
    "twice in a batch": (*simple(["x", "a", "a"]), DataError, "'a' is given twice"),
    "in the catalog": (*simple(["x", "old", "y"]), DataError, "'old' is in the catalog already"),
    "no docid": ([ITEM, Item("b")], ONE, DataError, "'b' has no docid"),
    "no docid between": (
        [ITEM, Item("b"), Item("c")],
        codes([[(0, 0)], [], [(0, 0)]]),
        DataError,
        "'b'",
    ),
    "too many docids": ([ITEM], codes([[(0, 0)]] * 2), DataError, "2 items, but only 1"),
    "code too big": ([ITEM], codes([[(4, 0)]]), IndexMismatch, "code 4 at level 1.*0 to 3"),
    "levels": ([ITEM], Codes(np.zeros((1, 3)), np.zeros(1, int)), IndexMismatch, "2 levels"),
    "owners": ([ITEM], Codes(np.zeros((2, 2)), np.zeros(1, int)), DataError, "2 docids with 1 own"),
    "empty id": ([Item("")], ONE, DataError, "item 2 has the id ''"),
    "id": ([Item(7)], ONE, DataError, "the id 7"),  # type: ignore[arg-type]
    "text": ([Item("a", None)], ONE, DataError, "must be texts"),  # type: ignore[arg-type]
    "image": ([Item("a", image=Path("x"))], ONE, DataError, "texts"),  # type: ignore[arg-type]
    "surrogate": ([Item("a", title="\ud800")], ONE, DataError, "'a': its title is not valid"),
    "bytes": ([Item("a", metadata={"ok": 1, "b": b"x"})], ONE, DataError, "key 'b' is not JSON"),
    "numpy": ([Item("a", metadata={"n": np.float32(1)})], ONE, DataError, "key 'n' is not JSON"),
    "nan": ([Item("a", metadata={"x": [float("nan")]})], ONE, DataError, "key 'x' is not JSON"),
    "key": ([Item("a", metadata={1: "x"})], ONE, DataError, "key 1 is not JSON"),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("empty", [True, False])
@pytest.mark.parametrize("case", BAD)
def test_a_bad_batch_is_refused_whole(tmp_path: Path, case: str, empty: bool) -> None:
    items, docids, error, message = BAD[case]
    with Catalog.create(tmp_path / "c", SIZES) as catalog:
        catalog.add(*simple(["gone", "old"]))
        catalog.remove(["gone", "old"] if empty and case != "in the catalog" else ["gone"])
        before, revision = list(catalog.items()), catalog.revision
        with pytest.raises(error, match=message):
            catalog.add(iter(items), docids)
        assert list(catalog.items()) == before
        assert catalog.revision == revision
        assert catalog.add(*simple(["next"])).tolist() == [2]
        assert catalog.verify() == []


def test_a_stream_that_breaks_changes_nothing(catalog: Catalog) -> None:
    def stream() -> Iterator[Item]:
        yield Item("a")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        catalog.add(stream(), codes([[(0, 0)]] * 2))
    assert len(catalog) == 0
    assert catalog.verify() == []


def test_unknown_items_are_named(catalog: Catalog) -> None:
    catalog.add(*simple(["a", "b"]))
    for wrong, message in (
        (lambda: catalog.remove(["a", "x", "y"]), "id 'x', nor 1 more"),
        (lambda: catalog.numbers(["x"]), "id 'x'"),
        (lambda: catalog.get([0, 9]), "number 9"),
        (lambda: catalog.ids([9]), "number 9"),
        (lambda: catalog.docids(9), "number 9"),
        (lambda: catalog.remove("a"), "a list of item ids, got one text: 'a'"),
    ):
        with pytest.raises(DataError, match=message):
            wrong()
    assert (len(catalog), catalog.revision) == (2, 1)


def test_reading_during_a_write(catalog: Catalog) -> None:
    catalog.add(*simple(["a", "b"]))
    writing, goes_on = threading.Event(), threading.Event()

    def stream() -> Iterator[Item]:
        yield Item("c")
        writing.set()
        goes_on.wait(10)
        yield Item("d")

    thread = threading.Thread(target=lambda: catalog.add(stream(), codes([[(2, 2)]] * 2)))
    thread.start()
    assert writing.wait(10)
    reader = catalog.items()
    assert next(reader).id == "a"
    assert len(catalog) == 2
    assert "c" not in catalog
    goes_on.set()
    thread.join()
    assert [item.id for item in reader] == ["b"]  # still the state in which it began
    assert [item.id for item in catalog.items()] == ["a", "b", "c", "d"]


def test_every_state_that_is_seen_is_one_state(catalog: Catalog) -> None:
    """At revision r, the items added by changes 0..r-1 are there, all of each."""
    seen: list[State] = []
    failures: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                seen.append(catalog.state())
                catalog.found(range(9))
        except BaseException as error:  # a thread's error must not be lost
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for turn in range(30):
        catalog.add(*simple([f"{turn}-{i}" for i in range(20)]))
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []
    for revision, docids in seen:
        assert docids.owner.tolist() == list(range(20 * revision))


def test_two_writers_wait_for_each_other(catalog: Catalog) -> None:
    """Two threads of one catalog, and a second catalog on the same file."""
    with Catalog.open(catalog.path) as other:
        writers = [catalog, catalog, other]

        def write(turn: int) -> None:
            for i in range(10):
                writers[turn].add(*simple([f"{turn}-{i}"]))

        threads = [threading.Thread(target=write, args=(turn,)) for turn in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (len(catalog), catalog.revision) == (30, 30)
    assert sorted(catalog.codes().owner.tolist()) == list(range(30))


def test_read_only(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog.add(*simple(["a"]))
    with Catalog.open(catalog.path, read_only=True) as reader:
        assert len(reader) == 1
        for change in (
            lambda: reader.add(*simple(["b"])),
            lambda: reader.remove(["a"]),
            reader.compact,
        ):
            with pytest.raises(IndexFolderError, match="opened read-only"):
                change()
        catalog.add(*simple(["b"]))
        assert reader.ids([1]) == ["b"]  # what others write is seen
    catalog.close()
    assert list(catalog.path.parent.iterdir()) == [catalog.path]
    monkeypatch.setattr(os, "access", lambda *_: False)  # read-only media
    with Catalog.open(catalog.path, read_only=True) as reader:
        assert [item.id for item in reader.items()] == ["a", "b"]
        assert list(catalog.path.parent.iterdir()) == [catalog.path]
    catalog.path.with_name("catalog.sqlite-wal").write_bytes(b"changes")
    with pytest.raises(IndexFolderError, match="changes in catalog.sqlite-wal"):
        Catalog.open(catalog.path, read_only=True)


def test_the_room_of_removed_items_is_given_back(catalog: Catalog) -> None:
    names = [f"{'n' * 100}{i}" for i in range(2000)]
    catalog.add(*simple(names))
    catalog.remove(names[1:])
    catalog.copy_to(catalog.path.with_name("copy"))
    before = catalog.state()
    catalog.compact()
    assert catalog.path.stat().st_size < 40_000
    for path in (catalog.path, catalog.path.with_name("copy")):
        with Catalog.open(path) as again:
            assert again.ids([0]) == names[:1]
            assert (again.revision, again.sizes) == (before.revision, SIZES)
            assert again.add(*simple(["x"])).tolist() == [2000]
            assert again.verify() == []
    with pytest.raises(IndexFolderError, match="already exists"):
        catalog.copy_to(catalog.path.with_name("copy"))


def test_a_closed_catalog_says_so(catalog: Catalog) -> None:
    catalog.add(*simple(["a"]))
    reader = catalog.items()
    next(reader)
    catalog.close()
    catalog.close()
    reader.close()
    for use in (lambda: len(catalog), lambda: catalog.remove(["a"]), lambda: next(catalog.items())):
        with pytest.raises(IndexFolderError, match="closed"):
            use()


def test_paths_and_sizes_that_cannot_be(catalog: Catalog, tmp_path: Path) -> None:
    with pytest.raises(IndexFolderError, match="already exists"):
        Catalog.create(catalog.path, SIZES)
    with pytest.raises(IndexFolderError, match="no catalog at"):
        Catalog.open(tmp_path / "nowhere")
    for sizes in ((), (0,), (65537,)):
        with pytest.raises(DataError, match="1 to 65536 codes"):
            Catalog.create(tmp_path / "new", sizes)
    assert not (tmp_path / "new").exists()
    with Catalog.create(tmp_path / "100% #1?.sqlite", (1,)) as odd:
        assert odd.path.exists()


def _run(statement: str) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute(statement)
        connection.close()

    return run


def _overwrite(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:100] + bytes(len(data) - 100))


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda p: os.truncate(p, 0), "not an SQLite file"),
    "text": (lambda p: p.write_text("{}" * 99), "not an SQLite file"),
    "foreign": (_run("PRAGMA application_id = 5"), "another program's"),
    "newer": (_run("PRAGMA user_version = 3"), "version 3.*Upgrade it"),
    "truncated": (lambda p: os.truncate(p, 8192), "malformed.*damaged"),
    "overwritten": (_overwrite, "damaged"),
    "no sizes": (_run("DELETE FROM meta WHERE key = 'sizes'"), "'sizes': it is damaged"),
    "no table": (_run("DROP TABLE meta"), "no such table.*damaged"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_or_foreign_file_is_refused(catalog: Catalog, case: str) -> None:
    catalog.add(*simple(["a"]))
    catalog.close()
    damage, message = DAMAGE[case]
    damage(catalog.path)
    with pytest.raises(IndexFolderError, match=message):
        Catalog.open(catalog.path)


LIES = {
    "DELETE FROM docids WHERE number = 1": "number 1 is among the items but not among the docids",
    "DELETE FROM items WHERE number = 1": "number 1 is among the docids but not among the items",
    "UPDATE meta SET value = 7 WHERE key = 'count'": "holds 3 items, but counts 7",
    "UPDATE meta SET value = 2 WHERE key = 'next'": "number 2 is not below the next one",
    "UPDATE docids SET codes = x'09000000' WHERE number = 2": "docid of item number 2 has a code",
    "DELETE FROM changes": "its log ends at revision 0, the catalog is at 1",
    "INSERT INTO changes VALUES (3, 3, NULL)": "a change to revision 3 where 2 was expected",
    "UPDATE changes SET removed = x'01000000'": "number 1 is there, but its log says",
}


@pytest.mark.parametrize("lie", LIES)
def test_verify_finds_what_does_not_fit(catalog: Catalog, lie: str) -> None:
    catalog.add(*simple(["a", "b", "c"]))
    _run(lie)(catalog.path)
    assert LIES[lie] in " ".join(catalog.verify())


def test_docids_of_another_depth(catalog: Catalog) -> None:
    catalog.add(*simple(["a"]))
    _run("UPDATE docids SET codes = x'0000000000'")(catalog.path)
    with pytest.raises(IndexFolderError, match="not of 2 levels"):
        catalog.codes()
    assert "not of 2 levels" in catalog.verify()[0]


def test_blobs_are_little_endian_rows(catalog: Catalog) -> None:
    catalog.add([Item("a")], codes([[(1, 0x0203), (0, 4)]]))
    connection = sqlite3.connect(catalog.path)
    assert connection.execute("SELECT number, codes FROM docids").fetchall() == [
        (0, b"\x01\x00\x03\x02\x00\x00\x04\x00")
    ]
    connection.close()
