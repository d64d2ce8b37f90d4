"""Two on one folder, compacting, replacing, filters by metadata: one state at a time."""

from __future__ import annotations

import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from targets import full
from workshop import ITEMS, NEW, dataset, small_recipe, tree_of

from trieline.catalog import Where
from trieline.checkup import index_facts, verify_index
from trieline.errors import DataError, IndexFolderError, SettingsError
from trieline.index import Trie
from trieline.living import Living, compact_index
from trieline.retriever import Retriever
from trieline.types import Item

ASKED = "red kettle boils water"


def everything(retriever: Retriever, **more: Any) -> list[str]:
    (hits,) = retriever.search("red kettle", 200, beam=200, **more)
    return sorted(hit.item_id for hit in hits)


def ids(*but: str) -> list[str]:
    return sorted({item.id for item in ITEMS} - set(but))


def copies(count: int) -> list[Item]:
    return [ITEMS[n % len(ITEMS)]._replace(id=f"copy-{n}") for n in range(count)]


# --- what a change costs -----------------------------------------------------------------------


def test_a_change_writes_only_the_catalog(retriever: Retriever) -> None:
    before = tree_of(retriever.folder.path)
    retriever.add([NEW])
    retriever.remove(["red-kettle"])
    after = tree_of(retriever.folder.path)
    changed = {name for name in after if after[name] != before.get(name)}
    assert {Path(name).name for name in changed} <= {
        *("lock", "catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"),
    }
    assert index_facts(retriever.folder.path).changes == 2
    assert verify_index(retriever.folder.path) == ([], [])


