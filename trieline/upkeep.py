"""The commands that look after an index: add, remove, compact, stats, verify.

Part of the command line; what all of its commands share is here too.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from trieline.retriever import Retriever

__all__ = ["Device", "Index", "Json", "Precision", "lines_of", "open_index", "upkeep"]

upkeep = typer.Typer(rich_markup_mode="markdown")

Index = Annotated[Path, typer.Argument(help="An index folder, e.g. my.tl.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1 ...")]
Precision = Annotated[
    str, typer.Option(help="fp32; bf16 or int8 are faster where the machine computes them.")
]


@upkeep.command()
def add(
    index: Index,
    items: Annotated[str, typer.Argument(help="A file or folder of items, as for build.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Items whose ids are there already take their place.")
    ] = False,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Add items to an index; they can be found at once, without training.

    Example: `trieline add my.tl new-items.jsonl --replace`
    """
    from trieline import show
    from trieline.data import open_dataset

    with open_index(index, device) as retriever:
        new = open_dataset(items).items()
        count = retriever.add(new, replace=replace, watch=show.bars)
        total = len(retriever)
    _changed(json, "added", count, total, index)


@upkeep.command()
def remove(
    index: Index,
    ids: Annotated[
        list[str], typer.Argument(help="Item ids; - reads them from stdin, one a line.")
    ],
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Remove items from an index; they cannot be found any more at once.

    Example: `trieline remove my.tl doc17 doc18`
    """
    wanted = lines_of(sys.stdin.read()) if ids == ["-"] else ids
    with open_index(index, device) as retriever:
        count = retriever.remove(wanted)
        total = len(retriever)
    _changed(json, "removed", count, total, index)


@upkeep.command()
def compact(index: Index, json: Json = False) -> None:
    """Fold the changes of an index into its files and give back the room of removed items.

    Worth its time after thousands of changes: opening the index replays them.

    Example: `trieline compact my.tl`
    """
    from trieline import show
    from trieline.living import compact_index

    done = compact_index(index)
    if json:
        show.as_json(done._asdict())
        return
    before, after = done.before / 1e6, done.after / 1e6
    show.line(f"{index}: {done.changes:,} changes folded in, {before:.2f} MB -> {after:.2f} MB.")


def _changed(json: bool, what: str, count: int, total: int, index: Path) -> None:
    from trieline import show

    if json:
        show.as_json({what: count, "items": total})
        return
    show.line(f"{what} {count:,}; {index} now holds {total:,} items.")


@upkeep.command()
def stats(index: Index, json: Json = False) -> None:
    """Show how the docids are spread and how large the index is.

    Example: `trieline stats my.tl`
    """
    from trieline import show
    from trieline.checkup import index_facts

    shown = index_facts(index)
    if json:
        show.as_json(shown.to_json())
        return
    for table in shown.tables():
        show.table(table)


@upkeep.command()
def verify(
    index: Index,
    repair: Annotated[
        bool, typer.Option(help="Make derived files again from the catalog.")
    ] = False,
    json: Json = False,
) -> None:
    """Read every byte of an index and report what is wrong with it.

    Example: `trieline verify my.tl --repair`
    """
    from trieline import show
    from trieline.checkup import verify_index

    problems, repaired = verify_index(index, repair=repair)
    if json:
        show.as_json({"problems": problems, "repaired": repaired})
    else:
        for problem in problems:
            show.line(f"problem: {problem}")
        for name in repaired:
            show.line(f"made again: {name}")
        if not problems and not repaired:
            show.line(f"{index}: everything is as it was written.")
    if problems:
        raise typer.Exit(1)


def open_index(index: Path, device: str, precision: str = "fp32") -> Retriever:
    """An index with its model."""
    from trieline.model.linear import check_precision
    from trieline.retriever import Retriever

    return Retriever.load(index, device=device, precision=check_precision(precision))


def lines_of(text: str) -> list[str]:
    """The lines of a text that say something."""
    return [line.strip() for line in text.splitlines() if line.strip()]
