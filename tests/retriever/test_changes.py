"""Items that come and go: found or gone at once, and after the index is opened again."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from workshop import ITEMS, NEW, dataset, small_recipe, tree_of

from trieline.checkup import verify_index
from trieline.errors import DataError, IndexFolderError, SettingsError
from trieline.index import Trie
from trieline.retriever import Retriever
from trieline.types import Item


def everything(retriever: Retriever) -> list[str]:
    """All that can be found at all."""
    (hits,) = retriever.search("red kettle", 200, beam=200)
    return sorted(hit.item_id for hit in hits)


def test_an_added_item_is_found_at_once_and_for_good(retriever: Retriever) -> None:
    asked = "a spade digs deep holes in heavy soil"
    assert retriever.add([NEW]) == 1
    (hits,) = retriever.search(asked, 20)
    assert NEW.id in [hit.item_id for hit in hits]
    assert len(retriever) == len(ITEMS) + 1
    with Retriever.load(retriever.folder.path) as again:
        assert again.search(asked, 20)[0] == hits
        (found,) = again.catalog.get(again.catalog.numbers([NEW.id]))
    assert found.title == NEW.title
    assert verify_index(retriever.folder.path) == ([], [])


def test_nothing_to_add_changes_nothing(retriever: Retriever) -> None:
    before = tree_of(retriever.folder.path)
    assert retriever.add([]) == 0
    assert tree_of(retriever.folder.path) == before


@pytest.mark.parametrize(
    ("items", "why"),
    [
        ([NEW, ITEMS[0]], "'red-kettle' is in the catalog already"),
        ([NEW, NEW], "'silver-spade' is given twice"),
        ([NEW, Item("void")], "'void' has neither text nor title"),
    ],
)
def test_what_cannot_be_added_changes_nothing(
    retriever: Retriever, items: list[Item], why: str
) -> None:
    before = everything(retriever)
    with pytest.raises(DataError, match=why):
        retriever.add(items)
    assert everything(retriever) == before
    assert len(retriever) == len(ITEMS)
    with Retriever.load(retriever.folder.path) as again:
        assert everything(again) == before
    assert verify_index(retriever.folder.path) == ([], [])


def test_a_removed_item_is_gone_at_once_and_for_good(retriever: Retriever) -> None:
    assert retriever.remove(["red-kettle", "blue-lamp"]) == 2
    left = sorted({item.id for item in ITEMS} - {"red-kettle", "blue-lamp"})
    assert everything(retriever) == left
    with Retriever.load(retriever.folder.path) as again:
        assert everything(again) == left
        assert len(again) == len(ITEMS) - 2
    assert verify_index(retriever.folder.path) == ([], [])


def test_an_unknown_item_cannot_be_removed(retriever: Retriever) -> None:
    with pytest.raises(DataError, match="no item has the id 'teapot'"):
        retriever.remove(["red-kettle", "teapot"])
    with pytest.raises(DataError, match="expected a list of item ids, got one text"):
        retriever.remove("red-kettle")
    assert everything(retriever) == sorted(item.id for item in ITEMS)


def test_the_last_item_may_go_and_others_come(retriever: Retriever) -> None:
    retriever.remove([item.id for item in ITEMS])
    assert retriever.search("red kettle") == [[]]
    assert len(retriever) == 0
    retriever.add([NEW, ITEMS[3]])
    assert everything(retriever) == sorted([NEW.id, ITEMS[3].id])


def test_a_removed_item_can_come_back(retriever: Retriever) -> None:
    (before,) = retriever.search("red kettle boils water", 5)
    retriever.remove([ITEMS[0].id])
    retriever.add([ITEMS[0]])
    (after,) = retriever.search("red kettle boils water", 5)
    assert {hit.item_id: hit.docid for hit in after} == {hit.item_id: hit.docid for hit in before}


@pytest.mark.parametrize("policy", ["extra", "reassign"])
def test_added_items_get_docids_of_their_own(policy: str, words: Path, tmp_path: Path) -> None:
    recipe = small_recipe(words, f"ids.collisions={policy}", "ids.extra=32", "train.max_steps=5")
    twins = [item._replace(id=f"second-{item.id}") for item in ITEMS[:6]]
    with Retriever.build(dataset(), recipe, path=tmp_path / "a.tl") as retriever:
        retriever.add(twins[:3])
        retriever.add(twins[3:])
        codes = retriever.catalog.codes().codes
        assert len(np.unique(codes, axis=0)) == len(ITEMS) + 6
        assert len(everything(retriever)) == len(ITEMS) + 6


def test_a_full_level_refuses_another_item(words: Path, tmp_path: Path) -> None:
    recipe = small_recipe(words, "ids.scheme=atomic", "ids.sizes=[]", "train.max_steps=5")
    more = [item._replace(id=f"second-{item.id}") for item in ITEMS]
    with Retriever.build(dataset(), recipe, path=tmp_path / "a.tl") as retriever:
        assert retriever.add(more[:5]) == 5, "there is room for a tenth more"
        with pytest.raises(SettingsError, match="Rebuild with 'trieline build'"):
            retriever.add(more[5:])
        assert len(everything(retriever)) == len(ITEMS) + 5


def test_two_who_change_an_index_in_turn_lose_nothing(retriever: Retriever) -> None:
    with Retriever.load(retriever.folder.path) as other:
        other.add([NEW])
        retriever.remove(["red-kettle"])  # opened before the spade came
        other.remove(["blue-lamp"])
        expected = sorted({item.id for item in (*ITEMS, NEW)} - {"red-kettle", "blue-lamp"})
        assert everything(other) == expected
    with Retriever.load(retriever.folder.path) as again:
        assert everything(again) == expected
        stored = Trie.build(again.catalog.codes(), again.trie.sizes)
        np.testing.assert_array_equal(again.trie.codes, stored.codes)
        np.testing.assert_array_equal(again.trie.owner, stored.owner)


def test_a_removal_by_somebody_else_shows_no_ghosts(retriever: Retriever) -> None:
    with Retriever.load(retriever.folder.path) as other:
        other.remove(["red-kettle"])
    (hits,) = retriever.search("red kettle boils water", 50)
    assert "red-kettle" not in [hit.item_id for hit in hits]
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))


def test_an_index_that_was_built_anew_is_not_changed(retriever: Retriever, words: Path) -> None:
    path = retriever.folder.path
    recipe = small_recipe(words, "train.max_steps=5")
    Retriever.build(dataset(), recipe, path=path).close()
    with pytest.raises(IndexFolderError, match="was saved anew"):
        retriever.add([NEW])
    with Retriever.load(path) as again:
        assert len(again) == len(ITEMS)
