"""What must hold of item vectors before docids are learnt from them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trieline.errors import DataError, DimensionError
from trieline.types import Floats

__all__ = ["checked", "distinct", "group_sums", "sample", "unit"]

_BLOCK = 8192  # rows copied at a time


def checked(items: NDArray[np.floating], width: int | None = None) -> Floats:
    """``items`` as contiguous float32[N, D], or an error that says what is wrong with them."""
    if items.ndim != 2 or items.shape[1] == 0:
        raise DimensionError(
            f"item vectors have shape {items.shape}: expected one row an item, [items, width]."
        )
    if width is None and len(items) == 0:
        raise DataError("no items to learn docids from: the corpus is empty.")
    if width is not None and items.shape[1] != width:
        raise DimensionError(
            f"item vectors are {items.shape[1]} wide, the docids were learnt from vectors "
            f"{width} wide. Encode the items with the encoder of the index."
        )
    items = np.ascontiguousarray(items, dtype=np.float32)
    for start in range(0, len(items), _BLOCK):
        finite = np.isfinite(items[start : start + _BLOCK]).all(axis=1)
        if not finite.all():
            row = start + int(np.argmin(finite))
            raise DimensionError(
                f"the vector of item {row} (counted from 0) holds NaN or infinite values. "
                "Remove the item or encode it again."
            )
    return items


def unit(vectors: Floats) -> Floats:
    """Each of length one; a vector of zeros stays one."""
    lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors))
    made: Floats = vectors / np.maximum(lengths, np.float32(1e-12))[:, None]
    return made


def sample(items: Floats, rows: int, seed: int) -> Floats:
    """At most ``rows`` of the items, in their order."""
    if len(items) <= rows:
        return items
    chosen = np.random.default_rng(seed).choice(len(items), rows, replace=False)
    return items[np.sort(chosen)]


def distinct(items: Floats) -> NDArray[np.int64]:
    """The first row of each different vector, ascending."""
    items = np.ascontiguousarray(items + np.float32(0))  # -0.0 becomes 0.0
    keys = items.view(np.dtype((np.void, items.itemsize * items.shape[1]))).ravel()
    first: NDArray[np.int64] = np.unique(keys, return_index=True)[1]
    return np.sort(first)


def group_sums(
    items: Floats, groups: NDArray[np.integer], size: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Sum float64[size, D] and number int64[size] of the items of each group."""
    sums = np.zeros((size, items.shape[1]))
    counts = np.bincount(groups, minlength=size)
    for start in range(0, len(items), _BLOCK):
        part = groups[start : start + _BLOCK]
        order = np.argsort(part, kind="stable")
        present, first = np.unique(part[order], return_index=True)
        sums[present] += np.add.reduceat(items[start : start + _BLOCK][order], first, axis=0)
    return sums, counts
