"""``trieline diagnose``: what an index does well and badly, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from trieline.types import Query

__all__ = ["app"]

app = typer.Typer(
    name="diagnose",
    help="Say what an index does well and badly, and why.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

Index = Annotated[Path, typer.Argument(help="An index folder, e.g. my.tl.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


@app.command()
def search(
    index: Index,
    queries: Annotated[
        str, typer.Option(help="A dataset, or a .txt file with a query on each line.")
    ],
    split: Annotated[str, typer.Option(help="Which queries of the dataset.")] = "dev",
    beam: Annotated[
        list[int] | None,
        typer.Option(help="A beam width; may be given several times. Default: 10 and 50.", min=1),
    ] = None,
    k: Annotated[int, typer.Option("-k", "--k", help="How many answers to compare.", min=1)] = 10,
    limit: Annotated[int, typer.Option(help="The first so many queries.", min=1)] = 200,
    budget: Annotated[
        int, typer.Option(help="Most prefixes that exact search reads for a query.", min=1)
    ] = 4000,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 ...")] = "cpu",
    json: Json = False,
) -> None:
    """Compare beam search with exact search: how often it misses answers, and at which level.

    Example: `trieline diagnose search my.tl --queries my-corpus/ --split dev --beam 10 --beam 50`
    """
    from trieline import show
    from trieline.retriever import Retriever

    asked = _queries(queries, split, limit)
    with Retriever.load(index, device=device) as retriever:
        told = retriever.search_error(
            asked, beams=beam or (10, 50), k=k, budget=budget, watch=show.bars
        )
    if json:
        show.as_json(told.to_json())
        return
    for table in told.tables():
        show.table(table)


@app.command()
def codes(index: Index, json: Json = False) -> None:
    """Show how the docids are spread: codes in use, entropy, collisions.

    Example: `trieline diagnose codes my.tl`
    """
    from trieline import show
    from trieline.checkup import index_facts

    spread = index_facts(index).codes
    if json:
        show.as_json(spread.to_json())
        return
    for table in spread.tables():
        show.table(table)


def _queries(source: str, split: str, limit: int) -> list[Query]:
    from itertools import islice

    from trieline.data import open_dataset
    from trieline.errors import DataError
    from trieline.types import Query

    path = Path(source)
    if path.suffix == ".txt" and path.is_file():
        lines = path.read_text("utf-8").splitlines()
        asked = [
            Query(str(number), line.strip())
            for number, line in enumerate(lines, start=1)
            if line.strip()
        ][:limit]
    else:
        asked = list(islice(open_dataset(source).queries(split), limit))
    if not asked:
        raise DataError(
            f"{source} has no queries ('{split}'): nothing to compare. Give a .txt file with a "
            "query on each line, or a dataset and one of its splits."
        )
    return asked
