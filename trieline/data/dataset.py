"""What every reader in this room gives: items, and for each split its queries and judgements.

Every method starts its stream again from the beginning, so a dataset can be read many times and
nothing needs to be kept in memory. The trap: readers check while they read, so a fault on the last
line shows itself on the last line; finish (or roll back) a bulk load before you trust it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol, runtime_checkable

from trieline.errors import DataError
from trieline.types import Item, Qrel, Query

__all__ = ["Dataset", "Pooled", "pool_of", "require_split"]


@runtime_checkable
class Dataset(Protocol):
    """A corpus with the questions that are asked of it."""

    name: str

    def items(self) -> Iterator[Item]:
        """Every item once, in a fixed order."""

    def splits(self) -> tuple[str, ...]:
        """The splits that have judged queries, for example ``("train", "dev", "test")``."""

    def queries(self, split: str) -> Iterator[Query]:
        """The queries that are judged in this split."""

    def qrels(self, split: str) -> Iterator[Qrel]:
        """The judgements of this split."""


@runtime_checkable
class Pooled(Protocol):
    """A dataset whose splits may be asked over some of the items only, as benchmarks often are."""

    def pool(self, split: str) -> Collection[str] | None:
        """Ids of the items that queries of the split choose among; None: all."""


def pool_of(dataset: Dataset, split: str) -> frozenset[str] | None:
    """The pool of a split, where the dataset says so."""
    pool = dataset.pool(split) if isinstance(dataset, Pooled) else None
    return None if pool is None else frozenset(pool)


def require_split(name: str, split: str, splits: Sequence[str]) -> None:
    """A clear refusal for a split that a dataset does not have."""
    if split in splits:
        return
    if not splits:
        raise DataError(
            f"{name} has no split {split!r}: it has items only, no judged queries. "
            "Give a dataset with queries and qrels."
        )
    fix = ""
    if split == "dev" and "train" in splits:
        fix = " Cut one from train with trieline.data.hold_out(dataset)."
    raise DataError(f"{name} has no split {split!r}. It has: {', '.join(splits)}.{fix}")
