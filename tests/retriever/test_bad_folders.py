"""Folders that are no index, parts that do not belong together, and disks that are full."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from targets import ASKED, Targets, full, rewrite
from workshop import (
    ITEMS,
    dataset,
    save_words,
    small_recipe,
    tree_of,
)

from trieline.catalog import database
from trieline.errors import (
    IndexFolderError,
    IndexMismatch,
    TrielineError,
)
from trieline.retriever import Retriever
from trieline.store import Draft

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
