"""The hot loops of the trie, compiled: one step of a beam search, and decoding docids.

Pure functions of arrays, called by ``fast.py`` which fixes their element types; ``steps.py``
has the slow twin of each. A step is described by six numbers and five arrays, always these:

    level            codes of the prefixes that are expanded
    listed, after    listed prefixes of this level and of the next; other nodes count from there
    offset           the level's first listed prefix in ``begin``
    byte, shift, mask  where a row has the code that follows

Importing this file imports numba, about a second; so it is imported by the function that needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trieline.index.layout import Ints

__all__ = [
    "CHUNK",
    "SORTED",
    "Held",
    "Step",
    "best_children",
    "children",
    "count_children",
    "decode",
    "docid_ranges",
    "legal_totals",
    "rows_of",
]

Array = NDArray[Any]
Function = TypeVar("Function", bound=Callable[..., Any])


def _compiled(function: Function) -> Function:
    """numba's decorator without its loss of types. Compiled on the first call, kept on disk."""
    return cast(Function, njit(cache=True, nogil=True)(function))


def _compiled_for_finite(function: Function) -> Function:
    """The same where no NaN can come, so that minima are taken many at a time."""
    finite = {"nnan", "ninf", "nsz"}
    return cast(Function, njit(cache=True, nogil=True, fastmath=finite)(function))


CHUNK = 64
EIGHT = 8
SORTED = 512  # candidates of a query that are ranked by comparing all with all


class Held(NamedTuple):
    """Room for the candidates of one query."""

    scores: Array
    found: Ints  # parent << 32 | place in the list of children, or docid


class Step(NamedTuple):
    """What every kernel of a step is told about the trie."""

    level: int
    listed: int
    after: int
    offset: int
    byte: int
    shift: int
    mask: int
    begin: Array
    child_codes: Array
    child_nodes: Array
    parts: Array
    packed: Array


@_compiled
def _code(step: Step, docid: Any) -> Any:
    row, byte = step.packed[docid], step.byte
    bits = (np.int64(row[byte]) << 16) | (np.int64(row[byte + 1]) << 8) | np.int64(row[byte + 2])
    return (bits >> step.shift) & step.mask


@_compiled
def _sibling(step: Step, docid: Any) -> Any:
    """Where the next child of a prefix that is not listed begins; -1 after the last."""
    docid += 1
    while step.parts[docid] > step.level + 1:
        docid += 1
    return docid if step.parts[docid] > step.level else -1


@_compiled
def _run_end(docid: Any, level: int, parts: Array) -> Any:
    docid += 1
    while parts[docid] > level:
        docid += 1
    return docid


@_compiled
def docid_ranges(
    nodes: Ints,
    level: int,
    listed: int,
    offset: int,
    firsts: Array,
    ends: Array,
    parts: Array,
    first: Ints,
    end: Ints,
) -> None:
    """The docids below each node."""
    for at in range(len(nodes)):
        node = nodes[at]
        if node < listed:
            first[at], end[at] = firsts[offset + node], ends[offset + node]
        else:
            first[at], end[at] = node - listed, _run_end(node - listed, level, parts)


@_compiled
def count_children(nodes: Ints, step: Step) -> Any:
    """How many children some nodes have together."""
    total = 0
    for node in nodes:
        if node < step.listed:
            at = step.offset + node
            total += int(step.begin[at + 1]) - int(step.begin[at])
        else:
            docid = node - step.listed
            while docid >= 0:
                total += 1
                docid = _sibling(step, docid)
    return total


@_compiled
def children(nodes: Ints, step: Step, parents: Ints, codes: Ints, below: Ints) -> None:
    """All children in order of parent and code, into arrays of ``count_children``."""
    found = 0
    for parent in range(len(nodes)):
        node = nodes[parent]
        if node < step.listed:
            at = step.offset + node
            for child in range(step.begin[at], step.begin[at + 1]):
                parents[found] = parent
                codes[found] = step.child_codes[child]
                below[found] = step.child_nodes[child]
                found += 1
        else:
            docid = node - step.listed
            while docid >= 0:
                parents[found] = parent
                codes[found] = _code(step, docid)
                below[found] = docid + step.after
                found += 1
                docid = _sibling(step, docid)


