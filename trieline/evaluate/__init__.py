"""Numbers: measures of a run, what separates two runs, tables, and what other ways find."""

from trieline.evaluate.baselines import bm25, dense, last_item, popular
from trieline.evaluate.compare import Comparison, compare, holm
from trieline.evaluate.score import MEASURES, Scores, score
from trieline.evaluate.table import (
    Cell,
    Column,
    Spread,
    Table,
    comparison_table,
    score_table,
    to_json,
    to_markdown,
    to_rich,
    to_text,
)

__all__ = [
    "MEASURES",
    "Cell",
    "Column",
    "Comparison",
    "Scores",
    "Spread",
    "Table",
    "bm25",
    "compare",
    "comparison_table",
    "dense",
    "holm",
    "last_item",
    "popular",
    "score",
    "score_table",
    "to_json",
    "to_markdown",
    "to_rich",
    "to_text",
]
