"""A dataset out of lists: for data that are in a program already, and for tests.

The trap: an iterator can be read once, and a dataset is read several times; so everything is put
into tuples here, in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from trieline.data.dataset import require_split
from trieline.errors import DataError
from trieline.types import Item, Qrel, Query

__all__ = ["MemoryDataset"]


class MemoryDataset:
    """Items, and by split the queries and judgements."""

    def __init__(
        self,
        items: Iterable[Item],
        queries: Mapping[str, Iterable[Query]] | None = None,
        qrels: Mapping[str, Iterable[Qrel]] | None = None,
        name: str = "items",
        pools: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        """``pools``: by split, ids of the items that its queries choose among; absent: all."""
        self.name = name
        self._pools = {split: frozenset(own) for split, own in (pools or {}).items()}
        self._items = tuple(items)
        self._queries = {split: tuple(own) for split, own in (queries or {}).items()}
        self._qrels = {split: tuple(own) for split, own in (qrels or {}).items()}
        if self._queries.keys() != self._qrels.keys():
            raise DataError(
                f"queries for {sorted(self._queries)}, judgements for {sorted(self._qrels)}: "
                "every split needs both."
            )
        if not self._items:
            raise DataError(f"{name}: the corpus is empty. Give at least one item.")
        seen: set[str] = set()
        for item in self._items:
            if item.id in seen:
                raise DataError(f"{name}: item '{item.id}' is given twice; ids must be unique.")
            seen.add(item.id)
        for split, pool in self._pools.items():
            if stray := sorted(pool - seen):
                raise DataError(
                    f"{name}: the pool of {split!r} names item '{stray[0]}', which is not in the "
                    f"corpus ({len(stray):,} are not)."
                )

    def items(self) -> Iterator[Item]:
        """Every item."""
        return iter(self._items)

    def splits(self) -> tuple[str, ...]:
        """As they were given."""
        return tuple(self._queries)

    def queries(self, split: str) -> Iterator[Query]:
        """The queries of a split."""
        require_split(self.name, split, self.splits())
        return iter(self._queries[split])

    def qrels(self, split: str) -> Iterator[Qrel]:
        """The judgements of a split."""
        require_split(self.name, split, self.splits())
        return iter(self._qrels[split])

    def pool(self, split: str) -> Collection[str] | None:
        """The items that the queries of a split choose among; None: all."""
        return self._pools.get(split)
