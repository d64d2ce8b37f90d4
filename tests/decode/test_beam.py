from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from plain import beam_of_dicts, geometric_votes, step_scores

from trieline.config import ModelSettings
from trieline.decode import Geometric, Guide, Score, beam_search
from trieline.errors import IndexMismatch, SettingsError
from trieline.index import Trie
from trieline.model import Asked, Speller, build_speller
from trieline.types import Codes

SIZES = (5, 4, 6)
DIM = 8
SMALL = ModelSettings(
    width=16, heads=2, head_width=8, feed_forward=24, decoder_layers=2, soft_tokens=3
)


def speller(sizes: tuple[int, ...] = SIZES, seed: int = 1) -> Speller:
    model = build_speller(SMALL, sizes, dim=DIM, seed=seed)
    with torch.no_grad():
        model.alphabet.output *= 4  # a peaked model: prefixes differ
    return model


def corpus(rows: int, sizes: tuple[int, ...] = SIZES, seed: int = 0) -> Codes:
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, rows) for size in sizes], 1).astype(np.uint16)
    return Codes(codes, np.arange(rows, dtype=np.uint32))


def asked(queries: int, seed: int = 5) -> Asked:
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(queries, DIM, generator=generator)
    return Asked(vector=torch.nn.functional.normalize(vectors, dim=1))


def docids(codes: Codes) -> list[tuple[int, ...]]:
    return sorted({tuple(int(c) for c in row) for row in codes.codes})


@pytest.mark.parametrize("normalise", ["level", "legal", "raw", "vocab"])
def test_wide_beam_equals_scoring_every_item(normalise: str) -> None:
    model, codes = speller(), corpus(60)
    trie, questions = Trie.build(codes, SIZES), asked(3)
    found = beam_search(model, questions, trie, beam=200, k=60, normalise=normalise)
    for b in range(3):
        one = Asked(vector=questions.vector[b : b + 1])
        steps = step_scores(model, one, docids(codes), normalise)
        total = {d: sum(steps[d[: level + 1]] for level in range(len(d))) for d in docids(codes)}
        expected = sorted(
            ((-total[tuple(map(int, row))], int(owner)) for row, owner in zip(*codes, strict=True))
        )
        assert len(found[b].items) == 60
        np.testing.assert_allclose(found[b].scores, [-s for s, _ in expected], atol=1e-4)
        ours = dict(zip(found[b].items.tolist(), found[b].scores.tolist(), strict=True))
        for score, owner in expected:
            assert ours[owner] == pytest.approx(-score, abs=1e-4)


@pytest.mark.parametrize("width", [1, 2, 5, 17])
def test_narrow_beam_equals_a_beam_of_dictionaries(width: int) -> None:
    model, codes = speller(), corpus(80)
    trie, questions = Trie.build(codes, SIZES), asked(4)
    found = beam_search(model, questions, trie, beam=width, k=1)
    for b in range(4):
        one = Asked(vector=questions.vector[b : b + 1])
        steps = step_scores(model, one, docids(codes), "level")
        expected = beam_of_dicts(steps, docids(codes), width)
        best = max(expected, key=lambda d: expected[d])
        assert trie.docid(int(found[b].leaves[0])) == best
        assert found[b].scores[0] == pytest.approx(expected[best], abs=1e-4)


def test_geometric_guide_is_carried() -> None:
    model, codes = speller(), corpus(80)
    rng = np.random.default_rng(2)
    codebooks = [rng.standard_normal((size, DIM)).astype(np.float32) * 0.4 for size in SIZES]
    trie, questions = Trie.build(codes, SIZES), asked(3)
    vectors = questions.vector.numpy()
    guide = Geometric(codebooks, omega=3.0)
    found = beam_search(model, questions, trie, beam=6, k=6, guides=[guide], vectors=vectors)
    for b in range(3):
        one = Asked(vector=questions.vector[b : b + 1])
        steps = step_scores(model, one, docids(codes), "level")
        votes = geometric_votes(docids(codes), codebooks, vectors[b], 3.0)
        expected = beam_of_dicts(steps, docids(codes), 6, carry=votes)
        ours = {
            trie.docid(int(leaf)): float(score)
            for leaf, score in zip(found[b].leaves, found[b].scores, strict=True)
        }
        for docid, score in ours.items():
            assert score == pytest.approx(expected[docid], abs=1e-3)
        assert max(expected, key=lambda d: expected[d]) == trie.docid(int(found[b].leaves[0]))


