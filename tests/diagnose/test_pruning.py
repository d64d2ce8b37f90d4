"""From what was followed to figures: counts, fifths, correlations, and what Theorem 2 promises."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "decode"))
from toys import SIZES, asked, speller
from worlds import books

from trieline.decode import Score
from trieline.diagnose.fifths import fifths_of, spearman
from trieline.diagnose.ground import Asking, Decoder, ground_of
from trieline.diagnose.pruning import Pruning, pruning_of
from trieline.diagnose.retention import Retention, follow_targets
from trieline.evaluate.table import to_markdown, to_text
from trieline.ids.assign import reconstruct
from trieline.index import Trie
from trieline.types import Codes, Floats

QUERIES = 24


class OracleVotes:
    """A guide that says of every code what the oracle says: q.c. With a quiet model beside it the
    decoder is the oracle, and its mismatch as small as the model is quiet."""

    name = "oracle"

    def __init__(self, codebooks: list[Floats]) -> None:
        self.codebooks = codebooks

    def start(self, vectors: Floats, trie: Trie) -> Floats:
        return vectors

    def score(self, state: Floats, level: int, parents: Any, codes: Any, nodes: Any) -> Score:
        return Score(carry=np.einsum("cd,cd->c", state[parents], self.codebooks[level][codes]))

    def follow(self, state: Floats, level: int, parents: Any, codes: Any) -> Floats:
        return state[parents]


def near_world(noise: float, loud: float, beam: int, tau: float) -> Retention:
    """Items almost as their codes say, and a decoder that is almost the oracle: the nearer both
    are, the more targets Theorem 2 can certify."""
    rng = np.random.default_rng(1)
    words = books(4)
    codes = np.stack([rng.integers(0, size, 70) for size in SIZES], 1).astype(np.uint16)
    items = reconstruct(codes, words)
    items = (items + noise * rng.normal(size=items.shape)).astype(np.float32)
    questions = asked(QUERIES)
    assert questions.vector is not None
    vectors = questions.vector.numpy()
    trie = Trie.build(Codes(codes, np.arange(70, dtype=np.uint32)), SIZES)
    ranked = np.argsort(-(vectors @ items.T), axis=1)
    answers = [own[[n % 3]] for n, own in enumerate(ranked)]  # not the nearest for all
    model = speller()
    with torch.no_grad():
        model.alphabet.output *= loud
    decoder = Decoder(model, "level", [OracleVotes(words)])
    asking = Asking(questions, vectors, answers)
    ground = ground_of(trie, words, items)
    return follow_targets(ground, decoder, asking, beam=beam, tau=tau, mismatch=True)


def proven(seen: Retention, mismatch: np.ndarray, beam: int) -> list[list[bool]]:
    """Eq. 4 at this level and all before, in plain loops; levels that fit into the beam pass."""
    told = []
    for q in range(QUERIES):
        holds, row = True, []
        for level in range(len(SIZES)):
            at = q, level
            near = (seen.divergence[at] / 2) ** 0.5 + mismatch[at] < seen.margin[at] / 2
            holds = holds and (near or seen.prefixes[level] <= beam)
            row.append(bool(holds))
        told.append(row)
    return told


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("loud", [0.003, 1.0])
@pytest.mark.parametrize(("beam", "tau"), [(1, 0.05), (2, 0.02), (6, 1.0), (25, 0.05)])
def test_a_certified_target_is_never_pruned(
    noise: float, loud: float, beam: int, tau: float
) -> None:
    seen = near_world(noise, loud, beam, tau)
    by_both = np.array(proven(seen, seen.mismatch, beam))
    by_oracle = np.array(proven(seen, np.zeros_like(seen.mismatch), beam))
    assert seen.decoder_beam[by_both].all(), "Theorem 2"
    assert seen.oracle_beam[by_oracle].all(), "Lemma A.7"
    for level, figures in enumerate(pruning_of(seen, beam=beam, tau=tau).levels):
        assert figures.certified_so_far == by_both[:, level].sum()
        assert figures.oracle_certified_so_far == by_oracle[:, level].sum()


def test_some_targets_are_certified_and_some_are_pruned() -> None:
    """Without which the test above would say nothing."""
    seen = near_world(0.0, 0.003, 1, 0.05)
    certified = np.array(proven(seen, seen.mismatch, 1)).sum(axis=0)
    assert (certified >= 3).all(), certified
    assert (~seen.decoder_beam).any(axis=0).all()
    assert not near_world(0.3, 1.0, 2, 0.02).decoder_beam[:, 0].all()


def by_hand() -> Retention:
    """Four queries, two levels, a beam of 2."""

    def bools(*rows: str) -> np.ndarray:
        return np.array([[mark == "x" for mark in row] for row in rows])

    return Retention(
        prefixes=np.array([2, 7]),
        divergence=np.array([[0.1, 0.01], [0.2, 0.02], [0.3, 0.03], [0.4, 0.5]]),
        margin=np.array([[0.1, 0.5], [0.1, 0.5], [-0.1, 0.1], [0.1, -0.1]]),
        mismatch=np.array([[0.9, 0.1], [0.9, 0.3], [0.9, 0.1], [0.9, 0.0]]),
        slope=np.array([[-1.0, np.nan], [1.0, np.nan], [-1.0, np.nan], [-2.0, np.nan]]),
        oracle_token=bools("xx", "xx", "x.", "x."),
        oracle_legal=bools("xx", "xx", "xx", "x."),
        oracle_beam=bools("xx", "xx", "x.", "x."),
        decoder_token=bools("xx", "x.", "..", ".."),
        decoder_legal=bools("xx", "xx", "..", "x."),
        decoder_beam=bools("xx", "x.", "x.", "x."),
        error=np.array([0.4, 0.3, 0.2, 0.1]),
    )


def test_the_figures_by_hand() -> None:
    told = pruning_of(by_hand(), beam=2, tau=0.5)
    first, second = told.levels
    assert (first.level, first.prefixes, second.prefixes) == (1, 2, 7)
    assert first[2:8] == (1.0, 1.0, 1.0, 0.5, 0.75, 1.0)
    assert second[2:8] == (0.5, 0.75, 0.5, 0.25, 0.5, 0.25)
    assert second.divergence == pytest.approx(0.14) and second.margin == pytest.approx(0.25)
    assert (first.positive, second.positive) == (0.75, 0.75)
    assert second.mismatch == pytest.approx(0.125)
    # Level 1 holds two prefixes, as many as the beam: nobody can fall.
    assert (first.oracle_certified, first.certified) == (4, 4)
    # sqrt(K / 2) = .071, .1, .122, .5 against m / 2 = .25, .25, .05, -.05; then + .1, .3, .1, 0
    assert (second.oracle_certified, second.certified) == (2, 1)
    assert (second.oracle_certified_so_far, second.certified_so_far) == (2, 1)
    assert (first.helped, second.helped) == (0.75, None)
    assert (first.forks, second.forks) == (4, 0)
    assert told.divergence_rho == pytest.approx(-np.sqrt(0.8))
    (error,) = [fifths for fifths in told.fifths if fifths.factor == "error"]
    assert error.means == (0.1, 0.2, 0.3, 0.4, None)
    assert error.oracle == (0.0, 0.0, 1.0, 1.0, None)
    assert error.decoder == (0.0, 0.0, 0.0, 1.0, None)


def test_without_the_mismatch() -> None:
    blind = by_hand()._replace(mismatch=np.full((4, 2), np.nan))
    told = pruning_of(blind, beam=2, tau=0.5)
    assert all(level.mismatch is level.certified is None for level in told.levels)
    assert {fifths.factor for fifths in told.fifths} == {"K", "m", "error"}
    assert "–" in to_text(told.tables()[1], 160)


@settings(max_examples=50, deadline=None)
@given(pairs=st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.booleans()), min_size=1))
def test_fifths_against_plain_loops(pairs: list[tuple[int, bool, bool]]) -> None:
    values, oracle, decoder = (np.array(column) for column in zip(*pairs, strict=True))
    told = fifths_of("K", 3, values.astype(float), oracle, decoder)
    ranked = sorted(pairs, key=lambda pair: pair[0])
    sizes = [len(pairs) // 5 + (n < len(pairs) % 5) for n in range(5)]
    for n, size in enumerate(sizes):
        own, ranked = ranked[:size], ranked[size:]
        for column, found in enumerate((told.means, told.oracle, told.decoder)):
            expected = sum(pair[column] for pair in own) / size if own else None
            assert found[n] == (None if expected is None else pytest.approx(expected))
    assert (told.factor, told.level) == ("K", 3)


def test_spearman_by_hand() -> None:
    assert spearman(np.array([1.0, 2, 3]), np.array([2.0, 4, 8])) == 1.0
    assert spearman(np.array([1.0, 2, 3, 4]), np.array([True, True, False, False])) == (
        pytest.approx(-np.sqrt(0.8))
    )
    assert spearman(np.array([1.0, 1]), np.array([0.0, 1])) is None
    assert spearman(np.array([0.0, 1]), np.array([True, True])) is None
    assert spearman(np.array([1.0]), np.array([1.0])) is None


def test_told_to_programs_and_people() -> None:
    told = pruning_of(by_hand(), beam=2, tau=0.5)
    plain = json.loads(json.dumps(told.to_json()))
    assert plain["queries"] == 4 and plain["levels"][1]["certified"] == 1
    assert len(plain["fifths"]) == 7
    survival, bound, *fifths = map(to_markdown, told.tables())
    assert "| 2 | 7 | 50.0% | 75.0% | 50.0% | 25.0% | 50.0% | 25.0% |" in survival
    assert "| 2 | 0.14 | 0.25 | 75.0% | 0.125 | 2 | 2 | 1 | 1 | 0 | – |" in bound
    assert len(fifths) == 4


def test_plots_are_drawn_and_the_same_twice(tmp_path: Path) -> None:
    sides: list[Pruning] = [
        pruning_of(by_hand(), beam=2, tau=0.5),
        pruning_of(by_hand()._replace(mismatch=np.full((4, 2), np.nan)), beam=2, tau=0.5),
    ]
    for number, told in enumerate(sides):
        written = told.draw(tmp_path / f"{number}")
        assert sorted(path.stem for path in written) == ["error", "factors", "fifths", "survival"]
        assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)
    for one in sides[0].draw(tmp_path / "again"):
        assert one.read_bytes() == (tmp_path / "0" / one.name).read_bytes()
    assert "matplotlib.pyplot" not in sys.modules
