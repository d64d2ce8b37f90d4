"""All codebooks re-estimated together, for codes that stay as they are.

Minimises  sum_i |x_i - sum_l c_{l, z_il}|^2 + pull * sum_{l, v} |c_{l,v} - a_{l,v}|^2  over the
words c, where a are the words as k-means left them: least squares, solved level by level (each
word moves by the mean of what its items still lack), which needs no matrix of all words.
The trap: without the pull the words fit the noise of the corpus. On 5,600 embedded captions,
8 x 256 codes, new items' error rose by 5 %; with pull 10 it fell, and so did the corpus's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trieline.ids.assign import reconstruct
from trieline.ids.vectors import group_sums
from trieline.types import Floats

__all__ = ["PULL", "refit"]

PULL = 10.0  # in items: a word of ten items moves half of the way
_SWEEPS = 4


def refit(
    items: Floats,
    codes: NDArray[np.integer],
    books: Sequence[Floats],
    anchors: Sequence[Floats],
    *,
    pull: float = PULL,
    sweeps: int = _SWEEPS,
) -> list[Floats]:
    """New books [V, D] for ``items`` [N, D] with ``codes`` [N, L]; unused words stay near."""
    books = [book.copy() for book in books]
    left = items - reconstruct(codes, books)
    for _ in range(sweeps):
        for level, book in enumerate(books):
            sums, counts = group_sums(left, codes[:, level], len(book))
            wish = sums + pull * (anchors[level] - book)
            step = (wish / np.maximum(counts + pull, 1.0)[:, None]).astype(np.float32)
            book += step
            left -= step[codes[:, level]]
    return books
