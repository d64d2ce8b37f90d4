"""Which settings open which guides."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from worlds import books

from trieline.config import DecodeSettings, IdSettings, Recipe, apply, from_mapping
from trieline.decode import (
    Geometric,
    GeometricLook,
    GeometricPlan,
    GuidesOf,
    LookAhead,
    open_guides,
)
from trieline.errors import SettingsError
from trieline.ids import open_docids

BOOKS = books()


def test_nothing_is_asked_for() -> None:
    assert open_guides(DecodeSettings(), BOOKS) == []
    assert not DecodeSettings().guided


def test_carried_votes() -> None:
    (guide,) = open_guides(DecodeSettings(omega=2.0, standardise=True), BOOKS)
    assert isinstance(guide, Geometric)
    assert (guide.omega, guide.standardise, guide.name) == (2.0, True, "geometry")


def test_the_look_ahead() -> None:
    (guide,) = open_guides(DecodeSettings(omega=2.0, geometry="look"), BOOKS)
    assert isinstance(guide, GeometricLook)
    assert (guide.weight, guide.name) == (2.0, "geometric look")


def test_a_plan_beside_votes() -> None:
    settings = DecodeSettings(
        omega=1.0, plan="hard", plan_size=7, plan_reduce="mean", plan_weight=0.25
    )
    votes, plan = open_guides(settings, BOOKS)
    assert settings.guided
    assert isinstance(votes, Geometric)
    assert isinstance(plan, LookAhead) and isinstance(plan.planner, GeometricPlan)
    assert (plan.planner.n, plan.reduce, plan.hard, plan.weight) == (7, "mean", True, 0.25)
    assert DecodeSettings(plan="soft").guided


@pytest.mark.parametrize(
    "settings",
    [
        {"geometry": "look", "standardise": True},
        {"plan_size": -1},
        {"plan_weight": -0.5},
        {"plan_weight": float("nan")},
    ],
)
def test_what_does_not_go(settings: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match="decode"):
        DecodeSettings(**settings)
    if "plan_size" in settings:
        with pytest.raises(SettingsError, match="decode.plan_size = -1"):
            apply(Recipe(), ["decode.plan_size=-1"])


def test_a_manifest_from_before_still_loads() -> None:
    decode = {"beam": 9, "normalise": "level", "batch": 2, "omega": 3.0}
    recipe = from_mapping({"decode": decode}, "manifest.json")
    assert recipe.decode == DecodeSettings(beam=9, batch=2, omega=3.0)


def test_guides_are_kept_until_the_settings_change() -> None:
    vectors = np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32)
    docids = open_docids(IdSettings(sizes=(4, 4))).fit(vectors)
    guides, one, other = GuidesOf(docids), DecodeSettings(omega=1.0), DecodeSettings(omega=2.0)
    assert guides(DecodeSettings()) == []
    first = guides(one)
    assert guides(one) is first
    assert guides(other) is not first
    assert [guide.omega for guide in guides(other)] == [2.0]


def test_nothing_is_learnt_where_no_guide_is_asked_for() -> None:
    """Docids without geometry, or not fitted yet, are no obstacle then."""
    assert GuidesOf(open_docids(IdSettings(sizes=(4, 4))))(DecodeSettings()) == []
