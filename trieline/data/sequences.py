"""Who took what, in order of time: ``items.jsonl`` and ``sequences.txt``, split leave-one-out.

The protocol of TIGER (Rajput et al., 2023): of a user's items i1 ... in, the test query is "what
comes after i1 ... in-1?" (answer in), the dev query "after i1 ... in-2?" (answer in-1), and every
shorter history is a training query. The trap: with fewer than three items nothing would be left to
train on, so such a user only trains (i1 -> i2); with one item there is nothing to ask.
A query is called ``user#t``, t being the number of items in its history.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from trieline.data.columns import ITEM_NAMES
from trieline.data.dataset import require_split
from trieline.data.files import read_items
from trieline.data.lines import Source, find_file, read_lines
from trieline.errors import DataError
from trieline.types import Item, Qrel, Query

__all__ = ["SequenceFolder", "is_sequences"]

_SPLITS = ("train", "dev", "test")
_FULL = 3  # items a user needs to take part in dev and test


class _Case(NamedTuple):
    query: Query
    answer: str


class SequenceFolder:
    """A dataset of interaction sequences. How much of a history is used is the model's choice."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.name = self.folder.resolve().name
        self._items = _require(self.folder, "items.jsonl")
        self._sequences = _require(self.folder, "sequences.txt")

    def items(self) -> Iterator[Item]:
        """Every item of items.jsonl. One without text passes: it is known by who took it."""
        return read_items(self._items, keep_empty=True)

    def splits(self) -> tuple[str, ...]:
        """Always train, dev and test."""
        return _SPLITS

    def queries(self, split: str) -> Iterator[Query]:
        """The histories of ``split``, in the order of the file."""
        for case in self._cases(split):
            yield case.query

    def qrels(self, split: str) -> Iterator[Qrel]:
        """What came next after each of them."""
        for case in self._cases(split):
            yield Qrel(case.query.id, case.answer, 1)

    def _cases(self, split: str) -> Iterator[_Case]:
        require_split(self.name, split, _SPLITS)
        for user, items in self._users():
            for place in _places(len(items), split):
                query = Query(f"{user}#{place}", history=items[:place])
                yield _Case(query, items[place])

    def _users(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """(user, items), checked against items.jsonl."""
        known = {item.id: item.id for item in self.items()}
        source = Source(self._sequences)
        seen: dict[str, int] = {}
        for number, text in read_lines(self._sequences):
            user, *items = text.split()
            if not items:
                raise source.error(number, "a user and at least one item", repr(user))
            if (first := seen.setdefault(user, number)) != number:
                raise source.error(number, "a new user", f"{user!r} again, first on line {first}")
            if unknown := next((item for item in items if item not in known), None):
                raise source.error(number, f"an item of {self._items}", f"the unknown {unknown!r}")
            # The strings of ``known``, so that a history does not hold copies of its ids.
            yield user, tuple(known[item] for item in items)


def is_sequences(folder: Path) -> bool:
    """Whether a folder holds interaction sequences."""
    return find_file(folder, "sequences.txt") is not None


def _places(length: int, split: str) -> range:
    """The places of a sequence (from 0) that are asked for in a split."""
    if split == "train":
        return range(1, length - 2 if length >= _FULL else length)
    if length < _FULL:
        return range(0)
    place = length - 2 if split == "dev" else length - 1
    return range(place, place + 1)


def _require(folder: Path, name: str) -> Path:
    path = find_file(folder, name)
    if path is None:
        raise DataError(
            f"no {name} (or {name}.gz) in {folder}. A folder of sequences holds items.jsonl "
            f"(item_id, text, ...; the id may also be called {', '.join(ITEM_NAMES['id'])}) and "
            "sequences.txt (a user, then item ids in order of time, white space between)."
        )
    return path
