from __future__ import annotations

import sys
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trieline.errors import DataError, SettingsError
from trieline.evaluate import Scores, compare, holm


def scores(values: list[float], measure: str = "RR@10") -> Scores:
    per_query = {f"q{i}": value for i, value in enumerate(values)}
    return Scores({measure: float(np.mean(values))}, {measure: per_query})


A = [0.9, 0.2, 0.5, 1.0, 0.7, 0.3, 0.8, 0.6]
B = [0.4, 0.2, 0.6, 0.5, 0.1, 0.1, 0.7, 0.2]


def test_counts_and_means() -> None:
    (found,) = compare(scores(A), scores(B))
    assert (found.measure, found.queries) == ("RR@10", 8)
    assert (found.wins, found.losses, found.ties) == (6, 1, 1)
    assert found.mean_a == pytest.approx(np.mean(A))
    assert found.difference == pytest.approx(np.mean(A) - np.mean(B))
    assert found.low < found.difference < found.high


def test_randomisation_agrees_with_all_sign_flips() -> None:
    differences = np.array(A) - np.array(B)
    flips = np.array(list(product([1, -1], repeat=len(differences))))
    means = np.abs((flips * differences).mean(axis=1))
    exact = float((means >= abs(differences.mean()) - 1e-12).mean())
    (found,) = compare(scores(A), scores(B), rounds=40_000)
    assert found.p_value == pytest.approx(exact, abs=0.005)


def test_t_test_agrees_with_scipy() -> None:
    from scipy.stats import ttest_rel

    (found,) = compare(scores(A), scores(B))
    assert found.t_p_value == pytest.approx(ttest_rel(A, B).pvalue)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(100):
        noise = rng.normal(0.1, 0.3, 60).tolist()
        (found,) = compare(scores(noise), scores([0.0] * 60), rounds=400, confidence=0.9)
        covered += found.low <= 0.1 <= found.high
    assert 80 <= covered <= 98


def test_a_certain_difference_is_found_and_chance_is_not() -> None:
    rng = np.random.default_rng(1)
    base = rng.random(300)
    better, same = base + 0.1 + rng.normal(0, 0.05, 300), base + rng.normal(0, 0.05, 300)
    (certain,) = compare(scores(better.tolist()), scores(base.tolist()), rounds=999)
    (chance,) = compare(scores(same.tolist()), scores(base.tolist()), rounds=999)
    assert certain.p_value == pytest.approx(1 / 1000)
    assert certain.t_p_value < 1e-6
    assert chance.p_value > 0.01


@pytest.mark.parametrize(("value", "p_value"), [(0.0, 1.0), (0.5, 0.0)])
def test_the_same_difference_everywhere(value: float, p_value: float) -> None:
    (found,) = compare(scores([value] * 30), scores([0.0] * 30), rounds=999)
    assert found.t_p_value == p_value
    assert found.low == found.high == value
    assert found.p_value == pytest.approx(1.0 if value == 0 else 0.001)


def test_one_query() -> None:
    (found,) = compare(scores([1.0]), scores([0.0]))
    assert found.p_value == found.t_p_value == 1.0


def test_same_seed_same_numbers_whatever_the_order_of_queries() -> None:
    a, b = scores(A), scores(B)
    turned = Scores(a.means, {"RR@10": dict(reversed(a.per_query["RR@10"].items()))})
    assert compare(a, b, seed=3) == compare(turned, b, seed=3)
    assert compare(a, b, seed=3) != compare(a, b, seed=4)


def test_blocks_do_not_change_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    (whole,) = compare(scores(A), scores(B), rounds=5000)
    monkeypatch.setattr(sys.modules["trieline.evaluate.compare"], "_BLOCK", 64)
    (blocks,) = compare(scores(A), scores(B), rounds=5000)
    assert blocks.p_value == pytest.approx(whole.p_value, abs=0.02)
    assert blocks.low == pytest.approx(whole.low, abs=0.02)


def test_swapping_the_systems_turns_the_sign() -> None:
    (one,) = compare(scores(A), scores(B))
    (other,) = compare(scores(B), scores(A))
    assert one.difference == -other.difference
    assert (one.wins, one.losses) == (other.losses, other.wins)
    assert one.p_value == other.p_value


def test_different_queries() -> None:
    with pytest.raises(DataError, match="1 of them in one only, e.g. 'q8'"):
        compare(scores([*A, 0.1]), scores(B))


def test_a_measure_that_only_one_has() -> None:
    with pytest.raises(SettingsError, match="no comparison on 'R@10': measured in both.*RR@10"):
        compare(scores(A), scores(B), ["R@10"])
    with pytest.raises(SettingsError, match="nothing"):
        compare(scores(A), scores(B, "R@10"))


@pytest.mark.parametrize(
    ("settings", "says"),
    [({"rounds": 0}, "rounds = 0"), ({"confidence": 1.0}, "confidence"), ({"confidence": 0}, "0")],
)
def test_wrong_settings(settings: dict[str, float], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        compare(scores(A), scores(B), **settings)  # type: ignore[arg-type]


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_never_lowers_a_p_value_and_keeps_their_order(p_values: list[float]) -> None:
    corrected = holm(p_values)
    assert all(0 <= p <= c <= 1 for p, c in zip(p_values, corrected, strict=True))
    order = np.argsort(p_values, kind="stable")
    assert (np.diff(np.array(corrected)[order]) >= 0).all()


def test_holm_wants_probabilities() -> None:
    with pytest.raises(SettingsError, match="between 0 and 1"):
        holm([0.1, 1.5])
