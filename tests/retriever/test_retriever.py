"""Building, asking, saving, and what an answer looks like."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from workshop import (
    ITEMS,
    dataset,
    precomputed_recipe,
    small_recipe,
    vector_items,
    vector_queries,
    write_beir,
)

from trieline.data import MemoryDataset
from trieline.errors import DataError, IndexMismatch, SettingsError
from trieline.evaluate import score
from trieline.retriever import Retriever
from trieline.types import Hit, Query

SCHEMES = {
    "tree": ["ids.scheme=tree", "ids.sizes=[4, 4]", "ids.extra=32"],
    "atomic": ["ids.scheme=atomic", "ids.sizes=[]", "train.max_steps=150"],
    "extra": ["ids.collisions=extra", "ids.extra=32"],
    "reassign": ["ids.collisions=reassign"],
    "modality": ["ids.modality=true"],
}


def same_answers(one: list[list[Hit]], other: list[list[Hit]]) -> bool:
    """Equal but for the last bits of scores, which depend on the shapes that are multiplied."""
    rest = [[[hit._replace(score=0.0) for hit in own] for own in hits] for hits in (one, other)]
    scores = [[hit.score for own in hits for hit in own] for hits in (one, other)]
    return rest[0] == rest[1] and np.allclose(*scores, atol=1e-4)


# --- building ----------------------------------------------------------------------------------


def test_a_dataset_becomes_an_index_that_finds_its_items(retriever: Retriever) -> None:
    queries = list(dataset().queries("test"))
    means = score(retriever.run(queries), dataset().qrels("test"), ["R@10", "Success@1"]).means
    assert len(retriever) == len(ITEMS)
    assert means["R@10"] > 0.9
    assert means["Success@1"] > 0.4
    assert retriever.folder.manifest.notes["dataset"] == "tools"
    assert retriever.folder.manifest.notes["training"]["steps"] == 60


def test_a_list_of_items_is_a_corpus(words: Path, tmp_path: Path) -> None:
    recipe = small_recipe(words)
    with Retriever.build(list(ITEMS), recipe, path=tmp_path / "a.tl") as retriever:
        hits = retriever.search("red kettle boils water", 5)[0]
    assert hits[0].item_id.endswith("kettle")
    again = (item for item in ITEMS)  # can be read once only
    with Retriever.build(again, recipe, path=tmp_path / "b.tl") as retriever:
        assert len(retriever) == len(ITEMS)


def test_a_beir_folder_gives_the_same_index_as_the_dataset(
    built: Path, words: Path, tmp_path: Path
) -> None:
    folder = write_beir(tmp_path / "corpus")
    asked = list(dataset().queries("test"))
    with (
        Retriever.build(folder, small_recipe(words), path=tmp_path / "b.tl") as ours,
        Retriever.load(built) as theirs,
    ):
        assert ours.search(asked) == theirs.search(asked)


def test_the_same_seed_gives_the_same_docids_and_scores(
    built: Path, words: Path, tmp_path: Path
) -> None:
    asked = list(dataset().queries("test"))
    with Retriever.load(built) as first:
        before = first.search(asked, 20)
        codes = first.catalog.codes()
    with Retriever.build(dataset(), small_recipe(words), path=tmp_path / "b.tl") as second:
        np.testing.assert_array_equal(second.catalog.codes().codes, codes.codes)
        assert second.search(asked, 20) == before
    other = small_recipe(words, "train.seed=1")
    with Retriever.build(dataset(), other, path=tmp_path / "c.tl") as third:
        assert third.search(asked, 20) != before


def test_settings_change_a_shipped_recipe(words: Path, tmp_path: Path) -> None:
    from workshop import changes

    path, settings = tmp_path / "a.tl", changes(words, "decode.beam=7")
    with Retriever.build(ITEMS, "genius", path=path, settings=settings) as retriever:
        assert retriever.recipe.name == "genius"
        assert retriever.recipe.decode.beam == 7
    recipe = small_recipe(words)
    with Retriever.build(ITEMS, recipe, path=path, settings=["decode.beam=9"]) as retriever:
        assert retriever.recipe.decode.beam == 9


@pytest.mark.parametrize("name", SCHEMES)
def test_every_way_of_giving_docids(name: str, words: Path, tmp_path: Path) -> None:
    recipe = small_recipe(words, *SCHEMES[name])
    asked = list(dataset().queries("test"))
    with Retriever.build(dataset(), recipe, path=tmp_path / "a.tl") as built:
        answers = built.search(asked, 10)
        sizes = built.trie.sizes
        means = score(built.run(asked), dataset().qrels("test"), ["R@10"]).means
        docids = {tuple(row) for row in built.catalog.codes().codes.tolist()}
    with Retriever.load(tmp_path / "a.tl") as loaded:
        assert loaded.search(asked, 10) == answers
    assert means["R@10"] > 0.7
    assert {len(hit.docid) for hits in answers for hit in hits} == {len(sizes)}
    if name not in ("modality",):
        assert len(docids) == len(ITEMS), "these schemes give every item a docid of its own"
    if name == "modality":
        assert sizes == (2, 8, 8, 8)
        assert {hit.docid[0] for hits in answers for hit in hits} == {0}


def test_items_that_bring_their_vectors(tmp_path: Path) -> None:
    items = vector_items()
    queries, qrels = vector_queries(items)
    corpus = MemoryDataset(items, {"train": queries}, {"train": qrels})
    with Retriever.build(corpus, precomputed_recipe(), path=tmp_path / "a.tl") as retriever:
        answers = retriever.search(queries[:5], 10)
        for query, hits in zip(queries[:5], answers, strict=True):
            assert query.id.partition("-")[2] in [hit.item_id for hit in hits]
    with Retriever.load(tmp_path / "a.tl") as loaded:
        assert loaded.search(queries[:5], 10) == answers
        with pytest.raises(DataError, match="has no vector"):
            loaded.search("words")


# --- asking ------------------------------------------------------------------------------------


def test_a_text_a_query_and_lists_of_them(retriever: Retriever) -> None:
    (text,) = retriever.search("red kettle", 4)
    (query,) = retriever.search(Query("q", "red kettle"), 4)
    both = retriever.search(["red kettle", Query("q", "red kettle")], 4)
    assert text == query
    assert both[0] == both[1]
    assert same_answers([text], [both[0]])
    assert len(text) == 4
    assert retriever.search([]) == []


def test_hits_have_ranks_scores_docids_and_titles(retriever: Retriever) -> None:
    (hits,) = retriever.search("a lamp that lights a dark room", 12)
    titles = {item.id: item.title for item in ITEMS}
    assert [hit.rank for hit in hits] == list(range(1, 13))
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert len({hit.item_id for hit in hits}) == 12
    for hit in hits:
        number = retriever.catalog.find(hit.item_id)
        assert number is not None
        assert hit.docid in {tuple(row) for row in retriever.catalog.docids(number).tolist()}
        assert hit.title == titles[hit.item_id]
        assert hit.trace == ()


def test_a_trace_retells_the_docid(retriever: Retriever) -> None:
    (plain,) = retriever.search("red kettle", 6)
    (traced,) = retriever.search("red kettle", 6, trace=True)
    assert [hit._replace(trace=()) for hit in traced] == plain
    for hit in traced:
        assert tuple(step.code for step in hit.trace) == hit.docid
        assert hit.trace[-1].score == pytest.approx(hit.score, abs=1e-5)


def test_an_answer_does_not_depend_on_its_companions(retriever: Retriever) -> None:
    asked = [query.text for query in dataset().queries("test")] + ["red"]
    together = retriever.search(asked, 10)
    alone = [retriever.search(text, 10)[0] for text in asked]
    backwards = retriever.search(asked[::-1], 10)[::-1]
    assert same_answers(together, alone)
    assert same_answers(together, backwards)


def test_a_wider_beam_finds_at_least_what_it_promises(retriever: Retriever) -> None:
    (hits,) = retriever.search("red kettle", len(ITEMS), beam=1)
    assert len(hits) == len(ITEMS), "the beam widens to k"
    (narrow,) = retriever.search("red kettle", 1, beam=1)
    (wide,) = retriever.search("red kettle", 1, beam=100)
    assert wide[0].score >= narrow[0].score - 1e-4, "but for the last bits"


def test_run_names_answers_by_query(retriever: Retriever) -> None:
    asked = list(dataset().queries("dev"))
    run = retriever.run(iter(asked), 5)
    assert list(run) == [query.id for query in asked]
    assert list(run.values()) == retriever.search(asked, 5)


def test_progress_is_told(retriever: Retriever) -> None:
    from contextlib import contextmanager

    told: list[tuple[str, int | None]] = []
    units: list[int] = []

    class Task:
        def advance(self, n: int = 1, note: str = "") -> None:
            units.append(n)

    @contextmanager
    def watch(what, total):
        told.append((what, total))
        yield Task()

    retriever.search([query.text for query in dataset().queries("test")], watch=watch)
    assert told == [("searching", 14)]
    assert sum(units) == 14


# --- filters -----------------------------------------------------------------------------------


def test_a_filter_of_ids_leaves_only_those(retriever: Retriever) -> None:
    allowed = [item.id for item in ITEMS if item.id.startswith("blue")]
    answers = retriever.search(["red kettle", "green rake"], 20, filter=allowed)
    for hits in answers:
        assert sorted(hit.item_id for hit in hits) == sorted(allowed)
    (again,) = retriever.search("red kettle", 20, filter=set(allowed))
    assert same_answers([again], answers[:1])
    assert len(retriever.search("red kettle", 20)[0]) == 20, "the next search is free again"


def test_a_filter_of_booleans_counts_item_numbers(retriever: Retriever) -> None:
    allowed = np.zeros(len(ITEMS), np.bool_)
    allowed[retriever.catalog.numbers(["red-lamp", "golden-rake"])] = True
    by_number = retriever.search("white brush", 5, filter=allowed)
    by_id = retriever.search("white brush", 5, filter=["red-lamp", "golden-rake"])
    assert by_number == by_id
    assert {hit.item_id for hit in by_id[0]} == {"red-lamp", "golden-rake"}


def test_a_filter_that_lets_nothing_through_finds_nothing(retriever: Retriever) -> None:
    assert retriever.search("red kettle", filter=[]) == [[]]


def test_filters_that_make_no_sense(retriever: Retriever) -> None:
    with pytest.raises(SettingsError, match="collection of item ids"):
        retriever.search("x", filter="red-kettle")
    with pytest.raises(SettingsError, match="expected booleans"):
        retriever.search("x", filter=np.array([1, 2]))
    with pytest.raises(IndexMismatch, match="covers 3 items"):
        retriever.search("x", filter=np.ones(3, np.bool_))
    with pytest.raises(DataError, match="no item has the id 'teapot'"):
        retriever.search("x", filter=["teapot"])


# --- saving ------------------------------------------------------------------------------------


def test_saved_elsewhere_it_answers_the_same(retriever: Retriever, tmp_path: Path) -> None:
    asked = list(dataset().queries("test"))
    retriever.remove(["red-kettle", "golden-lamp"])  # gaps among the numbers
    expected = retriever.search(asked, 10)
    retriever.save(tmp_path / "else.tl")
    with Retriever.load(tmp_path / "else.tl") as loaded:
        assert loaded.search(asked, 10) == expected
        assert len(loaded) == len(ITEMS) - 2
        assert loaded.folder.verify() == []
        assert loaded.catalog.verify() == []
        notes = loaded.folder.manifest.notes
    assert notes == retriever.folder.manifest.notes
    assert list(retriever.catalog.get([3])) == [ITEMS[3]]


def test_an_index_says_what_an_item_costs(retriever: Retriever) -> None:
    costs = retriever.bytes_per_item()
    assert costs["docids"] == 6
    assert costs["trie"] > 6
    assert costs["catalog"] > costs["docids"]
    assert retriever.stats().items == len(ITEMS)
