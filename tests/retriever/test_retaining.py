"""Prefix survival and judged docids through the public door: Python and the command line."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from terminal import call, said, told
from workshop import (
    ITEMS,
    changes,
    dataset,
    precomputed_recipe,
    small_recipe,
    vector_items,
    vector_queries,
    write_beir,
)

from trieline.data import MemoryDataset
from trieline.decode import Geometric
from trieline.errors import DataError, MissingExtra, SettingsError
from trieline.ids import codebooks_of
from trieline.judging import judge_corpus
from trieline.retriever import Retriever
from trieline.types import Query

BEAM = 4


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_beir(tmp_path_factory.mktemp("corpora") / "tools")


def test_survival_is_that_of_the_searches(built: Path) -> None:
    queries, qrels = list(dataset().queries("train")), list(dataset().qrels("train"))
    with Retriever.load(built) as retriever:
        seen = retriever.diagnose_survival(queries, qrels, beam=BEAM)
        plain = retriever.survival(queries, qrels, beam=BEAM)
        assert plain.queries == len(seen.queries.error) == len(ITEMS)
        assert [level.decoder_beam for level in seen.levels] == pytest.approx(plain.levels)
        assert all(level.mismatch is not None for level in seen.levels)
        found = retriever.search(queries, BEAM, beam=BEAM)
        wanted = [query.id.partition("-")[2] for query in queries]
        hits = [
            want in [hit.item_id for hit in own] for want, own in zip(wanted, found, strict=True)
        ]
        alive = seen.queries.decoder_beam[:, -1]
        assert not (np.array(hits) & ~alive).any(), "found, but not in the beam"
        # The oracle and the geometry agree on reconstructions.
        vectors = retriever.encoder.encode(list(ITEMS))
        codes = {item.id: retriever.catalog.docids(n)[0] for n, item in enumerate(ITEMS)}
        books = codebooks_of(retriever.docids)
        for q, want in enumerate(wanted):
            rebuilt = sum(book[code] for book, code in zip(books, codes[want], strict=True))
            own = vectors[[item.id for item in ITEMS].index(want)]
            assert seen.queries.error[q] == pytest.approx(((own - rebuilt) ** 2).sum(), rel=1e-3)


def test_guides_are_part_of_the_decoder(built: Path, words: Path) -> None:
    queries, qrels = list(dataset().queries("dev")), list(dataset().qrels("dev"))
    with Retriever.load(built) as retriever:
        without = retriever.diagnose_survival(queries, qrels, beam=BEAM)
        retriever.recipe = small_recipe(words, "decode.omega=30.0")
        retriever._asker.recipe = retriever.recipe
        assert isinstance(retriever._guides(retriever.recipe.decode)[0], Geometric)
        guided = retriever.diagnose_survival(queries, qrels, beam=BEAM)
    assert guided.levels[0].mismatch != without.levels[0].mismatch
    for one, other in zip(guided.levels, without.levels, strict=True):
        assert one.divergence == other.divergence and one.margin == other.margin


def test_after_changes_and_without_the_mismatch(retriever: Retriever) -> None:
    queries, qrels = list(dataset().queries("dev")), list(dataset().qrels("dev"))
    gone = queries[0].id.partition("-")[2]
    retriever.remove([gone, ITEMS[1].id])
    seen = retriever.diagnose_survival(queries, qrels, beam=BEAM, mismatch=False)
    assert len(seen.queries.error) == len(queries) - 1
    assert all(level.mismatch is level.certified is None for level in seen.levels)
    judged = retriever.judge_codes(queries, qrels)
    assert judged.stats.items == judged.looked_at == len(ITEMS) - 2
    assert judged.queries == len(queries) - 1


def test_survival_that_cannot_be_told(built: Path, words: Path, tmp_path: Path) -> None:
    queries, qrels = list(dataset().queries("dev")), list(dataset().qrels("dev"))
    with Retriever.load(built) as retriever:
        with pytest.raises(DataError, match="none of the 1 queries has a relevant item"):
            retriever.diagnose_survival([Query("other", "x")], qrels)
        with pytest.raises(SettingsError, match="tau above 0"):
            retriever.diagnose_survival(queries, qrels, tau=0)
        retriever.recipe = small_recipe(words, "model.query=history")
        with pytest.raises(SettingsError, match="reads histories"):
            retriever.diagnose_survival(queries, qrels)
    recipe = small_recipe(words, "ids.scheme=tree", "train.max_steps=1", "train.min_steps=1")
    with Retriever.build(dataset(), recipe, path=tmp_path / "tree.tl") as retriever:
        with pytest.raises(SettingsError, match="stand for no vectors"):
            retriever.diagnose_survival(queries, qrels)
        judged = retriever.judge_codes(queries, qrels)
        assert judged.queries == 0
        assert {level.oracle for level in judged.levels} == {None}
        assert judged.levels[0].hit_rate > judged.levels[0].by_chance


def test_vectors_of_users_are_brought_again(tmp_path: Path) -> None:
    items = vector_items(40)
    queries, qrels = vector_queries(items)
    own = MemoryDataset(items, {"train": queries}, {"train": qrels})
    recipe = precomputed_recipe("train.max_steps=1", "train.min_steps=1")
    with Retriever.build(own, recipe, path=tmp_path / "v.tl") as retriever:
        with pytest.raises(DataError, match="has no vector"):
            retriever.diagnose_survival(queries, qrels)
        seen = retriever.diagnose_survival(queries, qrels, items=items)
        assert len(seen.queries.error) == 40
        # A query is its target's own vector: the reconstruction error is what the docid misses.
        assert (seen.queries.error >= 0).all()
        assert retriever.judge_codes(items=items).queries == 0, "nobody brings vectors of crops"
        blind = retriever.judge_codes(queries, qrels)
        assert (blind.looked_at, blind.queries) == (0, 40)
        assert blind.levels[0].hit_rate is None and blind.levels[0].oracle is not None
        assert blind.tables()[-1].title.startswith("no vectors of items; survival")
        bare = told("diagnose", "codes", tmp_path / "v.tl")
        assert bare["items"] == 40 and bare["levels"][0]["error_left"] is None
    before = judge_corpus(own, recipe, split="train")[0]
    assert before.queries == 40


# --- before training ------------------------------------------------------------------------------


def test_docids_of_a_corpus_are_those_that_a_build_gives(built: Path, words: Path) -> None:
    queries, qrels = list(dataset().queries("dev")), list(dataset().qrels("dev"))
    (before,) = judge_corpus(dataset(), small_recipe(words))
    with Retriever.load(built) as retriever:
        after = retriever.judge_codes(queries, qrels, asked="dev")
    assert before == after
    assert before.queries == len(queries) and before.asked == "dev"


def test_sizes_side_by_side(words: Path) -> None:
    sizes = [(4, 8, 16), (8, 8, 8), (16, 8, 4)]
    told = judge_corpus(dataset(), small_recipe(words), sizes, beam=BEAM)
    assert [one.sizes for one in told] == sizes
    assert [one.schedule for one in told] == ["ascending", "uniform", "descending"]
    (alone,) = judge_corpus(dataset(), small_recipe(words, "ids.sizes=[16, 8, 4]"), beam=BEAM)
    assert alone == told[2]
    for one in told:
        falling = [level.error_left for level in one.levels]
        assert falling == sorted(falling, reverse=True)
        assert all(level.hit_rate >= level.by_chance for level in one.levels)


def test_without_queries_crops_of_the_items_ask(words: Path) -> None:
    (told,) = judge_corpus(MemoryDataset(dataset().items()), small_recipe(words), limit=15)
    assert (told.asked, told.queries) == ("pseudo", 15)
    (again,) = judge_corpus(MemoryDataset(dataset().items()), small_recipe(words), limit=15)
    assert told == again
    history = small_recipe(words, "model.query=history")
    assert judge_corpus(dataset(), history, limit=15)[0].asked == "pseudo"


def test_atomic_docids_have_no_sizes_to_try(words: Path) -> None:
    atomic = small_recipe(words, "ids.scheme=atomic", "ids.sizes=[]")
    (told,) = judge_corpus(dataset(), atomic)
    assert told.levels[0].oracle is None and told.stats.docids == len(ITEMS)
    with pytest.raises(SettingsError, match="no sizes to try"):
        judge_corpus(dataset(), atomic, [(4, 4)])


# --- the command line -----------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRIELINE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_survival_on_the_command_line(
    built: Path, corpus: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("diagnose", "survival", built, "--queries", corpus, "--split", "dev")
    found = told(*asked, "--beam", BEAM, "--limit", 5)
    assert (found["queries"], found["beam"], found["tau"]) == (5, BEAM, 0.05)
    assert len(found["levels"]) == 3 and found["levels"][0]["mismatch"] is not None
    assert len(found["fifths"]) == 10
    assert told(*asked, "--no-mismatch")["levels"][0]["mismatch"] is None
    text = said(*asked, "--plots", tmp_path / "plots")
    assert "prefix survival, beam 20: share of 11 targets" in text
    names = ["error", "factors", "fifths", "survival"]
    assert sorted(path.stem for path in (tmp_path / "plots").iterdir()) == names
    table = said(*asked, "--markdown")
    assert "| level | prefixes | oracle: token |" in table
    with pytest.raises(SettingsError, match="expected a folder"):
        call(*asked, "--plots", corpus / "corpus.jsonl")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"pip install 'trieline\[plots\]'"):
        call(*asked, "--plots", tmp_path / "more")


def test_codes_on_the_command_line(
    built: Path, corpus: Path, words: Path, cache: Path, tmp_path: Path
) -> None:
    index = told("diagnose", "codes", built, "--queries", corpus)
    assert (index["items"], index["asked"], index["queries"]) == (len(ITEMS), "dev", 11)
    assert told("diagnose", "codes", built, "--limit", 7)["asked"] == "pseudo"
    settings = [part for change in changes(words) for part in ("--set", change)]
    before = ("diagnose", "codes", "--corpus", corpus, *settings)
    (one,) = told(*before)["candidates"]
    assert one == index
    assert "hit rate of the 10 nearest" in said(*before)
    sizes = ("--sizes", "4,8,16", "--sizes", "8x3")
    both = told(*before, *sizes)["candidates"]
    assert [one["schedule"] for one in both] == ["ascending", "uniform"]
    assert "| 8x3 | uniform | 6 | 9.0 |" in said(*before, *sizes, "--markdown")
    for wrong in ((), (built, "--corpus", corpus)):
        with pytest.raises(SettingsError, match="give either an index, or --corpus"):
            call("diagnose", "codes", *wrong)


def test_codes_of_vectors_on_the_command_line(cache: Path, corpus: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)

    def saved(name: str, ids: list[str]) -> Path:
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(len(ids), 6)).astype(np.float32))
        (tmp_path / f"{name}.ids.txt").write_text("\n".join(ids) + "\n", encoding="utf-8")
        return tmp_path / f"{name}.npy"

    items = saved("items", [item.id for item in ITEMS])
    queries = saved("queries", [query.id for query in dataset().queries("dev")])
    asked = ("diagnose", "codes", "--embeddings", items, "--sizes", "4,4")
    (alone,) = told(*asked)["candidates"]
    assert alone["queries"] == 0 and alone["levels"][0]["oracle"] is None
    assert alone["items"] == len(ITEMS)
    (unasked,) = told(*asked, "--corpus", corpus)["candidates"]
    assert unasked == alone
    (judged,) = told(*asked, "--corpus", corpus, "--query-embeddings", queries)["candidates"]
    assert judged["queries"] == 11 and judged["levels"][0]["oracle"] is not None
