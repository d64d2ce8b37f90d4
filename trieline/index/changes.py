"""Tries made from other tries: a few rows more, a few rows fewer, or only some rows.

A change of a few rows moves the rest of each array in blocks and compares only new neighbours;
nothing is sorted again. Keeping a part of the rows costs what is kept. Either way the arrays are
the same as those of a trie that is built anew.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trieline.index.descent import places
from trieline.index.layout import Ints, Layout, lay_out, owners_of, parts_kind, row_of_docid
from trieline.index.packing import Bytes, parting
from trieline.index.rows import Sorted, sort_rows
from trieline.types import Codes

__all__ = ["from_sorted", "inserted", "only", "without"]

FEW = 4096  # pieces up to which an array is moved block by block
SPARSE = 8  # of so many docids one is kept: then neighbours are compared, else parts are read


def from_sorted(rows: Sorted, sizes: tuple[int, ...]) -> Layout:
    """The layout of rows that are sorted and without duplicates."""
    parts = np.zeros(len(rows.packed) + 1, parts_kind(len(sizes)))
    parts[1:-1] = parting(rows.packed[1:], rows.packed[:-1], sizes)
    count = np.diff(rows.first, append=len(rows.owner))
    shared, extra = _sharing(np.arange(len(count)), count - 1)
    owner = _bytes_of(rows.owner, int(rows.owner.max(initial=0)))
    return lay_out(rows.packed, parts, owner, shared, extra, sizes)


def inserted(trie: Layout, sizes: tuple[int, ...], codes: Codes) -> Layout | None:
    """With these rows as well; None where all are there already."""
    new = sort_rows(codes, sizes)
    docid, present = places(trie, new.packed)
    count = np.diff(new.first, append=len(new.owner))
    which = np.repeat(np.arange(len(count)), count)
    row = _owner_rows(trie, docid[which], present[which], new.owner)
    fresh = ~_is_owner(trie, row, docid[which], present[which], new.owner)
    if not fresh.any():
        return None
    before = docid[~present]
    numbers = before + np.arange(len(before))
    packed = _with(trie.packed, before, new.packed[~present])
    parts = _with(trie.parts, before, np.zeros(len(before), trie.parts.dtype))
    near = np.unique(np.concatenate([numbers, numbers + 1]))
    near = near[(near > 0) & (near < len(packed))]
    parts[near] = parting(packed[near], packed[near - 1], sizes)
    more = np.bincount(which[fresh], minlength=len(count)) - ~present
    moved = np.append(trie.shared.astype(np.int64), docid[present])
    moved += np.searchsorted(before, moved, side="right")
    shared, extra = _sharing(
        np.concatenate([moved, numbers]),
        np.concatenate([_more(trie), more[present], more[~present]]),
    )
    greatest = max(int(new.owner.max()), 256 ** trie.owner.shape[1] - 1)
    old = np.zeros((len(trie.owner), _width(greatest)), np.uint8)
    if old.shape[1] == trie.owner.shape[1]:
        old = trie.owner
    else:
        old[:, : trie.owner.shape[1]] = trie.owner
    owner = _with(old, row[fresh], _bytes_of(new.owner[fresh], greatest))
    return lay_out(packed, parts, owner, shared, extra, sizes)


def without(trie: Layout, sizes: tuple[int, ...], rows: Ints) -> Layout:
    """Without some rows, given in order."""
    docid, gone = np.unique(_docid_of_row(trie, rows), return_counts=True)
    left = row_of_docid(trie, docid + 1) - row_of_docid(trie, docid) - gone
    lost = docid[left == 0]
    parts = trie.parts.copy()
    if len(lost):  # what follows a gap parts where the highest of those in the gap did
        begins = np.flatnonzero(np.diff(lost, prepend=-2) > 1)
        first, after = lost[begins], lost[np.append(begins[1:], len(lost)) - 1] + 1
        edges = np.stack([first, after + 1], axis=1).ravel()
        parts[after] = np.minimum.reduceat(np.append(trie.parts, 0), edges)[::2]
    if not len(parts) - 1 - len(lost):
        parts[:] = 0
    more = _more(trie)
    some = np.searchsorted(trie.shared, docid)
    some_shared = np.zeros(len(docid), bool)
    inside = some < len(trie.shared)
    some_shared[inside] = trie.shared[some[inside]] == docid[inside]
    # Nought for docids that are lost: the next one takes over their number.
    more[some[some_shared]] = np.maximum(left[some_shared] - 1, 0)
    numbers = trie.shared.astype(np.int64)
    shared, extra = _sharing(numbers - np.searchsorted(lost, numbers), more)
    owner = _narrow(_less(trie.owner, rows))
    return lay_out(_less(trie.packed, lost), _less(parts, lost), owner, shared, extra, sizes)


def only(trie: Layout, sizes: tuple[int, ...], rows: Ints) -> Layout:
    """Only some rows, given in order."""
    docid = _docid_of_row(trie, rows)
    first = np.flatnonzero(np.diff(docid, prepend=-1))
    kept = docid[first]
    packed = trie.packed[kept]
    parts = np.zeros(len(kept) + 1, trie.parts.dtype)
    if SPARSE * len(kept) < trie.docids:
        parts[1:-1] = parting(packed[1:], packed[:-1], sizes)
    elif len(kept) > 1:
        parts[1:-1] = np.minimum.reduceat(trie.parts[: kept[-1] + 1], kept[:-1] + 1)
    shared, extra = _sharing(np.arange(len(kept)), np.diff(first, append=len(rows)) - 1)
    return lay_out(packed, parts, _narrow(trie.owner[rows]), shared, extra, sizes)


def _more(trie: Layout) -> Ints:
    """Rows beyond the first of each shared docid."""
    extra = trie.extra.astype(np.int64)
    more: Ints = extra[1:] - extra[:-1]
    return more


def _sharing(docids: Ints, more: Ints) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """(shared, extra) of the layout: docids in any order, with their rows beyond the first."""
    docids, more = docids[more != 0], more[more != 0]
    if len(docids) and (np.diff(docids) <= 0).any():
        docids, which = np.unique(docids, return_inverse=True)
        more = np.bincount(which, weights=more).astype(np.int64)
    shared, more = docids[more > 0], more[more > 0]
    return shared.astype(np.uint32), np.cumsum(np.append(0, more)).astype(np.uint32)


def _docid_of_row(trie: Layout, rows: Ints) -> Ints:
    if not len(trie.shared):
        return rows
    first = trie.shared.astype(np.int64) + trie.extra[:-1]  # the first row of each shared docid
    at = np.searchsorted(first, rows, side="right")
    docids = rows - trie.extra[at].astype(np.int64)
    return np.maximum(docids, np.append(0, trie.shared)[at].astype(np.int64))


def _owner_rows(
    trie: Layout, docid: Ints, present: NDArray[np.bool_], owner: NDArray[np.uint32]
) -> Ints:
    """The row before which each (docid, owner) belongs: binary search in many ranges at once."""
    low = row_of_docid(trie, docid)
    high = np.where(present, row_of_docid(trie, np.minimum(docid + 1, trie.docids)), low)
    searching = np.flatnonzero(low < high)
    while len(searching):
        middle = (low[searching] + high[searching]) // 2
        below = owners_of(trie, middle) < owner[searching]
        low[searching[below]] = middle[below] + 1
        high[searching[~below]] = middle[~below]
        searching = searching[low[searching] < high[searching]]
    return low


def _is_owner(
    trie: Layout, row: Ints, docid: Ints, present: NDArray[np.bool_], owner: NDArray[np.uint32]
) -> NDArray[np.bool_]:
    """Whether the row found for each (docid, owner) is that very row."""
    same = present.copy()
    same[present] = row[present] < row_of_docid(trie, docid[present] + 1)
    same[same] = owners_of(trie, row[same]) == owner[same]
    return same


def _with(array: NDArray[Any], at: Ints, values: NDArray[Any]) -> NDArray[Any]:
    """The array with values put in before some places, which ascend."""
    if len(at) > FEW:
        return np.insert(array, at, values, axis=0)
    new = np.empty((len(array) + len(at), *array.shape[1:]), array.dtype)
    new[at + np.arange(len(at))] = values
    for count, (start, stop) in enumerate(_between(at, len(array))):
        new[start + count : stop + count] = array[start:stop]
    return new


def _less(array: NDArray[Any], at: Ints) -> NDArray[Any]:
    """The array without some places, which ascend."""
    if len(at) > FEW:
        return np.delete(array, at, axis=0)
    new = np.empty((len(array) - len(at), *array.shape[1:]), array.dtype)
    for count, (start, stop) in enumerate(_between(at, len(array))):
        start += count > 0
        new[start - count : stop - count] = array[start:stop]
    return new


def _between(at: Ints, length: int) -> Iterator[tuple[int, int]]:
    """The stretches between some places."""
    edges = [0, *at.tolist(), length]
    return itertools.pairwise(edges)


def _width(greatest: int) -> int:
    return max(1, -(-greatest.bit_length() // 8))


def _bytes_of(owner: NDArray[np.uint32], greatest: int) -> Bytes:
    """Item numbers in as few bytes as the greatest needs, the least significant first."""
    wide = owner.astype("<u4").view(np.uint8).reshape(-1, 4)
    return np.ascontiguousarray(wide[:, : _width(greatest)])


def _narrow(owner: Bytes) -> Bytes:
    """Without bytes that no item number needs any more."""
    width = owner.shape[1]
    while width > 1 and not owner[:, width - 1].any():
        width -= 1
    return np.ascontiguousarray(owner[:, :width])
