"""What other ways find: BM25, exact dense search, the most popular items, what follows last.

BM25 is bm25s with k1 = 0.9, b = 0.4 and its English stop list; ``Dense`` scores every item, in
blocks. ``bm25`` and ``dense`` do it all in one call.
Trap: nothing is filled up. An item that shares no word with the query is no answer of BM25, so a
query may get fewer than ``k`` hits, or none; equal scores keep the order of the items.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trieline.errors import DataError, DimensionError, SettingsError
from trieline.types import Floats, Hit, Item, Qrel, Query
from trieline.watch import Watch, silent

__all__ = ["Bm25", "Dense", "bm25", "dense", "last_item", "popular"]

_ITEMS, _QUERIES = 16384, 256  # one block of scores: 16 MB

Found = dict[str, list[Hit]]
Ints = NDArray[np.int64]


class Bm25:
    """Items by the words they share with the query."""

    def __init__(
        self,
        items: Iterable[Item],
        *,
        k1: float = 0.9,
        b: float = 0.4,
        stopwords: str = "english",
        watch: Watch = silent,
    ) -> None:
        from bm25s import BM25
        from bm25s.tokenization import tokenize

        self._ids: list[str] = []
        self._tokenize, self._stopwords = tokenize, stopwords
        with watch("reading items for BM25", None) as task:

            def texts() -> Iterator[str]:
                for item in items:
                    self._ids.append(item.id)
                    task.advance()
                    yield f"{item.title} {item.text}"

            words = tokenize(texts(), stopwords=stopwords, show_progress=False)
        self._index = BM25(k1=k1, b=b)
        self._knows_words = bool(words.vocab)
        if words.vocab:
            self._index.index(words, show_progress=False)

    @property
    def nbytes(self) -> int:
        """Bytes of the postings: scores, items, where each word begins. Without the words."""
        if not self._knows_words:
            return 0
        return int(sum(array.nbytes for array in _arrays_of(self._index.scores)))

    def search(self, queries: Sequence[Query], k: int, *, watch: Watch = silent) -> list[list[Hit]]:
        """The ``k`` best items of every query; fewer where fewer share a word with it."""
        _check_k(k)
        texts = [query.text for query in queries]
        spelled = self._tokenize(
            texts, return_ids=False, stopwords=self._stopwords, show_progress=False
        )
        found: list[list[Hit]] = []
        with watch("asking BM25", len(texts)) as task:
            for tokens in spelled:
                known = self._index.get_tokens_ids(tokens) if self._knows_words else []
                found.append(_shared_words(self._index, known, self._ids, k))
                task.advance()
        return found


class Dense:
    """Items whose vectors are nearest to the query's, found by looking at all of them."""

    def __init__(
        self,
        item_ids: Sequence[str],
        item_vectors: Floats,
        *,
        metric: Literal["cosine", "dot"] = "cosine",
    ) -> None:
        if metric not in ("cosine", "dot"):
            raise SettingsError(f"metric = '{metric}': expected 'cosine' or 'dot'.")
        _check_vectors("item", item_ids, item_vectors)
        self._ids, self._vectors, self._metric = item_ids, item_vectors, metric

    @property
    def nbytes(self) -> int:
        """Bytes of the vectors."""
        return int(self._vectors.nbytes)

    def search(self, vectors: Floats, k: int, *, watch: Watch = silent) -> list[list[Hit]]:
        """The ``k`` nearest items of every query vector [Q, D]."""
        _check_k(k)
        if len(self._ids) and len(vectors) and self._vectors.shape[1] != vectors.shape[1]:
            raise DimensionError(
                f"item vectors are {self._vectors.shape[1]} wide and query vectors "
                f"{vectors.shape[1]}. Expected the same: encode both with one encoder."
            )
        found: list[list[Hit]] = []
        with watch("asking dense search", len(vectors)) as task:
            for start in range(0, len(vectors), _QUERIES):
                asked = _scaled(vectors[start : start + _QUERIES], self._metric)
                best, scores = _nearest(self._vectors, asked, k, self._metric)
                for places, values in zip(best, scores, strict=True):
                    found.append(_hits([self._ids[i] for i in places], values.tolist()))
                task.advance(len(asked))
        return found


def bm25(
    items: Iterable[Item],
    queries: Iterable[Query],
    k: int,
    *,
    k1: float = 0.9,
    b: float = 0.4,
    stopwords: str = "english",
    watch: Watch = silent,
) -> Found:
    """Query id -> the ``k`` best items by BM25."""
    _check_k(k)
    index, asked = Bm25(items, k1=k1, b=b, stopwords=stopwords, watch=watch), list(queries)
    answers = index.search(asked, k, watch=watch)
    return {query.id: hits for query, hits in zip(asked, answers, strict=True)}


def dense(
    item_ids: Sequence[str],
    item_vectors: Floats,
    query_ids: Sequence[str],
    query_vectors: Floats,
    k: int,
    *,
    metric: Literal["cosine", "dot"] = "cosine",
    watch: Watch = silent,
) -> Found:
    """Query id -> the ``k`` items with the nearest vectors."""
    _check_k(k)
    index = Dense(item_ids, item_vectors, metric=metric)
    _check_vectors("query", query_ids, query_vectors)
    answers = index.search(query_vectors, k, watch=watch)
    return dict(zip(query_ids, answers, strict=True))


