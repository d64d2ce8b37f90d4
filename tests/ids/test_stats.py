"""Figures on docids, against counting with dictionaries."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trieline.errors import IndexMismatch
from trieline.evaluate.table import to_markdown
from trieline.ids import stats
from trieline.types import Codes

SIZES = (3, 70_000, 2)
codes = st.tuples(st.integers(0, 2), st.sampled_from([0, 1, 65535]), st.integers(0, 1))
row_lists = st.lists(st.tuples(codes, st.integers(0, 12)), min_size=1, max_size=40)


def table(rows: list[tuple[tuple[int, ...], int]]) -> Codes:
    return Codes(
        np.array([docid for docid, _ in rows], np.uint16).reshape(-1, 3),
        np.array([owner for _, owner in rows], np.uint32),
    )


@given(rows=row_lists)
def test_against_dictionaries(rows: list[tuple[tuple[int, ...], int]]) -> None:
    found = stats(table(rows), SIZES)
    items = {owner for _, owner in rows}
    assert (found.items, found.rows) == (len(items), len(rows))
    for level in (1, 2, 3):
        below = defaultdict(set)
        for docid, owner in rows:
            below[docid[:level]].add(owner)
        counts = Counter(docid[level - 1] for docid, _ in rows)
        entropy = -sum(n / len(rows) * math.log2(n / len(rows)) for n in counts.values())
        crowded = {owner for owners in below.values() if len(owners) > 1 for owner in owners}
        each = found.levels[level - 1]
        assert (each.level, each.size) == (level, SIZES[level - 1])
        assert (each.used, each.prefixes) == (len(counts), len(below))
        assert each.utilisation == pytest.approx(len(counts) / SIZES[level - 1])
        assert each.entropy == pytest.approx(entropy) and each.entropy >= 0
        assert each.perplexity == pytest.approx(2**entropy)
        size = SIZES[level - 1]
        if size < 100:  # the mean difference of all pairs of codes, against twice their mean
            uses = [counts[code] for code in range(size)]
            apart = sum(abs(a - b) for a in uses for b in uses)
            assert each.gini == pytest.approx(apart / (2 * size * len(rows)))
        assert each.colliding == pytest.approx(len(crowded) / len(items))
    assert found.docids == found.levels[-1].prefixes
    assert found.collision_rate == found.levels[-1].colliding
    assert found.largest == max(map(len, below.values()))


def test_several_docids_of_one_item_do_not_collide() -> None:
    found = stats(table([((0, 0, 0), 4), ((0, 0, 0), 4), ((0, 0, 1), 4)]), SIZES)
    assert (found.items, found.docids, found.collision_rate, found.largest) == (1, 2, 0, 1)


def test_gini_by_hand() -> None:
    def gini(*uses: int) -> float:
        codes = np.repeat(np.arange(len(uses)), uses).astype(np.uint16)[:, None]
        owner = np.arange(len(codes), dtype=np.uint32)
        return stats(Codes(codes, owner), (len(uses),)).levels[0].gini

    assert gini(5, 5, 5) == 0
    assert gini(0, 4, 0, 0) == pytest.approx(0.75), "one of four codes has everything"
    assert gini(1, 3) == gini(3, 1) == pytest.approx(0.25)


def test_nothing_to_count() -> None:
    found = stats(table([]), SIZES)
    assert (found.items, found.docids, found.largest, found.collision_rate) == (0, 0, 0, 0)
    assert [each.entropy for each in found.levels] == [0, 0, 0]


def test_told_to_programs_and_to_people() -> None:
    found = stats(table([((0, 1, 0), 0), ((0, 1, 0), 1), ((2, 0, 1), 2)]), SIZES)
    told = json.loads(json.dumps(found.to_json()))
    assert told["docids"] == 2 and told["levels"][0]["used"] == 2
    whole, levels = map(to_markdown, found.tables())
    assert "| 3 | 3 | 2 | 66.7% | 2 |" in whole
    assert "| 2 | 70,000 | 2 | 0.0% | 0.92 | 1.9 | 1.000 | 2 | 66.7% |" in levels


def test_sizes_of_another_length() -> None:
    with pytest.raises(IndexMismatch, match="3 codes, but 2 sizes"):
        stats(table([]), (3, 3))
