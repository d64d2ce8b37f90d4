"""Targets followed down small random tries, against dictionaries and plain loops."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "decode"))
from plain import beam_of_dicts, geometric_votes, reconstruction_score, step_scores
from toys import SIZES, asked, corpus, one, speller
from worlds import books

from trieline.decode import Geometric, GeometricLook, Guide, LookAhead
from trieline.decode.geometry import GeometricPlan
from trieline.diagnose.ground import Asking, Decoder, aims_of, ground_of
from trieline.diagnose.pruning import pruning_of
from trieline.diagnose.retention import Retention, follow_targets, joined
from trieline.diagnose.spelling import every_score
from trieline.errors import SettingsError
from trieline.index import Trie
from trieline.types import Codes

Docid = tuple[int, ...]
QUERIES, OMEGA = 6, 3.0
MODEL, BOOKS = speller(), books()
QUESTIONS = asked(QUERIES)
assert QUESTIONS.vector is not None
VECTORS = QUESTIONS.vector.numpy()
RNG = np.random.default_rng(3)
ITEMS = RNG.normal(size=(60, 8)).astype(np.float32)
RELEVANT = [RNG.choice(60, int(RNG.integers(1, 4)), replace=False) for _ in range(QUERIES)]
GUIDES: dict[str, list[Guide]] = {
    "none": [],
    "geometry": [Geometric(BOOKS, OMEGA)],
    "look": [GeometricLook(BOOKS, OMEGA)],
}


def several(rows: int = 90, items: int = 60) -> Codes:
    """Items of one docid or two, and docids of several items."""
    codes = corpus(rows).codes
    codes[::9] = codes[0]
    return Codes(codes, (np.arange(rows) % items).astype(np.uint32))


CODES = several()
TRIE = Trie.build(CODES, SIZES)
ROWS: list[tuple[Docid, int]] = sorted(
    {
        (tuple(row), owner)
        for row, owner in zip(CODES.codes.tolist(), CODES.owner.tolist(), strict=True)
    }
)
DOCIDS = sorted({docid for docid, _ in ROWS})
PREFIXES = [sorted({docid[: level + 1] for docid in DOCIDS}) for level in range(3)]


def asking(relevant: Sequence[Any] = RELEVANT) -> Asking:
    return Asking(QUESTIONS, VECTORS, relevant)


def followed(guides: str, beam: int, tau: float, mismatch: bool = True) -> Retention:
    ground = ground_of(TRIE, BOOKS, ITEMS)
    decoder = Decoder(MODEL, "level", GUIDES[guides])
    return follow_targets(ground, decoder, asking(), beam=beam, tau=tau, mismatch=mismatch)


# --- the slow twin ------------------------------------------------------------------------------


def inner(query: np.ndarray, prefix: Docid) -> float:
    words = [book[code] for book, code in zip(BOOKS, prefix, strict=False)]
    return float(query.astype(np.float64) @ np.sum(words, axis=0, dtype=np.float64))


def target_of(q: int) -> Docid:
    best = [
        (float(ITEMS[owner] @ VECTORS[q]), inner(VECTORS[q], docid), docid)
        for docid, owner in ROWS
        if owner in RELEVANT[q]
    ]
    return max(best)[2]


@cache
def decoder_scores(q: int, guides: str) -> dict[Docid, float]:
    """What ranks every prefix."""
    steps = step_scores(MODEL, one(QUESTIONS, q), DOCIDS, "level")
    votes = geometric_votes(DOCIDS, BOOKS, VECTORS[q], OMEGA)
    scores = {}
    for prefix in steps:
        parts = [prefix[: level + 1] for level in range(len(prefix))]
        scores[prefix] = sum(steps[part] for part in parts)
        if guides == "geometry":
            scores[prefix] += sum(votes[part] for part in parts)
        if guides == "look":
            below = [docid for docid in DOCIDS if docid[: len(prefix)] == prefix]
            scores[prefix] += OMEGA * max(
                reconstruction_score(docid, BOOKS, VECTORS[q]) for docid in below
            )
    return scores


def distribution(scores: dict[Docid, float], level: int, tau: float) -> dict[Docid, float]:
    own = {prefix: scores[prefix] / tau for prefix in PREFIXES[level]}
    top = max(own.values())
    total = sum(math.exp(score - top) for score in own.values())
    return {prefix: math.exp(score - top) / total for prefix, score in own.items()}


def kept(scores: dict[Docid, float], beam: int) -> list[list[Docid]]:
    live: list[Docid] = [()]
    levels = []
    for level in range(3):
        here = [prefix for prefix in PREFIXES[level] if prefix[:-1] in live]
        live = sorted(here, key=lambda prefix: -scores[prefix])[:beam]
        levels.append(live)
    return levels


@cache
def teacher_scores(q: int) -> dict[Docid, float]:
    return {
        prefix: max(
            float(ITEMS[owner].astype(np.float64) @ VECTORS[q])
            for docid, owner in ROWS
            if docid[: len(prefix)] == prefix
        )
        for level in PREFIXES
        for prefix in level
    }


@pytest.mark.parametrize("guides", ["none", "geometry", "look"])
@pytest.mark.parametrize(("beam", "tau"), [(1, 1.0), (3, 0.05), (10, 0.3)])
def test_against_plain_loops(guides: str, beam: int, tau: float) -> None:
    told = followed(guides, beam, tau)
    assert told.prefixes.tolist() == [len(level) for level in PREFIXES]
    for q in range(QUERIES):
        target, decoder = target_of(q), decoder_scores(q, guides)
        teacher = teacher_scores(q)
        oracle = {p: inner(VECTORS[q], p) for level in PREFIXES for p in level}
        by_oracle, by_decoder = kept(oracle, beam), kept(decoder, beam)
        for level in range(3):
            prefix, at = target[: level + 1], (q, level)
            pi, bar, tilde = (distribution(s, level, tau) for s in (teacher, oracle, decoder))
            k = sum(pi[p] * (math.log(pi[p]) - math.log(bar[p])) for p in pi)
            assert told.divergence[at] == pytest.approx(k, rel=1e-4, abs=1e-6)
            ranked = sorted(pi.values(), reverse=True)
            m = pi[prefix] - (ranked[beam] if len(ranked) > beam else 0.0)
            assert told.margin[at] == pytest.approx(m, rel=1e-4, abs=1e-6)
            epsilon = sum(abs(bar[p] - tilde[p]) for p in bar) / 2
            assert told.mismatch[at] == pytest.approx(epsilon, rel=1e-4, abs=1e-5)
            assert told.oracle_beam[at] == (prefix in by_oracle[level])
            assert told.decoder_beam[at] == (prefix in by_decoder[level])
            legal = [p for p in PREFIXES[level] if p[:-1] == prefix[:-1]]
            for scores, found in ((oracle, told.oracle_legal), (decoder, told.decoder_legal)):
                assert found[at] == (sum(scores[p] > scores[prefix] for p in legal) < beam)
            assert told.oracle_token[at] == (
                sum(
                    float(BOOKS[level][code] @ VECTORS[q])
                    > float(BOOKS[level][prefix[-1]] @ VECTORS[q])
                    for code in {p[-1] for p in PREFIXES[level]}
                )
                < beam
            )
            check_slope(told.slope[at], legal, oracle, decoder, q, tau)
        words = np.sum([BOOKS[n][code] for n, code in enumerate(target)], axis=0)
        own = [owner for docid, owner in ROWS if docid == target and owner in RELEVANT[q]]
        errors = [float(((ITEMS[owner] - words) ** 2).sum()) for owner in own]
        assert any(told.error[q] == pytest.approx(error, rel=1e-4) for error in errors)


def check_slope(
    slope: float,
    legal: list[Docid],
    oracle: dict[Docid, float],
    decoder: dict[Docid, float],
    q: int,
    tau: float,
) -> None:
    """By finite differences of the weight of geometry, below one prefix."""
    if len(legal) < 2:
        assert np.isnan(slope)
        return
    votes = geometric_votes(DOCIDS, BOOKS, VECTORS[q], 1.0)

    def mismatch(omega: float) -> float:
        bar, tilde = ([s[p] / tau for p in legal] for s in (oracle, decoder))
        tilde = [score + omega * votes[p] for score, p in zip(tilde, legal, strict=True)]
        bar, tilde = (np.exp(np.array(s) - max(s)) for s in (bar, tilde))
        return float(np.abs(bar / bar.sum() - tilde / tilde.sum()).sum() / 2)

    measured = (mismatch(1e-5) - mismatch(-1e-5)) / 2e-5
    assert slope == pytest.approx(measured, rel=1e-3, abs=1e-4)


def test_the_token_of_the_decoder_is_taken_of_all_codes_in_use() -> None:
    """The one figure that ``step_scores`` cannot check: it knows existing prefixes only."""
    import torch

    for beam in (1, 2, 3):
        told = followed("geometry", beam, 1.0, mismatch=False)
        for q in range(QUERIES):
            target = target_of(q)
            with torch.no_grad():
                hidden = MODEL.hidden(one(QUESTIONS, q), torch.tensor([target]))[0].double()
            residual = VECTORS[q].astype(np.float64)
            for level, book in enumerate(BOOKS):
                low, high = MODEL.alphabet.bounds[level : level + 2]
                raw = (MODEL.alphabet.output[low:high].double() @ hidden[level]).detach().numpy()
                raw = raw + OMEGA * (2 * book @ residual - (book**2).sum(1))
                used = sorted({p[-1] for p in PREFIXES[level]})
                better = sum(raw[code] > raw[target[level]] for code in used)
                assert told.decoder_token[q, level] == (better < beam)
                residual = residual - book[target[level]]


def test_a_beam_that_holds_everything_loses_nothing() -> None:
    told = followed("none", 500, 1.0)
    for name in Retention._fields[5:11]:
        assert getattr(told, name).all(), name
    certified = pruning_of(told, beam=500, tau=1.0).levels[-1]
    assert certified.certified_so_far == certified.oracle_certified_so_far == QUERIES


@pytest.mark.parametrize("guides", ["none", "geometry"])
def test_a_hard_plan_forbids_what_it_does_not_hold(guides: str) -> None:
    planner = GeometricPlan(BOOKS, n=5)
    hard = LookAhead(planner, plan="hard", reduce="max", weight=1.0)
    ground = ground_of(TRIE, BOOKS, ITEMS)
    decoder = Decoder(MODEL, "level", [*GUIDES[guides], hard])
    told = follow_targets(ground, decoder, asking(), beam=200, tau=0.3, mismatch=True)
    aims = aims_of(ground, asking())
    for q, (aim, plan) in enumerate(zip(aims, planner.plan(VECTORS, TRIE), strict=True)):
        assert plan.rows is not None
        docids = {tuple(docid) for docid in TRIE.codes[plan.rows].tolist()}
        planned = any(docid == tuple(aim.codes.tolist()) for docid in docids)
        scores = every_score(ground, decoder, asking(), q)
        for level, own in enumerate(scores):
            reachable = {docid[: level + 1] for docid in docids}
            assert np.isfinite(own).tolist() == [p in reachable for p in PREFIXES[level]]
        assert told.decoder_beam[q, -1] == told.decoder_legal[q].all() == planned
    assert np.isfinite(told.mismatch).all()
    assert not told.decoder_beam[:, -1].all()


def test_batches_and_queries_do_not_matter() -> None:
    ground = ground_of(TRIE, BOOKS, ITEMS)
    decoder = Decoder(MODEL, "level", GUIDES["geometry"])
    parts = []
    for low in (0, 3):
        some = slice(low, low + 3 if low == 0 else None)
        part = Asking(
            QUESTIONS._replace(vector=QUESTIONS.vector[some]), VECTORS[some], RELEVANT[some]
        )
        parts.append(follow_targets(ground, decoder, part, beam=3, tau=0.3, mismatch=True))
    whole, halves = followed("geometry", 3, 0.3), joined(parts)
    for name, all_at_once, in_parts in zip(Retention._fields, whole, halves, strict=True):
        np.testing.assert_allclose(all_at_once, in_parts, rtol=1e-4, atol=1e-6, err_msg=name)


def test_docids_without_geometry_are_refused() -> None:
    with pytest.raises(SettingsError, match="stand for no vectors"):
        ground_of(TRIE, [np.zeros_like(book) for book in BOOKS], ITEMS)


def test_the_beam_of_dictionaries_is_the_one_of_decoding() -> None:
    """So that this file's twin and that of the searches cannot drift apart."""
    steps = step_scores(MODEL, one(QUESTIONS, 0), DOCIDS, "level")
    assert set(kept(decoder_scores(0, "none"), 4)[-1]) == set(beam_of_dicts(steps, DOCIDS, 4))
