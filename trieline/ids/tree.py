"""Docids by hierarchical k-means: the path to an item's cluster, then its number there.

DSI (Tay et al. 2022, section 3.2; NCI): cluster the corpus, each cluster again, and so on. A group
of no more items than the next level has branches is not split further, so branches end at unequal
depths: below the end the code 0 is forced, so that all docids are as long. The last level, of
``ids.extra`` codes, numbers the items of a group, which makes every docid unique.
The trap: codes have meaning only below their own prefix. Code 3 under 0 and code 3 under 1 have
nothing in common, and no codebook describes them (``codebooks`` is all zero).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from trieline.config import IdSettings
from trieline.ids.assign import assign
from trieline.ids.docids import (
    Arrays,
    Judged,
    fingerprint_of,
    named_array,
    one_row_an_item,
    unfitted,
)
from trieline.ids.kmeans import cluster
from trieline.ids.vectors import checked
from trieline.types import Codes, Floats
from trieline.watch import Watch, silent

__all__ = ["TreeIds"]


class TreeIds:
    """Learns the tree of centres; assigns by walking to the nearest centre at each level."""

    def __init__(self, settings: IdSettings, seed: int = 0) -> None:
        self.settings = settings
        self.seed = seed
        # Nodes level by level, the root first; the children of a node are neighbours.
        self._centres: Floats = np.zeros((0, 0), dtype=np.float32)  # [nodes, D]
        self._first: NDArray[np.int64] = np.zeros(0, dtype=np.int64)  # [nodes] first child
        self._children: NDArray[np.int64] = np.zeros(0, dtype=np.int64)  # [nodes] 0: a leaf

    @property
    def sizes(self) -> tuple[int, ...]:
        return (*self.settings.sizes, self.settings.extra)

    @property
    def codebooks(self) -> list[Floats]:
        self._need_tree()
        return [np.zeros((size, self._centres.shape[1]), dtype=np.float32) for size in self.sizes]

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.settings, self.arrays())

    def fit(
        self,
        items: Floats,
        *,
        labels: Sequence[str] | None = None,
        judged: Judged | None = None,
        watch: Watch = silent,
    ) -> Self:
        items = checked(items)
        centres = [np.zeros((1, items.shape[1]), dtype=np.float32)]
        first, children = [0], [0]
        groups = [(0, np.arange(len(items)))]  # node, its items
        with watch("growing the tree", len(self.settings.sizes)) as task:
            for size in self.settings.sizes:
                next_groups = []
                for node, rows in groups:
                    if len(rows) <= size:
                        continue
                    found, parts = self._split(items[rows], size, self.seed + node)
                    if len(found) < 2:
                        continue
                    first[node], children[node] = len(first), len(found)
                    next_groups += [(len(first) + i, rows[p]) for i, p in enumerate(parts)]
                    first += [0] * len(found)
                    children += [0] * len(found)
                    centres.append(found)
                groups = next_groups
                task.advance(note=f"{len(groups)} groups")
        self._centres = np.concatenate(centres)
        self._first, self._children = np.array(first), np.array(children)
        return self

    def project(self, vectors: Floats) -> Floats:
        return vectors

    def assign(self, items: Floats, *, labels: Sequence[str] | None = None) -> Codes:
        self._need_tree()
        items = checked(items, self._centres.shape[1])
        codes = np.zeros((len(items), len(self.sizes)), dtype=np.uint16)
        at = np.zeros(len(items), dtype=np.int64)  # node
        for level in range(len(self.settings.sizes)):
            order = np.argsort(at, kind="stable")
            nodes, starts = np.unique(at[order], return_index=True)
            for node, rows in zip(nodes, np.split(order, starts[1:]), strict=False):
                if self._children[node] == 0:
                    continue
                low = self._first[node]
                book = self._centres[low : low + self._children[node]]
                codes[rows, level] = assign(items[rows], [book], metric=self.settings.metric)[:, 0]
                at[rows] = low + codes[rows, level]
        return one_row_an_item(codes)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        self._need_tree()
        return {
            "centres": self._centres,
            "first": self._first,
            "children": self._children,
            "seed": np.array([self.seed], dtype=np.int64),
        }

    @classmethod
    def from_arrays(cls, settings: IdSettings, arrays: Arrays) -> Self:
        """The inverse of ``arrays``."""
        loaded = cls(settings, int(named_array(arrays, "seed").astype(np.int64)[0]))
        loaded._centres = named_array(arrays, "centres").astype(np.float32)
        loaded._first = named_array(arrays, "first").astype(np.int64)
        loaded._children = named_array(arrays, "children").astype(np.int64)
        return loaded

    def _split(self, items: Floats, size: int, seed: int) -> tuple[Floats, list[NDArray[np.intp]]]:
        """Centres of the groups that have items, and the rows of each."""
        metric = self.settings.metric
        centres = cluster(items, size, seed=seed, spherical=metric == "cosine")
        codes = assign(items, [centres], metric=metric)[:, 0]
        used = np.unique(codes)
        return centres[used], [np.flatnonzero(codes == code) for code in used]

    def _need_tree(self) -> None:
        if not len(self._centres):
            raise unfitted()