class Favour:
    """A guide that looks ahead: a fixed bonus for prefixes, never carried."""

    name = "favour"

    def __init__(self, bonus: dict[tuple[int, ...], float]) -> None:
        self.bonus = bonus

    def start(self, vectors: np.ndarray, trie: Trie) -> list[tuple[int, ...]]:
        return [() for _ in vectors]

    def score(self, state, level, parents, codes, nodes) -> Score:
        prefixes = [(*state[p], int(c)) for p, c in zip(parents, codes, strict=True)]
        return Score(look=np.array([self.bonus.get(p, 0.0) for p in prefixes]))

    def follow(self, state, level, parents, codes):
        return [(*state[p], int(c)) for p, c in zip(parents, codes, strict=True)]


def test_look_ranks_but_is_not_carried() -> None:
    model, codes = speller(), corpus(80)
    trie, questions = Trie.build(codes, SIZES), asked(2)
    rng = np.random.default_rng(3)
    prefixes = {d[:level] for d in docids(codes) for level in (1, 2, 3)}
    bonus = {p: float(rng.uniform(0, 20)) for p in sorted(prefixes)}
    guide: Guide = Favour(bonus)
    found = beam_search(
        model, questions, trie, beam=4, k=4, guides=[guide], vectors=questions.vector.numpy()
    )
    for b in range(2):
        one = Asked(vector=questions.vector[b : b + 1])
        steps = step_scores(model, one, docids(codes), "level")
        expected = beam_of_dicts(steps, docids(codes), 4, look=bonus)
        for leaf, score in zip(found[b].leaves, found[b].scores, strict=True):
            assert score == pytest.approx(expected[trie.docid(int(leaf))], abs=1e-3)


def test_hits_do_not_depend_on_batch_companions() -> None:
    model, codes = speller(), corpus(100)
    trie, questions = Trie.build(codes, SIZES), asked(16)
    together = beam_search(model, questions, trie, beam=7, k=5)
    for b in range(16):
        alone = beam_search(model, Asked(vector=questions.vector[b : b + 1]), trie, beam=7, k=5)[0]
        assert alone.items.tolist() == together[b].items.tolist()
        np.testing.assert_allclose(alone.scores, together[b].scores, atol=1e-5)


def test_no_fillers_when_fewer_docids_exist_than_beams() -> None:
    codes = Codes(np.array([[1, 2, 3], [1, 2, 4]], np.uint16), np.array([7, 9], np.uint32))
    found = beam_search(speller(), asked(2), Trie.build(codes, SIZES), beam=50, k=10)
    for answer in found:
        assert sorted(answer.items.tolist()) == [7, 9]
        assert np.isfinite(answer.scores).all()


def test_an_empty_index_answers_nothing() -> None:
    codes = Codes(np.zeros((0, 3), np.uint16), np.zeros(0, np.uint32))
    found = beam_search(speller(), asked(2), Trie.build(codes, SIZES), beam=5, k=3)
    assert [len(answer.items) for answer in found] == [0, 0]


def test_shared_docids_give_all_their_items_in_order() -> None:
    codes = Codes(np.array([[1, 2, 3]] * 4, np.uint16), np.array([5, 2, 9, 4], np.uint32))
    found = beam_search(speller(), asked(1), Trie.build(codes, SIZES), beam=1, k=3)[0]
    assert found.items.tolist() == [2, 4, 5]
    assert len(set(found.scores.tolist())) == 1


