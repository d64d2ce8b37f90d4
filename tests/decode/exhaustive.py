"""Every item scored in full, and what an exact search owes to that."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from plain import geometric_votes, step_scores

from trieline.decode import Exact
from trieline.index import Trie
from trieline.model import Asked, Speller
from trieline.types import Codes

CLOSE = 2e-4  # float32 in another order of operations


def rows_of(codes: Codes) -> list[tuple[tuple[int, ...], int]]:
    return [
        (tuple(map(int, docid)), int(item))
        for docid, item in zip(codes.codes, codes.owner, strict=True)
    ]


def true_scores(
    speller: Speller,
    asked: Asked,
    codes: Codes,
    normalise: str,
    geometry: tuple[Sequence[np.ndarray], float] | None = None,
) -> dict[tuple[int, ...], float]:
    """Docid -> its score for the one query asked."""
    docids = sorted({docid for docid, _ in rows_of(codes)})
    parts = [step_scores(speller, asked, docids, normalise)]
    if geometry is not None:
        assert asked.vector is not None
        parts.append(geometric_votes(docids, geometry[0], asked.vector[0].numpy(), geometry[1]))
    return {
        docid: sum(part[docid[:level]] for part in parts for level in range(1, len(docid) + 1))
        for docid in docids
    }


def item_scores(codes: Codes, scores: dict[tuple[int, ...], float]) -> dict[int, float]:
    """Item -> the score of its best docid."""
    best: dict[int, float] = {}
    for docid, item in rows_of(codes):
        best[item] = max(best.get(item, -np.inf), scores[docid])
    return best


def check(found: Exact, trie: Trie, codes: Codes, scores: dict[tuple[int, ...], float], k: int):
    """All that an answer promises, complete or not."""
    items = item_scores(codes, scores)
    hits = list(zip(found.items.tolist(), found.scores.tolist(), strict=True))
    assert len({item for item, _ in hits}) == len(hits) <= k
    owned = set(rows_of(codes))
    for (item, score), leaf in zip(hits, found.leaves.tolist(), strict=True):
        docid = trie.docid(leaf)
        assert (docid, item) in owned
        assert abs(scores[docid] - score) < CLOSE
    assert [score for _, score in hits] == sorted((score for _, score in hits), reverse=True)
    missed = [score for item, score in items.items() if item not in dict(hits)]
    assert found.bound >= max(missed, default=-np.inf) - CLOSE
    assert 0 <= found.certified <= len(hits)
    ranking = sorted(items.values(), reverse=True)
    for rank, (item, score) in enumerate(hits[: found.certified]):
        assert abs(items[item] - score) < CLOSE
        assert abs(ranking[rank] - score) < CLOSE
    if found.complete:
        assert found.certified == len(hits) == min(k, len(items))
