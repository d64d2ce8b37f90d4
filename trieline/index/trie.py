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
from trieline.index import changes, packing, steps
from trieline.index.descent import walk
from trieline.index.layout import (
    Ints,
    Layout,
    docid_ranges,
    owner_numbers,
    row_of_docid,
    spread,
)
from trieline.index.rows import check_codes, check_sizes, sort_rows
from trieline.index.steps import Best, Children
from trieline.index.stored import check_arrays
from trieline.types import Codes

__all__ = ["Best", "Children", "Found", "Trie"]

# Docids from which on steps are compiled. Below, NumPy takes less for all steps of a search than
# importing numba does, let alone compiling for the first time.
COMPILED = 20_000
FEWER = 8  # of so many rows one is removed: then the rest is moved, else gathered


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
        return cls._of(checked, changes.from_sorted(sort_rows(codes, checked), checked))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], sizes: Sequence[int]) -> Self:
        """From what ``arrays`` gave; memory-mapped arrays stay on disk and are not copied."""
        checked = check_sizes(sizes)
        return cls(checked, check_arrays(arrays, checked))

    @classmethod
    def _of(cls, sizes: tuple[int, ...], layout: Layout) -> Self:
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
        """uint16[R, L]: the rows in order, by docid and then owner. Unpacked at every call."""
        return self.docid_codes(np.repeat(np.arange(self.docids), self._rows_of_docids()))

    @property
    def owner(self) -> NDArray[np.uint32]:
        """uint32[R]: the item number of each row. Unpacked at every call."""
        return owner_numbers(self._layout.owner)

    def owners(self, rows: ArrayLike) -> NDArray[np.uint32]:
        """The item numbers of some rows, without unpacking all."""
        return owner_numbers(self._layout.owner[np.asarray(rows, np.int64)])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, rows included."""
        return sum(array.nbytes for array in self._layout)

    def __repr__(self) -> str:
        return f"Trie(sizes={self.sizes}, docids={self.docids}, rows={self.rows})"

    def expand(self, level: int, nodes: ArrayLike) -> Children:
        """What may follow each node of a level (0 to L - 1); costs what it returns."""
        asked = self._known(level, nodes, self.depth - 1)
        if self.docids < COMPILED:
            return steps.children(self._layout, self.sizes, level, asked)
        from trieline.index import fast

        return fast.children(self._layout, self.sizes, level, asked)

    def best(
        self,
        level: int,
        nodes: ArrayLike,
        base: ArrayLike,
        table: NDArray[np.float32],
        bounds: ArrayLike,
        width: int,
    ) -> Best:
        """One step of a beam search: the ``width`` best children of each query's nodes.

        ``nodes`` [n] are the live beams by query, ``bounds`` [B + 1] the first beam of each query
        and then n. A child with code v of beam p scores ``base[p] + table[p, v]`` in float64, with
        table float32[n, V]. Best first; ties go to the earlier beam, then to the lower code. A
        query gets as many as exist; a score that is not finite is illegal and never returned.
        """
        asked = self._known(level, nodes, self.depth - 1)
        carried, edges = np.asarray(base, np.float64), np.asarray(bounds, np.int64)
        self._check_table(level, asked, table)
        _check_beams(asked, carried, edges, width)
        if self.docids < COMPILED:
            found = steps.children(self._layout, self.sizes, level, asked)
            return steps.best_children(found, carried, table, edges, width)
        from trieline.index import fast

        return fast.best_children(
            self._layout, self.sizes, level, asked, carried, table, edges, width
        )

    def legal_totals(
        self, level: int, nodes: ArrayLike, table: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        """log of the sum of exp(table[p, v]) over the children v of each node p: float64[n]."""
        asked = self._known(level, nodes, self.depth - 1)
        self._check_table(level, asked, table)
        if self.docids < COMPILED:
            found = steps.children(self._layout, self.sizes, level, asked)
            return steps.legal_totals(found, len(asked), table)
        from trieline.index import fast

        return fast.legal_totals(self._layout, self.sizes, level, asked, table)

    def interval(self, level: int, nodes: ArrayLike) -> tuple[Ints, Ints]:
        """(low, high): the rows below each node are ``low`` to ``high - 1``."""
        first, end = self.docid_interval(level, nodes)
        return row_of_docid(self._layout, first), row_of_docid(self._layout, end)

    def docid_interval(self, level: int, nodes: ArrayLike) -> tuple[Ints, Ints]:
        """(first, end): the docids below each node, counted in order from 0."""
        asked = self._known(level, nodes, self.depth)
        if self.docids < COMPILED:
            return docid_ranges(self._layout, level, asked)
        from trieline.index import fast

        return fast.docid_ranges(self._layout, level, asked)

    def counts(self, level: int, nodes: ArrayLike) -> Ints:
        """How many docids are below each node."""
        first, end = self.docid_interval(level, nodes)
        return end - first

    def docid_codes(self, docids: ArrayLike) -> NDArray[np.uint16]:
        """uint16[n, L]: the codes of docids given by number, their place in order."""
        numbers = self._docid_numbers(docids)
        if self.docids < COMPILED:
            return packing.unpack(self._layout.packed[numbers], self.sizes)
        from trieline.index import fast

        return fast.decode(self._layout, self.sizes, numbers)

    def leaves(self, docids: ArrayLike) -> Ints:
        """The nodes of level L of docids given by number."""
        return self._docid_numbers(docids).copy()  # at the last level no prefix is listed

    def forced(self, level: int, nodes: ArrayLike) -> NDArray[np.bool_]:
        """Whether one docid only is below each node: the rest of its spelling is settled."""
        first, end = docid_ranges(self._layout, level, self._known(level, nodes, self.depth))
        alone: NDArray[np.bool_] = end - first == 1
        return alone

    def items(self, leaves: ArrayLike) -> Found:
        """The items of complete docids, given as nodes of level L."""
        which, rows = spread(*self.interval(self.depth, leaves))
        return Found(self.owners(rows), which)

    def docid(self, leaf: int) -> tuple[int, ...]:
        """The codes of a complete docid, given as a node of level L."""
        first, _ = docid_ranges(
            self._layout, self.depth, self._known(self.depth, [leaf], self.depth)
        )
        row = self._layout.packed[first]
        return tuple(packing.unpack(row, self.sizes)[0].tolist())

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
        return walk(self._layout, self.sizes, codes)

    def restrict(self, allowed: ArrayLike) -> Self:
        """Only the rows of allowed items; ``allowed`` is bool, indexed by item number."""
        allowed = np.asarray(allowed)
        if allowed.dtype != np.bool_ or allowed.ndim != 1:
            raise IndexMismatch(
                "a restriction is bool[N], indexed by item number, got "
                f"{allowed.dtype}{list(allowed.shape)}."
            )
        rows, beyond = self._rows_of(allowed)
        if beyond:
            raise IndexMismatch(
                f"the restriction covers {len(allowed)} items, the index holds item number "
                f"{self.owner.max()}. Make it as long as the catalog's highest number plus one."
            )
        return self._keep(rows)

    def remove(self, items: ArrayLike) -> Self:
        """Without the rows of these item numbers; numbers that are not there do no harm."""
        asked = np.asarray(items, np.int64).ravel()
        asked = asked[(asked >= 0) & (asked < 256 ** self._layout.owner.shape[1])]
        gone = np.zeros(int(asked.max(initial=-1)) + 1, np.bool_)
        gone[asked] = True
        rows, _ = self._rows_of(gone)
        if not len(rows):
            return self
        if FEWER * len(rows) < self.rows:
            return self._of(self.sizes, changes.without(self._layout, self.sizes, rows))
        return self._keep(np.delete(np.arange(self.rows), rows))

    def insert(self, codes: Codes) -> Self:
        """With these rows as well; rows that are there already change nothing."""
        check_codes(codes, self.sizes)
        layout = changes.inserted(self._layout, self.sizes, codes)
        return self if layout is None else self._of(self.sizes, layout)

    def _keep(self, rows: Ints) -> Self:
        if len(rows) == self.rows:
            return self
        return self._of(self.sizes, changes.only(self._layout, self.sizes, rows))

    def _rows_of(self, chosen: NDArray[np.bool_]) -> tuple[Ints, bool]:
        """The rows of the items that are chosen, and whether any item is beyond the array."""
        if self.docids >= COMPILED:
            from trieline.index import fast

            return fast.rows_of(self._layout.owner, chosen)
        owner = self.owner
        inside = owner < len(chosen)
        rows = np.flatnonzero(inside)
        return rows[chosen[owner[rows]]], not inside.all()

    def _rows_of_docids(self) -> Ints:
        """How many rows each docid has."""
        return np.diff(row_of_docid(self._layout, np.arange(self.docids + 1)))

    def _docid_numbers(self, docids: ArrayLike) -> Ints:
        numbers = np.asarray(docids, np.int64)
        if numbers.ndim != 1:
            raise IndexMismatch(f"docids come as one list, got an array of shape {numbers.shape}.")
        if numbers.size and not 0 <= int(numbers.min()) <= int(numbers.max()) < self.docids:
            raise IndexMismatch(
                f"this trie numbers its docids 0 to {self.docids - 1}, got "
                f"{int(numbers.min())} to {int(numbers.max())}."
            )
        return numbers

    def _check_table(self, level: int, nodes: Ints, table: NDArray[np.float32]) -> None:
        expected = (len(nodes), self.sizes[level])
        if table.dtype != np.float32 or table.shape != expected:
            raise IndexMismatch(
                f"scores at level {level} come as float32{list(expected)}, a row for each node "
                f"and a column for each code, got {table.dtype}{list(table.shape)}."
            )

    def _known(self, level: int, nodes: ArrayLike, deepest: int) -> Ints:
        """The nodes as an array, once they can be nodes of this level."""
        asked = np.asarray(nodes, np.int64)
        if asked.ndim != 1:
            raise IndexMismatch(f"nodes come as one list, got an array of shape {asked.shape}.")
        if not 0 <= level <= deepest:
            raise IndexMismatch(f"levels 0 to {deepest} can be asked for here, got level {level}.")
        if asked.size:
            most = self._layout.listed(level) + self.docids
            low, high = int(asked.min()), int(asked.max())
            if low < 0 or high >= most:
                raise IndexMismatch(
                    f"this trie has no node {low if low < 0 else high} at level {level}. Node "
                    "numbers belong to the trie that gave them; begin again at its root, 0."
                )
        return asked


def _check_beams(nodes: Ints, base: NDArray[np.float64], bounds: Ints, width: int) -> None:
    if base.shape != nodes.shape:
        raise IndexMismatch(
            f"{len(nodes)} beams need as many carried scores, got an array of shape {base.shape}."
        )
    covers = bounds.ndim == 1 and len(bounds) and bounds[0] == 0 and bounds[-1] == len(nodes)
    if not covers or (bounds[1:] < bounds[:-1]).any():
        raise IndexMismatch(
            f"bounds of {len(nodes)} beams ascend from 0 to {len(nodes)}, got {bounds.tolist()}."
        )
    if width < 1:
        raise IndexMismatch(f"a beam holds 1 candidate or more, got width = {width}.")
