"""Validation: search with the speller as it is now, and measure what it finds.

The trap: the measure that chooses the weights must come from the search that users get. A lower
loss is not always a better ranking.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from trieline.config import DecodeSettings
from trieline.decode import Found, Guide, beam_search, one_thread_each
from trieline.errors import DataError
from trieline.evaluate import score
from trieline.index import Trie
from trieline.model.packed import quickest
from trieline.model.questions import Questions
from trieline.model.readers import Asked
from trieline.model.seq2seq import Speller
from trieline.types import Floats, Hit, Qrel

__all__ = ["Validation"]

_CUT = re.compile(r"@(\d+)$")
_UNCUT = 100  # hits for a measure that looks at all of them


class Validation:
    """A retrieval measure over held-out queries, as ``train(validate=...)`` wants it."""

    def __init__(
        self,
        questions: Questions,
        qrels: Iterable[Qrel],
        queries: Mapping[str, int],
        items: Mapping[str, int],
        trie: Trie,
        decode: DecodeSettings,
        *,
        measure: str = "R@10",
        most: int = 0,
        seed: int = 0,
        guides: Sequence[Guide] = (),
        vectors: Floats | None = None,
    ) -> None:
        """``queries`` and ``items`` map ids to rows of the questions and to item numbers.

        ``most`` > 0 takes that many of the judged queries, drawn by the seed. ``vectors``, one for
        each question, are what guides compare with.
        """
        # Items go by their number from here on; one that is not there can only be missed.
        known = [
            Qrel(q.query_id, str(items.get(q.item_id, f"missing {q.item_id}")), q.relevance)
            for q in qrels
            if q.query_id in queries
        ]
        judged = sorted({qrel.query_id for qrel in known if qrel.relevance > 0})
        if not judged:
            raise DataError(
                "validation has no judged query. Give a dev split with relevant items, or train "
                "without validation."
            )
        if 0 < most < len(judged):
            chosen = np.random.default_rng(seed).choice(len(judged), most, replace=False)
            judged = [judged[place] for place in np.sort(chosen)]
        kept = set(judged)
        self.qrels = [qrel for qrel in known if qrel.query_id in kept]
        self.ids, self.rows = judged, np.array([queries[q] for q in judged], np.int64)
        self.questions, self.trie, self.decode = questions, trie, decode
        self.measure, self.guides, self.vectors = measure, guides, vectors

    def __call__(self, speller: Speller) -> float:
        return score(self._run(speller), self.qrels, [self.measure]).means[self.measure]

    def _run(self, speller: Speller) -> dict[str, list[Hit]]:
        cut = _CUT.search(self.measure)
        spells = quickest(speller)

        def answers(rows: NDArray[np.int64], asked: Asked) -> list[Found]:
            return beam_search(
                spells,
                asked.to(speller.device),
                self.trie,
                beam=self.decode.beam,
                k=int(cut[1]) if cut else _UNCUT,
                normalise=self.decode.normalise,
                guides=self.guides,
                vectors=None if self.vectors is None else self.vectors[rows],
            )

        run: dict[str, list[Hit]] = {}
        parts = np.array_split(
            self.rows, range(self.decode.batch, len(self.rows), self.decode.batch)
        )
        asked = [self.questions.batch(rows) for rows in parts]  # threads may not share a tokenizer
        with one_thread_each() as workers:
            every = chain.from_iterable(workers.map(answers, parts, asked))
            for query, found in zip(self.ids, every, strict=True):
                scored = zip(found.items, found.scores, strict=True)
                run[query] = [Hit(str(item), float(value)) for item, value in scored]
        return run
