"""The trie: which docids exist, what may follow a prefix, and which items a docid stands for.

A trie is never changed: ``insert``, ``remove`` and ``restrict`` give a new one, so searches that
run meanwhile see one consistent state.

Trap: a node number means something only at its level and in the trie that gave it. Only the root
is known beforehand: node 0 of level 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trieline.errors import IndexMismatch
from trieline.index.descent import insertion_rows, walk
from trieline.index.layout import (
    Ints,
    Layout,
    child_ranges,
    codes_of,
    docid_ranges,
    lay_out,
    spread,
)
from trieline.index.rows import check_codes, check_sizes, sort_rows
from trieline.index.stored import check_arrays
from trieline.types import Codes

__all__ = ["Children", "Found", "Trie"]


class Children(NamedTuple):
    """What may follow some nodes, ordered by parent position and then code."""

    parents: Ints  # [C] position in the nodes that were asked for
    codes: Ints  # [C]
    nodes: Ints  # [C] node numbers at the next level


class Found(NamedTuple):
    """The items behind some leaves, ordered by leaf position and then item number."""

    items: NDArray[np.uint32]  # [M] item numbers
    leaves: Ints  # [M] position in the leaves that were asked for


class Trie:
    """The docids that may be spelled. A set of (docid, item) pairs: repeated rows count once."""

    __slots__ = ("__weakref__", "_layout", "sizes")

    def __init__(self, sizes: tuple[int, ...], layout: Layout) -> None:
        """For ``build`` and ``from_arrays``."""
        self.sizes = sizes
        self._layout = layout

    @classmethod
    def build(cls, codes: Codes, sizes: Sequence[int]) -> Self:
        """From rows in any order, repeated or not; no rows give a trie that spells nothing."""
        checked = check_sizes(sizes)
        check_codes(codes, checked)
        return cls._of_sorted(checked, sort_rows(codes, checked))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], sizes: Sequence[int]) -> Self:
        """From what ``arrays`` gave; memory-mapped arrays stay on disk and are not copied."""
        checked = check_sizes(sizes)
        return cls(checked, check_arrays(arrays, checked))

    @classmethod
    def _of_sorted(cls, sizes: tuple[int, ...], rows: Codes) -> Self:
        layout = lay_out(rows)
        for array in layout:
            array.flags.writeable = False
        return cls(sizes, layout)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything needed to make this trie again, for ``np.save``; not copies."""
        return self._layout._asdict()

    @property
    def depth(self) -> int:
        """Levels of a docid, ``L``."""
        return len(self.sizes)

    @property
    def rows(self) -> int:
        """Rows, ``R``: (docid, item) pairs."""
        return len(self._layout.owner)

    @property
    def docids(self) -> int:
        """Distinct docids."""
        return self._layout.docids

    def __len__(self) -> int:
        """Distinct docids."""
        return self.docids

    @property
    def codes(self) -> NDArray[np.uint16]:
        """uint16[R, L]: the rows in order, by docid and then owner. Read only."""
        return self._layout.codes

    @property
    def owner(self) -> NDArray[np.uint32]:
        """uint32[R]: the item number of each row. Read only."""
        return self._layout.owner

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, rows included."""
        return sum(array.nbytes for array in self._layout)

    def __repr__(self) -> str:
        return f"Trie(sizes={self.sizes}, docids={self.docids}, rows={self.rows})"

    def expand(self, level: int, nodes: ArrayLike) -> Children:
        """What may follow each node of a level (0 to L - 1); costs what it returns."""
        asked = self._known(level, nodes, self.depth - 1)
        parents, children = spread(*child_ranges(self._layout, level, asked))
        return Children(parents, codes_of(self._layout, level + 1, children), children)

    def interval(self, level: int, nodes: ArrayLike) -> tuple[Ints, Ints]:
        """(low, high): the rows below each node are ``low`` to ``high - 1``."""
        first, end = docid_ranges(self._layout, level, self._known(level, nodes, self.depth))
        rows = self._layout.docid_rows
        return rows[first].astype(np.int64), rows[end].astype(np.int64)

    def items(self, leaves: ArrayLike) -> Found:
        """The items of complete docids, given as nodes of level L."""
        which, rows = spread(*self.interval(self.depth, leaves))
        return Found(self.owner[rows], which)

    def docid(self, leaf: int) -> tuple[int, ...]:
        """The codes of a complete docid, given as a node of level L."""
        low, _ = self.interval(self.depth, [leaf])
        return tuple(self.codes[low[0]].tolist())

    def path(self, docid: Sequence[int]) -> tuple[int | None, ...]:
        """The nodes of a docid or prefix from the root down; None from where it leaves the trie."""
        nodes = self.walk(np.array([docid], np.int64).reshape(1, -1))[0].tolist()
        return tuple(None if node < 0 else node for node in nodes)

    def walk(self, codes: NDArray[Any]) -> Ints:
        """Many docids at once: codes [R, L] -> nodes int64[R, L + 1]; -1 after leaving the trie.

        Prefixes will do: [R, l] gives [R, l + 1].
        """
        if codes.ndim != 2 or codes.shape[1] > self.depth or codes.dtype.kind not in "ui":
            raise IndexMismatch(
                f"cannot walk {codes.dtype}{list(codes.shape)}: this index spells docids of "
                f"{self.depth} levels and expects an integer array [R, {self.depth}]."
            )
        return walk(self._layout, codes)

    def restrict(self, allowed: ArrayLike) -> Self:
        """Only the rows of allowed items; ``allowed`` is bool, indexed by item number."""
        allowed = np.asarray(allowed)
        if allowed.dtype != np.bool_ or allowed.ndim != 1:
            raise IndexMismatch(
                "a restriction is bool[N], indexed by item number, got "
                f"{allowed.dtype}{list(allowed.shape)}."
            )
        if self.rows and int(self.owner.max()) >= len(allowed):
            raise IndexMismatch(
                f"the restriction covers {len(allowed)} items, the index holds item number "
                f"{self.owner.max()}. Make it as long as the catalog's highest number plus one."
            )
        return self._keep(allowed[self.owner])

    def remove(self, items: ArrayLike) -> Self:
        """Without the rows of these item numbers; numbers that are not there do no harm."""
        return self._keep(~np.isin(self.owner, np.asarray(items, np.int64)))

    def insert(self, codes: Codes) -> Self:
        """With these rows as well; rows that are there already change nothing."""
        check_codes(codes, self.sizes)
        new = sort_rows(codes, self.sizes)
        rows, present = insertion_rows(self._layout, new)
        if present.all():
            return self
        fresh = Codes(new.codes[~present], new.owner[~present])
        merged = Codes(
            np.insert(self.codes, rows[~present], fresh.codes, axis=0),
            np.insert(self.owner, rows[~present], fresh.owner),
        )
        return self._of_sorted(self.sizes, merged)

    def _keep(self, rows: NDArray[np.bool_]) -> Self:
        if rows.all():
            return self
        return self._of_sorted(self.sizes, Codes(self.codes[rows], self.owner[rows]))

    def _known(self, level: int, nodes: ArrayLike, deepest: int) -> Ints:
        """The nodes as an array, once they can be nodes of this level."""
        asked = np.asarray(nodes, np.int64)
        if asked.ndim != 1:
            raise IndexMismatch(f"nodes come as one list, got an array of shape {asked.shape}.")
        if not 0 <= level <= deepest:
            raise IndexMismatch(f"levels 0 to {deepest} can be asked for here, got level {level}.")
        if asked.size:
            most = self._layout.stored(level) + self.docids
            low, high = int(asked.min()), int(asked.max())
            if low < 0 or high >= most:
                raise IndexMismatch(
                    f"this trie has no node {low if low < 0 else high} at level {level}. Node "
                    "numbers belong to the trie that gave them; begin again at its root, 0."
                )
        return asked
