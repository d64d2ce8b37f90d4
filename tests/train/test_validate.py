"""Validation gives the measure that a search would get."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trieline.config import DecodeSettings
from trieline.decode import beam_search
from trieline.errors import DataError
from trieline.train import Validation
from trieline.types import Qrel

QUERIES = {f"q{row}": row for row in range(36)}
ITEMS = {f"item-{number}": number for number in range(12)}
QRELS = [Qrel(f"q{row}", f"item-{row // 3}", 1) for row in range(36)]


def validation(world: Any, qrels: list[Qrel] = QRELS, **more: Any) -> Validation:
    decode = DecodeSettings(beam=4, batch=5)
    return Validation(world.questions, qrels, QUERIES, ITEMS, world.trie, decode, **more)


@pytest.mark.parametrize(("measure", "k"), [("Success@1", 1), ("R@3", 3), ("RR", 12)])
def test_the_measure_is_that_of_the_search(world: Any, measure: str, k: int) -> None:
    speller = world.new_speller()
    values = []
    for row in range(36):
        asked = world.questions.batch(np.array([row]))
        (found,) = beam_search(speller, asked, world.trie, beam=max(4, k), k=k)
        at = np.flatnonzero(found.items == row // 3)
        values.append(0.0 if not len(at) else 1 / (at[0] + 1) if measure == "RR" else 1.0)
    assert validation(world, measure=measure)(speller) == pytest.approx(np.mean(values))


def test_some_of_the_queries_the_same_every_time(world: Any) -> None:
    one, again = validation(world, most=7, seed=1), validation(world, most=7, seed=1)
    other = validation(world, most=7, seed=2)
    assert len(one.ids) == 7
    assert one.ids == again.ids != other.ids
    assert {q.query_id for q in one.qrels} == set(one.ids)
    assert len(validation(world, most=99).ids) == 36


def test_an_item_that_is_not_there_is_missed(world: Any) -> None:
    speller = world.new_speller()
    everything = validation(world, measure="R@12")(speller)
    more = [*QRELS, *(Qrel(f"q{row}", "gone", 1) for row in range(36))]
    assert everything == 1.0
    assert validation(world, more, measure="R@12")(speller) == 0.5


@pytest.mark.parametrize("qrels", [[], [Qrel("q0", "item-0", 0)], [Qrel("elsewhere", "item-0", 1)]])
def test_nothing_to_validate_with(world: Any, qrels: list[Qrel]) -> None:
    with pytest.raises(DataError, match="no judged query"):
        validation(world, qrels)
