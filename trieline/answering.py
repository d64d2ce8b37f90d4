"""From what a search found to the hits that users get, while items may come and go.

The trap: a search reads one state of the trie, and the catalog may have moved on when its items are
looked up. What was removed meanwhile must not be answered, nor leave a gap: it is taken out of the
trie and the batch is asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from trieline.catalog import Catalog
from trieline.decode.answers import Trace
from trieline.index import Trie
from trieline.types import Floats, Hit, Item

__all__ = ["Spelled", "still_there"]

_TURNS = 3  # times a batch is asked, at most, while items that it found are being removed


class Spelled(Protocol):
    """What any search says of a query: numbers of items, best first, and how they were spelled."""

    @property
    def items(self) -> NDArray[np.uint32]: ...

    @property
    def scores(self) -> Floats: ...

    @property
    def leaves(self) -> NDArray[np.int64]: ...

    @property
    def traces(self) -> tuple[Trace, ...]: ...


Answer = TypeVar("Answer", bound=Spelled)


def still_there(
    catalog: Catalog, spell: Callable[[Trie], Sequence[Answer]], trie: Trie
) -> list[tuple[Answer, list[Hit]]]:
    """What ``spell`` finds in the trie for each query of a batch, with its hits."""
    for _ in range(_TURNS):
        found, searched = spell(trie), trie
        numbers = np.unique(np.concatenate([answer.items for answer in found]))
        items = catalog.found(numbers)
        if len(items) == len(numbers):
            break
        trie = trie.remove([number for number in numbers if int(number) not in items])
    return [(answer, _hits(answer, searched, items)) for answer in found]


def _hits(found: Spelled, trie: Trie, items: Mapping[int, Item]) -> list[Hit]:
    traces = found.traces or ((),) * len(found.items)
    hits: list[Hit] = []
    told = zip(found.items, found.scores, found.leaves, traces, strict=True)
    for number, score, leaf, path in told:
        item = items.get(int(number))
        if item is not None:
            docid = trie.docid(int(leaf))
            hits.append(Hit(item.id, float(score), docid, len(hits) + 1, item.title, path))
    return hits
