"""Exact search against every item scored in full; its certificate with every budget."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from exhaustive import check, item_scores, true_scores
from full_geometry import FullGeometry

from trieline.config import ModelSettings
from trieline.decode import Exact, beam_search, exact_search
from trieline.errors import IndexMismatch, SettingsError
from trieline.index import Trie
from trieline.model import Asked, Speller, build_speller
from trieline.types import Codes

SIZES = (5, 4, 6, 3)
DIM = 8
SMALL = ModelSettings(
    width=16, heads=2, head_width=8, feed_forward=24, decoder_layers=2, soft_tokens=3
)


def speller(sizes: tuple[int, ...] = SIZES) -> Speller:
    model = build_speller(SMALL, sizes, dim=DIM, seed=1)
    with torch.no_grad():
        model.alphabet.output *= 4  # a peaked model: prefixes differ
    return model


MODEL = speller()
BOOKS = [
    np.random.default_rng(level).standard_normal((size, DIM)).astype(np.float32) * 0.4
    for level, size in enumerate(SIZES)
]
FEW = 20  # docids where each is scored on its own


def corpus(rows: int, seed: int = 0, sizes: tuple[int, ...] = SIZES) -> Codes:
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, rows) for size in sizes], 1).astype(np.uint16)
    return Codes(codes, np.arange(rows, dtype=np.uint32))


def asked(queries: int) -> Asked:
    vectors = torch.randn(queries, DIM, generator=torch.Generator().manual_seed(5))
    return Asked(vector=torch.nn.functional.normalize(vectors, dim=1))


def one(questions: Asked, place: int = 0) -> Asked:
    assert questions.vector is not None
    return Asked(vector=questions.vector[place : place + 1])


def votes_of(trie: Trie, questions: Asked, omega: float) -> np.ndarray | None:
    assert questions.vector is not None
    return FullGeometry(BOOKS, omega, trie).votes(questions.vector.numpy()) if omega else None


def same(ours: Exact, other: Exact) -> bool:
    return ours.items.tolist() == other.items.tolist() and np.allclose(
        ours.scores, other.scores, atol=1e-5
    )


@pytest.mark.parametrize("omega", [0.0, 2.0, -1.5])
@pytest.mark.parametrize("normalise", ["level", "legal", "vocab"])
def test_equals_scoring_every_item(normalise: str, omega: float) -> None:
    codes, questions = corpus(120), asked(3)
    trie = Trie.build(codes, SIZES)
    votes = votes_of(trie, questions, omega)
    found = exact_search(MODEL, questions, trie, k=7, normalise=normalise, votes=votes)
    for b, answer in enumerate(found):
        geometry = (BOOKS, omega) if omega else None
        scores = true_scores(MODEL, one(questions, b), codes, normalise, geometry)
        assert answer.complete
        check(answer, trie, codes, scores, 7)
        ranking = sorted(item_scores(codes, scores).items(), key=lambda pair: (-pair[1], pair[0]))
        np.testing.assert_allclose(answer.scores, [s for _, s in ranking[:7]], atol=1e-4)


@pytest.mark.parametrize("normalise", ["level", "legal"])
def test_equals_a_beam_as_wide_as_the_corpus(normalise: str) -> None:
    codes, questions = corpus(300), asked(4)
    trie = Trie.build(codes, SIZES)
    found = exact_search(MODEL, questions, trie, k=12, normalise=normalise)
    beams = beam_search(MODEL, questions, trie, beam=360, k=12, normalise=normalise)
    for ours, theirs in zip(found, beams, strict=True):
        assert ours.items.tolist() == theirs.items.tolist(), "equal scores in the same order"
        assert ours.leaves.tolist() == theirs.leaves.tolist()
        np.testing.assert_allclose(ours.scores, theirs.scores, atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(*(st.integers(0, size - 1) for size in SIZES)), max_size=FEW),
    owners=st.lists(st.integers(0, 9), min_size=FEW, max_size=FEW),
    k=st.integers(1, 6),
    batch=st.integers(1, 5),
    normalise=st.sampled_from(["level", "legal", "vocab"]),
    omega=st.sampled_from([0.0, 2.0, -1.5]),
)
def test_a_certificate_is_never_wrong(
    rows: list[tuple[int, ...]],
    owners: list[int],
    k: int,
    batch: int,
    normalise: str,
    omega: float,
) -> None:
    """Any trie, with shared docids and items that own several, and every budget from one row."""
    table = np.array(rows, np.uint16).reshape(-1, len(SIZES))
    codes = Codes(table, np.array(owners[: len(rows)], np.uint32))
    trie, question = Trie.build(codes, SIZES), asked(1)
    votes = votes_of(trie, question, omega)
    scores = true_scores(MODEL, question, codes, normalise, (BOOKS, omega) if omega else None)
    whole, budget = None, 0
    while whole is None or not whole.complete:
        budget += 1
        (found,) = exact_search(
            MODEL,
            question,
            trie,
            k=k,
            normalise=normalise,
            votes=votes,
            budget=budget,
            batch=batch,
        )
        check(found, trie, codes, scores, k)
        assert found.rows <= budget
        whole = found
    (free,) = exact_search(MODEL, question, trie, k=k, normalise=normalise, votes=votes)
    assert free.complete and same(free, whole)


def test_a_budget_leaves_the_best_found_so_far() -> None:
    codes = corpus(200)
    trie = Trie.build(codes, SIZES)
    (free,) = exact_search(MODEL, asked(1), trie, k=10, batch=2)
    told = [exact_search(MODEL, asked(1), trie, k=10, batch=2, budget=b)[0] for b in (1, 9, 15)]
    assert [answer.complete for answer in told] == [False, False, False]
    assert told[0].items.size == 0 and told[0].certified == 0 and told[0].rows == 1
    assert told[1].bound >= told[2].bound >= free.bound
    assert all(answer.rows <= budget for answer, budget in zip(told, (1, 9, 15), strict=True))
    (enough,) = exact_search(MODEL, asked(1), trie, k=10, batch=2, budget=free.rows)
    assert enough.complete and same(enough, free)


def test_shared_docids_give_all_their_items_in_order() -> None:
    codes = Codes(np.array([[1, 2, 3, 0]] * 4, np.uint16), np.array([5, 2, 9, 4], np.uint32))
    trie = Trie.build(codes, SIZES)
    for normalise, rows in (("legal", 1), ("level", 4)):
        (three,) = exact_search(MODEL, asked(1), trie, k=3, normalise=normalise)
        assert three.items.tolist() == [2, 4, 5]
        assert len(set(three.scores.tolist())) == 1
        assert three.bound == pytest.approx(float(three.scores[0])), "one more has that score"
        assert three.complete and three.certified == 3 and three.rows == rows
        (four,) = exact_search(MODEL, asked(1), trie, k=4, normalise=normalise)
        assert four.items.tolist() == [2, 4, 5, 9]
        assert four.bound == -np.inf


def test_an_item_with_several_docids_counts_once_with_its_best() -> None:
    table = np.array([[1, 2, 3, 0], [0, 0, 0, 0], [4, 3, 5, 1], [2, 1, 1, 2]], np.uint16)
    codes = Codes(table, np.array([0, 0, 1, 0], np.uint32))
    trie = Trie.build(codes, SIZES)
    (found,) = exact_search(MODEL, asked(1), trie, k=10)
    assert sorted(found.items.tolist()) == [0, 1]
    assert found.complete and found.bound == -np.inf
    check(found, trie, codes, true_scores(MODEL, asked(1), codes, "level"), 10)


def test_equal_scores_are_in_the_order_of_item_numbers() -> None:
    model = speller()
    with torch.no_grad():
        model.alphabet.output *= 0  # every docid is as good as any other
    codes = corpus(150)
    for batch in (1, 16):
        (found,) = exact_search(model, asked(1), Trie.build(codes, SIZES), k=9, batch=batch)
        assert found.items.tolist() == list(range(9))
        assert found.complete and found.bound == pytest.approx(float(found.scores[0]))


@pytest.mark.parametrize("normalise", ["level", "legal"])
def test_what_votes_forbid_is_not_found(normalise: str) -> None:
    codes = corpus(60)
    trie = Trie.build(codes, SIZES)
    allowed = trie.codes[:, 1] == 2
    votes = np.where(allowed, 0.0, -np.inf).astype(np.float32)[None]
    (found,) = exact_search(MODEL, asked(1), trie, k=60, normalise=normalise, votes=votes)
    assert sorted(found.items.tolist()) == sorted(trie.owner[allowed].tolist())
    assert found.complete and found.bound == -np.inf


def test_only_what_a_filter_leaves_is_found() -> None:
    codes = corpus(150)
    trie = Trie.build(codes, SIZES)
    allowed = np.zeros(150, np.bool_)
    allowed[::7] = True
    some = trie.restrict(allowed)
    kept = Codes(codes.codes[allowed], codes.owner[allowed])
    for normalise in ("level", "legal"):
        (found,) = exact_search(MODEL, asked(1), some, k=30, normalise=normalise)
        assert len(found.items) == allowed.sum()
        check(found, some, kept, true_scores(MODEL, asked(1), kept, normalise), 30)


@pytest.mark.parametrize("normalise", ["level", "legal"])
def test_nothing_and_one_and_fewer_than_asked_for(normalise: str) -> None:
    for count in (0, 1, 5):
        codes = corpus(count)
        trie = Trie.build(codes, SIZES)
        votes = votes_of(trie, asked(2), 2.0)
        for answer in exact_search(MODEL, asked(2), trie, k=9, normalise=normalise, votes=votes):
            assert sorted(answer.items.tolist()) == list(range(count))
            assert answer.complete and answer.certified == count and answer.bound == -np.inf


def test_docids_of_one_code() -> None:
    model, codes = speller((9,)), corpus(9, sizes=(9,))
    trie = Trie.build(codes, (9,))
    (found,) = exact_search(model, asked(1), trie, k=3)
    assert found.rows == 1 and found.complete
    check(found, trie, codes, true_scores(model, asked(1), codes, "level"), 3)


def test_the_same_twice() -> None:
    trie, questions = Trie.build(corpus(200), SIZES), asked(5)
    first, again = (exact_search(MODEL, questions, trie, k=8) for _ in range(2))
    for ours, theirs in zip(first, again, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert np.array_equal(one, other)


@pytest.mark.parametrize("omega", [0.0, 2.0])
def test_answers_do_not_depend_on_batch_companions(omega: float) -> None:
    trie, questions = Trie.build(corpus(300), SIZES), asked(20)
    votes = votes_of(trie, questions, omega)
    together = exact_search(MODEL, questions, trie, k=6, votes=votes)
    for b, answer in enumerate(together):
        own = None if votes is None else votes[b : b + 1]
        (alone,) = exact_search(MODEL, one(questions, b), trie, k=6, votes=own)
        assert same(alone, answer)
        assert alone.rows == answer.rows and alone.certified == answer.certified


def test_what_cannot_be_exact_is_refused() -> None:
    trie = Trie.build(corpus(5), SIZES)
    with pytest.raises(SettingsError, match="'raw'.*needs 'level', 'legal' or 'vocab'"):
        exact_search(MODEL, asked(1), trie, normalise="raw")
    for wrong in ({"k": 0}, {"batch": 0}, {"budget": 0}):
        with pytest.raises(SettingsError, match="at least 1"):
            exact_search(MODEL, asked(1), trie, **wrong)
    with pytest.raises(SettingsError, match=r"votes have shape \(1, 4\)"):
        exact_search(MODEL, asked(1), trie, votes=np.zeros((1, 4), np.float32))
    with pytest.raises(IndexMismatch, match="Rebuild"):
        exact_search(speller((9, 9)), asked(1), trie)
