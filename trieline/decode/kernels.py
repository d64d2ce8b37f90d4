"""Hot loops of the guides, compiled: scans of all rows by table look-up, and segments of them.

Pure functions over arrays; callers check what they pass, nothing here does. Each has a plain NumPy
twin among the tests. Compiled at the first call and kept on disk; they let go of the interpreter's
lock, so that searches in other threads go on.

The trap: none of them may change the order of a sum with what runs beside it. A row's score is
added up level by level, whatever rows are around it, so that equal docids get equal scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from trieline.types import Floats

__all__ = ["known_norms", "norms_of", "scan", "segment_items", "segment_max"]

Ints = NDArray[np.int64]
Function = TypeVar("Function", bound=Callable[..., Any])

_BLOCK = 2048  # rows scored together: their sums (8 kB) stay in the first cache


def _compiled(function: Function) -> Function:
    compiler: Any = numba.njit
    return cast(Function, compiler(cache=True, nogil=True)(function))


def _compiled_loosely(function: Function) -> Function:
    """For sums within one row, which vectorise only where their order does not matter."""
    compiler: Any = numba.njit
    loose = {"reassoc", "contract"}
    return cast(Function, compiler(cache=True, nogil=True, fastmath=loose)(function))


@_compiled
def scan(
    columns: NDArray[np.uint16],  # [L, R]
    starts: Ints,  # [L + 1] where each level's part of the table begins
    table: Floats,  # [sum of V]
    norms: Floats,  # [R], or [0] for none
    out: Floats,  # [R]
) -> None:
    """out[r] = sum over levels of the table's entry of row r's code - norms[r].

    Four levels a pass: the sums are loaded and stored a quarter as often. At a million rows and 16
    levels 5.4 ms, where one level a pass took 15, rows instead of columns 10, NumPy 40, and eight
    queries at once 6.3 each.
    """
    levels, rows = columns.shape
    fours = levels - levels % 4
    for low in range(0, rows, _BLOCK):
        high = min(low + _BLOCK, rows)
        part = out[low:high]
        count = high - low
        if len(norms):
            norm = norms[low:high]
            for i in range(count):
                part[i] = -norm[i]
        else:
            part[:] = 0
        for level in range(0, fours, 4):
            table0 = table[starts[level] : starts[level + 1]]
            table1 = table[starts[level + 1] : starts[level + 2]]
            table2 = table[starts[level + 2] : starts[level + 3]]
            table3 = table[starts[level + 3] : starts[level + 4]]
            codes0 = columns[level, low:high]
            codes1 = columns[level + 1, low:high]
            codes2 = columns[level + 2, low:high]
            codes3 = columns[level + 3, low:high]
            for i in range(count):
                two = (part[i] + table0[codes0[i]]) + table1[codes1[i]]
                part[i] = (two + table2[codes2[i]]) + table3[codes3[i]]
        for level in range(fours, levels):
            table0 = table[starts[level] : starts[level + 1]]
            codes0 = columns[level, low:high]
            for i in range(count):
                part[i] += table0[codes0[i]]


@_compiled_loosely
def norms_of(
    columns: NDArray[np.uint16],  # [L, R]
    starts: Ints,  # [L + 1] where each level's words begin
    words: Floats,  # [sum of V, D]
    wanted: NDArray[np.bool_],  # [R]
    out: Floats,  # [R]
) -> None:
    """out[r] = squared length of the sum of row r's words, for the wanted rows."""
    levels, rows = columns.shape
    fours = levels - levels % 4
    total = np.zeros(words.shape[1], np.float32)
    for row in range(rows):
        if not wanted[row]:
            continue
        total[:] = 0
        for level in range(0, fours, 4):
            word0 = words[starts[level] + columns[level, row]]
            word1 = words[starts[level + 1] + columns[level + 1, row]]
            word2 = words[starts[level + 2] + columns[level + 2, row]]
            word3 = words[starts[level + 3] + columns[level + 3, row]]
            for d in range(len(total)):
                total[d] += (word0[d] + word1[d]) + (word2[d] + word3[d])
        for level in range(fours, levels):
            word0 = words[starts[level] + columns[level, row]]
            for d in range(len(total)):
                total[d] += word0[d]
        squared = np.float32(0)
        for d in range(len(total)):
            squared += total[d] * total[d]
        out[row] = squared


@_compiled
def known_norms(
    old: NDArray[np.uint16],  # [L, O], rows in order
    old_norms: Floats,  # [O]
    new: NDArray[np.uint16],  # [L, R], rows in order
    out: Floats,  # [R]
    unknown: NDArray[np.bool_],  # [R]
) -> None:
    """The norms of new rows that are among the old ones; ``unknown`` says which are not."""
    levels, rows = new.shape
    at = 0
    for row in range(rows):
        unknown[row] = True
        while at < old.shape[1]:
            level = 0
            while level < levels and old[level, at] == new[level, row]:
                level += 1
            if level == levels:
                out[row] = old_norms[at]
                unknown[row] = False
                break
            if old[level, at] > new[level, row]:
                break
            at += 1


@_compiled
def segment_max(
    scores: Floats,  # [P]
    first: Ints,  # [C]
    end: Ints,  # [C]
    out: Floats,  # [C]; what is there stays where a segment is empty
) -> None:
    """out[c] = the highest of scores[first[c] : end[c]].

    Four maxima side by side, because one would wait for itself at every step: a million scores in
    0.4 ms instead of 1.3.
    """
    for c in range(len(first)):
        part = scores[first[c] : end[c]]
        count = len(part)
        if count == 0:
            continue
        fours = count - count % 4
        best0 = best1 = best2 = best3 = part[0]
        for i in range(0, fours, 4):
            best0 = max(best0, part[i])
            best1 = max(best1, part[i + 1])
            best2 = max(best2, part[i + 2])
            best3 = max(best3, part[i + 3])
        for i in range(fours, count):
            best0 = max(best0, part[i])
        out[c] = max(max(best0, best1), max(best2, best3))


@_compiled
def segment_items(
    scores: Floats,  # [P]
    before: Ints,  # [P] the place of the same item's docid before this one, or -1
    after: Ints,  # [P] ... after this one, or P
    first: Ints,  # [C]
    end: Ints,  # [C]
    least: bool,
    out: Floats,  # [C]; what is there stays where a segment is empty
) -> None:
    """out[c] = mean or least score of the items in a segment, each with its best docid there."""
    for c in range(len(first)):
        count = 0
        total = 0.0
        lowest = np.inf
        for i in range(first[c], end[c]):
            if after[i] < end[c]:
                continue  # counted at the last of its docids
            best = scores[i]
            other = before[i]
            while other >= first[c]:
                best = max(best, scores[other])
                other = before[other]
            count += 1
            total += best
            lowest = min(lowest, best)
        if count:
            out[c] = lowest if least else total / count
