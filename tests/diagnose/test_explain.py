"""Explanations of the plain beam on toy tries, against a beam of dictionaries."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "decode"))
sys.path.insert(0, str(Path(__file__).parent))
from plain import step_scores
from toys import SIZES, asked, corpus, docids, one, searching, speller

from trieline.decode import Geometric, Guide, Score, beam_search
from trieline.diagnose import Explanation, explain
from trieline.errors import IndexMismatch
from trieline.index import Trie
from trieline.model import Asked
from trieline.types import Codes, Item

MODEL, CODES = speller(), corpus(80)
TRIE = Trie.build(CODES, SIZES)


def story_of(
    number: int, question: Asked, beam: int, trie: Trie = TRIE, codes: Codes = CODES, **more
) -> Explanation:
    rows = codes.codes[codes.owner == number]
    search = searching(MODEL, question, trie, more.pop("guides", ()))
    item = Item(f"i{number}", title="Thing")
    more = {"k": beam, "searches": 2, **more}
    return explain(search, trie, rows, number, query="what", item=item, beam=beam, **more)


def levels_of_dicts(steps: dict, rows: list, width: int) -> list[list[tuple[float, tuple]]]:
    """(score, prefix) of all candidates of each level, best first, as a beam sees them."""
    live: dict[tuple, float] = {(): 0.0}
    levels = []
    for level in range(len(rows[0])):
        scores = {
            d[: level + 1]: live[d[:level]] + steps[d[: level + 1]]
            for d in rows
            if d[:level] in live
        }
        ranked = sorted(scores, key=lambda prefix: -scores[prefix])
        levels.append([(scores[prefix], prefix) for prefix in ranked])
        live = {prefix: scores[prefix] for prefix in ranked[:width]}
    return levels


@pytest.mark.parametrize("beam", [1, 3, 10, 200])
def test_every_story_is_that_of_a_beam_of_dictionaries(beam: int) -> None:
    question = one(asked(1))
    rows = docids(CODES)
    told = levels_of_dicts(step_scores(MODEL, question, rows, "level"), rows, beam)
    for number in range(0, 80, 7):
        explanation = story_of(number, question, beam)
        (story,) = explanation.docids
        assert story.docid == tuple(int(c) for c in CODES.codes[number])
        for level, seen in enumerate(story.levels):
            candidates = told[level]
            prefixes = [prefix for _, prefix in candidates]
            place = prefixes.index(story.docid[: level + 1])
            last = min(beam, len(candidates)) - 1
            assert seen.level == level + 1
            assert seen.code == story.docid[level]
            assert seen.rank == place + 1
            assert seen.candidates == len(candidates)
            assert seen.kept == (place < beam)
            assert seen.score == pytest.approx(candidates[place][0], abs=1e-4)
            assert seen.cutoff == pytest.approx(candidates[last][0], abs=1e-4)
            assert seen.rival == candidates[last][1]
            assert (seen.carry, seen.look) == (0.0, 0.0)
        kept = [seen.kept for seen in story.levels]
        assert kept[:-1] == [True] * (len(kept) - 1)
        assert len(kept) == 3 or not kept[-1]
        assert story.lost_at == (None if all(kept) else len(kept))
        assert story.beam_needed == max(seen.rank for seen in story.levels)


def test_scores_add_up_along_a_docid() -> None:
    (story,) = story_of(5, one(asked(1)), 200).docids
    for before, after in zip(story.levels, story.levels[1:], strict=False):
        assert after.score == pytest.approx(before.score + after.step, abs=1e-9)


def test_guides_are_told_apart_from_the_model() -> None:
    rng = np.random.default_rng(2)
    codebooks = [rng.standard_normal((size, 8)).astype(np.float32) * 0.4 for size in SIZES]
    question = one(asked(1))
    vectors = question.vector.numpy()

    class Constant:
        name = "constant"

        def start(self, vectors, trie):
            return None

        def score(self, state, level, parents, codes, nodes) -> Score:
            return Score(look=np.full(len(codes), 0.5))

        def follow(self, state, level, parents, codes):
            return None

    guides: list[Guide] = [Geometric(codebooks, omega=2.0), Constant()]
    (story,) = story_of(5, question, 200, guides=guides).docids
    residual, carried = vectors[0].astype(np.float64), 0.0
    for level, (seen, code) in enumerate(zip(story.levels, story.docid, strict=True)):
        word = codebooks[level][code].astype(np.float64)
        assert seen.carry == pytest.approx(2.0 * (2 * residual @ word - word @ word), abs=1e-3)
        assert seen.look == 0.5
        assert seen.votes == (("geometry", seen.carry, 0.0), ("constant", 0.0, 0.5))
        assert seen.score == pytest.approx(carried + seen.step + seen.carry + 0.5, abs=1e-6)
        carried += seen.step + seen.carry
        residual = residual - word


def test_the_rank_among_the_answers() -> None:
    question = one(asked(1))
    (found,) = beam_search(MODEL, question, TRIE, beam=10, k=10)
    for rank, number in enumerate(found.items.tolist(), start=1):
        explanation = story_of(number, question, 10)
        assert explanation.rank == rank
        assert explanation.docids[0].lost_at is None
        assert f"i{number} (Thing): found at rank {rank} for 'what' with beam 10." in (
            explanation.text()
        )


def test_an_item_with_several_docids_has_a_story_for_each() -> None:
    codes = Codes(
        np.array([[1, 2, 3], [0, 0, 0], [4, 3, 5], [2, 1, 1], [2, 1, 2]], np.uint16),
        np.array([0, 0, 1, 0, 2], np.uint32),
    )
    told = story_of(0, one(asked(1)), 2, Trie.build(codes, SIZES), codes)
    assert {story.docid for story in told.docids} == {(1, 2, 3), (0, 0, 0), (2, 1, 1)}
    ends = [(story.lost_at or 4, story.levels[-1].score) for story in told.docids]
    assert ends == sorted(ends, reverse=True), "the one that came furthest is first"
    assert sum(story.lost_at is None for story in told.docids) <= 2
    for story in told.docids:
        assert f"docid {'-'.join(map(str, story.docid))}" in told.text()


def test_a_lost_item_is_told_in_words_and_in_json() -> None:
    question = one(asked(1))
    told = next(
        told
        for told in (story_of(number, question, 2) for number in range(80))
        if told.docids[0].lost_at == 2
    )
    (story,) = told.docids
    text, last = told.text(), story.levels[-1]
    assert told.rank is None
    assert f"lost at level 2: rank {last.rank} for 2 places. The last went to " in text
    assert "-".join(map(str, last.rival)) in text
    plain = json.loads(json.dumps(told.to_json()))
    assert plain["rank"] is None
    assert plain["docids"][0]["lost_at"] == 2
    assert plain["docids"][0]["beam_needed"] == story.beam_needed
    assert plain["docids"][0]["levels"][-1]["rival"] == list(last.rival)
    assert plain["docids"][0]["levels"][-1]["kept"] is False


def test_ties_go_to_the_candidate_that_the_beam_keeps() -> None:
    flat = speller()
    flat.alphabet.output.data.zero_()  # every code is as likely as any other
    question = one(asked(1))
    kept = 0
    for number in range(80):
        told = explain(
            searching(flat, question, TRIE),
            TRIE,
            CODES.codes[[number]],
            number,
            query="",
            item=Item(""),
            beam=2,
            k=1,
            searches=2,
        )
        (story,) = told.docids
        for level in story.levels:
            assert level.kept == (level.rank <= 2)
        kept += story.lost_at is None
    assert kept >= 2


def test_a_docid_that_is_not_in_the_trie() -> None:
    free = next(row for row in np.ndindex(*SIZES) if tuple(row) not in set(docids(CODES)))
    new = {"query": "", "item": Item("new"), "beam": 1}
    with pytest.raises(IndexMismatch, match="'new' is not in the trie.*Load it again"):
        explain(searching(MODEL, one(asked(1)), TRIE), TRIE, np.array([free], np.uint16), 80, **new)
    with pytest.raises(IndexMismatch, match="'new' has no docid"):
        explain(searching(MODEL, one(asked(1)), TRIE), TRIE, np.zeros((0, 3), np.uint16), 80, **new)
