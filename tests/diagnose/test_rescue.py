"""What would have found an item, against searches run by hand and a beam that prunes nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from toys import SIZES, asked, corpus, one, searching, speller

from trieline.config import Recipe, apply
from trieline.decode import Geometric, Score
from trieline.diagnose import Attempt, Explanation, Rescue, WhatIf, explain, what_ifs
from trieline.diagnose.rescue import Search
from trieline.errors import SettingsError
from trieline.index import Trie
from trieline.types import Codes, Item

MODEL, CODES = speller(), corpus(80)
TRIE = Trie.build(CODES, SIZES)


def told_of(number: int, search: Search, beam: int, k: int, **more) -> Explanation:
    rows = CODES.codes[CODES.owner == number]
    item = Item(f"i{number}")
    return explain(search, TRIE, rows, number, query="what", item=item, beam=beam, k=k, **more)


def rank_of(number: int, search: Search, beam: int) -> int | None:
    at = np.flatnonzero(search(lambda _: None, beam=beam).items == number)
    return int(at[0]) + 1 if len(at) else None


@pytest.mark.parametrize("normalise", ["level", "legal"])
@pytest.mark.parametrize(("beam", "k"), [(1, 1), (3, 3), (6, 2)])
def test_pruned_is_told_from_out_scored(beam: int, k: int, normalise: str) -> None:
    for seed in range(3):
        search = searching(MODEL, one(asked(1, seed)), TRIE, normalise=normalise)
        everything = search(lambda _: None, beam=200)
        for place, number in enumerate(everything.items.tolist()[:9], start=1):
            told = told_of(number, search, beam, k)
            assert told.rank == rank_of(number, search, beam)
            assert told.score == pytest.approx(everything.scores[place - 1], abs=1e-4)
            if told.rank is not None and told.rank <= k:
                assert told.verdict == "found"
            else:
                assert told.verdict == ("pruned" if place <= k else "out-scored")


def test_the_narrowest_beam_finds_it_and_one_narrower_does_not() -> None:
    saved = 0
    for seed in range(12):
        search = searching(MODEL, one(asked(1, seed)), TRIE)
        best = search(lambda _: None, beam=200).items.tolist()[:3]
        for number in best:
            told = told_of(number, search, 1, 1)
            if told.verdict != "pruned":
                continue
            narrowest = told.rescue.narrowest
            assert narrowest is not None
            assert rank_of(number, search, narrowest.beam) == narrowest.rank == 1
            before = rank_of(number, search, narrowest.beam - 1)
            assert before is None or before > 1
            if narrowest.beam > 2:
                assert told.rescue.fails == narrowest.beam - 1
            beams = [attempt.beam for attempt in told.rescue.widths]
            assert beams == sorted(set(beams))
            assert f"yes  beam {narrowest.beam}: rank 1" in told.text()
            assert f"({narrowest.beam - 1} does not find it)" in told.text()
            assert told.to_json()["rescue"]["beam"] == narrowest.beam
            saved += 1
    assert saved >= 3


def test_an_item_that_was_out_scored_is_ranked_by_a_beam_that_prunes_nothing() -> None:
    search = searching(MODEL, one(asked(1)), TRIE)
    everything = search(lambda _: None, beam=200).items.tolist()
    told = told_of(everything[30], search, 4, 2)
    assert told.verdict == "out-scored"
    assert told.needed is not None and told.score is not None and told.score < told.needed
    (wide,) = told.rescue.widths
    assert (wide.beam, wide.rank, wide.finds) == (80, 31, False)
    assert "beam 80, which prunes nothing: rank 31" in told.text()
    assert "no wider beam brings it into the first 2" in told.text()


def test_a_guide_that_finds_it_is_reported() -> None:
    question = one(asked(1))
    plain = searching(MODEL, question, TRIE)
    number = plain(lambda _: None, beam=200).items.tolist()[-1]
    rng = np.random.default_rng(0)
    books = [rng.standard_normal((size, 8)).astype(np.float32) for size in SIZES]
    books[0][CODES.codes[number, 0]] = question.vector.numpy()[0]
    for level in (1, 2):
        books[level][CODES.codes[number, level]] = 0.0

    def search(observe, *, beam, changes=(), guides=()):
        recipe = apply(Recipe(), changes)
        if recipe.decode.normalise == "vocab":
            raise SettingsError("this index cannot do that")
        own = [Geometric(books, recipe.decode.omega)] if recipe.decode.omega else []
        return searching(MODEL, question, TRIE, own)(observe, beam=beam, guides=guides)

    tried = [
        WhatIf("weak", ("decode.omega=0.001",)),
        WhatIf("impossible", ("decode.normalise=vocab",)),
        WhatIf("strong", ("decode.omega=100",)),
    ]
    told = told_of(number, search, 2, 1, tried=tried)
    assert told.rank is None
    weak, strong = told.rescue.settings
    assert (weak.label, weak.finds) == ("weak", False)
    assert strong == Attempt("strong", ("decode.omega=100",), 2, 1, None, True)
    assert "  yes  strong: rank 1" in told.text()
    assert f"  no   weak: lost at level {weak.lost_at}" in told.text()


@pytest.mark.parametrize("most", [1, 2, 3, 5, 9])
def test_no_more_searches_are_run_than_allowed(most: int) -> None:
    runs = []
    plain = searching(MODEL, one(asked(1)), TRIE)

    def search(observe, **more):
        runs.append(more)
        return plain(observe, **more)

    best = plain(lambda _: None, beam=200).items.tolist()
    tried = [WhatIf("same", ()), WhatIf("again", ())]
    for number in (best[0], best[40]):
        runs.clear()
        told = told_of(number, search, 1, 1, tried=tried, searches=most)
        assert told.rescue.searches == len(runs) <= max(most, 2)
        assert len(told.rescue.settings) <= max(most - 2, 0)
        json.dumps(told.to_json(), allow_nan=False)


def test_a_bisection_that_was_cut_short_says_so() -> None:
    widths = (
        Attempt("beam 4", (), 4, None, 1, False),
        Attempt("beam 16", (), 16, 2, None, True),
        Attempt("beam 32", (), 32, 2, None, True),
    )
    rescue = Rescue(widths, (), 5)
    assert rescue.narrowest == widths[1]
    assert rescue.fails == 4
    search = searching(MODEL, one(asked(1)), TRIE)
    told = told_of(79, search, 1, 1, searches=2)
    lost = told._replace(verdict="pruned", rescue=rescue)
    assert "(4 does not find it, and nothing between was tried)" in lost.text()
    assert Rescue((), (), 1).narrowest is None
    assert Rescue((), (), 1).fails is None


def test_every_docid_of_an_item_is_scored_to_its_end() -> None:
    codes = Codes(CODES.codes, np.where(CODES.owner % 20 == 7, 7, CODES.owner).astype(np.uint32))
    trie = Trie.build(codes, SIZES)
    search = searching(MODEL, one(asked(1)), trie)
    rows = codes.codes[codes.owner == 7]
    few = explain(search, trie, rows, 7, query="", item=Item("seven"), beam=1, k=1)
    all_of_them = explain(search, trie, rows, 7, query="", item=Item("seven"), beam=200, k=1)
    assert len(few.docids) == len(rows) == 4
    whole = {story.docid: story.scores for story in all_of_them.docids}
    for story in few.docids:
        assert story.scores == pytest.approx(whole[story.docid], abs=1e-4)
    assert few.score == pytest.approx(max(scores[-1] for scores in whole.values()), abs=1e-4)


class Forbids:
    """A guide that rules out one code at one level."""

    name = "forbids"

    def __init__(self, level: int, code: int) -> None:
        self.at, self.code = level, code

    def start(self, vectors, trie):
        return None

    def score(self, state, level, parents, codes, nodes) -> Score:
        barred = (codes == self.code) & (level == self.at)
        return Score(carry=np.where(barred, -np.inf, 0.0))

    def follow(self, state, level, parents, codes):
        return None


def test_an_item_that_a_guide_forbids() -> None:
    number = 12
    for level in range(3):
        guide = Forbids(level, int(CODES.codes[number, level]))
        told = told_of(number, searching(MODEL, one(asked(1)), TRIE, [guide]), 2, 1)
        assert told.verdict == "forbidden"
        assert told.score is None
        assert told.rescue.widths == ()
        plain = json.loads(json.dumps(told.to_json(), allow_nan=False))
        assert plain["score"] is None
        assert "Forbidden at level" in told.text()


def test_what_is_tried_differs_from_the_recipe_and_is_possible() -> None:
    books = [np.ones((4, 2), np.float32)]
    labels = [what.label for what in what_ifs(Recipe(), books)]
    votes = [f"geometry, omega {omega}" for omega in (1, 3, 10, 30)]
    assert labels == [*votes, "looking ahead, omega 10"]
    guided = apply(Recipe(), ["decode.omega=3"])
    labels = [what.label for what in what_ifs(guided, books)]
    assert labels == ["no geometry", *votes[:1], *votes[2:], "looking ahead, omega 10"]
    assert what_ifs(Recipe(), [np.zeros((4, 2), np.float32)]) == ()
    history = apply(Recipe(), ["model.query=history"])
    assert what_ifs(history, books) == ()
    assert len(what_ifs(apply(history, ["model.bridge=true"]), books)) == 5
    rescaled = what_ifs(apply(guided, ["decode.standardise=true"]), books)
    assert "looking ahead, omega 10" not in [what.label for what in rescaled], "would not go"


def test_an_item_with_another_that_shares_its_docid_behind_the_beam() -> None:
    codes = Codes(np.array([[1, 2, 3]] * 3 + [[0, 0, 0]], np.uint16), np.arange(4, dtype=np.uint32))
    trie = Trie.build(codes, SIZES)
    search = searching(MODEL, one(asked(1)), trie)
    told = explain(search, trie, codes.codes[2:3], 2, query="", item=Item("third"), beam=2, k=2)
    if told.docids[0].lost_at is None and told.rank is None:
        assert told.verdict == "out-scored"
        assert "other items fill the first 2 places" in told.text()


def test_a_rival_is_named_by_its_best_answer() -> None:
    search = searching(MODEL, one(asked(1)), TRIE)
    answers = search(lambda _: None, beam=3)
    named = set()
    for number in range(80):
        told = told_of(
            number, search, 3, 3, items=lambda ns: {n: Item(f"i{n}", title=f"T{n}") for n in ns}
        )
        for level in told.docids[0].levels:
            shown = int(level.rival_item[1:])
            assert tuple(CODES.codes[shown][: level.level].tolist()) == level.rival
            below = [
                rank
                for rank, answer in enumerate(answers.items.tolist(), start=1)
                if tuple(CODES.codes[answer][: level.level].tolist()) == level.rival
            ]
            assert level.rival_rank == (below[0] if below else None)
            assert level.rival_title == f"T{shown}"
            named.add(level.rival_rank is None)
        if told.docids[0].lost_at:
            assert told.docids[0].levels[-1].rival_item in told.text()
    assert named == {True, False}


def test_beams_and_answers_that_make_no_sense() -> None:
    search = searching(MODEL, one(asked(1)), TRIE)
    for beam, k in ((0, 1), (1, 0), (-1, 3)):
        with pytest.raises(SettingsError, match=f"beam = {beam}, k = {k}: both must be at least 1"):
            told_of(3, search, beam, k)
    assert told_of(3, search, 2, 5, searches=2).beam == 5, "as wide as what is asked for"


def test_an_item_whose_better_docid_was_pruned() -> None:
    """One docid is spelled out behind the first k; the other would have been the best."""
    seen = 0
    for seed in range(30):
        search = searching(MODEL, one(asked(1, seed)), TRIE)
        everything = search(lambda _: None, beam=200).items.tolist()
        narrow = search(lambda _: None, beam=3).items.tolist()
        if everything[0] in narrow:
            continue
        best, spelled = everything[0], narrow[2]
        owner = np.where(CODES.owner == spelled, best, CODES.owner).astype(np.uint32)
        trie = Trie.build(Codes(CODES.codes, owner), SIZES)
        rows, item = CODES.codes[owner == best], Item("two")
        search = searching(MODEL, one(asked(1, seed)), trie)
        told = explain(search, trie, rows, best, query="", item=item, beam=3, k=1)
        assert told.verdict == "pruned"
        assert told.docids[0].lost_at is None
        assert told.docids[1].lost_at is not None
        assert told.score == told.docids[1].score
        assert told.rescue.narrowest is not None
        assert f"Pruned by the beam at level {told.docids[1].lost_at}, though" in told.text()
        seen += 1
    assert seen
