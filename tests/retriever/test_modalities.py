"""Texts and pictures in one corpus, with the modality as first code: asked, filtered, changed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from workshop import precomputed_recipe

from trieline.data import MemoryDataset
from trieline.errors import DataError
from trieline.retriever import Retriever
from trieline.types import Item, Qrel, Query

KINDS = ("image", "image,text", "text")  # in the order of their codes
THINGS = 12


def corpus() -> tuple[MemoryDataset, list[Query]]:
    """Every thing is there as text, as picture and as both; a query is near one of the three."""
    rng = np.random.default_rng(4)
    middle = {kind: 3 * np.eye(8)[n] for n, kind in enumerate(KINDS)}
    items, queries = [], []
    for thing in range(THINGS):
        own = rng.normal(size=8)
        for kind in KINDS:
            vector = (own + middle[kind] + 0.1 * rng.normal(size=8)).astype(np.float32)
            name = f"{kind}-{thing}"
            items.append(Item(name, embedding=vector, modality=kind, metadata={"n": thing}))
            near = (vector + 0.05 * rng.normal(size=8)).astype(np.float32)
            queries.append(Query(f"q-{name}", embedding=near, modality="text"))
    qrels = [Qrel(query.id, query.id[2:], 1) for query in queries]
    return MemoryDataset(items, {"train": queries}, {"train": qrels}, name="mixed"), queries


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mixed") / "a.tl"
    recipe = precomputed_recipe(
        "ids.modality=true",
        "train.max_steps=150",
        "train.min_steps=150",
        "train.evaluate_every=1000",
    )
    Retriever.build(corpus()[0], recipe, path=path).close()
    return path


@pytest.fixture
def mixed(folder: Path) -> Iterator[Retriever]:
    with Retriever.load(folder) as loaded:
        yield loaded


def kind_of(item_id: str) -> str:
    return item_id.rpartition("-")[0]


def test_the_first_code_is_the_modality(mixed: Retriever) -> None:
    assert mixed.docids.sizes == (3, 8, 8, 8)
    hits = mixed.search(corpus()[1][0], 36)[0]
    assert len(hits) == 36, "every item can be spelled, whatever it is"
    for hit in hits:
        assert KINDS[hit.docid[0]] == kind_of(hit.item_id)


def test_queries_decode_into_every_modality(mixed: Retriever) -> None:
    queries = corpus()[1]
    best = [hits[0].item_id for hits in mixed.search(queries, 5)]
    right_kind = [kind_of(b) == kind_of(q.id[2:]) for b, q in zip(best, queries, strict=True)]
    assert np.mean(right_kind) > 0.9, "a third is chance"
    assert {kind_of(item) for item in best} == set(KINDS)
    found = [
        q.id[2:] in [hit.item_id for hit in hits]
        for q, hits in zip(queries, mixed.search(queries, 5), strict=True)
    ]
    assert np.mean(found) > 0.7, "5 of 36 is chance"


@pytest.mark.parametrize("kind", KINDS)
def test_a_filter_keeps_to_a_modality(mixed: Retriever, kind: str) -> None:
    for query in corpus()[1][:4]:
        hits = mixed.search(query, THINGS, filter={"modality": kind})[0]
        assert {hit.item_id for hit in hits} == {f"{kind}-{n}" for n in range(THINGS)}
        assert {hit.docid[0] for hit in hits} == {KINDS.index(kind)}
        few = mixed.search(query, 9, filter={"modality": kind, "n": {">=": 10}})[0]
        assert {hit.item_id for hit in few} == {f"{kind}-10", f"{kind}-11"}


@pytest.mark.parametrize("settings", ["omega", "look", "plan"])
def test_geometry_passes_over_the_modality(folder: Path, settings: str) -> None:
    from trieline.config import apply

    changes = {
        "omega": ["decode.omega=3.0"],
        "look": ["decode.omega=3.0", 'decode.geometry="look"'],
        "plan": ['decode.plan="soft"', "decode.plan_size=5"],
    }[settings]
    with Retriever.load(folder) as loaded:
        loaded.recipe = apply(loaded.recipe, changes)
        queries = corpus()[1]
        best = [hits[0].item_id for hits in loaded.search(queries, 1)]
        assert np.mean([b == q.id[2:] for b, q in zip(best, queries, strict=True)]) > 0.6
        alone = [loaded.search(query, 1)[0][0].item_id for query in queries]
        assert alone == best


def test_items_of_a_known_modality_can_be_added(folder: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(folder, tmp_path / "b.tl")
    vector = corpus()[1][0].embedding
    with Retriever.load(tmp_path / "b.tl") as loaded:
        loaded.add([Item("image-new", embedding=vector, modality="image")])
        hits = loaded.search(Query("q", embedding=vector), 40, filter={"modality": "image"})[0]
        assert len(hits) == THINGS + 1
        assert "image-new" in {hit.item_id for hit in hits}
        with pytest.raises(DataError, match="no code for the modality 'video'"):
            loaded.add([Item("v", embedding=vector, modality="video")])
        assert len(loaded.search(Query("q", embedding=vector), 99)[0]) == 3 * THINGS + 1
