"""Answers with a certificate: exact search of an opened index, and what beams miss of it.

The two functions are methods of ``Retriever``; they live here because each is a story of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from trieline.answering import still_there
from trieline.asking import Asker, Batch, as_queries
from trieline.catalog import Catalog
from trieline.config import Recipe
from trieline.decode import Exact, GuidesOf, exact_search, one_thread_each
from trieline.diagnose.search import BatchErrors, SearchError, compare_searches
from trieline.diagnose.search import search_error as summed_up
from trieline.errors import SettingsError
from trieline.index import Trie
from trieline.living import Filter, Living
from trieline.model.stepper import Spells
from trieline.types import Floats, Hit, Query
from trieline.watch import Watch, silent

__all__ = ["Certified", "Opened", "search_error", "search_exact"]

Questions = str | Query | Sequence[str | Query]


class Certified(NamedTuple):
    """The answers to one query, and what is certain about them."""

    hits: list[Hit]
    certified: int  # so many hits, from the first, are the true ones
    bound: float  # nothing else scores higher; minus infinity when there is nothing else
    rows: int  # prefixes that the decoder read
    complete: bool  # False: the budget ran out first

    def text(self) -> str:
        """The certificate in a line."""
        read = f"{self.rows:,} prefixes read" if self.rows != 1 else "1 prefix read"
        if self.complete:
            best = f"the {len(self.hits):,} best" if len(self.hits) != 1 else "the best one"
            return f"{best}, certified; {read}" if self.hits else f"nothing to be found; {read}"
        match self.certified:
            case 0:
                sure = "no answer is certain yet"
            case 1:
                sure = "the first is certain"
            case _:
                sure = f"the first {self.certified:,} are certain"
        return f"budget spent: {sure}; nothing else can score above {self.bound:.2f}; {read}"

    def to_json(self) -> dict[str, Any]:
        """The certificate for programs, without the hits."""
        told = self._asdict()
        del told["hits"]
        return {**told, "bound": self.bound if np.isfinite(self.bound) else None}


class Opened(Protocol):
    """What these functions need of a ``Retriever``."""

    recipe: Recipe
    catalog: Catalog
    _living: Living
    _spells: Spells
    _asker: Asker
    _guides: GuidesOf


def search_exact(
    self: Opened,
    queries: Questions,
    k: int = 10,
    *,
    budget: int | None = None,
    filter: Filter | None = None,
    watch: Watch = silent,
) -> list[Certified]:
    """The true best ``k`` items of every query, each list with its certificate.

    ``budget`` is the most prefixes that are read for a query; without one the search goes on until
    everything is certain. ``filter`` is that of ``search``.
    """
    asked = as_queries(queries)
    trie = self._living.findable(self._living.view(), filter)
    votes = _votes_of(self)
    ready = self._asker.ready(asked, watch, guided=self.recipe.decode.guided)
    answers: list[Certified] = []
    with watch("searching", len(asked)) as task, one_thread_each() as workers:

        def answer(batch: Batch) -> list[Certified]:
            def spell(trie: Trie) -> list[Exact]:
                return exact_search(
                    self._spells,
                    batch.asked.to(self._spells.device),
                    trie,
                    k=k,
                    normalise=self.recipe.decode.normalise,
                    votes=votes(batch, trie),
                    budget=budget,
                )

            return [_certified(*found) for found in still_there(self.catalog, spell, trie)]

        for certified in workers.map(answer, ready):
            answers += certified
            task.advance(len(certified))
    return answers


def search_error(
    self: Opened,
    queries: Sequence[Query],
    *,
    beams: Sequence[int] = (10, 50),
    k: int = 10,
    budget: int | None = None,
    watch: Watch = silent,
) -> SearchError:
    """How often and where beams of these widths miss what exact search finds.

    A query whose exact answer costs more than ``budget`` prefixes is counted, but not compared.
    """
    decode, trie = self.recipe.decode, self._living.view().trie
    votes, guides = _votes_of(self), self._guides(decode)
    ready = self._asker.ready(queries, watch, guided=decode.guided)
    parts: list[BatchErrors] = []
    with watch("comparing searches", len(queries)) as task, one_thread_each() as workers:

        def compare(batch: Batch) -> BatchErrors:
            return compare_searches(
                self._spells,
                batch.asked.to(self._spells.device),
                trie,
                beams=beams,
                k=k,
                normalise=decode.normalise,
                guides=guides,
                vectors=batch.vectors,
                votes=votes(batch, trie),
                budget=budget,
            )

        for part in workers.map(compare, ready):
            parts.append(part)
            task.advance(len(part.rows) + part.uncertified)
    return summed_up(parts)


def _votes_of(opened: Opened) -> Callable[[Batch, Trie], Floats | None]:
    """What the geometry says of every row in the end, for a batch of queries."""
    decode = opened.recipe.decode
    if decode.plan != "none" or (decode.omega and decode.standardise):
        raise SettingsError(
            "exact search needs scores that can be bounded: with decode.plan or decode.standardise "
            "they cannot. Set decode.plan=none and decode.standardise=false, or search with a beam."
        )
    if not decode.omega:
        return lambda batch, trie: None
    whole = opened._guides.whole()

    def votes(batch: Batch, trie: Trie) -> Floats | None:
        assert batch.vectors is not None, "made wherever omega is not 0"
        return decode.omega * whole.scores(batch.vectors, trie)

    return votes


def _certified(answer: Exact, hits: list[Hit]) -> Certified:
    gone = len(answer.items) - len(hits)  # removed while we searched; perhaps certain ones
    certified = max(answer.certified - gone, 0)
    return Certified(hits, certified, answer.bound, answer.rows, answer.complete)
