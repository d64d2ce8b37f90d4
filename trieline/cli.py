"""The command line: one function a command, thin over ``Retriever``. Heavy imports are inside."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trieline import __version__, cli_diagnose
from trieline.errors import SettingsError, TrielineError
from trieline.upkeep import Device, Index, Json, Precision, lines_of, open_index, upkeep

if TYPE_CHECKING:
    from trieline.catalog import Where
    from trieline.types import Hit, Query

__all__ = ["app", "main"]

app = typer.Typer(
    name="trieline",
    help="Generative retrieval: a model spells out the docids of the answers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

app.add_typer(upkeep)
app.add_typer(cli_diagnose.app)

Cache = Annotated[
    Path | None,
    typer.Option(help="Where embeddings are kept. Default: TRIELINE_CACHE or ~/.cache/trieline."),
]
Beam = Annotated[int | None, typer.Option(help="Beam width. Default: the recipe's.", min=1)]
K = Annotated[int, typer.Option("-k", help="How many items.", min=1)]
Only = Annotated[
    Path | None,
    typer.Option(
        help="A file of item ids, one a line: only these can be found.",
        exists=True,
        dir_okay=False,
    ),
]


def main() -> None:
    """Run the command line; a foreseen error is one line on stderr and exit status 1."""
    # Threads that wait by spinning bring a busy machine to a crawl. Before torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        app(standalone_mode=True)
    except TrielineError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        raise SystemExit(1) from None
    except SystemExit as end:
        if end.code == 130:  # what typer makes of a KeyboardInterrupt
            sys.stderr.write("\ninterrupted: the same command goes on where this one stopped.\n")
        raise


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"trieline {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def build(
    corpus: Annotated[str, typer.Argument(help="BEIR folder, .jsonl/.tsv/.parquet, irds:NAME ...")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Index folder to write, e.g. my.tl.")],
    recipe: Annotated[str, typer.Option(help="A shipped recipe or a .toml file.")] = "genius",
    change: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting: --set decode.beam=100")
    ] = None,
    cache: Cache = None,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Build an index from a corpus: encode, give docids, train, save.

    Example: `trieline build my-corpus/ -o my.tl --recipe genius --set train.epochs=20`
    """
    from trieline import show
    from trieline.retriever import Retriever

    with Retriever.build(
        corpus,
        recipe,
        path=out,
        settings=change or (),
        cache=_cache(cache),
        device=device,
        watch=show.bars,
    ) as retriever:
        notes = retriever.folder.manifest.notes
        if json:
            show.as_json({"index": str(out), "items": len(retriever), **notes})
            return
        show.line(f"{out}: {len(retriever):,} items.")
        show.line(f"Ask it: trieline search {out} 'your question'")


@app.command()
def search(
    index: Index,
    queries: Annotated[list[str] | None, typer.Argument(help="One or more queries.")] = None,
    k: K = 10,
    beam: Beam = None,
    only: Only = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            help="Only items whose metadata are like this: section=net, 'year>=2010', "
            "'lang in de,fr', 'tags contains cli'; several must all hold."
        ),
    ] = None,
    trace: Annotated[bool, typer.Option(help="Show the path of each docid.")] = False,
    exact: Annotated[
        bool, typer.Option(help="No beam: the true best, with a certificate.")
    ] = False,
    budget: Annotated[
        int, typer.Option(help="With --exact: most prefixes that are read for a query.", min=1)
    ] = 20_000,
    device: Device = "cpu",
    precision: Precision = "fp32",
    json: Json = False,
) -> None:
    """Ask an index. Queries come from the command line, or one a line from stdin.

    Example: `trieline search my.tl 'open a zip file' -k 5 --where section=net`
    """
    from trieline import show

    if exact and (beam is not None or trace):
        raise SettingsError("--beam and --trace tell of a beam: --exact searches without one.")
    ids = None if only is None else lines_of(only.read_text("utf-8"))
    allowed = _filter(ids, where)
    asked = queries or lines_of(sys.stdin.read())
    with open_index(index, device, precision) as retriever:
        if exact:
            proven = retriever.search_exact(asked, k, budget=budget, filter=allowed)
            answers = [certified.hits for certified in proven]
            told, said = [c.to_json() for c in proven], [c.text() for c in proven]
        else:
            answers = retriever.search(asked, k, beam=beam, filter=allowed, trace=trace)
            told, said = [{}] * len(asked), [""] * len(asked)
    if json:
        every = zip(asked, answers, told, strict=True)
        show.as_json([_answer(query, hits) | more for query, hits, more in every])
        return
    for query, hits, certificate in zip(asked, answers, said, strict=True):
        show.answers(query, hits)
        if certificate:
            show.line(f"      {certificate}")
        for hit in hits if trace else ():
            path = "  ".join(f"{step.code} ({step.score:.2f}, #{step.rank})" for step in hit.trace)
            show.line(f"  {hit.rank:>3}: {path}")


