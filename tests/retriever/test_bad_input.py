"""What goes wrong is told clearly, and leaves nothing half written behind."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from targets import ASKED, Targets
from workshop import (
    ITEMS,
    NEW,
    changes,
    precomputed_recipe,
    small_recipe,
    vector_items,
    vector_queries,
)

from trieline.data import MemoryDataset
from trieline.errors import (
    DataError,
    DimensionError,
    SettingsError,
)
from trieline.retriever import Retriever
from trieline.types import Item, Query

# --- corpora -----------------------------------------------------------------------------------


@pytest.mark.parametrize("corpus", [[], (), iter([])], ids=["list", "tuple", "iterator"])
def test_empty_corpus(targets: Targets, words: Path, corpus: Iterable[Item]) -> None:
    targets.refuse(corpus, small_recipe(words), DataError, "the corpus is empty")


def test_empty_corpus_file(targets: Targets, words: Path, tmp_path: Path) -> None:
    file = tmp_path / "items.jsonl"
    file.write_text("\n")
    targets.refuse(file, small_recipe(words), DataError, "has no items")


def test_a_corpus_that_is_not_there(targets: Targets, words: Path) -> None:
    targets.refuse("nowhere", small_recipe(words), DataError, "cannot open 'nowhere'")


def test_one_item(words: Path, tmp_path: Path) -> None:
    with Retriever.build(ITEMS[:1], small_recipe(words), path=tmp_path / "a.tl") as retriever:
        (hits,) = retriever.search("white rake", 10)
        assert [hit.item_id for hit in hits] == ["red-kettle"]
        assert retriever.explain("white rake", "red-kettle").rank == 1
        retriever.add([NEW])
        assert len(retriever.search("white rake", 10, beam=600)[0]) == 2


@pytest.mark.parametrize("scheme", ["tree", "atomic"])
def test_one_item_in_other_schemes(words: Path, tmp_path: Path, scheme: str) -> None:
    recipe = small_recipe(words, f"ids.scheme={scheme}", "train.max_steps=5")
    with Retriever.build(ITEMS[:1], recipe, path=tmp_path / "a.tl") as retriever:
        assert [hit.item_id for hit in retriever.search("white rake")[0]] == ["red-kettle"]


def test_items_that_are_all_the_same(words: Path, tmp_path: Path) -> None:
    items = [ITEMS[0]._replace(id=f"same-{n}") for n in range(12)]
    with Retriever.build(items, small_recipe(words), path=tmp_path / "a.tl") as retriever:
        (hits,) = retriever.search("white rake", 20)
        assert [hit.item_id for hit in hits] == [item.id for item in items]
        assert len({hit.score for hit in hits}) == 1


def test_duplicate_ids(targets: Targets, words: Path) -> None:
    corpus = [*ITEMS, ITEMS[5]._replace(text="another text")]
    targets.refuse(corpus, small_recipe(words), DataError, "'red-brush' is given twice")


def test_duplicate_ids_in_a_file(targets: Targets, words: Path, tmp_path: Path) -> None:
    file = tmp_path / "items.jsonl"
    rows = [{"id": item.id, "text": item.text} for item in (*ITEMS, ITEMS[5])]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    targets.refuse(file, small_recipe(words), DataError, "line 43.*first on line 6")


def test_duplicate_ids_in_a_dataset_that_does_not_look(targets: Targets, words: Path) -> None:
    """Before the training, not after it."""

    class Careless:
        name = "careless"

        def items(self):
            return iter([*ITEMS, ITEMS[5]])

        def splits(self):
            return ()

        def queries(self, split):
            return iter(())

        def qrels(self, split):
            return iter(())

    seen: list[str] = []

    def watch(what: str, total: int | None):
        from trieline.watch import silent

        seen.append(what)
        return silent(what, total)

    with pytest.raises(DataError, match="'red-brush' is given twice"):
        Retriever.build(Careless(), small_recipe(words), path=targets.fresh, watch=watch)
    assert "training" not in seen
    targets.check()


def test_items_without_text(targets: Targets, words: Path) -> None:
    corpus = [*ITEMS, Item("void", text="  \n")]
    targets.refuse(corpus, small_recipe(words), DataError, "item 'void' has neither text nor title")


def test_items_without_text_in_a_file(targets: Targets, words: Path, tmp_path: Path) -> None:
    file = tmp_path / "items.jsonl"
    rows = [{"id": item.id, "text": item.text} for item in (*ITEMS, Item("void"))]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    targets.refuse(file, small_recipe(words), DataError, "line 43.*none in 'void'")


def test_an_item_with_a_title_only_is_fine(words: Path, tmp_path: Path) -> None:
    items = [*ITEMS, Item("bare", title="Golden spade")]
    with Retriever.build(items, small_recipe(words), path=tmp_path / "a.tl") as retriever:
        (hits,) = retriever.search("golden spade", 43, beam=200)
        assert "bare" in [hit.item_id for hit in hits]


# --- vectors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_embeddings(targets: Targets, bad: float) -> None:
    items = vector_items()
    queries, qrels = vector_queries(items)
    broken = items[7].embedding.copy()
    broken[3] = bad
    corpus = MemoryDataset(
        [*items[:7], items[7]._replace(embedding=broken), *items[8:]],
        {"train": queries},
        {"train": qrels},
    )
    targets.refuse(corpus, precomputed_recipe(), DimensionError, "item 'v7' has NaN or infinite")


def test_nan_embeddings_of_a_query(tmp_path: Path) -> None:
    items = vector_items()
    queries, qrels = vector_queries(items)
    corpus = MemoryDataset(items, {"train": queries}, {"train": qrels})
    with Retriever.build(corpus, precomputed_recipe(), path=tmp_path / "a.tl") as retriever:
        broken = Query("q", embedding=np.full(8, np.nan, np.float32))
        with pytest.raises(DimensionError, match="query 'q' has NaN"):
            retriever.search([queries[0], broken])


def test_dimension_mismatch(targets: Targets, tmp_path: Path) -> None:
    items = vector_items(dim=8)
    wider = vector_items(dim=9)
    queries, qrels = vector_queries(items)
    asked = {"train": queries}, {"train": qrels}
    corpus = MemoryDataset([*items[:7], wider[7], *items[8:]], *asked)
    targets.refuse(corpus, precomputed_recipe(), DimensionError, r"'v7' has shape \[9\]")
    targets.refuse(
        MemoryDataset(wider, *asked), precomputed_recipe(), DimensionError, r"expected \[9\]"
    )
    path = tmp_path / "a.tl"
    Retriever.build(MemoryDataset(items, *asked), precomputed_recipe(), path=path).close()
    with Retriever.load(path) as retriever:
        with pytest.raises(DimensionError, match=r"expected \[8\]"):
            retriever.add([wider[3]._replace(id="new")])
        with pytest.raises(DimensionError, match=r"expected \[8\]"):
            retriever.search(Query("q", embedding=wider[0].embedding))
        assert len(retriever) == 30


def test_items_without_vectors(targets: Targets) -> None:
    targets.refuse(ITEMS, precomputed_recipe(), DataError, "'red-kettle' has no vector")


def test_vectors_without_a_single_query(targets: Targets) -> None:
    targets.refuse(vector_items(), precomputed_recipe(), DataError, "nothing to train on")


# --- queries -----------------------------------------------------------------------------------


def test_over_long_query(retriever: Retriever) -> None:
    long = "red kettle boils water " * 20_000
    (hits,) = retriever.search(long, 5)
    assert len(hits) == 5
    cut = " ".join(long.split()[: retriever.recipe.encode.max_tokens])
    assert retriever.search(cut, 5) == [hits]


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_empty_query(retriever: Retriever, text: str) -> None:
    with pytest.raises(DataError, match="query '1' has no text"):
        retriever.search([ASKED, text])
    assert len(retriever.search(ASKED)[0]) == 10


def test_k_larger_than_the_corpus(retriever: Retriever) -> None:
    (hits,) = retriever.search(ASKED, 10_000)
    assert sorted(hit.item_id for hit in hits) == sorted(item.id for item in ITEMS)
    assert [hit.rank for hit in hits] == list(range(1, len(ITEMS) + 1))


@pytest.mark.parametrize(("k", "beam"), [(0, None), (-3, None), (5, -1)])
def test_k_and_beam_below_one(retriever: Retriever, k: int, beam: int | None) -> None:
    with pytest.raises(SettingsError, match="must be at least 1"):
        retriever.search(ASKED, k, beam=beam)


def test_beam_zero_is_not_the_recipes_beam(retriever: Retriever) -> None:
    for ask in (
        lambda: retriever.search(ASKED, 5, beam=0),
        lambda: retriever.explain(ASKED, "red-kettle", beam=0),
    ):
        with pytest.raises(SettingsError, match="must be at least 1"):
            ask()


# --- recipes -----------------------------------------------------------------------------------


def test_unknown_recipe_key(targets: Targets, words: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('extends = "genius"\n[decode]\nbaem = 5\n')
    targets.refuse(ITEMS, file, SettingsError, r"unknown field `baem`.*\$\.decode")
    with pytest.raises(SettingsError, match="nonsense"):
        settings = changes(words, "train.nonsense=1")
        Retriever.build(ITEMS, "genius", path=targets.fresh, settings=settings)
    targets.check()


def test_unknown_recipe(targets: Targets) -> None:
    targets.refuse(ITEMS, "geniuss", SettingsError, "no recipe named 'geniuss'. Shipped recipes:")


def test_settings_that_do_not_go_together(targets: Targets, words: Path) -> None:
    recipe = small_recipe(words, "ids.scheme=tree", "ids.modality=true")
    targets.refuse(ITEMS, recipe, SettingsError, "goes with ids.scheme='residual'")
