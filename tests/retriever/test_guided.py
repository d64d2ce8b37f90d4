"""Guides through the public door: settings of the recipe, changed on an open index."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from workshop import ITEMS, NEW, dataset

from trieline.config import apply
from trieline.retriever import Retriever

ASKED = ["red kettle boils water", "blue lamp", "golden ladder"]
WIDE = ["decode.beam=500"]


def scored(retriever: Retriever, *changes: str, k: int = 50) -> list[dict[str, float]]:
    retriever.recipe = apply(retriever.recipe, [*WIDE, *changes])
    return [{hit.item_id: hit.score for hit in hits} for hits in retriever.search(ASKED, k)]


def test_looking_ahead_gives_the_scores_of_voting(retriever: Retriever) -> None:
    voted = scored(retriever, "decode.omega=4.0")
    looked = scored(retriever, "decode.geometry=look")
    assert voted != scored(retriever, "decode.omega=0.0")
    for one, other in zip(voted, looked, strict=True):
        assert one == pytest.approx(other, abs=1e-3)


def test_standardised_votes_are_other_votes(retriever: Retriever) -> None:
    assert scored(retriever, "decode.omega=4.0") != scored(retriever, "decode.standardise=true")


@pytest.mark.parametrize("reduce", ["max", "mean", "min"])
def test_a_hard_plan_of_five(retriever: Retriever, reduce: str) -> None:
    hard = scored(
        retriever, "decode.plan=hard", "decode.plan_size=5", f"decode.plan_reduce={reduce}"
    )
    soft = scored(retriever, "decode.plan=soft")
    for planned, everything in zip(hard, soft, strict=True):
        assert 5 <= len(planned) < len(everything) == len(ITEMS)
        for item, score in planned.items():
            assert everything[item] == pytest.approx(score, abs=1e-4)


def test_planned_items_are_the_nearest_by_their_codes(retriever: Retriever) -> None:
    (hits, *_) = scored(retriever, "decode.plan=hard", "decode.plan_size=5")
    codes, owner = retriever.catalog.codes()
    words = retriever.docids.codebooks
    near = sum(book[codes[:, level]] for level, book in enumerate(words))
    query = retriever.encoder.encode(
        [next(iter(dataset().queries("test")))._replace(text=ASKED[0])]
    )
    distance = ((near - query) ** 2).sum(axis=1)
    order = np.argsort(distance, kind="stable")
    within = distance <= distance[order[4]] + 1e-5
    numbers = retriever.catalog.numbers(sorted(hits)).tolist()
    assert sorted(owner[within].tolist()) == sorted(numbers)


def test_an_added_item_can_be_planned_and_a_removed_one_not(retriever: Retriever) -> None:
    changes = ("decode.plan=hard", "decode.plan_size=4")
    scored(retriever, *changes)
    retriever.add([NEW])
    (hits,) = retriever.search(NEW.text, 60)
    assert NEW.id in [hit.item_id for hit in hits]
    retriever.remove([NEW.id])
    (hits,) = retriever.search(NEW.text, 60)
    assert NEW.id not in [hit.item_id for hit in hits]
    assert len(hits) >= 4


def test_a_filter_and_a_plan(retriever: Retriever) -> None:
    """Planned among those that the filter leaves, so that k can be filled."""
    scored(retriever, "decode.plan=hard", "decode.plan_size=3")
    blue = [item.id for item in ITEMS if item.id.startswith("blue")]
    (hits,) = retriever.search("red kettle", 10, filter=blue)
    assert len(hits) >= 3
    assert {hit.item_id for hit in hits} <= set(blue)


def test_explained_and_counted(retriever: Retriever) -> None:
    scored(retriever, "decode.plan=soft", "decode.omega=1.0")
    (hits,) = retriever.search(ASKED[0], 3)
    told = retriever.explain(ASKED[0], hits[1].item_id)
    assert told.rank == 2
    queries, qrels = list(dataset().queries("test")), list(dataset().qrels("test"))
    assert retriever.survival(queries, qrels).levels == (1.0, 1.0, 1.0)