@app.command(name="eval")
def evaluate(
    index: Index,
    dataset: Annotated[str, typer.Argument(help="A dataset with queries and judgements.")],
    split: Annotated[str, typer.Option(help="Which judgements.")] = "test",
    k: K = 100,
    beam: Beam = None,
    measure: Annotated[
        list[str] | None, typer.Option(help="e.g. nDCG@10; may be given several times.")
    ] = None,
    run: Annotated[Path | None, typer.Option(help="Write a TREC run here (.gz works).")] = None,
    against: Annotated[
        Path | None, typer.Option(help="A TREC run to compare with, query by query.")
    ] = None,
    device: Device = "cpu",
    precision: Precision = "fp32",
    json: Json = False,
) -> None:
    """Measure an index on judged queries.

    Example: `trieline eval my.tl my-corpus/ --split test --run my.run --against bm25.run`
    """
    from trieline import show
    from trieline.data import open_dataset, read_run, write_run
    from trieline.evaluate import MEASURES, compare, score
    from trieline.evaluate.table import comparison_table, score_table

    judged = open_dataset(dataset)
    measures = tuple(measure or MEASURES)
    with open_index(index, device, precision) as retriever:
        answers = retriever.run(judged.queries(split), k, beam=beam, watch=show.bars)
    if run is not None:
        write_run(run, answers)
    qrels = list(judged.qrels(split))
    ours, theirs = index.name, against.name if against else ""
    if ours == theirs:
        ours, theirs = str(index), str(against)
    systems = {ours: score(answers, qrels, measures)}
    compared = []
    if against is not None:
        systems[theirs] = score(read_run(against), qrels, measures)
        compared = compare(systems[ours], systems[theirs])
    if json:
        means = {name: scores.means for name, scores in systems.items()}
        pairs = [comparison._asdict() for comparison in compared]
        show.as_json({"split": split, "queries": len(answers), "means": means, "compared": pairs})
        return
    show.table(score_table(systems, title=f"{judged.name}, {split}: {len(answers)} queries"))
    if compared:
        show.table(comparison_table(compared, f"a = {ours}, b = {theirs}, paired"))


@app.command()
def explain(
    index: Index,
    query: Annotated[str, typer.Argument(help="The query.")],
    item: Annotated[str, typer.Argument(help="An item id.")],
    k: Annotated[
        int | None,
        typer.Option(
            "-k", help="Answers that were wanted. Default: 10, or a narrower beam.", min=1
        ),
    ] = None,
    beam: Beam = None,
    only: Only = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the beam as it narrows: a .svg or .png file.")
    ] = None,
    searches: Annotated[
        int, typer.Option(help="Most searches to run; 2 tells, but tries nothing.", min=1)
    ] = 32,
    device: Device = "cpu",
    precision: Precision = "fp32",
    json: Json = False,
) -> None:
    """Say why an item is, or is not, among the answers, and what would bring it there.

    Example: `trieline explain my.tl 'open a zip file' zipfile.ZipFile.open --picture why.svg`
    """
    from trieline import show

    if picture is not None:
        from trieline.diagnose.picture import check_picture

        check_picture(picture)
    allowed = None if only is None else lines_of(only.read_text("utf-8"))
    with open_index(index, device, precision) as retriever:
        story = retriever.explain(query, item, k, beam=beam, filter=allowed, searches=searches)
    if picture is not None:
        story.picture(picture)
    if json:
        show.as_json(story.to_json())
        return
    show.line(story.text())


@app.command()
def recipes(json: Json = False) -> None:
    """List the recipes that ship with trieline, and where settings are explained.

    Example: `trieline recipes`
    """
    from trieline import show
    from trieline.config import load_recipe, recipe_names, to_mapping

    known = {name: load_recipe(name) for name in recipe_names()}
    if json:
        show.as_json({name: to_mapping(recipe) for name, recipe in known.items()})
        return
    for name, recipe in known.items():
        show.line(f"{name:12} {recipe.about}")
    show.line("\nAll settings of one: trieline recipes --json. Change them: build --set a.b=value.")


@app.command()
def demo(
    out: Annotated[Path, typer.Option("-o", "--out", help="Index to write.")] = Path("demo.tl"),
    cache: Cache = None,
    json: Json = False,
) -> None:
    """Build and try a real index of Python's own documentation: search Python by what it does.

    Example: `trieline demo`
    """
    from trieline.demo import run_demo

    run_demo(out, cache=_cache(cache), json=json)


def _cache(given: Path | None) -> Path:
    from trieline.config import cache_folder

    return cache_folder() if given is None else given


def _filter(ids: list[str] | None, where: list[str] | None) -> list[str] | Where | None:
    """What ``--only`` and ``--where`` say together."""
    from trieline.catalog import Condition, Where

    if not where:
        return ids
    wanted = Where.parse(*where)
    if ids is None:
        return wanted
    return Where((*wanted.conditions, Condition("id", "in", tuple(ids))))


def _answer(query: str | Query, hits: list[Hit]) -> dict[str, Any]:
    return {"query": query, "hits": [_plain(hit) for hit in hits]}


def _plain(hit: Hit) -> dict[str, Any]:
    plain = hit._asdict()
    plain["trace"] = [step._asdict() for step in hit.trace]
    return plain