@_compiled_for_finite
def _floor(scores: Array, kept: int, width: int, slack: int) -> Any:
    """A value that ``width`` scores reach, or as few more as can be, at most ``slack`` if possible.

    By bisection, because counting is what a processor does fastest.
    """
    low, high, count = scores[0], scores[0], 0
    for at in range(kept):
        low, high = min(low, scores[at]), max(high, scores[at])
    for at in range(kept):
        count += scores[at] >= high
    if count >= width:
        return high
    while True:
        middle = low + (high - low) / 2
        if not low < middle < high:
            return low
        count = 0
        for at in range(kept):
            count += scores[at] >= middle
        if count < width:
            high = middle
        else:
            low = middle
            if count <= width + slack:
                return low


@_compiled
def _cut(scores: Array, found: Ints, kept: int, width: int, slack: int) -> tuple[int, float]:
    """Drop what is not among the best ``width``: (how many are left, what others must beat)."""
    floor = _floor(scores, kept, width, slack)
    above, equal, left = 0, 0, 0
    for at in range(kept):
        above += scores[at] > floor
        equal += scores[at] == floor
    ties = equal if above + equal <= width + slack else width - above
    for at in range(kept):
        tied = scores[at] == floor and ties > 0
        ties -= tied
        scores[left], found[left] = scores[at], found[at]
        left += tied or scores[at] > floor
    return left, floor


@_compiled
def _bar(floor: Any, carried: Any) -> Any:
    """float32: what a table entry must exceed for carried + entry to exceed the floor; a little
    less, so that rounding hides nothing."""
    gap = floor - carried
    slack = 1e-6 * abs(gap) + 1e-12 * (abs(floor) + abs(carried))
    return np.float32(gap - slack)


@_compiled
def _gather(
    start: int, end: int, nodes: Ints, base: Array, table: Array, width: int, step: Step, held: Held
) -> int:
    """The best children of the nodes from start to end into ``held``, unsorted; how many.

    Without a branch that depends on a score: each candidate is written down behind those that are
    held, and stays if the count moves on. For listed children even that is done only for the eights
    in which counting finds one that may stay: eight at a time because a loop of a length that is
    known is one of vectors, and few are written down in vain. (62,000 candidates: 75 us; sixty-four
    at a time, counted in float64, 146.)
    """
    scores, found = held
    codes = step.child_codes
    kept, floor, room = 0, -np.inf, len(scores) - CHUNK
    for parent in range(start, end):
        node, carried, key = nodes[parent], base[parent], np.int64(parent) << 32
        row, bar = table[parent], _bar(floor, carried)
        if node < step.listed:
            at = step.offset + node
            child, last = np.int64(step.begin[at]), np.int64(step.begin[at + 1])
            while child < last:
                stop = min(child + EIGHT, last)
                if stop - child == EIGHT:
                    hits = np.int32(0)
                    for one in range(EIGHT):
                        hits += row[codes[child + one]] > bar
                    if not hits:
                        child = stop
                        continue
                if kept > room:
                    kept, floor = _cut(scores, found, kept, width, width >> 2)
                    bar = _bar(floor, carried)
                for one in range(child, stop):
                    score = carried + np.float64(row[codes[one]])
                    scores[kept], found[kept] = score, key | one
                    kept += floor < score < np.inf
                child = stop
        else:
            docid, begins = node - step.listed, True
            end_of_run = _run_end(docid, step.level, step.parts)
            while docid < end_of_run:
                if kept > room:
                    kept, floor = _cut(scores, found, kept, width, width >> 2)
                stop = min(docid + CHUNK, end_of_run)
                for one in range(docid, stop):
                    begins |= step.parts[one] == step.level + 1
                    score = carried + np.float64(row[_code(step, one)])
                    scores[kept], found[kept] = score, key | one
                    kept += (floor < score < np.inf) & begins
                    begins = False
                docid = stop
    return kept


