"""The first five minutes: an index of Python's own documentation, measured and asked.

Everything is real: the corpus (docstrings of the running Python), the encoder, the training, the
held-out queries and the two baselines beside us.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from trieline import show
from trieline.config import load_recipe, to_mapping
from trieline.data import Dataset, open_dataset
from trieline.errors import IndexFolderError
from trieline.evaluate import Scores, score
from trieline.evaluate.baselines import Bm25, Dense
from trieline.evaluate.table import Cell, Column, score_table
from trieline.retriever import Retriever
from trieline.types import Hit, Query

__all__ = ["run_demo"]

CORPUS = "python-docs"
QUESTIONS = (
    "read rows from a comma separated file",
    "run a function every time the program exits",
    "find the longest common part of two sequences",
    "wait until several threads have reached the same point",
    "make a temporary folder that deletes itself",
)
_TIMED = 50  # queries asked one by one


class _System(NamedTuple):
    name: str
    search: Callable[[Sequence[Query], int], list[list[Hit]]]
    bytes_per_item: float


def run_demo(out: Path, *, cache: Path, json: bool) -> None:
    """Build the index at ``out`` unless it is there, measure it, ask it."""
    dataset = open_dataset(CORPUS)
    with _open_or_build(out, dataset, cache) as retriever:
        systems = _systems(retriever, dataset)
        queries, qrels = list(dataset.queries("test")), list(dataset.qrels("test"))
        scores: dict[str, Scores] = {}
        costs: dict[str, dict[str, Cell]] = {}
        for system in systems:
            with show.bars(f"measuring {system.name}", len(queries)) as task:
                hits: dict[str, Sequence[Hit]] = {}
                for low in range(0, len(queries), 64):
                    some = queries[low : low + 64]
                    found = system.search(some, 10)
                    hits |= {query.id: own for query, own in zip(some, found, strict=True)}
                    task.advance(len(some))
            scores[system.name] = score(hits, qrels)
            costs[system.name] = {
                "bytes an item": system.bytes_per_item,
                "ms a query": _milliseconds(system, queries[:_TIMED]),
            }
        answers = {system.name: system.search(_questions(), 3) for system in systems}
        if json:
            show.as_json(_plain(scores, costs, answers))
            return
        _print(retriever, out, len(queries), scores, costs, answers)


def _open_or_build(out: Path, dataset: Dataset, cache: Path) -> Retriever:
    recipe = load_recipe("demo")
    try:
        retriever = Retriever.load(out, cache=cache)
    except IndexFolderError:
        if out.exists() and any(out.iterdir()) and not (out / "manifest.json").exists():
            raise
    else:
        same = retriever.folder.manifest.recipe == to_mapping(recipe)
        if same and retriever.folder.manifest.notes.get("dataset") == CORPUS:
            show.note(f"{out} is there already; remove it to build it again.")
            return retriever
        retriever.close()
    show.note(
        "Building an index over the documentation of Python's standard library: embedding about\n"
        "two minutes, training about two (on two cores). Interrupt it if you like: it goes on\n"
        "where it was."
    )
    return Retriever.build(dataset, recipe, path=out, cache=cache, watch=show.bars)


def _systems(retriever: Retriever, dataset: Dataset) -> list[_System]:
    items = list(dataset.items())
    vectors = retriever.encoder.encode(items, show.bars)
    dense = Dense([item.id for item in items], vectors)
    bm25 = Bm25(items)
    sizes = retriever.bytes_per_item()

    def ask_dense(queries: Sequence[Query], k: int) -> list[list[Hit]]:
        return dense.search(retriever.encoder.encode(queries), k)

    return [
        _System("trieline", retriever.search, sizes["trie"]),
        _System("dense, same encoder", ask_dense, dense.nbytes / len(items)),
        _System("BM25", bm25.search, bm25.nbytes / len(items)),
    ]


def _milliseconds(system: _System, queries: Sequence[Query]) -> float:
    """One query at a time; the faster of two rounds. Vectors of queries wait in the cache."""
    rounds = []
    for _ in range(2):
        begin = time.perf_counter()
        for query in queries:
            system.search([query], 10)
        rounds.append((time.perf_counter() - begin) / max(len(queries), 1))
    return min(rounds) * 1000


def _questions() -> list[Query]:
    return [Query(str(place), text) for place, text in enumerate(QUESTIONS)]


def _print(
    retriever: Retriever,
    out: Path,
    queries: int,
    scores: dict[str, Scores],
    costs: dict[str, dict[str, Cell]],
    answers: dict[str, list[list[Hit]]],
) -> None:
    columns = (
        Column("bytes an item", ",.0f", best="low"),
        Column("ms a query", ".1f", best="low"),
    )
    title = f"{len(retriever):,} items, {queries} held-out queries"
    show.table(score_table(scores, costs, columns, title=title))
    show.line(
        "bytes an item: what a search reads (docids and trie; vectors; postings). The model, "
        f"{_model_megabytes(retriever):.0f} MB,\ndoes not grow with the corpus."
    )
    for place, question in enumerate(QUESTIONS):
        show.line()
        for name, found in answers.items():
            show.answers(question, found[place], title=f"“{question}”, {name}")
    show.line()
    show.line("Ask it yourself:")
    show.line(f"  {_command()} search {out} 'split a string into shell words' -k 5")


def _command() -> str:
    """How this program was called, so that the printed command works as it is."""
    import sys

    called = Path(sys.argv[0])
    return str(called) if called.name == "trieline" and called.parent.name == "bin" else "trieline"


def _model_megabytes(retriever: Retriever) -> float:
    return retriever.folder.file("model.safetensors").stat().st_size / 1e6


def _plain(
    scores: dict[str, Scores],
    costs: dict[str, dict[str, Cell]],
    answers: dict[str, list[list[Hit]]],
) -> dict[str, Any]:
    return {
        "scores": {name: {**own.means, **costs[name]} for name, own in scores.items()},
        "answers": {
            question: {
                name: [hit.item_id for hit in found[place]] for name, found in answers.items()
            }
            for place, question in enumerate(QUESTIONS)
        },
    }
