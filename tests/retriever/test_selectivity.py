"""Filters that leave half of ten thousand items, a hundred of them, and one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from workshop import precomputed_recipe, vector_items

from trieline.build import write_index
from trieline.encode import open_encoder
from trieline.ids import ResidualIds
from trieline.model import build_speller
from trieline.retriever import Retriever
from trieline.types import Codes, Hit, Item, Query

COUNT, EVERY = 10_000, {"half": 2, "hundredth": 100, "one": 10_000}
QUERIES = [Query(item.id, embedding=item.embedding) for item in vector_items(3, seed=7)]


def facts(number: int) -> dict[str, Any]:
    return {name: number % every == 1 for name, every in EVERY.items()}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Retriever]:
    """Random docids, many of them shared, and a model that has learnt nothing."""
    recipe, path = precomputed_recipe(), tmp_path_factory.mktemp("large") / "a.tl"
    sample = np.stack([item.embedding for item in vector_items(200) if item.embedding is not None])
    docids = ResidualIds(recipe.ids, 0).fit(sample)
    table = np.random.default_rng(0).integers(0, 8, (COUNT, 3)).astype(np.uint16)
    write_index(
        path,
        recipe=recipe,
        docids=docids,
        encoder=open_encoder(recipe.encode, None, dim=8),
        speller=build_speller(recipe.model, docids.sizes, 8, None, seed=0),
        items=(Item(f"{n}", metadata=facts(n)) for n in range(COUNT)),
        codes=Codes(table, np.arange(COUNT, dtype=np.uint32)),
        notes={},
    )
    with Retriever.load(path) as opened:
        yield opened


def filters(name: str) -> list[Any]:
    """The same filter in all its forms."""
    allowed = np.array([facts(n)[name] for n in range(COUNT)])
    return [{name: True}, allowed, [f"{n}" for n in np.flatnonzero(allowed)]]


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("beam", [1, 10, 60])
def test_k_items_come_back_wherever_k_qualify(large: Retriever, name: str, beam: int) -> None:
    there = COUNT // EVERY[name]
    answers = [large.search(QUERIES, 10, beam=beam, filter=filter) for filter in filters(name)]
    assert answers[0] == answers[1] == answers[2]
    for hits in answers[0]:
        assert len(hits) == len({hit.item_id for hit in hits}) == min(10, there)
        assert all(facts(int(hit.item_id))[name] for hit in hits)


@pytest.mark.parametrize("name", EVERY)
def test_what_is_found_is_the_best_of_what_qualifies(large: Retriever, name: str) -> None:
    """A beam as wide as there are docids scores everything: the oracle is a plain selection."""
    whole = large.search(QUERIES, COUNT, beam=600)
    for every, some in zip(
        whole, large.search(QUERIES, 20, beam=600, filter={name: True}), strict=True
    ):
        assert len(every) == COUNT
        expected = [hit for hit in every if facts(int(hit.item_id))[name]][: len(some)]
        assert [docid_and_score(hit) for hit in some] == [docid_and_score(hit) for hit in expected]
        assert [hit.item_id for hit in some] == [hit.item_id for hit in expected]


def docid_and_score(hit: Hit) -> tuple[Any, Any]:
    return hit.docid, pytest.approx(hit.score, abs=1e-4)
