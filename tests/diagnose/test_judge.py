"""Figures on docids alone, against plain loops over items, prefixes and queries."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trieline.diagnose.judge import (
    Judgement,
    LevelJudgement,
    error_left,
    hit_rates,
    nearest_items,
    oracle_survival,
    read_sizes,
    schedule_of,
    schedules_table,
    written,
)
from trieline.errors import SettingsError
from trieline.evaluate.table import to_markdown
from trieline.ids import stats
from trieline.index import Trie
from trieline.types import Codes, Floats

SIZES = (3, 4, 2)
WIDTH = 5


class World:
    """A few items with vectors, some of them with two docids."""

    def __init__(self, seed: int, items: int = 20, rows: int = 26) -> None:
        rng = np.random.default_rng(seed)
        self.items = items
        self.vectors = rng.normal(size=(items, WIDTH)).astype(np.float32)
        codes = np.stack([rng.integers(0, size, rows) for size in SIZES], 1).astype(np.uint16)
        self.codes = Codes(codes, (np.arange(rows) % items).astype(np.uint32))
        self.books: list[Floats] = [rng.normal(size=(s, WIDTH)).astype(np.float32) for s in SIZES]
        self.queries = rng.normal(size=(6, WIDTH)).astype(np.float32)
        self.relevant = [rng.choice(items, 1 + n % 3, replace=False) for n in range(6)]

    def docids_of(self, item: int) -> list[tuple[int, ...]]:
        own = self.codes.owner == item
        return [tuple(docid) for docid in self.codes.codes[own].tolist()]


@pytest.mark.parametrize("seed", range(5))
def test_hit_rates_against_plain_loops(seed: int) -> None:
    world = World(seed)
    probes, k = np.array([0, 3, 4, 7, 19]), 4
    near = nearest_items(world.vectors, probes, k)
    shared = np.zeros(len(SIZES))
    for place, probe in enumerate(probes):
        apart = {
            other: float(((world.vectors[probe] - world.vectors[other]) ** 2).sum())
            for other in range(world.items)
            if other != probe
        }
        assert set(near[place].tolist()) == set(sorted(apart, key=apart.__getitem__)[:k])
        for other in near[place].tolist():
            for level in range(len(SIZES)):
                shared[level] += any(
                    mine[: level + 1] == theirs[: level + 1]
                    for mine in world.docids_of(int(probe))
                    for theirs in world.docids_of(other)
                )
    told = hit_rates(world.codes, probes, near, world.items)
    np.testing.assert_allclose(told, shared / (len(probes) * k))


def test_hit_rate_by_hand() -> None:
    vectors = np.array([[0.0], [0.1], [1.0], [1.1]], np.float32)
    codes = Codes(np.array([[0, 0], [0, 1], [1, 0], [1, 0]], np.uint16), np.arange(4, dtype="u4"))
    probes = np.arange(4)
    near = nearest_items(vectors, probes, 1)
    assert near.ravel().tolist() == [1, 0, 3, 2]
    assert hit_rates(codes, probes, near, 4) == [1.0, 0.5]
    assert nearest_items(vectors, probes, 10).shape == (4, 3), "not as many others"
    assert nearest_items(vectors[:1], np.array([0]), 3).shape == (1, 0)
    assert hit_rates(Codes(codes.codes[:1], codes.owner[:1]), probes[:1], near[:1, :0], 1) == [0, 0]


@pytest.mark.parametrize("seed", range(5))
def test_error_left_against_plain_loops(seed: int) -> None:
    world = World(seed)
    told = error_left(world.vectors, world.codes, world.books)
    assert told is not None
    items = [world.vectors[owner].astype(float) for owner in world.codes.owner]
    mean = sum(items) / len(items)
    whole = sum(((item - mean) ** 2).sum() for item in items)
    for level, share in enumerate(told):
        left = 0.0
        for item, docid in zip(items, world.codes.codes, strict=True):
            rebuilt = sum(world.books[n][docid[n]] for n in range(level + 1))
            left += ((item - rebuilt) ** 2).sum()
        assert share == pytest.approx(left / whole, rel=1e-5)
    assert error_left(world.vectors, world.codes, [0 * book for book in world.books]) is None


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("beam", [1, 3, 50])
def test_survival_against_plain_loops(seed: int, beam: int) -> None:
    world = World(seed)
    docids = sorted({docid for item in range(world.items) for docid in world.docids_of(item)})
    alive = np.zeros((2, len(world.queries), len(SIZES)))
    for way in range(2):
        for q, query in enumerate(world.queries.astype(float)):
            live: list[tuple[int, ...]] = [()]
            for level in range(len(SIZES)):
                scores: dict[tuple[int, ...], float] = {}
                for prefix in sorted({d[: level + 1] for d in docids if d[:level] in live}):
                    x = sum(world.books[n][code].astype(float) for n, code in enumerate(prefix))
                    scores[prefix] = float(query @ x if way == 0 else -((query - x) ** 2).sum())
                live = sorted(scores, key=lambda p: -scores[p])[:beam]
                alive[way, q, level] = any(
                    docid[: level + 1] in live
                    for item in world.relevant[q]
                    for docid in world.docids_of(int(item))
                )
    trie = Trie.build(world.codes, SIZES)
    told = oracle_survival(trie, world.books, world.queries, world.relevant, beam)
    np.testing.assert_allclose(told, alive.mean(axis=1))


def test_schedules() -> None:
    assert schedule_of([4, 4, 8, 9]) == "ascending"
    assert schedule_of([9, 8, 8]) == "descending"
    assert schedule_of([8, 8]) == schedule_of([8]) == "uniform"
    assert schedule_of([8, 9, 8]) == "mixed"


@settings(max_examples=50)
@given(sizes=st.lists(st.integers(2, 5), min_size=1, max_size=9))
def test_sizes_are_read_as_they_are_written(sizes: list[int]) -> None:
    assert list(read_sizes(written(sizes))) == sizes
    assert list(read_sizes(", ".join(map(str, sizes)))) == sizes


def test_sizes_by_hand() -> None:
    assert written([64, 64, 128]) == "64x2,128"
    assert read_sizes("512x4, 1024x8,2048x4") == (512,) * 4 + (1024,) * 8 + (2048,) * 4
    with pytest.raises(SettingsError, match="sizes '8,x': expected codes a level"):
        read_sizes("8,x")


def judged(*levels: Any, queries: int = 3) -> Judgement:
    world = World(0)
    return Judgement(
        sizes=SIZES,
        schedule="mixed",
        stats=stats(world.codes, SIZES),
        levels=tuple(LevelJudgement(*level) for level in levels),
        near=10,
        looked_at=20,
        queries=queries,
        asked="dev",
        beam=7,
    )


def test_told_to_programs_and_people() -> None:
    told = judged((0.5, 0.4, 0.3, 0.9, 0.8), (0.2, 0.1, 0.0, 0.7, 0.6), (0.1, 0.0, 0.0, 0.5, 0.4))
    plain = json.loads(json.dumps(told.to_json()))
    assert plain["items"] == 20 and plain["bytes"] == 6 and plain["sizes"] == [3, 4, 2]
    assert plain["bits"] == pytest.approx(np.log2(24))
    assert plain["levels"][1]["hit_rate"] == 0.1 and plain["levels"][1]["used"] == 4
    *_, knows = map(to_markdown, told.tables())
    assert "20 items; survival in a beam of 7, 3 queries (dev)" in knows
    assert "| 20.0% | 10.0% | 0.0% | 70.0% | 60.0% |" in knows
    side_by_side = to_markdown(schedules_table([told, told._replace(schedule="other")]))
    assert "| 3,4,2 | mixed | 6 | 4.6 | **10.0%** |" in side_by_side
    assert "| **90.0%** | **70.0%** | **50.0%** | **80.0%** |" in side_by_side


def test_what_is_not_known_is_not_shown_as_zero() -> None:
    blind = judged(*[(None, 0.1, 0.1, None, None)] * 3, queries=0)
    *_, knows = map(to_markdown, blind.tables())
    assert "survival" not in knows and "| – | 10.0% | 10.0% | – | – |" in knows
    assert "| – | – |" in to_markdown(schedules_table([blind]))
