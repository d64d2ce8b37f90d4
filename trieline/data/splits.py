"""A development split cut from another split, for sets that come without one; names of splits.

A query goes by the hash of the seed and its id: the same queries whatever the order of the files,
and an added query moves few others. The trap: items are not cut, so an item may be relevant to
queries on both sides, as in every standard set.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from hashlib import blake2b

from trieline.data.dataset import Dataset, pool_of, require_split
from trieline.errors import DataError, SettingsError
from trieline.types import Item, Qrel, Query

__all__ = ["HeldOut", "hold_out", "in_order", "split_name"]

_FIRST = ("train", "dev", "test")  # the order in which splits are named; others follow
_OTHER_NAMES = {
    "val": "dev",
    "valid": "dev",
    "validate": "dev",
    "validation": "dev",
    "restval": "train",
}


def hold_out(
    dataset: Dataset, split: str = "train", share: float = 0.1, seed: int = 0, name: str = "dev"
) -> HeldOut:
    """The dataset with ``share`` of the queries of ``split`` moved to a new split ``name``."""
    if not 0 < share < 1:
        raise SettingsError(f"share = {share}: expected a number between 0 and 1.")
    require_split(dataset.name, split, dataset.splits())
    if name in dataset.splits():
        raise SettingsError(
            f"{dataset.name} already has a split {name!r}: use it, or choose another name=."
        )
    return HeldOut(dataset, split, share, seed, name)


class HeldOut:
    """See ``hold_out``. At least one query stays and at least one goes."""

    def __init__(self, dataset: Dataset, split: str, share: float, seed: int, cut: str) -> None:
        self.name = dataset.name
        self._dataset, self._split, self._cut = dataset, split, cut
        self._share, self._seed = share, seed
        self._chosen: frozenset[str] | None = None  # decided at the first use

    def items(self) -> Iterator[Item]:
        """Every item of the dataset."""
        return self._dataset.items()

    def splits(self) -> tuple[str, ...]:
        """The dataset's splits, the new one after the one it was cut from."""
        splits = list(self._dataset.splits())
        splits.insert(splits.index(self._split) + 1, self._cut)
        return tuple(splits)

    def queries(self, split: str) -> Iterator[Query]:
        """The queries of ``split`` after the cut."""
        if split not in (self._split, self._cut):
            yield from self._dataset.queries(split)
            return
        chosen = self._held_out()
        for query in self._dataset.queries(self._split):
            if (query.id in chosen) == (split == self._cut):
                yield query

    def qrels(self, split: str) -> Iterator[Qrel]:
        """The judgements of ``split`` after the cut."""
        if split not in (self._split, self._cut):
            yield from self._dataset.qrels(split)
            return
        chosen = self._held_out()
        for qrel in self._dataset.qrels(self._split):
            if (qrel.query_id in chosen) == (split == self._cut):
                yield qrel

    def pool(self, split: str) -> Collection[str] | None:
        """A cut split is asked over the items of the one it was cut from."""
        return pool_of(self._dataset, self._split if split == self._cut else split)

    def _held_out(self) -> frozenset[str]:
        if self._chosen is None:
            ids = [query.id for query in self._dataset.queries(self._split)]
            if len(ids) < 2:
                raise DataError(
                    f"{self.name} has {len(ids)} queries in {self._split!r}: at least two are "
                    "needed to cut a split from it."
                )
            size = min(max(round(self._share * len(ids)), 1), len(ids) - 1)
            self._chosen = frozenset(sorted(ids, key=self._draw)[:size])
        return self._chosen

    def _draw(self, id_: str) -> bytes:
        return blake2b(f"{self._seed} {id_}".encode(), digest_size=16).digest()


def split_name(name: str) -> str:
    """What a split is called here: ``val`` and the like are ``dev``; Karpathy's ``restval``, which
    everybody trains on, is ``train``.
    """
    return _OTHER_NAMES.get(name.strip().lower(), name.strip().lower())


def in_order(splits: Iterable[str]) -> tuple[str, ...]:
    """train, dev, test, then others by name."""
    found = set(splits)
    known = [split for split in _FIRST if split in found]
    return (*known, *sorted(found.difference(known)))
