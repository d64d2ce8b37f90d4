"""What goes wrong is told clearly, and leaves nothing half written behind."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from workshop import (
    ITEMS,
    NEW,
    changes,
    dataset,
    precomputed_recipe,
    save_words,
    small_recipe,
    tree_of,
    vector_items,
    vector_queries,
)

from trieline.catalog import database
from trieline.config import Recipe
from trieline.data import MemoryDataset
from trieline.errors import (
    DataError,
    DimensionError,
    IndexFolderError,
    IndexMismatch,
    SettingsError,
    TrielineError,
)
from trieline.retriever import Retriever
from trieline.store import Draft
from trieline.store.disk import seal
from trieline.types import Item, Query

ASKED = "red kettle boils water"


class Targets:
    """A place where nothing is and a place where an index is; a failed build changes neither."""

    def __init__(self, fresh: Path, old: Path) -> None:
        self.fresh, self.old = fresh, old
        self._before = tree_of(old)

    def refuse(
        self, corpus: Any, recipe: str | Path | Recipe, error: type[TrielineError], why: str
    ) -> None:
        """The build fails with this error at both places."""
        for path in (self.fresh, self.old):
            with pytest.raises(error, match=why):
                Retriever.build(corpus, recipe, path=path)
        self.check()

    def check(self) -> None:
        assert not self.fresh.exists()
        left = tree_of(self.old)
        for name, content in self._before.items():
            if name != "lock":
                assert left[name] == content, name
        assert left.keys() - self._before.keys() <= {"lock"}
        with Retriever.load(self.old) as retriever:
            assert len(retriever.search(ASKED)[0]) == 10


@pytest.fixture
def targets(built: Path, tmp_path: Path) -> Targets:
    shutil.copytree(built, tmp_path / "old.tl")
    return Targets(tmp_path / "fresh.tl", tmp_path / "old.tl")


def rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a manifest as nobody should, and seal it again."""
    file = path / "manifest.json"
    tree = json.loads(file.read_text("utf-8"))
    change(tree)
    tree["seal"] = seal(tree)
    file.write_text(json.dumps(tree), encoding="utf-8")


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


# --- folders -----------------------------------------------------------------------------------


def test_foreign_folder_as_index(tmp_path: Path, words: Path) -> None:
    with pytest.raises(IndexFolderError, match="there is no such folder"):
        Retriever.load(tmp_path / "nowhere.tl")
    foreign = tmp_path / "photos"
    foreign.mkdir()
    (foreign / "cat.jpg").write_bytes(b"meow")
    with pytest.raises(IndexFolderError, match="is not a trieline index"):
        Retriever.load(foreign)
    with pytest.raises(IndexFolderError, match="will not be overwritten"):
        Retriever.build(ITEMS, small_recipe(words), path=foreign)
    (foreign / "manifest.json").write_text('{"name": "my app"}')
    for attempt in (
        lambda: Retriever.load(foreign),
        lambda: Retriever.build(ITEMS, small_recipe(words), path=foreign),
    ):
        with pytest.raises(IndexFolderError, match="belongs to another program"):
            attempt()
    assert tree_of(foreign).keys() == {"cat.jpg", "manifest.json"}


def test_a_target_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, words: Path
) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    seen: list[str] = []

    def watch(what: str, total: int | None):
        from trieline.watch import silent

        seen.append(what)
        return silent(what, total)

    with pytest.raises(IndexFolderError, match="expected a folder, got a file"):
        Retriever.build(ITEMS, small_recipe(words), path=file, watch=watch)
    assert file.read_text() == "mine"
    assert "training" not in seen


@pytest.mark.parametrize(
    "name", ["manifest.json", "model.safetensors", "docids.safetensors", "catalog.sqlite"]
)
@pytest.mark.parametrize("left", [0.0, 0.5])
def test_truncated_index_folder(built: Path, tmp_path: Path, name: str, left: float) -> None:
    path = tmp_path / "cut.tl"
    shutil.copytree(built, path)
    file = next(path.rglob(name))
    os.truncate(file, int(file.stat().st_size * left))
    with pytest.raises(IndexFolderError), Retriever.load(path) as retriever:
        retriever.search(ASKED)


