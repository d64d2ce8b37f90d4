"""Explanations and prefix survival through the public door."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from workshop import ITEMS, NEW, dataset

from trieline.errors import DataError
from trieline.retriever import Retriever
from trieline.types import Item, Qrel, Query

ASKED = "red kettle boils water"


def test_a_found_item_is_explained(retriever: Retriever) -> None:
    (hits,) = retriever.search(ASKED, 20, beam=20)
    told = retriever.explain(ASKED, hits[1].item_id, beam=20)
    assert told.rank == 2
    assert told.beam == 20
    (story,) = told.docids
    assert story.docid == hits[1].docid
    assert story.lost_at is None
    assert [level.level for level in story.levels] == [1, 2, 3]
    assert all(level.kept and level.rank <= 20 for level in story.levels)
    assert story.levels[-1].score == pytest.approx(hits[1].score, abs=1e-4)
    assert f"{hits[1].item_id} ({hits[1].title}): found at rank 2" in told.text()


def test_a_lost_item_is_explained(retriever: Retriever) -> None:
    found = {hit.item_id for hit in retriever.search(ASKED, 42, beam=200)[0][:3]}
    unlikely = next(item.id for item in ITEMS if item.id not in found and "lamp" in item.id)
    told = retriever.explain(ASKED, unlikely, beam=1)
    (story,) = told.docids
    assert told.rank is None
    assert story.lost_at == len(story.levels)
    last = story.levels[-1]
    assert not last.kept
    assert last.rank > 1
    assert last.score < last.cutoff
    assert len(last.rival) == story.lost_at
    assert story.beam_needed == max(level.rank for level in story.levels)
    assert "not found" in told.text()
    assert f"lost at level {story.lost_at}" in told.text()
    wider = retriever.explain(ASKED, unlikely, beam=200)
    assert wider.docids[0].lost_at is None


def test_the_beam_it_needed_keeps_the_level_where_it_was_lost(retriever: Retriever) -> None:
    for item in ITEMS[::5]:
        (story,) = retriever.explain(ASKED, item.id, beam=1).docids
        if story.lost_at == 1:
            (again,) = retriever.explain(ASKED, item.id, beam=story.beam_needed).docids
            assert again.levels[0].kept
            (less,) = retriever.explain(ASKED, item.id, beam=story.beam_needed - 1).docids
            assert not less.levels[0].kept


def test_an_explanation_is_json(retriever: Retriever) -> None:
    for beam in (1, 50):
        told = retriever.explain(Query("q7", ASKED), "blue-lamp", beam=beam)
        plain = json.loads(json.dumps(told.to_json()))
        assert plain["query"] == ASKED
        assert plain["item_id"] == "blue-lamp"
        assert plain["beam"] == beam
        assert plain["docids"][0]["lost_at"] == told.docids[0].lost_at
        assert len(plain["docids"][0]["levels"]) == len(told.docids[0].levels)


def test_an_item_behind_others_of_its_docid(retriever: Retriever) -> None:
    twins = [Item(f"twin-{n}", text=ITEMS[0].text, title=ITEMS[0].title) for n in range(4)]
    retriever.add(twins)
    (best,) = retriever.search(ASKED, 1, beam=1)
    same = [
        item.item_id
        for item in retriever.search(ASKED, 60, beam=200)[0]
        if item.docid == best[0].docid
    ]
    told = retriever.explain(ASKED, same[-1], beam=1)
    assert len(same) > 1
    assert told.rank is None
    assert told.docids[0].lost_at is None, "its docid was spelled out"
    assert "spelled out, but other items fill the first 1 places" in told.text()


def test_an_item_that_somebody_else_added_is_explained(retriever: Retriever) -> None:
    with Retriever.load(retriever.folder.path) as other:
        other.add([NEW])
    told = retriever.explain(ASKED, NEW.id, beam=200)
    assert told.item_id == NEW.id
    assert len(told.docids[0].levels) == 3
    assert told.docids[0].lost_at is None


def test_an_unknown_item_is_not_explained(retriever: Retriever) -> None:
    with pytest.raises(DataError, match="no item has the id 'teapot'"):
        retriever.explain(ASKED, "teapot")


@pytest.mark.parametrize("beam", [1, 2, 5, 100])
def test_survival_equals_a_slow_count(retriever: Retriever, beam: int) -> None:
    queries, qrels = list(dataset().queries("test")), list(dataset().qrels("test"))
    counted = retriever.survival(queries, qrels, beam=beam)
    answer = {qrel.query_id: qrel.item_id for qrel in qrels}
    alive = [0, 0, 0]
    for query in queries:
        (story,) = retriever.explain(query, answer[query.id], beam=beam).docids
        for level in story.levels:
            alive[level.level - 1] += level.kept
    assert counted.queries == len(queries)
    assert counted.levels == pytest.approx([count / len(queries) for count in alive])
    assert list(counted.levels) == sorted(counted.levels, reverse=True)
    if beam == 100:
        assert counted.levels == (1.0, 1.0, 1.0)


def test_survival_takes_any_relevant_item_and_leaves_the_rest(retriever: Retriever) -> None:
    queries = [Query("a", "red kettle"), Query("b", "blue lamp"), Query("c", "green rake")]
    qrels = [
        Qrel("a", "red-kettle", 1),
        Qrel("a", "golden-rake", 1),
        Qrel("a", "teapot", 1),  # not in the index
        Qrel("b", "blue-lamp", 0),  # not relevant
        Qrel("elsewhere", "blue-lamp", 1),
    ]
    one = retriever.survival(queries, qrels, beam=2)
    assert one.queries == 1
    either = [
        retriever.explain(queries[0], item, beam=2).docids[0]
        for item in ("red-kettle", "golden-rake")
    ]
    for level in range(3):
        lived = any(len(s.levels) > level and s.levels[level].kept for s in either)
        assert one.levels[level] == float(lived)
    nothing = retriever.survival(queries, [])
    assert nothing == ((), 0)
