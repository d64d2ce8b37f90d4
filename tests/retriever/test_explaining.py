"""What would have found an item, through the public door: every claim is checked by searching."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from workshop import ITEMS, NEW

from trieline.config import apply
from trieline.diagnose import Explanation
from trieline.errors import DataError
from trieline.retriever import Retriever
from trieline.types import Codes, Query

ASKED = "red kettle boils water"
OTHERS = ("white rake", "golden lamp paints walls", "green tea for a dark room")


def ranked(retriever: Retriever, query: str, item: str, k: int, beam: int) -> int | None:
    (hits,) = retriever.search(query, k, beam=beam)
    return next((hit.rank for hit in hits if hit.item_id == item), None)


def pruned(retriever: Retriever, **more) -> list[tuple[str, Explanation]]:
    """Items that a beam of 1 loses and whose score is the best."""
    told = []
    for query in (ASKED, *OTHERS, *(item.title for item in ITEMS[::4])):
        (hits,) = retriever.search(query, 3, beam=200)
        for hit in hits:
            story = retriever.explain(query, hit.item_id, 1, beam=1, **more)
            told += [(query, story)] if story.verdict == "pruned" else []
    return told


def test_the_narrowest_beam_is_checked(retriever: Retriever) -> None:
    lost = pruned(retriever)
    assert lost
    for query, told in lost:
        narrowest = told.rescue.narrowest
        assert told.rank is None
        assert narrowest is not None
        assert ranked(retriever, query, told.item_id, 1, narrowest.beam) == 1
        assert ranked(retriever, query, told.item_id, 1, narrowest.beam - 1) is None
        assert f"yes  beam {narrowest.beam}: rank 1" in told.text()


def test_a_setting_that_finds_it_is_checked(retriever: Retriever) -> None:
    plain, saved = retriever.recipe, 0
    for query in (ASKED, *OTHERS):
        for item in ITEMS[::6]:
            told = retriever.explain(query, item.id, 2, beam=3)
            for attempt in told.rescue.settings:
                retriever.recipe = apply(plain, attempt.changes)
                rank = ranked(retriever, query, item.id, 2, 3)
                assert attempt.finds == (rank is not None)
                assert attempt.rank == rank or not attempt.finds
                assert (f"  yes  {attempt.label}: rank {rank}" in told.text()) == attempt.finds
                saved += attempt.finds
            retriever.recipe = plain
    assert saved


def test_an_item_whose_score_is_too_low(retriever: Retriever) -> None:
    (hits,) = retriever.search(ASKED, 42, beam=200)
    told = retriever.explain(ASKED, hits[-1].item_id, 5, beam=200)
    assert (told.verdict, told.rank) == ("out-scored", hits[-1].rank)
    assert told.score == pytest.approx(hits[-1].score, abs=1e-4)
    assert told.needed == pytest.approx(hits[4].score, abs=1e-4)
    assert f"found at rank {hits[-1].rank}" in told.text()
    assert "Out-scored: its score is" in told.text()
    narrow = retriever.explain(ASKED, hits[-1].item_id, 2, beam=3)
    assert narrow.verdict == "out-scored"
    assert narrow.score == pytest.approx(hits[-1].score, abs=1e-4)
    assert narrow.rescue.widths[-1].rank == hits[-1].rank


def test_an_item_that_the_filter_excludes(retriever: Retriever) -> None:
    (hits,) = retriever.search(ASKED, 2)
    others = [item.id for item in ITEMS if item.id != hits[0].item_id]
    told = retriever.explain(ASKED, hits[0].item_id, filter=others)
    assert told.excluded
    assert told.rank == 1
    assert told.to_json()["excluded"] is True
    assert told.text().splitlines()[0].endswith("the filter excludes it. Without the filter:")
    allowed = np.ones(len(ITEMS), np.bool_)
    assert not retriever.explain(ASKED, hits[0].item_id, filter=allowed).excluded
    second = retriever.explain(ASKED, hits[1].item_id, filter=others)
    assert not second.excluded
    assert second.rank == 1, "among what the filter leaves"
    assert second.docids[0].levels[0].candidates <= len(others)


def test_an_item_that_was_removed_is_not_explained(retriever: Retriever) -> None:
    retriever.remove(["red-kettle"])
    with pytest.raises(DataError, match="no item has the id 'red-kettle'.*or has been removed"):
        retriever.explain(ASKED, "red-kettle")


def test_an_item_with_several_docids(retriever: Retriever) -> None:
    (hits,) = retriever.search(ASKED, 42, beam=200)
    rows = np.array([hits[-1].docid, hits[0].docid, hits[20].docid], np.uint16)
    with retriever.folder.writing():
        retriever.catalog.add([NEW], Codes(rows, np.zeros(3, np.uint32)))
    told = retriever.explain(ASKED, NEW.id, 5, beam=20)
    assert told.docids[0].docid == hits[0].docid
    assert {story.docid for story in told.docids} == {tuple(row) for row in rows.tolist()}
    assert told.rank is not None and told.rank <= 2, "it shares the best docid"
    for story in told.docids:
        assert f"docid {'-'.join(map(str, story.docid))}" in told.text()
        assert len(story.scores) == 3


def test_an_explanation_survives_json(retriever: Retriever) -> None:
    for item in ("red-kettle", "blue-lamp"):
        for beam in (1, 7):
            plain = retriever.explain(Query("q7", ASKED), item, beam=beam).to_json()
            assert json.loads(json.dumps(plain, allow_nan=False)) == plain
            assert " ".join(plain) == (
                "query item_id title beam k rank verdict excluded score needed docids "
                "narrowing rescue"
            )
            levels = plain["docids"][0]["levels"]
            assert levels[0]["rival_item"] in {item.id for item in ITEMS}
            assert [level["level"] for level in plain["narrowing"]] == [1, 2, 3]


def test_guides_vote_by_name(retriever: Retriever) -> None:
    retriever.recipe = apply(retriever.recipe, ["decode.omega=3"])
    told = retriever.explain(ASKED, "blue-lamp", beam=2)
    for level in told.docids[0].levels:
        assert [vote.guide for vote in level.votes] == ["geometry"]
        assert sum(vote.carry for vote in level.votes) == pytest.approx(level.carry)
    assert "model  geometry     score" in told.text()


def test_explaining_leaves_the_retriever_as_it_was(retriever: Retriever) -> None:
    before = retriever.search([ASKED, *OTHERS], 10)
    recipe, trie = retriever.recipe, retriever.trie
    retriever.explain(ASKED, "blue-lamp", beam=1)
    assert (retriever.recipe, retriever.trie) == (recipe, trie)
    assert retriever.search([ASKED, *OTHERS], 10) == before
