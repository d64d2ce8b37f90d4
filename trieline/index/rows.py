"""Docids as a table in order: checked against the sizes of the levels, sorted, each row once.

Rows are ordered by docid, code by code, and rows of one docid by owner number, so the same set of
rows always gives the same table, whatever order it came in.

Trap: comparing sixteen codes a row is slow in NumPy. Codes are packed into as few 64-bit words as
their sizes allow (sixteen levels of 2048 codes need three) and the words are sorted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trieline.errors import IndexMismatch, SettingsError
from trieline.types import Codes

__all__ = ["check_codes", "check_sizes", "shared_prefix", "sort_rows"]

MOST_ROWS = 2**31  # row and node numbers are stored in 32 bits
MOST_LEVELS = 2**15 - 1  # lengths of shared prefixes are held in 16 bits
BLOCK = 2**17  # rows compared at once


def check_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """The sizes as a tuple, once they are known to be sizes of levels."""
    checked = tuple(int(size) for size in sizes)
    if not 1 <= len(checked) <= MOST_LEVELS:
        raise SettingsError(
            f"a docid has 1 to {MOST_LEVELS} levels, got sizes for {len(checked)}: "
            "give the number of codes of each level, e.g. [256, 256]."
        )
    bad = [size for size in checked if not 1 <= size <= 65536]
    if bad:
        raise SettingsError(f"a level holds 1 to 65536 codes, got {bad[0]} in sizes {checked}.")
    return checked


def check_codes(codes: Codes, sizes: tuple[int, ...]) -> None:
    """Refuse a table that does not spell docids of these sizes."""
    table, owner = codes
    if table.dtype != np.uint16 or owner.dtype != np.uint32:
        raise IndexMismatch(
            "docids must come as codes uint16[R, L] and owner uint32[R], got "
            f"{table.dtype} and {owner.dtype}. Convert both with .astype()."
        )
    if table.ndim != 2 or owner.shape != table.shape[:1]:
        raise IndexMismatch(
            "docids must come as codes [R, L] with one owner a row, got shapes "
            f"{table.shape} and {owner.shape}."
        )
    if table.shape[1] != len(sizes):
        raise IndexMismatch(
            f"these docids have {table.shape[1]} levels, the index spells {len(sizes)}. "
            "Assign docids with the scheme that the index was made for."
        )
    if len(table) > MOST_ROWS:
        raise IndexMismatch(f"an index holds at most {MOST_ROWS} rows, got {len(table)}.")
    for level, size in enumerate(sizes):
        if len(table) and int(table[:, level].max()) >= size:
            row = int(table[:, level].argmax())
            raise IndexMismatch(
                f"row {row} has code {table[row, level]} at level {level + 1}, where the index "
                f"spells codes below {size}. Assign docids with the scheme it was made for."
            )


def sort_rows(codes: Codes, sizes: tuple[int, ...]) -> Codes:
    """The rows by docid and then owner, without repeated (docid, owner) pairs; always a copy."""
    words = list(_words(codes, sizes))
    order = np.lexsort(words[::-1])
    new = np.zeros(len(order), bool)
    new[:1] = True
    for word in words:
        ordered = word[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    order = order[new]
    return Codes(codes.codes[order], codes.owner[order])


def shared_prefix(codes: NDArray[np.uint16]) -> NDArray[np.int16]:
    """How many leading codes each row shares with the row before; -1 for the first row."""
    rows, depth = codes.shape
    shared = np.full(rows, -1, np.int16)
    for start in range(1, rows, BLOCK):
        stop = min(start + BLOCK, rows)
        differs = codes[start:stop] != codes[start - 1 : stop - 1]
        first = differs.argmax(axis=1)
        shared[start:stop] = np.where(differs.any(axis=1), first, depth)
    return shared


def _words(codes: Codes, sizes: tuple[int, ...]) -> Iterator[NDArray[np.uint64]]:
    """Row keys, most significant word first: every code in its level's bits, then the owner."""
    columns: list[NDArray[np.unsignedinteger[Any]]] = [*codes.codes.T, codes.owner]
    widths = [(size - 1).bit_length() for size in sizes] + [32]
    word, used = np.zeros(len(codes.owner), np.uint64), 0
    for column, bits in zip(columns, widths, strict=True):
        if used + bits > 64:
            yield word
            word, used = np.zeros(len(codes.owner), np.uint64), 0
        word = (word << np.uint64(bits)) | column
        used += bits
    yield word
