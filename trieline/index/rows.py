"""Docids as a table in order: checked against the sizes of the levels, sorted, each row once.

Rows are ordered by docid, code by code, and rows of one docid by owner number, so the same set of
rows always gives the same table, whatever order it came in.

Trap: comparing sixteen codes a row is slow in NumPy. The packed rows are compared as words of 64
bits, and nearly always the first word decides: only rows that agree in it are compared further.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.errors import IndexMismatch, SettingsError
from trieline.index.layout import Ints
from trieline.index.packing import Bytes, pack, sort_words
from trieline.types import Codes

__all__ = ["Sorted", "check_codes", "check_sizes", "sort_rows"]

MOST_ROWS = 2**31  # row and node numbers are stored in 32 bits
MOST_LEVELS = 2**15 - 1  # levels are stored in 16 bits


class Sorted(NamedTuple):
    """Rows in order, each once; the rows of a docid are consecutive."""

    packed: Bytes  # [D, width] docids, each once
    first: Ints  # [D] the first row of each
    owner: NDArray[np.uint32]  # [R]


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


def sort_rows(codes: Codes, sizes: tuple[int, ...]) -> Sorted:
    """The rows by docid and then owner, without repeated (docid, owner) pairs; always a copy."""
    words, owner = sort_words(codes.codes, sizes), codes.owner
    order = np.argsort(words[0])
    ordered = words[0][order]
    same = ordered[1:] == ordered[:-1]
    tied = np.zeros(len(order), bool)
    tied[:-1] = same
    tied[1:] |= same
    some = order[tied]
    order[tied] = some[np.lexsort((owner[some], *words[::-1, some]))]
    words, owner = words[:, order], owner[order]
    new_docid, new_row = np.ones(len(order), bool), np.ones(len(order), bool)
    new_docid[1:] = (words[:, 1:] != words[:, :-1]).any(axis=0)
    new_row[1:] = new_docid[1:] | (owner[1:] != owner[:-1])
    return Sorted(
        packed=pack(words[:, new_docid], sizes),
        first=np.flatnonzero(new_docid[new_row]),
        owner=owner[new_row],
    )
