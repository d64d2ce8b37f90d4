"""Clusters of few, of equal and of plenty of points, without a word on the terminal."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from trieline.ids.kmeans import cluster
from trieline.ids.vectors import distinct, group_sums, sample

Floats = NDArray[np.float32]


def error(points: Floats, centres: Floats) -> float:
    return float(((points[:, None] - centres) ** 2).sum(axis=2).min(axis=1).mean())


@pytest.mark.parametrize(("items", "size"), [(600, 32), (70, 64), (65, 64), (40, 2), (600, 1)])
@pytest.mark.parametrize("width", [1, 2, 12, 200])
def test_centres_are_as_many_as_asked_for_and_silent(
    items: int,
    size: int,
    width: int,
    clustered: Callable[..., Floats],
    capfd: pytest.CaptureFixture[str],
) -> None:
    points = clustered(items, width)
    centres = cluster(points, size, seed=3)
    assert centres.shape == (size, width) and centres.dtype == np.float32
    spread = float(((points - points.mean(axis=0)) ** 2).sum(axis=1).mean())
    assert error(points, centres) <= spread * 1.001
    assert capfd.readouterr() == ("", "")


def test_as_good_as_random_centres_and_better(clustered: Callable[..., Floats]) -> None:
    points = clustered(600, 12)
    chosen = points[np.random.default_rng(0).choice(600, 40, replace=False)]
    assert error(points, cluster(points, 40, seed=0)) < 0.8 * error(points, chosen)


def test_fewer_points_than_clusters_are_the_centres(clustered: Callable[..., Floats]) -> None:
    points = clustered(5, 4)
    np.testing.assert_array_equal(cluster(points, 8, seed=0), points)


def test_equal_points_are_one_centre() -> None:
    points = np.tile(np.array([[1.0, 2.0]], np.float32), (500, 1))
    np.testing.assert_array_equal(cluster(points, 8, seed=0), points[:1])


def test_the_seed_decides(clustered: Callable[..., Floats]) -> None:
    points = clustered(400, 6)
    first, again, other = (cluster(points, 16, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_directions_have_length_one(clustered: Callable[..., Floats]) -> None:
    centres = cluster(clustered(400, 6), 16, seed=0, spherical=True)
    np.testing.assert_allclose(np.linalg.norm(centres, axis=1), 1, rtol=1e-5)


def test_distinct_tells_zeros_apart_from_nothing() -> None:
    items = np.array([[0.0, 1.0], [-0.0, 1.0], [2.0, 0.0], [0.0, 1.0]], np.float32)
    assert distinct(items).tolist() == [0, 2]


def test_group_sums_over_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    from trieline.ids import vectors

    monkeypatch.setattr(vectors, "_BLOCK", 7)
    rng = np.random.default_rng(0)
    items, groups = rng.standard_normal((50, 3)).astype(np.float32), rng.integers(0, 6, 50)
    sums, counts = group_sums(items, groups, 8)
    for group in range(8):
        np.testing.assert_allclose(sums[group], items[groups == group].sum(axis=0), atol=1e-5)
        assert counts[group] == (groups == group).sum()


def test_a_sample_keeps_the_order() -> None:
    items = np.arange(100, dtype=np.float32)[:, None]
    taken = sample(items, 10, seed=0)[:, 0]
    assert len(taken) == 10 and (np.diff(taken) > 0).all()
    assert sample(items, 100, seed=0) is items
