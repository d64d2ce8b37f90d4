"""A dataset out of lists: for data that are in a program already, and for tests.

The trap: an iterator can be read once, and a dataset is read several times; so everything is put
into tuples here, in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

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
    ) -> None:
        self.name = name
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
