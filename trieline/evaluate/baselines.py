"""What other ways find: BM25, exact dense search, the most popular items, what follows last.

BM25 is bm25s with k1 = 0.9, b = 0.4 and its English stop list; ``dense`` scores every item, in
blocks.
Trap: nothing is filled up. An item that shares no word with the query is no answer of BM25, so a
query may get fewer than ``k`` hits, or none; equal scores keep the order of the items.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trieline.errors import DataError, DimensionError, MissingExtra, SettingsError
from trieline.types import Floats, Hit, Item, Qrel, Query
from trieline.watch import Watch, silent

__all__ = ["bm25", "dense", "last_item", "popular"]

_ITEMS, _QUERIES = 16384, 256  # one block of scores: 16 MB

Found = dict[str, list[Hit]]
Ints = NDArray[np.int64]


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
    """The ``k`` best items of every query by the words they share."""
    _check_k(k)
    try:
        from bm25s import BM25
        from bm25s.tokenization import tokenize
    except ImportError:
        raise MissingExtra("BM25 baselines", "bm25s", "eval") from None
    ids: list[str] = []
    quiet = {"stopwords": stopwords, "show_progress": False}
    with watch("reading items for BM25", None) as task:

        def texts() -> Iterator[str]:
            for item in items:
                ids.append(item.id)
                task.advance()
                yield f"{item.title} {item.text}"

        words = tokenize(texts(), **quiet)
    index = BM25(k1=k1, b=b)
    if words.vocab:
        index.index(words, show_progress=False)
    asked = list(queries)
    spelled = tokenize([query.text for query in asked], return_ids=False, **quiet)
    found: Found = {}
    with watch("asking BM25", len(asked)) as task:
        for query, tokens in zip(asked, spelled, strict=True):
            known = index.get_tokens_ids(tokens) if words.vocab else []
            found[query.id] = _shared_words(index, known, ids, k)
            task.advance()
    return found


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
    """The ``k`` items whose vectors are nearest to each query's, found by looking at all."""
    _check_k(k)
    if metric not in ("cosine", "dot"):
        raise SettingsError(f"metric = '{metric}': expected 'cosine' or 'dot'.")
    _check_vectors("item", item_ids, item_vectors)
    _check_vectors("query", query_ids, query_vectors)
    if len(item_ids) and len(query_ids) and item_vectors.shape[1] != query_vectors.shape[1]:
        raise DimensionError(
            f"item vectors are {item_vectors.shape[1]} wide and query vectors "
            f"{query_vectors.shape[1]}. Expected the same: encode both with one encoder."
        )
    found: Found = {}
    with watch("asking dense search", len(query_ids)) as task:
        for start in range(0, len(query_ids), _QUERIES):
            asked = _scaled(query_vectors[start : start + _QUERIES], metric)
            best, scores = _nearest(item_vectors, asked, k, metric)
            for row, query in enumerate(query_ids[start : start + _QUERIES]):
                found[query] = _hits([item_ids[i] for i in best[row]], scores[row].tolist())
            task.advance(len(asked))
    return found


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
