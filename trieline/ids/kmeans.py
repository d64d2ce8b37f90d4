"""k-means for any number of clusters and any number of points, silent and seeded.

faiss does the work: dimensions are brought in step by step along the principal axes
(progressive-dimension clustering), without which the later levels of a residual quantiser collapse.
The trap: faiss refuses fewer points than clusters and splits clusters of equal points at random;
both are answered here by using the different points themselves, so fewer clusters may come back.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from trieline.ids.vectors import distinct, sample
from trieline.types import Floats

__all__ = ["cluster", "enough"]


def enough(size: int) -> int:
    """More points than this change nothing about ``size`` clusters but the time."""
    return 256 * max(size, 64)


def cluster(points: Floats, size: int, *, seed: int, spherical: bool = False) -> Floats:
    """At most ``size`` centres float32[k, D] of ``points`` [n, D]; never none.

    ``spherical``: by direction alone, centres of length one.
    """
    points = sample(points, enough(size), seed)
    if spherical:
        lengths = np.sqrt(np.einsum("nd,nd->n", points, points))
        points = points / np.maximum(lengths, np.float32(1e-30))[:, None]
    different = distinct(points)
    if len(different) <= size:
        return points[different]
    if size == 1:
        return np.asarray(points.mean(axis=0, dtype=np.float64, keepdims=True), np.float32)
    return _faiss_centres(points, size, seed, spherical)


def _faiss_centres(points: Floats, size: int, seed: int, spherical: bool) -> Floats:
    faiss: Any = importlib.import_module("faiss")  # its type stubs do not fit what it does
    how = faiss.ProgressiveDimClusteringParameters()
    how.seed = seed % (1 << 31)
    how.spherical = spherical
    how.min_points_per_centroid = 1  # otherwise it warns on stderr
    how.max_points_per_centroid = len(points)
    axes = None
    if spherical or len(points) <= points.shape[1]:
        # Its own principal axes are centred, which moves directions, and need more points.
        axes = _axes(points)
        points = np.ascontiguousarray(points @ axes.T)
        how.apply_pca = False
    width = points.shape[1]
    task = faiss.ProgressiveDimClustering(width, size, how)
    task.train(len(points), faiss.swig_ptr(points), faiss.ProgressiveDimIndexFactory())
    centres: Floats = faiss.vector_to_array(task.centroids).reshape(size, width)
    return centres if axes is None else centres @ axes


def _axes(points: Floats) -> Floats:
    """Orthogonal directions [min(n, D), D] that hold all of ``points``, the widest first."""
    if len(points) <= points.shape[1]:
        return np.asarray(np.linalg.svd(points, full_matrices=False)[2], np.float32)
    return np.ascontiguousarray(np.linalg.eigh(points.T @ points)[1][:, ::-1].T)
