"""Items that nobody asked for are found by what was borrowed from items like them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from workshop import SMALL, precomputed_recipe

from trieline import Retriever
from trieline.config import load_recipe
from trieline.data import MemoryDataset
from trieline.errors import SettingsError
from trieline.evaluate import score
from trieline.types import Item, Qrel, Query

GROUPS, MEMBERS, WIDTH = 3, 20, 12


def corpus() -> tuple[MemoryDataset, list[Query], list[Qrel]]:
    """Groups of items; queries lie where a step that is the group's own leads from their item. Of
    each group only the first half is asked for in training, the others later."""
    rng = np.random.default_rng(5)
    items, asked, later = [], [], []
    known, wanted = [], []
    for group in range(GROUPS):
        centre, step = rng.normal(size=(2, WIDTH))
        for member in range(MEMBERS):
            vector = centre + 0.7 * rng.normal(size=WIDTH)
            items.append(Item(f"{group}-{member}", embedding=vector.astype(np.float32)))
            for turn in range(2):
                near = vector + 1.5 * step + 0.05 * rng.normal(size=WIDTH)
                query = Query(f"{group}-{member}?{turn}", embedding=near.astype(np.float32))
                told = Qrel(query.id, items[-1].id, 1)
                first = member < MEMBERS // 2
                (asked if first else later).append(query)
                (known if first else wanted).append(told)
    return MemoryDataset(items, {"train": asked}, {"train": known}), later, wanted


def found(tmp_path: Path, *changes: str) -> float:
    """Success@1 of the model alone on what was not asked for in training."""
    dataset, later, wanted = corpus()
    recipe = precomputed_recipe(
        "train.max_steps=250", "train.min_steps=250", "train.evaluate_every=1000", *changes
    )
    with Retriever.build(dataset, recipe, path=tmp_path / f"{len(changes)}.tl") as retriever:
        return score(retriever.run(later, 5), wanted, ["Success@1"]).means["Success@1"]


def test_borrowed_queries_find_what_nobody_asked_for(tmp_path: Path) -> None:
    without = found(tmp_path, "train.itself=true")
    assert found(tmp_path, "train.itself=true", "train.borrowed=6") > without + 0.15


def test_an_index_can_be_built_of_vectors_alone(tmp_path: Path) -> None:
    """No query at all: items ask for themselves."""
    items = list(corpus()[0].items())
    recipe = precomputed_recipe("train.itself=true", "train.max_steps=250", "train.min_steps=250")
    with Retriever.build(items, recipe, path=tmp_path / "a.tl") as retriever:
        queries = [Query(item.id, embedding=item.embedding) for item in items]
        qrels = [Qrel(item.id, item.id, 1) for item in items]
        assert score(retriever.run(queries, 1), qrels, ["Success@1"]).means["Success@1"] > 0.8


def test_token_readers_have_no_use_for_vectors(tmp_path: Path) -> None:
    recipe = load_recipe("genius", [*SMALL, "model.query=tokens", "train.borrowed=2"])
    items = [Item("a", "red kettle"), Item("b", "blue rake")]
    with pytest.raises(SettingsError, match=r"train\.borrowed=0"):
        Retriever.build(items, recipe, path=tmp_path / "a.tl")
