"""Compiled loops against plain NumPy twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trieline.decode.kernels import known_norms, norms_of, scan, segment_items, segment_max


def columns_of(rows: int, sizes: list[int], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    columns = np.array([rng.integers(0, size, rows) for size in sizes], np.uint16)
    columns = columns.reshape(len(sizes), rows)
    return np.ascontiguousarray(columns[:, np.lexsort(columns[::-1])]) if sizes else columns


def starts_of(sizes: list[int]) -> np.ndarray:
    return np.cumsum([0, *sizes]).astype(np.int64)


SIZES = st.lists(st.integers(1, 5), max_size=10)


@settings(max_examples=50, deadline=None)
@given(rows=st.integers(0, 30), sizes=SIZES, normed=st.booleans(), seed=st.integers(0, 9))
def test_scan(rows: int, sizes: list[int], normed: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns, starts = columns_of(rows, sizes, seed), starts_of(sizes)
    table = rng.standard_normal(sum(sizes)).astype(np.float32)
    norms = rng.random(rows if normed else 0).astype(np.float32)
    out = np.full(rows, 7, np.float32)
    scan(columns, starts, table, norms, out)
    expected = -norms if normed else np.zeros(rows, np.float32)
    for level in range(len(sizes)):
        expected = expected + table[starts[level] + columns[level]]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("rows", [2047, 2048, 2049, 5000])
def test_scan_of_several_blocks_and_wide_levels(rows: int) -> None:
    sizes = [65536, 3, 256, 70, 9]
    columns, starts = columns_of(rows, sizes, 0), starts_of(sizes)
    table = np.random.default_rng(1).standard_normal(sum(sizes)).astype(np.float32)
    out = np.empty(rows, np.float32)
    scan(columns, starts, table, np.empty(0, np.float32), out)
    expected = sum(table[starts[level] + columns[level]] for level in range(5))
    np.testing.assert_array_equal(out, expected)


@settings(max_examples=50, deadline=None)
@given(rows=st.integers(0, 20), sizes=SIZES, seed=st.integers(0, 9))
def test_norms(rows: int, sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns, starts = columns_of(rows, sizes, seed), starts_of(sizes)
    words = rng.standard_normal((sum(sizes), 5)).astype(np.float32)
    wanted = rng.random(rows) < 0.7
    out = np.full(rows, 7, np.float32)
    norms_of(columns, starts, words, wanted, out)
    total = np.zeros((rows, 5))
    for level in range(len(sizes)):
        total += words[starts[level] + columns[level]]
    expected = np.where(wanted, (total**2).sum(axis=1), 7)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


@settings(max_examples=80, deadline=None)
@given(
    old=st.integers(0, 20), new=st.integers(0, 20), levels=st.integers(0, 4), seed=st.integers(0, 9)
)
def test_known_norms(old: int, new: int, levels: int, seed: int) -> None:
    sizes = [3] * levels
    before, after = columns_of(old, sizes, seed), columns_of(new, sizes, seed + 100)
    norm = {tuple(row): float(np.float32(at)) for at, row in enumerate(before.T.tolist())}
    norms = np.array([norm[tuple(row)] for row in before.T.tolist()], np.float32)
    out, unknown = np.full(new, -1, np.float32), np.zeros(new, bool)
    known_norms(before, norms, after, out, unknown)
    rows = [tuple(row) for row in after.T.tolist()]
    assert unknown.tolist() == [row not in norm for row in rows]
    assert out.tolist() == [norm.get(row, -1.0) for row in rows]


def drawn_segments(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    ends = np.sort(rng.integers(0, size + 1, (15, 2)), axis=1)
    return ends[:, 0].copy(), ends[:, 1].copy()


@settings(max_examples=60, deadline=None)
@given(size=st.integers(0, 40), seed=st.integers(0, 30))
def test_segments(size: int, seed: int) -> None:
    """Items of several docids count once, with the best of those in the segment."""
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal(size).astype(np.float32)
    item = rng.integers(0, 12, size)
    before = [max((i for i in range(at) if item[i] == item[at]), default=-1) for at in range(size)]
    after = [
        min((i for i in range(at + 1, size) if item[i] == item[at]), default=size)
        for at in range(size)
    ]
    links = np.array(before, np.int64), np.array(after, np.int64)
    first, end = drawn_segments(rng, size)
    found = {}
    for how in ("max", "min", "mean"):
        found[how] = np.full(len(first), 9, np.float32)
    segment_max(scores, first, end, found["max"])
    segment_items(scores, *links, first, end, True, found["min"])
    segment_items(scores, *links, first, end, False, found["mean"])
    for c, (low, high) in enumerate(zip(first.tolist(), end.tolist(), strict=True)):
        best: dict[int, float] = {}
        for at in range(low, high):
            best[int(item[at])] = max(best.get(int(item[at]), -np.inf), float(scores[at]))
        values = list(best.values()) or [9.0]
        assert found["max"][c] == max(values)
        assert found["min"][c] == min(values)
        assert found["mean"][c] == pytest.approx(float(np.mean(values)), abs=1e-5)
