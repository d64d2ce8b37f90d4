"""The page of the benchmarks says what their figures say, and a row holds or it does not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
import measures
import page

BENCH = Path(page.__file__).parent


def test_the_page_is_written_from_the_figures() -> None:
    written = (BENCH / "RESULTS.md").read_text("utf-8")
    assert page.page_of(page.read_figures()) == written, "run: python bench/page.py"


@pytest.mark.parametrize(
    ("value", "bar", "at_least", "holds"),
    [
        (2.0, 2.0, True, True),
        (1.9, 2.0, True, False),
        (2.0, 2.0, False, True),
        (1, None, True, None),
    ],
)
def test_a_bar_is_reached_or_kept_below(
    value: float, bar: float | None, at_least: bool, holds: bool | None
) -> None:
    row = measures.Row("this", "ms", value, bar, at_least=at_least)
    assert row.holds is holds
    assert measures.as_json([row])["this (ms)"]["holds"] is holds
    assert {None: "", True: "yes", False: "NO"}[holds] in measures.as_table([row], "").rows[0]


def test_the_least_of_the_rounds_counts_and_all_take_turns() -> None:
    now, order = [0.0], []

    def work(name: str, takes: list[float]) -> object:
        def run() -> None:
            order.append(name)
            now[0] += takes.pop(0)

        return run

    works = {"a": work("a", [9.0, 2.0, 1.0]), "b": work("b", [9.0, 3.0, 4.0])}
    ms = measures.in_turns(works, 2, clock=lambda: now[0])
    assert ms == {"a": 1000.0, "b": 3000.0}
    assert order == ["a", "b"] * 3