def test_an_item_with_several_docids_counts_once() -> None:
    codes = Codes(
        np.array([[1, 2, 3], [0, 0, 0], [4, 3, 5], [2, 1, 1]], np.uint16),
        np.array([0, 0, 1, 0], np.uint32),
    )
    trie = Trie.build(codes, SIZES)
    found = beam_search(speller(), asked(1), trie, beam=10, k=10)[0]
    assert sorted(found.items.tolist()) == [0, 1]


def test_beam_widens_to_k() -> None:
    codes = corpus(100)
    found = beam_search(speller(), asked(1), Trie.build(codes, SIZES), beam=2, k=40)[0]
    assert len(found.items) == 40


def test_traces_retell_the_path() -> None:
    codes = corpus(80)
    trie = Trie.build(codes, SIZES)
    found = beam_search(speller(), asked(2), trie, beam=6, k=6, trace=True)
    for answer in found:
        for leaf, score, trace in zip(answer.leaves, answer.scores, answer.traces, strict=True):
            assert tuple(step.code for step in trace) == trie.docid(int(leaf))
            assert trace[-1].score == pytest.approx(float(score), abs=1e-5)
            assert [step.score for step in trace] == sorted(
                (step.score for step in trace), reverse=True
            )


def test_a_model_for_other_docids_is_refused() -> None:
    with pytest.raises(IndexMismatch, match="3 levels of 5/4/6 codes, the model 2 levels of 9"):
        beam_search(speller((9, 9)), asked(1), Trie.build(corpus(5), SIZES))
    with pytest.raises(SettingsError, match="at least 1"):
        beam_search(speller(), asked(1), Trie.build(corpus(5), SIZES), k=0)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(st.tuples(*(st.integers(0, size - 1) for size in SIZES)), max_size=12),
    width=st.integers(1, 6),
)
def test_any_trie(rows: list[tuple[int, ...]], width: int) -> None:
    table = np.array(rows, np.uint16).reshape(-1, len(SIZES))
    codes = Codes(table, np.arange(len(rows), dtype=np.uint32))
    found = beam_search(MODEL, QUESTION, Trie.build(codes, SIZES), beam=width, k=1)[0]
    if not rows:
        assert not len(found.items)
        return
    expected = beam_of_dicts(
        step_scores(MODEL, QUESTION, docids(codes), "level"), docids(codes), width
    )
    assert found.scores[0] == pytest.approx(max(expected.values()), abs=1e-4)


MODEL, QUESTION = speller(), asked(1)


@pytest.mark.parametrize("guided", [False, True])
def test_k_items_come_back_where_items_have_many_docids(guided: bool) -> None:
    """Ten beams may be the docids of two items; a filter of the trie must not matter either."""
    rng = np.random.default_rng(5)
    table = np.stack([rng.integers(0, size, 240) for size in SIZES], 1).astype(np.uint16)
    trie = Trie.build(Codes(table, np.repeat(np.arange(30, dtype=np.uint32), 8)), SIZES)
    books = [rng.standard_normal((size, DIM)).astype(np.float32) for size in SIZES]
    questions, guides = asked(6), [Geometric(books, 0.5)] if guided else []
    assert questions.vector is not None
    vectors = questions.vector.numpy() if guided else None

    def items(k: int, beam: int, trie: Trie = trie) -> list[list[int]]:
        found = beam_search(MODEL, questions, trie, beam=beam, k=k, guides=guides, vectors=vectors)
        return [own.items.tolist() for own in found]

    narrow = items(10, 10)
    assert all(len(own) == len(set(own)) == 10 for own in narrow)
    assert all(len(own) == 30 for own in items(40, 40)), "all there are, and no more"
    few = trie.restrict(np.arange(30) < 3)
    assert all(sorted(own) == [0, 1, 2] for own in items(10, 10, few))
    seen: list[int] = []
    beam_search(MODEL, questions, trie, beam=10, k=10, observe=lambda e: seen.append(e.level))
    assert seen == list(range(len(SIZES))), "who observes a beam sees one"