def popular(qrels: Iterable[Qrel], query_ids: Iterable[str], k: int) -> Found:
    """The items that answer the most training queries, the same for everybody."""
    _check_k(k)
    counts = Counter(qrel.item_id for qrel in qrels if qrel.relevance > 0)
    top = _by_count(counts)[:k]
    hits = _hits(top, [float(counts[item]) for item in top])
    return {query: list(hits) for query in query_ids}


def last_item(
    train: Iterable[Query],
    qrels: Iterable[Qrel],
    queries: Iterable[Query],
    k: int,
    *,
    again: bool = False,
) -> Found:
    """What most often followed the last item of the history, then the most popular items.

    ``train`` and ``qrels`` are the training histories and what came next. Items of the history
    itself are offered only if ``again``. Scores: 1 + times seen to follow; a share of all answers,
    below one, for the popular ones.
    """
    _check_k(k)
    last = {query.id: query.history[-1] for query in train if query.history}
    counts: Counter[str] = Counter()
    followers: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for query_id, item, relevance in qrels:
        if relevance > 0:
            counts[item] += 1
            if query_id in last:
                followers[last[query_id]][item] += 1
    ranked = _by_count(counts)
    total = 1 + sum(counts.values())
    found: Found = {}
    for query in queries:
        seen = frozenset() if again else frozenset(query.history)
        after = followers.get(query.history[-1], Counter()) if query.history else Counter()
        first = _others(_by_count(after), seen, k)
        rest = _others(ranked, seen.union(first), k - len(first))
        scores = [1.0 + after[item] for item in first] + [counts[item] / total for item in rest]
        found[query.id] = _hits(first + rest, scores)
    return found


def _arrays_of(scores: Mapping[str, Any]) -> list[NDArray[Any]]:
    return [value for value in scores.values() if isinstance(value, np.ndarray)]


def _shared_words(index: Any, tokens: list[int], ids: list[str], k: int) -> list[Hit]:
    if not tokens:
        return []
    scores = index.get_scores_from_ids(tokens)
    places, best = _top(scores[None], k)
    kept = best[0] > 0
    return _hits([ids[i] for i in places[0][kept]], best[0][kept].tolist())


def _nearest(items: Floats, asked: Floats, k: int, metric: str) -> tuple[Ints, Floats]:
    """Item numbers and scores, best first: [B, k], or [B, N] where there are fewer items."""
    best = np.zeros((len(asked), 0), dtype=np.int64)
    scores = np.zeros((len(asked), 0), dtype=np.float32)
    for start in range(0, len(items), _ITEMS):
        block = asked @ _scaled(items[start : start + _ITEMS], metric).T
        places, values = _top(block, k)
        best = np.concatenate([best, places + start], axis=1)
        scores = np.concatenate([scores, values], axis=1)
        # Earlier blocks stand first, so places are in item order wherever scores are equal.
        order, scores = _top(scores, k)
        best = np.take_along_axis(best, order, axis=1)
    return best, scores


def _top(scores: Floats, k: int) -> tuple[Ints, Floats]:
    """Columns and values of the ``k`` highest of each row, best first, equal ones by column.

    A partition alone would pick any of the items that tie at the end of the list.
    """
    width = scores.shape[1]
    k = min(k, width)
    if k == 0:
        return np.zeros((len(scores), 0), dtype=np.int64), scores
    bar = np.partition(scores, width - k, axis=1)[:, width - k, None]
    rows, columns = np.nonzero(scores >= bar)
    order = np.lexsort((columns, -scores[rows, columns], rows))
    rows, columns = rows[order], columns[order]
    starts = np.searchsorted(rows, np.arange(len(scores)))
    chosen: Ints = columns[starts[:, None] + np.arange(k)].astype(np.int64)
    return chosen, np.take_along_axis(scores, chosen, axis=1)


def _scaled(vectors: Floats, metric: str) -> Floats:
    vectors = np.asarray(vectors, dtype=np.float32)
    if metric == "dot":
        return vectors
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Floats = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return scaled


def _by_count(counts: Mapping[str, int]) -> list[str]:
    """Most frequent first; equal counts by id, so that the input's order does not matter."""
    return sorted(counts, key=lambda item: (-counts[item], item))


def _others(ranked: Sequence[str], taken: frozenset[str], n: int) -> list[str]:
    """The first ``n`` that are not taken."""
    kept: list[str] = []
    for item in ranked:
        if len(kept) >= n:
            break
        if item not in taken:
            kept.append(item)
    return kept


def _hits(ids: Sequence[str], scores: Sequence[float]) -> list[Hit]:
    return [
        Hit(item, score, rank=rank)
        for rank, (item, score) in enumerate(zip(ids, scores, strict=True), start=1)
    ]


def _check_k(k: int) -> None:
    if k < 1:
        raise SettingsError(f"k = {k}: expected the number of hits a query, at least 1.")


def _check_vectors(what: str, ids: Sequence[str], vectors: Floats) -> None:
    if len(ids) != len(vectors):
        raise DataError(f"{len(ids)} {what} ids but {len(vectors)} vectors: expected one each.")
    if vectors.ndim != 2:
        raise DimensionError(f"{what} vectors have shape {vectors.shape}: expected [rows, width].")
    for start in range(0, len(vectors), _ITEMS):
        broken = ~np.isfinite(vectors[start : start + _ITEMS]).all(axis=1)
        if broken.any():
            row = start + int(broken.argmax())
            raise DimensionError(
                f"the vector of {what} '{ids[row]}' has NaN or infinite values. "
                "Expected finite numbers: encode it again or leave it out."
            )
