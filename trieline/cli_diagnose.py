"""``trieline diagnose``: what an index does well and badly, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trieline.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trieline.diagnose.judge import Judgement
    from trieline.evaluate.table import Table
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
Markdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown tables.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1 ...")]
Limit = Annotated[int, typer.Option(help="The first so many queries.", min=1)]
Split = Annotated[str, typer.Option(help="Which queries of the dataset.")]
Corpus = Annotated[
    str | None, typer.Option(help="Judge docids for this corpus, before anything is trained.")
]
Change = Annotated[
    list[str] | None, typer.Option("--set", help="Change a setting: --set ids.metric=cosine")
]
Sizes = Annotated[
    list[str] | None,
    typer.Option(
        help="With --corpus: codes of each level, such as 64x2,256x4,1024x2; may be given several "
        "times, to compare. Default: the recipe's."
    ),
]
Cache = Annotated[
    Path | None,
    typer.Option(help="Where embeddings are kept. Default: TRIELINE_CACHE or ~/.cache/trieline."),
]


@app.command()
def search(
    index: Index,
    queries: Annotated[
        str, typer.Option(help="A dataset, or a .txt file with a query on each line.")
    ],
    split: Split = "dev",
    beam: Annotated[
        list[int] | None,
        typer.Option(help="A beam width; may be given several times. Default: 10 and 50.", min=1),
    ] = None,
    k: Annotated[int, typer.Option("-k", "--k", help="How many answers to compare.", min=1)] = 10,
    limit: Limit = 200,
    budget: Annotated[
        int, typer.Option(help="Most prefixes that exact search reads for a query.", min=1)
    ] = 4000,
    device: Device = "cpu",
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
def survival(
    index: Index,
    queries: Annotated[str, typer.Option(help="A dataset with queries and judgements.")],
    split: Split = "dev",
    beam: Annotated[
        int, typer.Option(help="Beam width, of the oracle and the decoder.", min=1)
    ] = 20,
    tau: Annotated[
        float, typer.Option(help="Temperature of K, m and epsilon; PRO's Figure 5 has 1.")
    ] = 0.05,
    limit: Limit = 200,
    mismatch: Annotated[
        bool | None,
        typer.Option(
            help="Score every prefix, which epsilon needs. Default: up to 10,000 docids.",
        ),
    ] = None,
    plots: Annotated[Path | None, typer.Option(help="Draw the plots into this folder.")] = None,
    device: Device = "cpu",
    cache: Cache = None,
    markdown: Markdown = False,
    json: Json = False,
) -> None:
    """Show at which level the answers' prefixes are lost, and what foretells it (after PRO).

    Example: `trieline diagnose survival my.tl --queries my-corpus/ --split dev --plots plots/`
    """
    from trieline import show
    from trieline.config import cache_folder
    from trieline.data import open_dataset
    from trieline.retriever import Retriever

    if plots is not None:
        from trieline.diagnose.charts import check_plots

        check_plots(plots)
    asked, judged = _queries(queries, split, limit), open_dataset(queries)
    with Retriever.load(index, cache=cache or cache_folder(), device=device) as retriever:
        bring = retriever.recipe.encode.kind == "precomputed"
        told = retriever.diagnose_survival(
            asked,
            judged.qrels(split),
            items=judged.items() if bring else None,
            beam=beam,
            tau=tau,
            mismatch=mismatch,
            watch=show.bars,
        )
    for path in told.draw(plots) if plots is not None else ():
        show.note(f"drawn: {path}")
    if json:
        show.as_json(told.to_json())
        return
    _print(told.tables(), markdown)


@app.command()
def codes(
    index: Annotated[
        Path | None, typer.Argument(help="An index folder; or nothing, and --corpus.")
    ] = None,
    corpus: Corpus = None,
    recipe: Annotated[str, typer.Option(help="With --corpus: whose docids.")] = "genius",
    change: Change = None,
    sizes: Sizes = None,
    embeddings: Annotated[
        Path | None, typer.Option(help="Vectors of the items, in place of encoding them.")
    ] = None,
    query_embeddings: Annotated[
        Path | None, typer.Option(help="With --embeddings: vectors of the queries.")
    ] = None,
    queries: Annotated[
        str | None, typer.Option(help="With an index: a dataset whose queries ask.")
    ] = None,
    split: Annotated[str, typer.Option(help="Which queries; crops where there are none.")] = "dev",
    beam: Annotated[int, typer.Option(help="Beam width of the survival figures.", min=1)] = 20,
    k: Annotated[int, typer.Option("-k", "--k", help="Neighbours of the hit rate.", min=1)] = 10,
    sample: Annotated[int, typer.Option(help="Items whose neighbours are sought.", min=2)] = 2000,
    limit: Limit = 200,
    device: Device = "cpu",
    cache: Cache = None,
    markdown: Markdown = False,
    json: Json = False,
) -> None:
    """Judge docids by themselves: use of codes, collisions, neighbours, survival without a model.

    Examples: `trieline diagnose codes my.tl --queries my-corpus/`, and before training
    `trieline diagnose codes --corpus my-corpus/ --sizes 128x2,512x6 --sizes 512x6,128x2`
    """
    from trieline import show
    from trieline.config import cache_folder
    from trieline.diagnose.judge import schedules_table

    place, known = cache or cache_folder(), corpus is not None or embeddings is not None
    if known == (index is not None):
        raise SettingsError(
            "give either an index, or --corpus (or --embeddings) for docids that are not there yet."
        )
    how = {"beam": beam, "near": k, "sample": sample, "limit": limit}
    if index is not None:
        one = _judged_index(index, queries, split, how, place, device)
        told, tables = one.to_json(), one.tables()
    else:
        files = embeddings, query_embeddings
        tried = _judged_corpus(corpus, files, recipe, change, sizes, split, how, place, device)
        told = {"candidates": [one.to_json() for one in tried]}
        tables = tried[0].tables() if len(tried) == 1 else []
        tables = [*tables, schedules_table(tried)]
    if json:
        show.as_json(told)
    else:
        _print(tables, markdown)


def _judged_corpus(
    corpus: str | None,
    vectors: tuple[Path | None, Path | None],
    recipe: str,
    change: list[str] | None,
    sizes: list[str] | None,
    split: str,
    how: dict[str, int],
    cache: Path,
    device: str,
) -> list[Judgement]:
    from trieline import show
    from trieline.diagnose.judge import read_sizes
    from trieline.judging import judge_corpus, with_vectors

    changes, (items, queries) = [*(change or ())], vectors
    if items is not None:
        changes.append("encode.kind=precomputed")
    return judge_corpus(
        corpus or "" if items is None else with_vectors(corpus, items, queries),
        recipe,
        [read_sizes(own) for own in sizes or ()],
        settings=changes,
        split=split,
        cache=cache,
        device=device,
        watch=show.bars,
        **how,
    )


def _judged_index(
    index: Path, queries: str | None, split: str, how: dict[str, int], cache: Path, device: str
) -> Judgement:
    from trieline import show
    from trieline.data import open_dataset
    from trieline.retriever import Retriever

    source = None if queries is None else open_dataset(queries)
    with Retriever.load(index, cache=cache, device=device) as retriever:
        brings = source is not None and retriever.recipe.encode.kind == "precomputed"
        return retriever.judge_codes(
            [] if queries is None else _queries(queries, split, how["limit"]),
            [] if source is None else source.qrels(split),
            asked=split,
            items=source.items() if source is not None and brings else None,
            watch=show.bars,
            **how,
        )


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


def _print(tables: Sequence[Table], markdown: bool) -> None:
    from trieline import show
    from trieline.evaluate.table import to_markdown

    for table in tables:
        if markdown:
            show.line(to_markdown(table))
        else:
            show.table(table)