@_compiled
def best_children(
    nodes: Ints,
    base: Array,
    table: Array,
    bounds: Ints,
    width: int,
    step: Step,
    held: Held,
    out_bounds: Ints,
    out_scores: Array,
    out: Ints,
) -> None:
    """The best ``width`` children of each query's nodes; see ``Trie.best``.

    Best first up to ``SORTED`` a query, in order of parent and code beyond. ``held`` has room for
    more than ``width`` candidates; when it is full those that cannot win are dropped, and from then
    on a candidate must beat what is left to be kept. NaN and the infinities never are.
    """
    scores, found = held
    total = 0
    for query in range(len(bounds) - 1):
        start, end = bounds[query], bounds[query + 1]
        kept = _gather(start, end, nodes, base, table, width, step, held)
        if kept > width:
            kept, _ = _cut(scores, found, kept, width, 0)
        for at in range(kept):
            score, rank = scores[at], at
            if kept <= SORTED:
                rank = 0
                for other in range(kept):
                    rank += scores[other] > score
                for other in range(at):
                    rank += scores[other] == score
            parent, child = found[at] >> 32, found[at] & 0xFFFFFFFF
            rank += total
            out_scores[rank], out[0, rank] = score, parent
            if nodes[parent] < step.listed:
                out[1, rank], out[2, rank] = step.child_codes[child], step.child_nodes[child]
            else:
                out[1, rank], out[2, rank] = _code(step, child), child + step.after
        total += kept
        out_bounds[query + 1] = total


@_compiled
def legal_totals(nodes: Ints, table: Array, step: Step, totals: Array) -> None:
    """log of the sum of exp(score) over the children of each node; -inf where there are none."""
    scores = np.empty(table.shape[1])
    for parent in range(len(nodes)):
        node, count, most, total = nodes[parent], 0, -np.inf, 0.0
        if node < step.listed:
            at = step.offset + node
            for child in range(step.begin[at], step.begin[at + 1]):
                scores[count] = table[parent, step.child_codes[child]]
                count += 1
        else:
            docid = node - step.listed
            while docid >= 0:
                scores[count] = table[parent, _code(step, docid)]
                count += 1
                docid = _sibling(step, docid)
        for at in range(count):
            most = max(most, scores[at])
        if -np.inf < most < np.inf:
            for at in range(count):
                total += np.exp(scores[at] - most)
            most += np.log(total)
        totals[parent] = most


@_compiled
def decode(packed: Array, docids: Ints, fields: Ints, codes: Array) -> None:
    """The codes [n, L] of some docids; ``fields`` [L, 3] says where each lies in a row."""
    for at in range(len(docids)):
        row = packed[docids[at]]
        for level in range(len(fields)):
            byte, shift, mask = fields[level]
            high, middle, low = row[byte], row[byte + 1], row[byte + 2]
            bits = (np.int64(high) << 16) | (np.int64(middle) << 8) | np.int64(low)
            codes[at, level] = (bits >> shift) & mask


@_compiled
def rows_of(owner: Array, chosen: Array, rows: Ints) -> tuple[int, int]:
    """Rows whose item is chosen, into ``rows``: how many; and how many items are beyond."""
    count, beyond, width = 0, 0, owner.shape[1]
    for row in range(len(owner)):
        item = np.int64(owner[row, 0])
        for byte in range(1, width):
            item |= np.int64(owner[row, byte]) << (8 * byte)
        rows[count] = row  # stays only if it is counted
        if item < len(chosen):
            count += chosen[item]
        else:
            beyond += 1
    return count, beyond
