"""Judgements become pairs, and epochs go through them fairly."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trieline.errors import DataError
from trieline.train.pairs import Pairs, Plan, join, match
from trieline.types import Qrel

QUERIES, ITEMS = {"q0": 0, "q1": 1}, {"a": 10, "b": 11}


def pairs_of(real: list[tuple[int, int]], pseudo: list[tuple[int, int]] = ()) -> Pairs:  # type: ignore[assignment]
    table = np.array([*real, *pseudo], np.int64).reshape(-1, 2)
    return Pairs(table[:, 0], table[:, 1], np.arange(len(table)) >= len(real))


def plan_of(pairs: Pairs, share: float = 0.5, per_query: int = 0, seed: int = 0) -> Plan:
    return Plan(pairs, pseudo_share=share, per_query=per_query, seed=seed)


def test_relevant_judgements_become_pairs() -> None:
    qrels = [Qrel("q1", "a", 2), Qrel("q0", "b", 1), Qrel("q0", "a", 0), Qrel("q1", "a", 2)]
    matched = match(qrels, QUERIES, ITEMS)
    assert list(zip(matched.pairs.query, matched.pairs.item, strict=True)) == [(0, 11), (1, 10)]
    assert not matched.pairs.pseudo.any()
    assert matched[1:] == (0, 0)


def test_unknown_ids_are_counted() -> None:
    qrels = [Qrel("q0", "a", 1), Qrel("q9", "a", 1), Qrel("q0", "z", 1), Qrel("q9", "z", 1)]
    matched = match(qrels, QUERIES, ITEMS)
    assert len(matched.pairs.query) == 1
    assert matched[1:] == (2, 2)


def test_judgements_of_another_collection() -> None:
    with pytest.raises(DataError, match="1 name queries and 0 name items that are not there"):
        match([Qrel("q9", "a", 1)], QUERIES, ITEMS)


def test_no_judgements_are_no_pairs() -> None:
    assert match([], QUERIES, ITEMS).pairs.query.shape == (0,)


def test_pseudo_questions_follow_the_real_ones() -> None:
    real = match([Qrel("q1", "a", 1)], QUERIES, ITEMS).pairs
    pseudo = match([Qrel("p0", "b", 1)], {"p0": 0}, ITEMS, pseudo=True).pairs
    both = join(real, pseudo, offset=2)
    assert [part.tolist() for part in both] == [[1, 2], [10, 11], [False, True]]


def test_a_query_with_many_items_takes_turns() -> None:
    pairs = pairs_of([(0, item) for item in range(10)] + [(1, 3)])
    plan = plan_of(pairs, per_query=4)
    epochs = [plan.epoch(number) for number in range(5)]
    assert len(plan) == 5
    for epoch in epochs:
        assert Counter(pairs.query[epoch].tolist()) == {0: 4, 1: 1}
    seen = Counter(pairs.item[np.concatenate(epochs)].tolist())
    seen[3] -= 5  # query 1 has only this one
    assert set(seen.values()) == {2}  # 5 epochs x 4 = 2 rounds over 10 items


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), unique=True),
    st.lists(st.tuples(st.integers(6, 30), st.integers(0, 9)), unique=True),
    st.sampled_from([0.0, 0.3, 0.5, 0.9]),
    st.integers(0, 4),
)
def test_an_epoch_holds_what_it_should(
    real: list[tuple[int, int]], pseudo: list[tuple[int, int]], share: float, per_query: int
) -> None:
    pairs = pairs_of(real, pseudo)
    plan = plan_of(pairs, share, per_query)
    for number in (0, 3):
        epoch = plan.epoch(number)
        assert len(epoch) == len(plan)
        mine = Counter(epoch[~pairs.pseudo[epoch]].tolist())
        asked = Counter(query for query, _ in real)
        expected = {q: min(n, per_query or n) for q, n in asked.items()}
        assert Counter(pairs.query[list(mine)].tolist()) == expected
        assert set(mine.values()) <= {1}
        drawn = pairs.pseudo[epoch].sum()
        if not real:
            assert sorted(epoch) == list(range(len(pseudo)))
        elif not pseudo or not share:
            assert drawn == 0
        else:
            lonely = {item for _, item in pseudo} - {item for _, item in real}
            assert lonely <= set(pairs.item[epoch].tolist())
            assert drawn == max(round(len(mine) * share / (1 - share)), len(lonely))


def test_pseudo_pairs_take_turns() -> None:
    pairs = pairs_of([(n, 0) for n in range(6)], [(6 + n, 0) for n in range(8)])
    plan = plan_of(pairs, share=0.4)
    drawn = np.concatenate([plan.epoch(n) for n in range(2)])
    assert Counter(drawn[pairs.pseudo[drawn]].tolist()) == dict.fromkeys(range(6, 14), 1)


def test_a_lonely_item_is_asked_for_in_all_its_ways() -> None:
    pairs = pairs_of([(0, 0), (1, 0)], [(2, 5), (3, 5), (4, 5)])
    plan = plan_of(pairs, share=0.01)
    asked = {int(q) for n in range(3) for q in pairs.query[plan.epoch(n)] if q >= 2}
    assert len(plan) == 3
    assert asked == {2, 3, 4}


def test_only_pseudo_pairs_on_request() -> None:
    pairs = pairs_of([(0, 0)], [(1, 1), (2, 2)])
    assert sorted(plan_of(pairs, share=1.0).epoch(0)) == [1, 2]


def test_the_order_follows_seed_and_epoch() -> None:
    pairs = pairs_of([(n, n) for n in range(30)])
    one, other = plan_of(pairs, seed=1), plan_of(pairs, seed=2)
    later = one.epoch(5)
    assert one.epoch(0).tolist() == plan_of(pairs, seed=1).epoch(0).tolist()
    assert later.tolist() == plan_of(pairs, seed=1).epoch(5).tolist()
    assert one.epoch(0).tolist() != later.tolist()
    assert one.epoch(0).tolist() != other.epoch(0).tolist()