@pytest.mark.parametrize(
    "name", ["manifest.json", "model.safetensors", "docids.safetensors", "catalog.sqlite"]
)
def test_an_index_folder_that_lacks_a_file(built: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / "cut.tl"
    shutil.copytree(built, path)
    next(path.rglob(name)).unlink()
    with pytest.raises(IndexFolderError):
        Retriever.load(path)


def test_a_damaged_trie_is_made_again(built: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.tl"
    shutil.copytree(built, path)
    with Retriever.load(built) as whole:
        expected = whole.search(ASKED)
    for file in path.rglob("derived/trie.*/*.npy"):
        os.truncate(file, file.stat().st_size // 2)
    with Retriever.load(path) as retriever:
        assert retriever.search(ASKED) == expected
    shutil.rmtree(next(path.rglob("derived")))
    with Retriever.load(path) as retriever:
        assert retriever.search(ASKED) == expected


# --- parts that do not belong together ---------------------------------------------------------


def test_model_and_index_that_do_not_match(built: Path, words: Path, tmp_path: Path) -> None:
    other, mixed = tmp_path / "other.tl", tmp_path / "mixed.tl"
    recipe = small_recipe(words, "ids.sizes=[8, 8]", "train.max_steps=5", "train.min_steps=5")
    Retriever.build(dataset(), recipe, path=other).close()
    shutil.copytree(built, mixed)
    source, target = (next(p.rglob("model.safetensors")) for p in (other, mixed))
    shutil.copy(source, target)
    with pytest.raises(
        IndexFolderError, match="damaged index.*model.safetensors.*'trieline build'"
    ):
        Retriever.load(mixed)
    records = json.loads((other / "manifest.json").read_text())["files"]

    def forge(tree: dict[str, Any]) -> None:
        tree["files"]["model.safetensors"] = records["model.safetensors"]

    rewrite(mixed, forge)
    with pytest.raises(IndexMismatch, match="Rebuild with 'trieline build'"):
        Retriever.load(mixed)


def test_a_catalog_from_another_index(built: Path, words: Path, tmp_path: Path) -> None:
    other, mixed = tmp_path / "other.tl", tmp_path / "mixed.tl"
    Retriever.build(dataset(), small_recipe(words, "train.seed=5"), path=other).close()
    shutil.copytree(built, mixed)
    shutil.copy(*(next(p.rglob("catalog.sqlite")) for p in (other, mixed)))
    with pytest.raises(IndexMismatch, match="the index was built with docids"):
        Retriever.load(mixed)


def test_a_catalog_that_another_model_spells(built: Path, words: Path, tmp_path: Path) -> None:
    other, mixed = tmp_path / "other.tl", tmp_path / "mixed.tl"
    Retriever.build(dataset(), small_recipe(words, "train.lr=0.02"), path=other).close()
    shutil.copytree(built, mixed)
    shutil.copy(*(next(p.rglob("catalog.sqlite")) for p in (other, mixed)))
    with pytest.raises(IndexMismatch, match="the index was built with model"):
        Retriever.load(mixed)


def test_another_encoder(words: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    own, path = save_words(tmp_path / "words"), tmp_path / "a.tl"
    Retriever.build(dataset(), small_recipe(own), path=path).close()
    table = load_file(own / "model.safetensors")["embeddings"]
    save_file({"embeddings": table * 2 + 1}, own / "model.safetensors")
    with pytest.raises(IndexMismatch, match="built with encoder static .*bring back the encoder"):
        Retriever.load(path)
    shutil.rmtree(own)
    with pytest.raises(TrielineError, match=str(own)):
        Retriever.load(path)


@pytest.mark.parametrize(
    ("room", "key", "value"),
    [
        ("ids", "metric", "cosine"),
        ("ids", "sizes", [8, 8]),
        ("model", "width", 32),
        ("model", "decoder_layers", 2),
        ("model", "query", "history"),
    ],
)
def test_another_recipe(built: Path, tmp_path: Path, room: str, key: str, value: Any) -> None:
    path = tmp_path / "a.tl"
    shutil.copytree(built, path)
    rewrite(path, lambda tree: tree["recipe"][room].update({key: value}))
    with pytest.raises(IndexMismatch, match="Rebuild with 'trieline build'"):
        Retriever.load(path)


# --- full disks --------------------------------------------------------------------------------


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("calls", [1, 2, 4, 8, 12])
def test_disk_full_while_saving(
    targets: Targets, words: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    """Whichever file is the one that finds no room any more."""
    recipe = small_recipe(words, "train.max_steps=5", "train.min_steps=5")
    fsync, left = os.fsync, 0

    def fills_up(handle: int) -> None:
        nonlocal left
        left -= 1
        (fsync if left >= 0 else full)(handle)

    with monkeypatch.context() as patch:
        patch.setattr("trieline.store.disk.os.fsync", fills_up)
        for path in (targets.fresh, targets.old):
            left = calls
            with pytest.raises(IndexFolderError, match="No space left.*before is unchanged"):
                Retriever.build(dataset(), recipe, path=path)
            assert left < 0
    targets.check()


@pytest.mark.parametrize("part", ["save_arrays", "save_derived"])
def test_disk_full_before_a_part_is_there(
    targets: Targets, words: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    recipe = small_recipe(words, "train.max_steps=5", "train.min_steps=5")
    with monkeypatch.context() as patch:
        patch.setattr(Draft, part, full)
        for path in (targets.fresh, targets.old):
            with pytest.raises(IndexFolderError, match="No space left.*before is unchanged"):
                Retriever.build(dataset(), recipe, path=path)
    targets.check()


def test_disk_full_in_the_catalog(
    targets: Targets, words: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure = database._configure

    def small_disk(writer: sqlite3.Connection) -> None:
        configure(writer)
        writer.execute("PRAGMA max_page_count = 8")

    recipe = small_recipe(words, "train.max_steps=5", "train.min_steps=5")
    large = [item._replace(metadata={"notes": "x" * 5000}) for item in ITEMS]
    with monkeypatch.context() as patch:
        patch.setattr(database, "_configure", small_disk)
        for path in (targets.fresh, targets.old):
            with pytest.raises(IndexFolderError, match="disk is full"):
                Retriever.build(large, recipe, path=path)
    targets.check()


def test_disk_full_while_adding(retriever: Retriever, monkeypatch: pytest.MonkeyPatch) -> None:
    """The items are durable once the catalog has them; a trie that lags behind is made again."""
    with monkeypatch.context() as patch:
        patch.setattr("trieline.store.folder.write_derived", full)
        assert retriever.add([NEW]) == 1
        assert retriever.remove(["red-kettle"]) == 1
    expected = retriever.search(ASKED, 60, beam=200)
    assert NEW.id in [hit.item_id for hit in expected[0]]
    with Retriever.load(retriever.folder.path) as again:
        assert again.search(ASKED, 60, beam=200) == expected
    retriever.add([NEW._replace(id="second-spade")])
    assert len(retriever) == len(ITEMS) + 1