def test_a_change_copies_no_trie_until_somebody_asks(
    retriever: Retriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    insert = Trie.insert

    def counted(trie: Trie, *rows: Any) -> Trie:
        made.append("insert")
        return insert(trie, *rows)

    monkeypatch.setattr(Trie, "insert", counted)
    for item in copies(20):
        retriever.add([item])
    assert made == []
    assert len(everything(retriever)) == len(ITEMS) + 20
    assert made == ["insert"]


# --- compacting --------------------------------------------------------------------------------


def test_compacting_changes_no_answer(retriever: Retriever) -> None:
    for item in copies(30):
        retriever.add([item])
    retriever.remove([f"copy-{n}" for n in range(0, 30, 2)])
    expected = retriever.search(ASKED, 100, beam=200)
    path = retriever.folder.path
    with Retriever.load(path) as replaying:
        assert replaying.search(ASKED, 100, beam=200) == expected
        assert retriever.compact().changes == 31
        assert replaying.search(ASKED, 100, beam=200) == expected
    assert retriever.search(ASKED, 100, beam=200) == expected
    assert index_facts(path).changes == 0
    assert verify_index(path) == ([], [])
    assert retriever.compact().changes == 0
    with Retriever.load(path) as again:
        assert again.search(ASKED, 100, beam=200) == expected


def test_compacting_gives_back_room(retriever: Retriever) -> None:
    large = [item._replace(metadata={"notes": "x" * 4000}) for item in copies(300)]
    retriever.add(large)
    retriever.remove([item.id for item in large])
    done = retriever.compact()
    assert done.after < done.before / 5
    assert (done.before, done.after) != (0, 0)


def test_what_was_open_before_others_compacted_goes_on(retriever: Retriever) -> None:
    """Its trie is older than the log reaches back to."""
    path = retriever.folder.path
    with Retriever.load(path) as other:
        other.add([NEW])
        other.compact()
        other.remove(["red-kettle"])
        other.compact()
        other.remove(["blue-lamp"])
    expected = sorted([*ids("red-kettle", "blue-lamp"), NEW.id])
    assert everything(retriever) == expected
    retriever.remove([NEW.id])
    assert everything(retriever) == ids("red-kettle", "blue-lamp")


def test_compacting_while_somebody_reads(retriever: Retriever) -> None:
    retriever.add(copies(50))
    with retriever.catalog.snapshot() as (codes, items):
        first = next(items)
        retriever.folder.path.touch()
        retriever.remove([f"copy-{n}" for n in range(50)])
        done = threading.Thread(target=retriever.compact)
        done.start()
        assert first.id == ITEMS[0].id
        assert len(list(items)) == len(ITEMS) + 49
        assert len(codes.owner) >= len(ITEMS) + 50
    done.join()
    assert everything(retriever) == ids()
    assert verify_index(retriever.folder.path) == ([], [])


def test_disk_full_while_compacting(retriever: Retriever, monkeypatch: pytest.MonkeyPatch) -> None:
    retriever.add([NEW])
    with monkeypatch.context() as patch:
        patch.setattr("trieline.store.folder.write_derived", full)
        with pytest.raises(IndexFolderError, match="No space left.*before is unchanged"):
            retriever.compact()
    expected = sorted([*ids(), NEW.id])
    assert everything(retriever) == expected
    with Retriever.load(retriever.folder.path) as again:
        assert everything(again) == expected
    assert verify_index(retriever.folder.path) == ([], [])


@pytest.mark.parametrize("damage", ["none", "stored", "log"])
def test_a_trie_that_does_not_lead_to_the_catalog(retriever: Retriever, damage: str) -> None:
    import sqlite3

    path, folder = retriever.folder.path, retriever.folder
    retriever.add([NEW])
    retriever.remove(["red-kettle"])
    retriever.close()
    if damage == "stored":  # of a revision that it is not
        with folder.writing() as writer:
            writer.replace_derived("trie", 2, retriever_arrays(folder))
    if damage == "log":
        connection = sqlite3.connect(folder.file("catalog.sqlite"), isolation_level=None)
        connection.execute("UPDATE changes SET removed = NULL")
        connection.close()
    problems, _ = verify_index(path)
    assert bool(problems) == (damage != "none")
    assert verify_index(path, repair=True) == ([], ["trie"] if problems else [])
    assert verify_index(path) == ([], [])
    with Retriever.load(path) as again:
        assert everything(again) == sorted([*ids("red-kettle"), NEW.id])


def retriever_arrays(folder: Any) -> dict[str, Any]:
    found = folder.newest("trie")
    assert found is not None
    return {name: np.array(array) for name, array in found.arrays.items()}


def test_compacting_without_the_model(retriever: Retriever) -> None:
    retriever.add([NEW])
    path = retriever.folder.path
    with pytest.raises(IndexFolderError, match="is writing"), retriever.folder.writing():
        compact_index(path)
    assert compact_index(path).changes == 1
    assert NEW.id in everything(retriever)


# --- two on one folder -------------------------------------------------------------------------


def test_what_one_changes_the_other_finds_at_once(retriever: Retriever) -> None:
    with Retriever.load(retriever.folder.path) as other:
        for turn, item in enumerate(copies(12)):
            one, two = (retriever, other) if turn % 2 else (other, retriever)
            one.add([item])
            assert item.id in everything(two)
            if turn % 3 == 0:
                two.remove([item.id])
                assert item.id not in everything(one)
            if turn % 5 == 4:
                one.compact()
        assert everything(retriever) == everything(other)
    assert verify_index(retriever.folder.path) == ([], [])


# --- replacing ---------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["keep", "extra", "reassign"])
def test_an_item_is_replaced(words: Path, tmp_path: Path, policy: str) -> None:
    recipe = small_recipe(words, f"ids.collisions={policy}", "ids.extra=8", "train.max_steps=5")
    with Retriever.build(dataset(), recipe, path=tmp_path / "a.tl") as retriever:
        before = retriever.catalog.codes().codes
        revision = retriever.catalog.revision
        same = [item._replace(metadata={"is": "new"}) for item in ITEMS]
        with pytest.raises(DataError, match="already. Remove it first, or replace it"):
            retriever.add(same)
        assert retriever.add([*same, NEW], replace=True) == len(ITEMS) + 1
        assert retriever.catalog.revision == revision + 1
        assert everything(retriever) == sorted([*ids(), NEW.id])
        assert everything(retriever, filter={"is": "new"}) == ids()
        retriever.remove([NEW.id])
        after = retriever.catalog.codes().codes
        assert sorted(map(tuple, after.tolist())) == sorted(map(tuple, before.tolist()))


def test_a_full_level_takes_the_same_items_again(words: Path, tmp_path: Path) -> None:
    recipe = small_recipe(words, "ids.scheme=atomic", "ids.sizes=[]", "train.max_steps=5")
    with Retriever.build(dataset(), recipe, path=tmp_path / "a.tl") as retriever:
        for _ in range(3):
            assert retriever.add(ITEMS, replace=True) == len(ITEMS)
        assert everything(retriever) == ids()


# --- filters -----------------------------------------------------------------------------------


def test_a_filter_by_metadata(retriever: Retriever) -> None:
    wanted = [item.id for item in ITEMS if item.id.startswith(("blue", "red"))]
    for where in ({"colour": ["blue", "red"]}, Where.parse("colour in blue,red")):
        assert everything(retriever, filter=where) == sorted(wanted)
    assert everything(retriever, filter={"colour": "blue", "title": {"contains": "lamp"}}) == [
        "blue-lamp"
    ]
    assert everything(retriever, filter={"colour": "pink"}) == []
    assert everything(retriever, filter={}) == ids()
    with pytest.raises(SettingsError, match="operator 'near'"):
        retriever.search(ASKED, filter={"colour": {"near": "blue"}})


def test_a_filter_sees_changes_at_once(retriever: Retriever) -> None:
    where = {"colour": "blue"}
    blue = everything(retriever, filter=where)
    retriever.add([NEW._replace(metadata={"colour": "blue"})])
    assert everything(retriever, filter=where) == sorted([*blue, NEW.id])
    retriever.add([NEW._replace(metadata={"colour": "silver"})], replace=True)
    assert everything(retriever, filter=where) == blue
    with Retriever.load(retriever.folder.path) as other:
        other.remove([blue[0]])
    assert everything(retriever, filter=where) == blue[1:]


def test_the_last_filters_are_kept(retriever: Retriever, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Where] = []
    matching = retriever.catalog.matching
    monkeypatch.setattr(
        retriever.catalog, "matching", lambda where: asked.append(where) or matching(where)
    )
    for _ in range(3):
        for colour in ("blue", "red", "green"):
            assert len(retriever.search(ASKED, 50, filter={"colour": colour})[0]) == 7
    assert len(asked) == 3
    for number in range(20):
        retriever.search(ASKED, 1, filter={"title": f"t{number}"})
    assert len(retriever._living._restricted) <= 8
    retriever.remove(["blue-lamp"])
    assert len(retriever.search(ASKED, 50, filter={"colour": "blue"})[0]) == 6
    assert len(retriever._living._restricted) == 1


def test_living_of_an_index_whose_trie_is_gone(retriever: Retriever) -> None:
    shutil.rmtree(retriever.folder.folder / "derived")
    view = Living(retriever.folder, retriever.catalog).view()
    np.testing.assert_array_equal(view.trie.codes, retriever.trie.codes)
