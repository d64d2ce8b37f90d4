"""The quantities of the survival bound, against sums in plain loops and numbers by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trieline.diagnose.bound import (
    certified_by_oracle,
    certified_here,
    decoder_mismatch,
    log_distribution,
    mismatch_slope,
    ranking_divergence,
    teacher_margin,
)

Numbers = list[float]
scores = st.integers(1, 12).flatmap(
    lambda n: arrays(np.float64, (3, n), elements=st.floats(-3, 3, allow_subnormal=False))
)
taus = st.sampled_from([0.05, 0.3, 1.0, 4.0])


def distribution(values: Numbers, tau: float) -> Numbers:
    weights = [math.exp((value - max(values)) / tau) for value in values]
    return [weight / sum(weights) for weight in weights]


@given(found=scores, tau=taus, beam=st.integers(1, 14), data=st.data())
def test_against_plain_loops(found: np.ndarray, tau: float, beam: int, data: st.DataObject) -> None:
    target = data.draw(st.integers(0, found.shape[1] - 1))
    teacher, oracle, decoder = (distribution(values.tolist(), tau) for values in found)
    logs = [log_distribution(values, tau) for values in found]
    for plain, log in zip((teacher, oracle, decoder), logs, strict=True):
        np.testing.assert_allclose(np.exp(log), plain, rtol=1e-9, atol=1e-300)
    divergence = sum(p * (math.log(p) - math.log(q)) for p, q in zip(teacher, oracle, strict=True))
    assert ranking_divergence(logs[0], logs[1]) == pytest.approx(divergence, abs=1e-9)
    outside = sorted(teacher, reverse=True)[beam] if len(teacher) > beam else 0.0
    margin = teacher_margin(logs[0], target, beam)
    assert margin == pytest.approx(teacher[target] - outside, abs=1e-12)
    mismatch = sum(abs(p - q) for p, q in zip(oracle, decoder, strict=True)) / 2
    assert decoder_mismatch(logs[1], logs[2]) == pytest.approx(mismatch, abs=1e-12)


@given(found=scores, tau=taus, beam=st.integers(1, 6), data=st.data())
def test_what_is_certified_is_among_the_best(
    found: np.ndarray, tau: float, beam: int, data: st.DataObject
) -> None:
    """The theorem itself, for one level: distributions so near that the target cannot fall out."""
    target = data.draw(st.integers(0, found.shape[1] - 1))
    near = data.draw(st.sampled_from([0.0, 1e-3, 1e-2, 0.1]))
    teacher = log_distribution(found[0], tau)
    oracle = log_distribution(found[0] + near * found[1], tau)
    decoder = log_distribution(found[0] + near * found[2], tau)
    k = np.array(ranking_divergence(teacher, oracle))
    m = np.array(teacher_margin(teacher, target, beam))
    e = np.array(decoder_mismatch(oracle, decoder))
    fits = np.array(found.shape[1] <= beam)
    if certified_by_oracle(k, m, fits):
        assert (oracle > oracle[target]).sum() < beam
    if certified_here(k, e, m, fits):
        assert certified_by_oracle(k, m, fits)
        assert (decoder > decoder[target]).sum() < beam


def test_by_hand() -> None:
    teacher, oracle, decoder = (
        np.log(p) for p in ([0.5, 0.25, 0.125, 0.125], [0.25] * 4, [0.5, 0.5, 1e-300, 1e-300])
    )
    assert ranking_divergence(teacher, oracle) == pytest.approx(0.25 * math.log(2))
    assert ranking_divergence(teacher, teacher) == 0
    assert decoder_mismatch(oracle, decoder) == pytest.approx(0.5)
    assert teacher_margin(teacher, 0, 1) == pytest.approx(0.25)
    assert teacher_margin(teacher, 1, 1) == 0  # its own place is the first outside the beam
    assert teacher_margin(teacher, 2, 1) == pytest.approx(-0.125)
    assert teacher_margin(teacher, 0, 2) == pytest.approx(0.375)
    assert teacher_margin(teacher, 3, 4) == pytest.approx(0.125), "nothing is outside"


def test_the_conditions_by_hand() -> None:
    k, e = np.array([0.02, 0.02, 0.02, 9.0, 0.0]), np.array([0.1, 0.05, 0.0, 1.0, 0.0])
    m, fits = np.array([0.3, 0.4, 0.2, -0.5, 0.0]), np.array([False, False, False, True, False])
    # sqrt(.02 / 2) = .1: .1 + .1 against .15, .1 + .05 against .2, .1 + 0 against .1
    assert certified_here(k, e, m, fits).tolist() == [False, True, False, True, False]
    # K against m^2 / 2 = .045, .08, .0162
    m[2] = 0.18
    assert certified_by_oracle(k, m, fits).tolist() == [True, True, False, True, False]


def test_a_forbidden_prefix_has_no_share() -> None:
    logs = log_distribution(np.array([0.0, -np.inf, 0.0]), 0.05)
    np.testing.assert_allclose(np.exp(logs), [0.5, 0, 0.5])
    assert decoder_mismatch(np.log([0.25, 0.5, 0.25]), logs) == pytest.approx(0.5)


@pytest.mark.parametrize("seed", range(20))
def test_proposition_a9_against_finite_differences(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, tau = int(rng.integers(2, 30)), 0.3
    oracle = log_distribution(rng.normal(size=size), tau)
    decoder = log_distribution(rng.normal(size=size), 1.0)
    votes = rng.normal(size=size)

    def mismatch(omega: float) -> float:
        return decoder_mismatch(oracle, log_distribution(decoder + omega * votes, 1.0))

    step = 1e-6
    measured = (mismatch(step) - mismatch(-step)) / (2 * step)
    slope = mismatch_slope(oracle, decoder, votes)
    assert slope == pytest.approx(measured, abs=1e-6)
    # Eq. 22, written out.
    share, under = np.exp(decoder), (oracle > decoder).astype(float)
    covariance = share @ (votes * under) - (share @ votes) * (share @ under)
    assert slope == pytest.approx(-covariance, abs=1e-12)
    if slope < -1e-3:
        assert mismatch(1e-4) < mismatch(0.0)


def test_corollary_a10_splits_the_covariance() -> None:
    """PRO Eq. 23, which rests on Eq. 19: the vote is the oracle's log and a distortion."""
    rng = np.random.default_rng(5)
    tau, words, prefix, query = 0.3, *(rng.normal(size=s) for s in ((9, 4), 4, 4))
    oracle = log_distribution(words @ query, tau)
    decoder = log_distribution(rng.normal(size=9), 1.0)
    votes = 2 * words @ (query - prefix) - (words**2).sum(1)
    distortion = 2 * words @ prefix + (words**2).sum(1)
    np.testing.assert_allclose(np.ptp(votes - 2 * tau * oracle + distortion), 0, atol=1e-12)
    parts = 2 * tau * mismatch_slope(oracle, decoder, oracle) - mismatch_slope(
        oracle, decoder, distortion
    )
    assert mismatch_slope(oracle, decoder, votes) == pytest.approx(parts)
