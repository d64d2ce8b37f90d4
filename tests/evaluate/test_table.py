from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from trieline.errors import SettingsError
from trieline.evaluate import (
    Column,
    Comparison,
    Scores,
    Spread,
    Table,
    comparison_table,
    score_table,
    to_json,
    to_markdown,
    to_rich,
    to_text,
)

TABLE = Table(
    (
        Column("system"),
        Column("RR@10", best="high"),
        Column("bytes", ",d", "low"),
        Column("share", ".1%"),
    ),
    (
        ("bm25", 0.41666, 12345.0, 0.5),
        ("dense", 0.4169, 1536, None),
        ("a|b [red]", Spread(0.3, 0.0123), float("nan"), 0.25),
    ),
    "python-docs",
)


def test_markdown() -> None:
    assert to_markdown(TABLE).splitlines() == [
        "**python-docs**",
        "",
        "| system | RR@10 | bytes | share |",
        "| --- | ---: | ---: | ---: |",
        "| bm25 | **0.417** | 12,345 | 50.0% |",  # the same as written: both are best
        "| dense | **0.417** | **1,536** | – |",
        r"| a\|b [red] | 0.300 ± 0.012 | – | 25.0% |",
    ]


def test_json_has_the_full_figures() -> None:
    content = json.loads(to_json(TABLE))
    assert content["title"] == "python-docs"
    assert content["columns"] == ["system", "RR@10", "bytes", "share"]
    assert content["rows"][0] == {"system": "bm25", "RR@10": 0.41666, "bytes": 12345, "share": 0.5}
    assert content["rows"][2]["RR@10"] == {"mean": 0.3, "spread": 0.0123}
    assert content["rows"][2]["bytes"] is None


def test_terminal() -> None:
    text = to_text(TABLE, width=80)
    lines = text.splitlines()
    assert "python-docs" in lines[0]
    assert any("a|b [red]" in line and "0.300 ± 0.012" in line for line in lines)
    assert all(len(line) <= 80 for line in lines)
    assert "\x1b" not in text


def test_terminal_marks_the_best_bold() -> None:
    column = to_rich(TABLE).columns[2]
    styles = {str(cell): str(cell.style) for cell in column.cells}  # type: ignore[union-attr]
    assert styles == {"12,345": "", "1,536": "bold", "–": ""}
    assert column.justify == "right"


def test_no_contest_no_best() -> None:
    alone = Table((Column("x", best="high"),), ((0.5,), (None,)))
    assert "**" not in to_markdown(alone)


def test_a_table_without_rows() -> None:
    empty = Table((Column("a"), Column("b")), ())
    assert to_markdown(empty) == "| a | b |\n| --- | --- |\n"
    assert json.loads(to_json(empty))["rows"] == []
    assert "a" in to_text(empty)


@pytest.mark.parametrize("show", [to_markdown, to_json, to_text])
def test_a_row_of_the_wrong_width(show: Callable[[Table], str]) -> None:
    with pytest.raises(SettingsError, match="has 1 cells, the table 2 columns"):
        show(Table((Column("a"), Column("b")), ((1.0,),)))


def test_a_wrong_format() -> None:
    with pytest.raises(SettingsError, match=r"writes its numbers as '\.3q'"):
        to_markdown(Table((Column("a", ".3q"),), ((1.0,),)))


def test_signs_and_whole_numbers() -> None:
    columns = (Column("d", "+.2f"), Column("n", "d"))
    assert "| +0.50 ± 0.10 | 3 |" in to_markdown(Table(columns, ((Spread(0.5, 0.1), 2.6),)))


def test_scores_beside_each_other() -> None:
    systems = {"a": Scores({"R@10": 0.5, "RR": 0.2}, {}), "b": Scores({"R@10": 0.7}, {})}
    extra = {"a": {"bytes": 16}, "b": {"bytes": 1536}}
    table = score_table(systems, extra, [Column("bytes", ",d", "low")], "title")
    assert [column.name for column in table.columns] == ["system", "R@10", "RR", "bytes"]
    assert table.rows == (("a", 0.5, 0.2, 16), ("b", 0.7, None, 1536))
    with pytest.raises(SettingsError, match="no system"):
        score_table({})


def test_comparisons() -> None:
    found = [
        Comparison("RR", 9, 0.5, 0.4, 0.1, 0.05, 0.15, 0.02, 0.00001, 5, 3, 1),
        Comparison("R@1", 9, 0.5, 0.4, 0.1, -0.05, 0.25, 0.3, 0.4, 5, 3, 1),
    ]
    lines = to_markdown(comparison_table(found)).splitlines()
    expected = "| RR | 0.500 | 0.400 | +0.100 | +0.050 | +0.150 | 0.02 | 0.04 | 1e-05 | 5 | 3 | 1 |"
    assert lines[2] == expected
