"""From what a user asks to what a model reads: texts, vectors, histories, in batches.

The trap: neither an encoder nor a tokenizer may be shared by threads, so all of this happens in the
calling thread, before a search spreads over workers; threads that search at once take turns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from trieline.catalog import Catalog
from trieline.config import Recipe
from trieline.encode import Encoder
from trieline.errors import DataError
from trieline.ids import Docids
from trieline.model import Asked
from trieline.model.questions import (
    HistoryQuestions,
    Questions,
    TextQuestions,
    VectorQuestions,
    load_tokenizer,
)
from trieline.types import Floats, Item, Query
from trieline.watch import Watch, silent

__all__ = ["Asker", "Batch", "as_queries"]


_MANY = 256  # queries


class Batch(NamedTuple):
    """Queries that are decoded together."""

    asked: Asked
    vectors: Floats | None  # [B, D] as guides compare them with codebooks, where there are any


class Asker:
    """Prepares queries for one index."""

    def __init__(
        self,
        recipe: Recipe,
        catalog: Catalog,
        encoder: Encoder,
        docids: Docids,
        place: Callable[[Asked], Floats] | None = None,
    ) -> None:
        """``place`` says where queries that have no vector lie among the codebooks."""
        self.recipe, self.catalog, self.encoder = recipe, catalog, encoder
        self._docids, self._place = docids, place
        self._tokenizer: Any = None  # loading one takes longer than a search
        self._turn = threading.Lock()

    def ready(
        self,
        queries: Sequence[Query],
        watch: Watch,
        *,
        guided: bool = False,
    ) -> list[Batch]:
        """The queries as the model reads them, and as vectors where a guide compares with them."""
        with self._turn:
            return self._ready(queries, watch, guided)

    def encode(self, things: Sequence[Item] | Sequence[Query], watch: Watch) -> Floats:
        """The vectors of items or queries, while no other thread encodes anything."""
        with self._turn:
            return self.encoder.encode(things, watch)

    def _ready(self, queries: Sequence[Query], watch: Watch, guided: bool) -> list[Batch]:
        model = self.recipe.model
        vectors: Floats | None = None
        if model.query == "embedding" or (guided and self._place is None):
            # Fewer are encoded in a second: not worth a progress bar.
            vectors = self.encoder.encode(queries, watch if len(queries) > _MANY else silent)
        if model.query == "tokens" and self._tokenizer is None:
            self._tokenizer = load_tokenizer(model.text_model)
        # Few queries are spread over the workers, which are as many as torch has threads.
        size = max(1, min(self.recipe.decode.batch, -(-len(queries) // torch.get_num_threads())))
        ready: list[Batch] = []
        for low in range(0, len(queries), size):
            some = queries[low : low + size]
            own = None if vectors is None else vectors[low : low + size]
            asked = self._questions(some, own).batch(np.arange(len(some)))
            near = None if own is None else self._docids.project(own)
            if guided and self._place is not None:
                near = self._place(asked)
            ready.append(Batch(asked, near))
        return ready

    def _questions(self, queries: Sequence[Query], vectors: Floats | None) -> Questions:
        match self.recipe.model.query:
            case "embedding":
                assert vectors is not None
                return VectorQuestions(vectors)
            case "tokens":
                return TextQuestions.of(queries, self.recipe.model, self._tokenizer)
            case "history":
                return self._histories(queries)

    def _histories(self, queries: Sequence[Query]) -> HistoryQuestions:
        """Histories as docids. Items that are no longer there are passed over."""
        wanted = sorted({item for query in queries for item in query.history})
        known = [(item, self.catalog.find(item)) for item in wanted]
        held = [(item, number) for item, number in known if number is not None]
        place = {item: row for row, (item, _) in enumerate(held)}
        rows = [self.catalog.docids(number)[0] for _, number in held]
        histories = [
            np.array([place[i] for i in query.history if i in place], np.int64) for query in queries
        ]
        for query, history in zip(queries, histories, strict=True):
            if not len(history):
                raise DataError(
                    f"query '{query.id}': none of its {len(query.history)} past items is in the "
                    "index. Give at least one known item id in Query.history."
                )
        codes = np.array(rows, np.uint16).reshape(len(rows), self.catalog.depth)
        return HistoryQuestions(histories, codes, self.recipe.model.max_history)


def as_queries(queries: str | Query | Sequence[str | Query]) -> list[Query]:
    """Texts become queries named by their place."""
    if isinstance(queries, str | Query):
        queries = [queries]
    return [
        query if isinstance(query, Query) else Query(id=str(place), text=query)
        for place, query in enumerate(queries)
    ]
