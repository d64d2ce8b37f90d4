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

from trieline.errors import MissingExtra
from trieline.ids.vectors import distinct, sample
from trieline.types import Floats

__all__ = ["POINTS_PER_CLUSTER", "cluster"]

POINTS_PER_CLUSTER = 256  # more points than this per cluster change nothing but the time


def cluster(points: Floats, size: int, *, seed: int, spherical: bool = False) -> Floats:
    """At most ``size`` centres float32[k, D] of ``points`` [n, D]; never none.

    ``spherical``: by direction alone, centres of length one.
    """
    points = sample(points, POINTS_PER_CLUSTER * size, seed)
    if spherical:
        lengths = np.sqrt(np.einsum("nd,nd->n", points, points))
        points = points / np.maximum(lengths, np.float32(1e-30))[:, None]
    different = distinct(points)
    if len(different) <= size:
        return points[different]
    if size == 1:
        return points.mean(axis=0, dtype=np.float64, keepdims=True).astype(np.float32)
    return _faiss_centres(points, size, seed, spherical)


def _faiss_centres(points: Floats, size: int, seed: int, spherical: bool) -> Floats:
    faiss = _faiss()
    how = faiss.ProgressiveDimClusteringParameters()
    how.seed = seed % (1 << 31)
    how.spherical = spherical
    how.min_points_per_centroid = 1  # otherwise it warns on stderr
    how.max_points_per_centroid = len(points)
    width = points.shape[1]
    task = faiss.ProgressiveDimClustering(width, size, how)
    task.train(len(points), faiss.swig_ptr(points), faiss.ProgressiveDimIndexFactory())
    centres: Floats = faiss.vector_to_array(task.centroids).reshape(size, width)
    return centres


def _faiss() -> Any:
    try:
        return importlib.import_module("faiss")
    except ModuleNotFoundError:
        raise MissingExtra("learnt docids", "faiss-cpu", "faiss") from None
