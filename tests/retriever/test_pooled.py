"""Where dev is asked over a pool, so is the exam of a training."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from workshop import precomputed_recipe

from trieline import Retriever
from trieline.data import MemoryDataset
from trieline.types import Item, Qrel, Query

MANY = 30


def measured(tmp_path: Path, pools: dict[str, list[str]]) -> float:
    """What an all but untrained model got in its exam: one query, the answer is item 7."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(MANY + 2, 8)).astype(np.float32)
    items = [Item(f"{n}", embedding=vectors[n]) for n in range(MANY)]
    queries = {"train": [Query("t", embedding=vectors[-1])]}
    queries["dev"] = [Query("d", embedding=vectors[-2])]
    qrels = {"train": [Qrel("t", "3", 1)], "dev": [Qrel("d", "7", 1)]}
    dataset = MemoryDataset(items, queries, qrels, pools=pools)
    recipe = precomputed_recipe("train.max_steps=1", "train.min_steps=1")
    with Retriever.build(dataset, recipe, path=tmp_path / "a.tl") as built:
        found: float = built.folder.manifest.notes["training"]["measure"]
        return found


def test_the_exam_is_over_the_pool(tmp_path: Path) -> None:
    assert measured(tmp_path, {"dev": ["7"]}) == 1.0
    assert measured(tmp_path, {"dev": ["7", "9"]}) >= 0.5
    assert measured(tmp_path, {}) < 0.5
