"""Our exact dense search against faiss.IndexFlatIP."""

from __future__ import annotations

import faiss
import numpy as np
import pytest

from trieline.evaluate import dense


@pytest.mark.parametrize("metric", ["cosine", "dot"])
@pytest.mark.parametrize(("n_items", "n_queries", "k"), [(5000, 300, 20), (7, 3, 20), (300, 1, 1)])
def test_faiss_agrees(
    metric: str, n_items: int, n_queries: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trieline.evaluate.baselines._ITEMS", 1024)
    rng = np.random.default_rng(n_items)
    items = rng.normal(size=(n_items, 32)).astype(np.float32)
    queries = rng.normal(size=(n_queries, 32)).astype(np.float32)
    names = [f"d{i}" for i in range(n_items)]
    found = dense(names, items, [str(i) for i in range(n_queries)], queries, k, metric=metric)  # type: ignore[arg-type]
    if metric == "cosine":
        faiss.normalize_L2(items)
        faiss.normalize_L2(queries)
    index = faiss.IndexFlatIP(32)
    index.add(items)
    scores, places = index.search(queries, k)
    for row in range(n_queries):
        kept = places[row] >= 0
        assert [hit.item_id for hit in found[str(row)]] == [names[i] for i in places[row][kept]]
        got = [hit.score for hit in found[str(row)]]
        assert got == pytest.approx(scores[row][kept].tolist(), rel=1e-4, abs=1e-5)
