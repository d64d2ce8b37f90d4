"""Threads that search and change one index at once, and what is removed while it is searched."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from workshop import ITEMS

from trieline.checkup import verify_index
from trieline.retriever import Retriever
from trieline.types import Hit, Item

ASKED = "red kettle boils water"


def everything(retriever: Retriever, **more: Any) -> list[str]:
    (hits,) = retriever.search("red kettle", 200, beam=200, **more)
    return sorted(hit.item_id for hit in hits)


def ids(*but: str) -> list[str]:
    return sorted({item.id for item in ITEMS} - set(but))


def copies(count: int) -> list[Item]:
    return [ITEMS[n % len(ITEMS)]._replace(id=f"copy-{n}") for n in range(count)]


def failures_of(*works: Callable[[], None]) -> list[BaseException]:
    """What goes wrong in threads that all work at once."""
    wrong: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def test_searches_during_changes_see_one_state(retriever: Retriever) -> None:
    """Couples come and go together: a search sees both of a couple or none."""
    import torch

    threads_before = torch.get_num_threads()
    couples = [copies(40)[n : n + 2] for n in range(0, 40, 2)]
    partner = {a.id: b.id for a, b in couples} | {b.id: a.id for a, b in couples}
    changed = threading.Event()
    seen: list[set[str]] = []

    def change() -> None:
        for couple in couples:
            retriever.add(couple)
        retriever.compact()
        for couple in couples[::2]:
            retriever.remove([item.id for item in couple])
        changed.set()

    def ask() -> None:
        while not changed.is_set():
            found = everything(retriever)
            seen.append(set(found))
            assert set(ids()) <= set(found)
            for name in partner.keys() & set(found):
                assert partner[name] in found, name
            red = everything(retriever, filter={"colour": "red"})
            assert len(set(red) & set(ids())) == 7

    assert failures_of(change, ask, ask, ask) == []
    assert len(seen) > 3
    left = {item.id for couple in couples[1::2] for item in couple}
    assert set(everything(retriever)) == {*ids(), *left}
    assert verify_index(retriever.folder.path) == ([], [])
    assert torch.get_num_threads() == threads_before


def test_several_threads_may_change_an_index(retriever: Retriever) -> None:
    items = copies(30)

    def writer(turn: int) -> Callable[[], None]:
        def write() -> None:
            for item in items[turn::3]:
                retriever.add([item])

        return write

    assert failures_of(*map(writer, range(3))) == []
    assert len(everything(retriever)) == len(ITEMS) + 30


def test_items_removed_during_a_search_are_made_up_for(
    retriever: Retriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worst moment: after the docids are spelled, before the items are looked up."""
    (before,) = retriever.search(ASKED, 12, beam=60)
    gone = [hit.item_id for hit in before[:5]]
    spell, left = retriever._spell, [gone]

    def meanwhile(*given: Any, **more: Any) -> Any:
        found = spell(*given, **more)
        while left:
            retriever.remove(left.pop())
        return found

    monkeypatch.setattr(retriever, "_spell", meanwhile)
    (hits,) = retriever.search(ASKED, 12, beam=60)
    assert len(hits) == 12
    assert [hit.rank for hit in hits] == list(range(1, 13))
    assert not set(gone) & {hit.item_id for hit in hits}
    assert [hit.item_id for hit in hits[:7]] == [hit.item_id for hit in before[5:]]


def test_a_search_whose_finds_keep_going_away_ends(
    retriever: Retriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    spell = retriever._spell

    def meanwhile(*given: Any, **more: Any) -> Any:
        found = spell(*given, **more)
        retriever.catalog.remove(retriever.catalog.ids(found[0].items[:1]))
        return found

    monkeypatch.setattr(retriever, "_spell", meanwhile)
    (hits,) = retriever.search(ASKED, 5, beam=60)
    assert len(hits) == 4
    there = set(retriever.catalog.ids(retriever.catalog.codes().owner))
    assert {hit.item_id for hit in hits} <= there


def test_an_index_saved_during_changes_is_one_state(retriever: Retriever, tmp_path: Path) -> None:
    done = threading.Event()

    def change() -> None:
        for item in copies(60):
            retriever.add([item])
            retriever.remove([item.id])
        done.set()

    def save() -> None:
        turn = 0
        while not done.is_set() or turn < 2:
            path = tmp_path / f"saved-{turn % 2}.tl"
            shutil.rmtree(path, ignore_errors=True)
            retriever.save(path)
            turn += 1

    assert failures_of(change, save) == []
    docid: dict[str, tuple[int, ...]] = {}
    for hit in retriever.search(ASKED, 200, beam=200)[0]:
        docid[hit.item_id] = hit.docid
    for turn in range(2):
        with Retriever.load(tmp_path / f"saved-{turn}.tl") as saved:
            hits: list[Hit] = saved.search(ASKED, 200, beam=200)[0]
            assert {h.item_id: h.docid for h in hits if h.item_id in docid} == docid
