"""What happens where several items get the same docid, in a new corpus and for later additions.

    keep       nothing: the items share the docid, and whoever spells it finds them all
    extra      the last level numbers the items of equal docids, 0 first, in row order; an item
               that is added later gets the smallest number that is free (TIGER)
    reassign   the first item of a docid stays; each other one, in row order, takes the free code
               nearest to it at the last level; if none is free there the code before changes
               too, nearest first, and so on upwards

Items that are already in the index (``taken``) never move. Tree and atomic docids end in a level
that numbers items, so for them ``extra`` is always what happens.
The trap: a number or a docid that a removed item left free is given again; a model that was trained
before the change still spells it for the queries of the removed item.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from trieline.config import IdSettings
from trieline.errors import DataError, SettingsError
from trieline.ids.docids import Docids
from trieline.types import Codes, Floats

__all__ = ["numbers_items", "resolve"]

Table = NDArray[np.uint16]  # [R, L]


def numbers_items(settings: IdSettings) -> bool:
    """Whether the last level of a docid tells items of equal docids apart."""
    return settings.scheme not in ("residual", "pro") or settings.collisions == "extra"


def resolve(
    codes: Codes,
    settings: IdSettings,
    *,
    docids: Docids,
    vectors: Floats | None = None,
    taken: Codes | None = None,
) -> Codes:
    """Settle the collisions among ``codes``, as ``docids`` assigned them, and with ``taken``.

    ``vectors`` [N, D] are the items that ``codes.owner`` counts; only ``reassign`` looks at them.
    ``taken`` are the docids of the items in the index; rows that share no prefix may be left out.
    """
    there = None if taken is None or not len(taken.codes) else taken.codes
    if numbers_items(settings):
        return codes._replace(codes=_numbered(codes.codes, there, docids.sizes[-1], settings))
    if settings.collisions == "keep":
        return codes
    if vectors is None:
        raise DataError(
            "collisions = 'reassign' moves items to near codes and needs their vectors: "
            "give resolve(..., vectors=...)."
        )
    mover = _Mover(codes.codes, there, docids.codebooks, settings)
    return codes._replace(codes=mover.settled(docids.project(vectors)[codes.owner]))


def _numbered(table: Table, taken: Table | None, size: int, settings: IdSettings) -> Table:
    """The last column filled with the smallest numbers that are free below each prefix."""
    new, groups = table.copy(), _groups(table[:, :-1])
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], np.arange(groups.max(initial=-1) + 1))
    number = np.empty(len(table), dtype=np.int64)
    number[order] = np.arange(len(table)) - starts[groups[order]]
    near = None if taken is None else _sharing(taken, table, table.shape[1] - 1)
    if near is not None and len(near):
        _skip_taken(number, table, near)
    if number.max(initial=0) >= size:
        row = int(number.argmax())
        raise _too_many(table[row, :-1], int(number[row]) + 1, size, settings)
    new[:, -1] = number
    return new


def _skip_taken(number: NDArray[np.int64], table: Table, taken: Table) -> None:
    """Turn "the k-th new item of its group" into the k-th number that is free in that group.

    Below the i-th taken number t_i of a group, t_i - i numbers are free; so the k-th free one is k
    plus how many i have t_i - i <= k.
    """
    both = _groups(np.concatenate([table, taken])[:, :-1])
    ours, theirs = both[: len(table)], both[len(table) :]
    used = np.unique(theirs * 65536 + taken[:, -1])
    group, taken_number = np.divmod(used, 65536)
    free_below = taken_number - (np.arange(len(group)) - np.searchsorted(group, group))
    span = max(65536, len(table)) + 1  # more than any number: keys of groups do not mix
    passed = np.searchsorted(group * span + free_below, ours * span + number, side="right")
    number += passed - np.searchsorted(group, ours)


def _too_many(prefix: Table, items: int, size: int, settings: IdSettings) -> SettingsError:
    if settings.scheme == "atomic":
        return SettingsError(
            f"atomic docids were made with room for {size} items, and there is no code for one "
            "more. Rebuild with 'trieline build': it leaves room for a tenth more than there is."
        )
    enough = 1 << (items - 1).bit_length()
    larger = f"ids.extra={enough}, or " if enough <= 65536 else ""
    return SettingsError(
        f"{items} items share the docid {tuple(int(code) for code in prefix)}, and the level that "
        f"tells them apart has {size} codes. Rebuild with {larger}more or larger ids.sizes, e.g. "
        f"{[*settings.sizes, settings.sizes[-1]]}."
    )


class _Mover:
    """Gives colliding rows the nearest free docids."""

    def __init__(
        self, table: Table, taken: Table | None, books: list[Floats], settings: IdSettings
    ) -> None:
        self.assigned, self.table, self.books = table, table.copy(), books
        self.taken = table[:0] if taken is None else taken
        self.first = 1 if settings.modality else 0  # an item never changes its modality
        self.settings = settings
        self.full: set[bytes] = set()  # prefixes below which nothing is free
        self.occupied: set[bytes] = set()  # docids; of taken ones those that share ``known`` codes
        self.known = table.shape[1]
        self._know(table.shape[1] - 1)

    def settled(self, vectors: Floats) -> Table:
        last = self.table.shape[1] - 1
        for row in self._colliding():
            for level in range(last, self.first - 1, -1):
                self._know(level)
                if self._take(self.table[row], vectors[row], level):
                    break
            else:
                raise self._no_room(self.assigned[row])
        return self.table

    def _colliding(self) -> list[int]:
        """All rows but the first of each docid; the firsts are occupied from then on."""
        late = []
        for row, docid in enumerate(self.table):
            key = docid.tobytes()
            if key in self.occupied:
                late.append(row)
            self.occupied.add(key)
        return late

    def _know(self, columns: int) -> None:
        if columns < self.known:
            near = _sharing(self.taken, self.assigned, columns)
            self.occupied.update(row.tobytes() for row in near)
            self.known = columns

    def _take(self, docid: Table, vector: Floats, level: int) -> bool:
        """Change ``docid`` from ``level`` on to the nearest free one; False where none is."""
        prefix = docid[:level].tobytes()
        if prefix in self.full:
            return False
        for code in self._by_distance(vector, docid[:level]):
            docid[level] = code
            if level + 1 < len(docid):
                if self._take(docid, vector, level + 1):
                    return True
            elif (key := docid.tobytes()) not in self.occupied:
                self.occupied.add(key)
                return True
        self.full.add(prefix)
        return False

    def _by_distance(self, vector: Floats, prefix: Table) -> NDArray[np.intp]:
        """Codes of the level after ``prefix``, the one that leaves least of ``vector`` first."""
        left = vector.copy()
        for level, code in enumerate(prefix):
            left -= self.books[level][code]
        book = self.books[len(prefix)]
        return np.argsort(np.einsum("vd,vd->v", book, book) - 2 * (book @ left), kind="stable")

    def _no_room(self, docid: Table) -> SettingsError:
        sizes = list(self.settings.sizes)
        return SettingsError(
            f"no docid is free for an item at {tuple(int(code) for code in docid)}: all "
            f"{math.prod(sizes)} of ids.sizes={sizes} are given. Rebuild with more or larger "
            f"levels, e.g. ids.sizes={[*sizes, sizes[-1]]}, or with ids.collisions='keep'."
        )


def _sharing(taken: Table, table: Table, columns: int) -> Table:
    """Rows of ``taken`` that may share their first codes with a row of ``table``; few others."""
    if columns == 0:
        return taken
    odd = np.random.default_rng(0).integers(0, 1 << 62, columns, dtype=np.uint64) * 2 + 1
    hashes = [(rows[:, :columns] * odd).sum(axis=1, dtype=np.uint64) for rows in (taken, table)]
    return taken[np.isin(hashes[0], np.unique(hashes[1]))]


def _groups(prefixes: Table) -> NDArray[np.int64]:
    """int64[R]: equal exactly where the rows are equal."""
    groups = np.zeros(len(prefixes), dtype=np.int64)
    for column in prefixes.T:
        groups = np.unique(groups * 65536 + column, return_inverse=True)[1].astype(np.int64)
    return groups
