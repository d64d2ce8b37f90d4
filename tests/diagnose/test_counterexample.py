"""PRO's Theorem 1: the three claims of its proof, in numbers, for many widths and depths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trieline.diagnose.counterexample import Counterexample, counterexample
from trieline.diagnose.prefixes import levels_of, oracle_beam, partial_scores, path_of
from trieline.errors import SettingsError
from trieline.ids.assign import assign, reconstruct
from trieline.index import Trie
from trieline.types import Codes

Books = list[np.ndarray]


@pytest.fixture(
    params=[(b, depth, m) for b in (1, 2, 7, 50) for depth in (2, 3, 8) for m in (0, 3)],
    ids=lambda p: f"beam {p[0]}, {p[1]} levels, {p[2]} modalities",
)
def sides(request: pytest.FixtureRequest) -> tuple[int, int, Counterexample]:
    beam, depth, modalities = request.param
    return beam, int(modalities > 0), counterexample(beam, depth, modalities=modalities)


def greedy(vector: np.ndarray, books: Books) -> tuple[list[int], list[float]]:
    """Nearest words level by level, and the squared residual after each."""
    codes, costs, left = [], [], vector.copy()
    for book in books:
        distances = [float((left - word) @ (left - word)) for word in book]
        codes.append(int(np.argmin(distances)))
        left = left - book[codes[-1]]
        costs.append(distances[codes[-1]])
    return codes, costs


def losses(case: Counterexample, books: Books, first: int) -> dict[str, Any]:
    """Every training loss of GENIUS and PRO's baseline, over the query and all items."""
    fitted = [greedy(vector, books[first:]) for vector in (case.query, *case.items)]
    whole = [
        sum(book[code] for book, code in zip(books[first:], codes, strict=True))
        for codes, _ in fitted
    ]
    similar = case.items @ case.query / 0.05
    return {
        "assignments": [codes for codes, _ in fitted],
        "residual fitting": [sum(costs) for _, costs in fitted],
        "reconstructions": np.array(whole),
        "reconstruction": [
            float(((x - y) ** 2).sum())
            for x, y in zip((case.query, *case.items), whole, strict=True)
        ],
        "mse": [float(((whole[0] - x) ** 2).sum()) for x in whole[1:]],
        "contrastive": similar - np.logaddexp.reduce(similar),
    }


def test_claim_1_both_assign_the_same_codes(sides: tuple[int, int, Counterexample]) -> None:
    _, first, case = sides
    for books in (case.kept, case.pruned):
        told = losses(case, books, first)["assignments"]
        assert told[0] == case.query_codes[first:].tolist()
        assert told[1:] == case.codes[:, first:].tolist()
        # ... and so does the quantiser that indexes are built with.
        narrow = [book.astype(np.float32) for book in books[first:]]
        np.testing.assert_array_equal(
            assign(case.items.astype(np.float32), narrow), case.codes[:, first:]
        )


def test_claim_2_no_training_loss_tells_them_apart(sides: tuple[int, int, Counterexample]) -> None:
    _, first, case = sides
    kept, pruned = (losses(case, books, first) for books in (case.kept, case.pruned))
    for name in kept:
        np.testing.assert_allclose(kept[name], pruned[name], rtol=1e-12, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(kept["reconstruction"][1:], 0.25)  # alpha^2, the least there can be
    assert kept["reconstruction"][0] == 0
    wrong = [a != b for x, y in zip(case.kept, case.pruned, strict=True) for a, b in _rows(x, y)]
    assert sum(wrong) == 2, "they differ in two words"


def _rows(x: np.ndarray, y: np.ndarray) -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
    return [(tuple(a), tuple(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)]


def test_claim_3_one_keeps_the_target_the_other_drops_it_at_once(
    sides: tuple[int, int, Counterexample],
) -> None:
    beam, first, case = sides
    sizes = [max(2, len(book)) for book in case.kept]
    trie = Trie.build(Codes(case.codes, np.arange(beam + 1, dtype=np.uint32)), sizes)
    levels = levels_of(trie)
    path = path_of(levels, int(np.flatnonzero(trie.owner == 0)[0]))
    alive = {}
    for name in ("kept", "pruned"):
        scores = partial_scores(levels, getattr(case, name), case.query)
        kept = oracle_beam(levels, scores, beam)
        alive[name] = [bool(level[place]) for level, place in zip(kept, path, strict=True)]
        target = scores[first][path[first]]
        others = np.delete(scores[first], path[first])
        assert target == pytest.approx(1 if name == "kept" else -1)
        np.testing.assert_allclose(others, 0, atol=1e-12)
    assert alive["kept"] == [True] * len(levels)
    assert alive["pruned"] == [True] * first + [False] * (len(levels) - first)


def test_in_plain_numbers() -> None:
    """Beam 1, two levels, by hand: M = 2.5, so delta = 2.5 - 1.5 = 1."""
    case = counterexample(1, 2, height=3, scale=2.5, alpha=1)
    # s, u, A1 (2), A2 (2), R
    np.testing.assert_allclose(case.query, [1, 3, 0, 0, 0, 0, 0])
    np.testing.assert_allclose(case.kept[0][1], [1, 0, 2.5, 0, 0, 0, 0])
    np.testing.assert_allclose(case.pruned[0][1], [-1, 0, 2.5, 0, 1, 0, 0])
    np.testing.assert_allclose(case.pruned[1][1], [2, 0, 0, 0, 1.5, 0, 0])
    np.testing.assert_allclose(case.items[0], [1, 0, 2.5, 0, 2.5, 0, 1])
    np.testing.assert_allclose(case.items[1], [0, 0, 0, 2.5, 0, 2.5, 1])
    rebuilt = reconstruct(case.codes, [book.astype(np.float32) for book in case.pruned])
    np.testing.assert_allclose(case.items - rebuilt, np.eye(7)[[6, 6]], atol=1e-6)


@pytest.mark.parametrize(
    ("beam", "depth", "more"),
    [(0, 2, {}), (1, 1, {}), (1, 2, {"scale": 2.0}), (1, 2, {"alpha": 0})],
)
def test_what_it_does_not_hold_for(beam: int, depth: int, more: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match=r"theorem holds|construction needs"):
        counterexample(beam, depth, **more)
