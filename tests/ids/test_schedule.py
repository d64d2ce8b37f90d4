"""Schedules cost what they should, and rise or fall."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trieline.config import IdSettings, load_recipe
from trieline.errors import SettingsError
from trieline.ids import schedule


def test_the_papers_sizes() -> None:
    """Appendix C, and the three schedules of table 1 at its first levels."""
    ascending = schedule("ascending", 16, 160)
    assert ascending == (512,) * 4 + (1024,) * 8 + (2048,) * 4
    assert ascending == load_recipe("pro-paper").ids.sizes
    assert schedule("uniform", 16, 160) == (1024,) * 16
    assert schedule("descending", 16, 160) == ascending[::-1]


def test_the_recipe_costs_what_genius_costs() -> None:
    genius, pro = load_recipe("genius").ids.sizes, load_recipe("pro").ids.sizes
    assert schedule("uniform", 8, 72) == genius
    assert schedule("ascending", 8, 72) == pro


@given(st.integers(2, 32), st.integers(2, 15), st.sampled_from(["ascending", "descending"]))
def test_bits_are_kept(levels: int, each: int, name: str) -> None:
    sizes = schedule(name, levels, levels * each)  # type: ignore[arg-type]
    assert len(sizes) == levels
    assert sum(math.log2(size) for size in sizes) == levels * each
    assert list(sizes) == sorted(sizes, reverse=name == "descending")
    assert len(set(sizes)) > 1
    IdSettings(sizes=sizes)


@pytest.mark.parametrize(
    ("name", "levels", "bits"),
    [("uniform", 0, 8), ("ascending", 1, 8), ("uniform", 2, 0.5), ("descending", 4, 64)],
)
def test_what_does_not_go(name: str, levels: int, bits: float) -> None:
    with pytest.raises(SettingsError, match="bits on"):
        schedule(name, levels, bits)  # type: ignore[arg-type]
