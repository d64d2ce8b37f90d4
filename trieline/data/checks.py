"""What is checked while items and queries stream by: ids, empty items, widths of embeddings.

Duplicate ids are found at eight bytes an id: the 64-bit hashes of all ids so far are kept as a few
sorted arrays (each at most half as long as the one before, merged as they grow), a block of records
is looked up at once, and a hash that was seen before is confirmed by reading the file again up to
that record, which also tells where the id stood first. So the answer is exact, comes before a
record of its block is handed out, and a million ids cost 8 MB (24 while arrays are merged) where a
set of strings costs 150. Leaving it to the catalog would tell the user only after the encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from trieline.data.lines import Source
from trieline.errors import DataError, DimensionError
from trieline.types import Item, Query

__all__ = ["SeenIds", "check_items", "check_queries", "refuse_empty", "same_width", "unique"]

T = TypeVar("T", Item, Query)

_BLOCK = 512  # records held back while their ids are looked up


class SeenIds:
    """Says which ids may have come before. Never misses one; may name one too many."""

    def __init__(self, fingerprint: Callable[[str], int] = hash) -> None:
        self._fingerprint = fingerprint
        self._runs: list[NDArray[np.int64]] = []  # sorted, each more than twice the next

    def suspects(self, ids: Sequence[str]) -> list[int]:
        """Positions of ``ids`` whose hash an earlier one has; then counts ``ids`` as seen."""
        hashes = np.fromiter(map(self._fingerprint, ids), dtype=np.int64, count=len(ids))
        order = np.argsort(hashes, kind="stable")
        block = hashes[order]
        again = np.zeros(len(block), dtype=bool)
        again[1:] = block[1:] == block[:-1]
        for run in self._runs:
            place = np.searchsorted(run, block)
            again |= run[np.minimum(place, len(run) - 1)] == block
        if len(block):
            self._add(block)
        return sorted(order[again].tolist())

    def _add(self, block: NDArray[np.int64]) -> None:
        runs = self._runs
        runs.append(block)
        while len(runs) > 1 and len(runs[-2]) <= 2 * len(runs[-1]):
            last = runs.pop()
            # The stable sort is a merge sort that finds the two runs: linear here.
            runs[-1] = np.sort(np.concatenate([runs[-1], last]), kind="stable")


def unique(
    reopen: Callable[[], Iterator[tuple[int, T]]],
    source: Source,
    fingerprint: Callable[[str], int] = hash,
) -> Iterator[tuple[int, T]]:
    """The (number, thing) pairs of ``reopen()``, refusing an id that comes twice."""
    seen = SeenIds(fingerprint)
    stream = reopen()
    while block := list(islice(stream, _BLOCK)):
        for position in seen.suspects([thing.id for _, thing in block]):
            number, thing = block[position]
            first = _first(reopen(), thing.id)
            if first != number:
                raise source.error(
                    number,
                    "a new id",
                    f"{thing.id!r} again, first on {source.unit} {first}",
                    "Every id may occur once; remove or rename one of the two.",
                )
        yield from block


def refuse_empty(things: Iterator[tuple[int, Item]], source: Source) -> Iterator[tuple[int, Item]]:
    """Refuses items without content; counts them to the end of the file first."""
    total = 0
    for number, item in things:
        total += 1
        if _is_empty(item):
            break
        yield number, item
    else:
        return
    empty = 1
    for _, other in things:
        total += 1
        empty += _is_empty(other)
    raise source.error(
        number,
        "a text, a title, an image or an embedding in every item",
        f"none in {item.id!r} ({empty:,} of {total:,} items are empty)",
        "Remove these items, or read with keep_empty=True.",
    )


def same_width(things: Iterator[tuple[int, T]], source: Source) -> Iterator[tuple[int, T]]:
    """Refuses an embedding that is not as wide as the first one."""
    width = first = None
    for number, thing in things:
        if thing.embedding is not None:
            if width is None:
                width, first = len(thing.embedding), thing.id
            elif len(thing.embedding) != width:
                raise DimensionError(
                    f"{source.path} {source.unit} {number}: the embedding of {thing.id!r} has "
                    f"{len(thing.embedding)} values, that of {first!r} has {width}. "
                    "All embeddings of a file must come from the same model."
                )
        yield number, thing


def check_items(
    reopen: Callable[[], Iterator[tuple[int, Item]]], source: Source, keep_empty: bool = False
) -> Iterator[Item]:
    """Every item of ``reopen()``, checked; an empty corpus is refused."""
    things = same_width(unique(reopen, source), source)
    if not keep_empty:
        things = refuse_empty(things, source)
    number = 0
    for number, item in things:  # noqa: B007  (asked for below)
        yield item
    if not number:
        raise DataError(f"{source.path} has no items. Give a corpus with at least one.")


def check_queries(
    reopen: Callable[[], Iterator[tuple[int, Query]]], source: Source
) -> Iterator[Query]:
    """Every query of ``reopen()``, checked."""
    for _, query in same_width(unique(reopen, source), source):
        yield query


def _is_empty(item: Item) -> bool:
    return (
        item.embedding is None
        and not item.image
        and not item.text.strip()
        and not item.title.strip()
    )


def _first(stream: Iterator[tuple[int, T]], id_: str) -> int:
    return next(number for number, thing in stream if thing.id == id_)
