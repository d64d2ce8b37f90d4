"""Small tables of numbers, shown three ways: terminal (rich), Markdown and JSON.

A column says how its numbers are written and which end is good; the best option is bold.
Trap: "best" is decided on the figures as written, so two systems that both show 0.417 are both
bold. JSON holds the full figures.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from trieline.errors import SettingsError
from trieline.evaluate.compare import Comparison, holm
from trieline.evaluate.score import Scores

if TYPE_CHECKING:
    from rich.table import Table as RichTable

__all__ = [
    "Cell",
    "Column",
    "Spread",
    "Table",
    "comparison_table",
    "score_table",
    "to_json",
    "to_markdown",
    "to_rich",
    "to_text",
]


class Spread(NamedTuple):
    """A mean over several seeds and how far they scatter."""

    mean: float
    spread: float  # standard deviation


Cell = str | int | float | Spread | None  # None: not measured


class Column(NamedTuple):
    """One column: its heading, how numbers are written, which end is good."""

    name: str
    spec: str = ".3f"  # a format specification: ".3f", ",d", ".1%"
    best: Literal["high", "low"] | None = None


class Table(NamedTuple):
    """A title, columns, and rows as wide as the columns."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""


def score_table(
    systems: Mapping[str, Scores],
    extra: Mapping[str, Mapping[str, Cell]] | None = None,
    columns: Sequence[Column] = (),
    title: str = "",
) -> Table:
    """One row a system, one column a measure, then ``columns`` filled from ``extra[system]``."""
    if not systems:
        raise SettingsError("no table of scores: no system was measured.")
    measures = list(dict.fromkeys(name for scores in systems.values() for name in scores.means))
    side = extra or {}
    rows = [
        (
            system,
            *(scores.means.get(name) for name in measures),
            *(side.get(system, {}).get(column.name) for column in columns),
        )
        for system, scores in systems.items()
    ]
    measured = (Column(name, best="high") for name in measures)
    return Table((Column("system"), *measured, *columns), tuple(rows), title)


def comparison_table(comparisons: Sequence[Comparison], title: str = "") -> Table:
    """One row a measure: both means, the difference with its interval, p-values, wins."""
    columns = (
        Column("measure"),
        Column("a"),
        Column("b"),
        Column("a - b", "+.3f"),
        Column("low", "+.3f"),
        Column("high", "+.3f"),
        Column("p", ".2g"),
        Column("p (Holm)", ".2g"),
        Column("p (t-test)", ".2g"),
        Column("wins", ",d"),
        Column("losses", ",d"),
        Column("ties", ",d"),
    )
    corrected = holm([c.p_value for c in comparisons])
    rows = [
        (
            *(c.measure, c.mean_a, c.mean_b, c.difference, c.low, c.high),
            *(c.p_value, adjusted, c.t_p_value, c.wins, c.losses, c.ties),
        )
        for c, adjusted in zip(comparisons, corrected, strict=True)
    ]
    return Table(columns, tuple(rows), title)


def to_markdown(table: Table) -> str:
    """A Markdown table, the best of each column bold."""
    head = [_markdown(column.name) for column in table.columns]
    rule = ["---:" if numeric else "---" for numeric in _numeric(table)]
    body = [
        [f"**{_markdown(text)}**" if bold else _markdown(text) for text, bold in row]
        for row in _written(table)
    ]
    lines = [f"| {' | '.join(row)} |" for row in (head, rule, *body)]
    title = [f"**{_markdown(table.title)}**", ""] if table.title else []
    return "\n".join([*title, *lines]) + "\n"


def to_json(table: Table) -> str:
    """The full figures: title, column names, one object a row; what is not a number is null."""
    names = [column.name for column in table.columns]
    _checked(table)
    rows = [dict(zip(names, map(_plain, row), strict=True)) for row in table.rows]
    content = {"title": table.title, "columns": names, "rows": rows}
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


def to_rich(table: Table) -> RichTable:
    """The table for a rich console."""
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(title=Text(table.title) if table.title else None)
    for column, numeric in zip(table.columns, _numeric(table), strict=True):
        shown.add_column(Text(column.name), justify="right" if numeric else "left")
    for row in _written(table):
        # Text, not str: a system called "[red]" is a name, not a colour.
        shown.add_row(*(Text(text, style="bold" if bold else "") for text, bold in row))
    return shown


def to_text(table: Table, width: int = 100) -> str:
    """What a terminal of that width would show, without colours."""
    shown = to_rich(table)
    from rich.console import Console

    page = io.StringIO()
    Console(file=page, width=width, color_system=None).print(shown)
    return page.getvalue()


def _written(table: Table) -> list[list[tuple[str, bool]]]:
    """Every cell as text, and whether it is the best of its column."""
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.columns)
    marked = []
    for column, cells in zip(table.columns, columns, strict=True):
        texts = [_cell(cell, column) for cell in cells]
        best = _best(column, cells)
        marked.append([(text, text in best) for text in texts])
    return [list(row) for row in zip(*marked, strict=True)]


def _best(column: Column, cells: Sequence[Cell]) -> set[str]:
    """How the best figure of the column is written; nothing where there is no contest."""
    known = [(number, cell) for cell in cells if (number := _number(cell)) is not None]
    if column.best is None or len(known) < 2:
        return set()
    pick = max if column.best == "high" else min
    top = pick(number for number, _ in known)
    shown = _figure(top, column.spec)
    return {_cell(cell, column) for number, cell in known if _figure(number, column.spec) == shown}


def _cell(cell: Cell, column: Column) -> str:
    if isinstance(cell, str):
        return cell
    number = _number(cell)
    if number is None:
        return "–"
    if isinstance(cell, Spread):
        scatter = _figure(cell.spread, column.spec.lstrip("+"))
        return f"{_figure(number, column.spec)} ± {scatter}"
    return _figure(number, column.spec)


def _figure(number: float, spec: str) -> str:
    try:
        return format(round(number) if spec.endswith("d") else number, spec)
    except ValueError:
        raise SettingsError(
            f"a column writes its numbers as '{spec}': not a format of Python, e.g. '.3f' or ',d'."
        ) from None


def _number(cell: Cell) -> float | None:
    value = cell.mean if isinstance(cell, Spread) else cell
    if value is None or isinstance(value, str) or not math.isfinite(value):
        return None
    return value


def _plain(cell: Cell) -> Any:
    if isinstance(cell, Spread):
        return {"mean": _plain(cell.mean), "spread": _plain(cell.spread)}
    return cell if isinstance(cell, str) else _number(cell)


def _numeric(table: Table) -> list[bool]:
    """Columns with figures stand to the right; a column of words to the left."""
    _checked(table)
    return [
        any(not isinstance(row[place], str | None) for row in table.rows)
        for place in range(len(table.columns))
    ]


def _checked(table: Table) -> None:
    for row in table.rows:
        if len(row) != len(table.columns):
            raise SettingsError(
                f"a row of the table has {len(row)} cells, the table {len(table.columns)} columns: "
                f"{row!r}."
            )


def _markdown(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")
