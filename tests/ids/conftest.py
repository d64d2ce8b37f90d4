"""Vectors with something to find in them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@pytest.fixture
def clustered() -> Callable[..., Floats]:
    """clustered(items, width, seed): clusters of clusters, some larger than others."""

    def make(items: int = 600, width: int = 12, seed: int = 0) -> Floats:
        rng = np.random.default_rng(seed)
        top = rng.standard_normal((9, width))
        sub = 0.5 * rng.standard_normal((45, width))
        cluster = np.minimum(rng.geometric(0.25, items) - 1, 8)
        vectors = top[cluster] + sub[cluster * 5 + rng.integers(0, 5, items)]
        vectors += 0.25 * rng.standard_normal((items, width))
        return vectors.astype(np.float32)

    return make
