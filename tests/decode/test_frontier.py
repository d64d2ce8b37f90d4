"""The frontier against a sorted list, the best items against all of them sorted."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trieline.decode.frontier import FOUND, PREFIX, Best, Frontier

BOUNDS = st.integers(-6, 0).map(float)
FAMILIES = st.lists(st.lists(BOUNDS, max_size=6), max_size=5)


def family(bounds: list[float], number: int) -> np.ndarray:
    made = np.zeros(len(bounds), PREFIX)
    made["bound"], made["slot"] = sorted(bounds, reverse=True), number
    return made


@given(FAMILIES, st.integers(1, 4), st.integers(-7, 1).map(float))
def test_the_best_come_first(families: list[list[float]], most: int, floor: float) -> None:
    frontier = Frontier()
    waiting: list[float] = []
    for number, bounds in enumerate(families):
        frontier.push(family(bounds, number))
        waiting = sorted([*waiting, *bounds], reverse=True)
        assert frontier.bound == (waiting[0] if waiting else -np.inf)
        popped = sorted(frontier.pop(most, floor)["bound"].tolist(), reverse=True)
        assert popped == [bound for bound in waiting[:most] if bound >= floor]
        waiting = waiting[len(popped) :]
    rest = sorted(frontier.pop(1000, -np.inf)["bound"].tolist(), reverse=True)
    assert rest == waiting
    assert frontier.bound == -np.inf
    assert not len(frontier.pop(1, -np.inf))


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 8), BOUNDS), max_size=6), max_size=5),
    st.integers(1, 5),
)
def test_the_best_items_are_kept(offers: list[list[tuple[int, float]]], k: int) -> None:
    best = Best(k)
    scores: dict[int, float] = {}
    for offer in offers:
        made = np.zeros(len(offer), FOUND)
        made["item"], made["score"] = [i for i, _ in offer], [s for _, s in offer]
        best.offer(made)
        for item, score in offer:
            scores[item] = max(score, scores.get(item, -np.inf))
        ranking = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
        assert best.found["item"].tolist() == [item for item, _ in ranking[:k]]
        assert best.found["score"].tolist() == [score for _, score in ranking[:k]]
        assert best.floor == (ranking[k - 1][1] if len(ranking) >= k else -np.inf)
        assert best.lost >= max((score for _, score in ranking[k:]), default=-np.inf)
