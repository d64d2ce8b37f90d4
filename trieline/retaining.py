"""Which prefixes survive in an opened index: a method of ``Retriever``, a story of its own.

An index keeps docids and no vectors, so the teacher's similarities need its items encoded again:
with a ``cache`` at hand (see ``Retriever.load``) that costs little where they were encoded before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trieline.asking import Asker, Batch
from trieline.catalog import Catalog
from trieline.config import Recipe
from trieline.decode import GuidesOf, one_thread_each
from trieline.diagnose.ground import Asking, Decoder, ground_of
from trieline.diagnose.pruning import Pruning, pruning_of
from trieline.diagnose.retention import Retention, follow_targets, joined
from trieline.errors import DataError, SettingsError
from trieline.ids import Docids, codebooks_of
from trieline.index import Trie
from trieline.model.stepper import Spells
from trieline.types import Codes, Item, Qrel, Query
from trieline.watch import Watch, silent

__all__ = ["Judged", "Opened", "diagnose_survival", "numbered", "relevant_items"]

_WHOLE = 10_000  # docids up to which the decoder scores every prefix unless told otherwise


class Opened(Protocol):
    """What this needs of a ``Retriever``."""

    recipe: Recipe
    catalog: Catalog
    docids: Docids
    _spells: Spells
    _asker: Asker
    _guides: GuidesOf


class Judged(NamedTuple):
    """Queries that have a target, and the item numbers that answer each."""

    queries: list[Query]
    relevant: list[NDArray[np.int64]]


def diagnose_survival(
    self: Opened,
    queries: Sequence[Query],
    qrels: Iterable[Qrel],
    *,
    items: Iterable[Item] | None = None,
    beam: int = 20,
    tau: float = 0.05,
    mismatch: bool | None = None,
    watch: Watch = silent,
) -> Pruning:
    """At which level targets are lost, by the quantised oracle and by the decoder, and why.

    ``beam`` is that of PRO's diagnostics, ``tau`` that of its training; its Figure 5 is at tau = 1,
    where similarities of unit vectors are nearly uniform and nothing is ever certified, and its
    Table 1 cannot be (512 prefixes allow a margin of .014 at most, it has .109). ``mismatch``
    (epsilon, and so Theorem 2) needs the decoder's score of every prefix, for every query: by
    default only up to 10,000 docids. ``items`` bring vectors, where the index was built from
    vectors of its users.
    """
    _check(self.recipe, beam, tau)
    codes, listed, numbers = numbered(self.catalog, items)
    judged = relevant_items(queries, qrels, numbers)
    trie = Trie.build(codes, self.catalog.sizes)
    vectors = self.docids.project(self._asker.encode(listed, watch))  # as queries are
    ground = ground_of(trie, codebooks_of(self.docids), vectors)
    decoder = Decoder(self._spells, self.recipe.decode.normalise, self._guides(self.recipe.decode))
    whole = ground.trie.docids <= _WHOLE if mismatch is None else mismatch
    ready = self._asker.ready(judged.queries, watch, guided=True)
    parts: list[Retention] = []
    with watch("following prefixes", len(judged.queries)) as task, one_thread_each() as workers:

        def follow(asking: Asking) -> Retention:
            return follow_targets(ground, decoder, asking, beam=beam, tau=tau, mismatch=whole)

        for part in workers.map(follow, _askings(ready, judged.relevant, self._spells)):
            parts.append(part)
            task.advance(len(part.error))
    return pruning_of(joined(parts), beam=beam, tau=tau)


def _check(recipe: Recipe, beam: int, tau: float) -> None:
    if beam < 1 or not 0 < tau < np.inf:
        raise SettingsError(
            f"beam = {beam}, tau = {tau}: expected a beam of at least 1, tau above 0."
        )
    if recipe.model.query == "history":
        raise SettingsError(
            "this index reads histories, which have no vector that items could be compared with: "
            "the survival bound speaks of queries with vectors. 'trieline diagnose search' tells "
            "what its beams lose."
        )


def numbered(
    catalog: Catalog, items: Iterable[Item] | None = None
) -> tuple[Codes, list[Item], dict[str, int]]:
    """One consistent state of an index, its items numbered from 0: docids, items, numbers by id.

    ``items`` take the place of those of the same id, so as to bring vectors.
    """
    with catalog.snapshot() as (codes, held):
        listed = list(held)
    numbers = {item.id: number for number, item in enumerate(listed)}
    for item in () if items is None else items:
        if item.id in numbers:
            listed[numbers[item.id]] = item
    _, owner = np.unique(codes.owner, return_inverse=True)
    return Codes(codes.codes, owner.astype(np.uint32)), listed, numbers


def relevant_items(
    queries: Sequence[Query], qrels: Iterable[Qrel], numbers: Mapping[str, int]
) -> Judged:
    """The queries that have an answer in the index; a complaint where none has."""
    wanted: dict[str, set[int]] = {query.id: set() for query in queries}
    for qrel in qrels:
        if qrel.relevance > 0 and qrel.query_id in wanted and qrel.item_id in numbers:
            wanted[qrel.query_id].add(numbers[qrel.item_id])
    answered = [query for query in queries if wanted[query.id]]
    if not answered:
        raise DataError(
            f"none of the {len(queries):,} queries has a relevant item in this index: there is no "
            "target to follow. Give the dataset that the index was built from, and a split with "
            "judgements."
        )
    return Judged(answered, [np.array(sorted(wanted[query.id])) for query in answered])


def _askings(
    ready: Sequence[Batch], relevant: Sequence[NDArray[np.int64]], speller: Spells
) -> Iterator[Asking]:
    low = 0
    for batch in ready:
        assert batch.vectors is not None, "asked for"
        own = relevant[low : low + len(batch.vectors)]
        low += len(own)
        yield Asking(batch.asked.to(speller.device), batch.vectors, own)
