"""What a trained model finds, and what it costs: beams, exact search, and both softmaxes.

    python bench/trained.py --json             Python's documentation, the demo's recipe
    python bench/trained.py --corpus FOLDER --recipe genius --json

Two indexes of the corpus are built once and kept in the cache, with the same docids: one model
learns with a softmax over all codes of a level, the other with one over the legal children. Then
the test queries are asked: beams of several widths, and exact search with its certificate. The
weight of the geometry is chosen for each of the two on dev queries. Quality is nDCG@10; a time is
one thread's own for a query whose vector is ready, the least of several rounds taken in turns.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: see trieline.cli.main

import json
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from floor import Counted
from measures import Row, as_json, as_table, in_turns, one_thread
from rich.console import Console

from trieline import Retriever, open_dataset, score
from trieline.config import cache_folder
from trieline.data import Dataset, hold_out
from trieline.decode import Geometric, GeometricPlan, beam_search, exact_search
from trieline.errors import IndexFolderError
from trieline.evaluate.baselines import Dense
from trieline.evaluate.table import to_rich
from trieline.ids import codebooks_of
from trieline.model.packed import pack
from trieline.model.questions import VectorQuestions
from trieline.show import bars
from trieline.types import Floats, Hit, Qrel, Query

__all__ = ["exact_rows", "main", "measure"]

K, MEASURE = 10, "nDCG@10"
OMEGAS = (0.0, 3.0, 10.0, 30.0, 100.0)
BEAMS = (10, 20, 50, 100, 200)
BUDGET = 5000
ALL = 8  # queries for which every item is scored


class Asked(NamedTuple):
    """Queries of a split with their vectors and judgements."""

    queries: list[Query]
    vectors: Floats
    qrels: list[Qrel]


class System:
    """An opened index, and how it is searched."""

    def __init__(self, retriever: Retriever, normalise: Any) -> None:
        self.retriever, self.normalise = retriever, normalise
        self.spells, self.trie = pack(retriever.speller), retriever.trie
        self.books = codebooks_of(retriever.docids)
        self.plan = GeometricPlan(self.books, n=0)
        self.omega = 0.0

    def beam(self, vectors: Floats, width: int, spells: Any = None) -> list[Any]:
        guides = [Geometric(self.books, self.omega)] if self.omega else []
        return beam_search(
            spells or self.spells,
            VectorQuestions(vectors).batch(np.arange(len(vectors))),
            self.trie,
            beam=width,
            k=K,
            normalise=self.normalise,
            guides=guides,
            vectors=vectors,
        )

    def exact(self, vectors: Floats) -> list[Any]:
        votes = self.omega * self.plan.scores(vectors, self.trie) if self.omega else None
        return exact_search(
            self.spells,
            VectorQuestions(vectors).batch(np.arange(len(vectors))),
            self.trie,
            k=K,
            normalise=self.normalise,
            votes=votes,
            budget=BUDGET,
        )

    def every(self, vectors: Floats) -> list[Any]:
        """All docids spelled out in full: a beam as wide as the trie, without tails."""
        return beam_search(
            self.spells,
            VectorQuestions(vectors).batch(np.arange(len(vectors))),
            self.trie,
            beam=self.trie.docids,
            k=K,
            normalise=self.normalise,
            guides=[Geometric(self.books, self.omega)] if self.omega else [],
            vectors=vectors,
            tails=False,
        )

    def quality(
        self, asked: Asked, search: Callable[[Floats], list[Any]]
    ) -> tuple[float, list[Any]]:
        """The measure, and what was found."""
        found = [
            one
            for low in range(0, len(asked.vectors), 32)
            for one in search(asked.vectors[low : low + 32])
        ]
        names = self.retriever.catalog.found(np.unique(np.concatenate([f.items for f in found])))
        run = {
            query.id: [
                Hit(names[int(item)].id, float(points))
                for item, points in zip(own.items, own.scores, strict=True)
            ]
            for query, own in zip(asked.queries, found, strict=True)
        }
        return score(run, asked.qrels, [MEASURE]).means[MEASURE], found


def measure(
    corpus: str,
    recipe: str,
    settings: Sequence[str],
    limit: int,
    rounds: int,
    beams: Sequence[int] = BEAMS,
) -> list[Row]:
    """All rows; the indexes are built where they are not there yet."""
    dataset = with_dev(open_dataset(corpus))
    rows: list[Row] = []
    with (
        opened(dataset, recipe, settings, "level") as level,
        opened(dataset, recipe, settings, "legal") as legal,
        one_thread(),
    ):
        dev = asked_of(dataset, "dev", level, limit)
        test = asked_of(dataset, "test", level, limit)
        systems = {"level": System(level, "level"), "legal": System(legal, "legal")}
        for geometric in (False, True):
            for system in systems.values():
                system.omega = best_omega(system, dev) if geometric else 0.0
            rows += compared(systems, test, rounds, " + geometry" if geometric else "", beams)
        rows += dense(dataset, level, test, rounds)
    return rows


def exact_rows(limit: int, rounds: int, build: bool) -> list[Row]:
    """The rows of exact search alone, on Python's documentation; none where there is no index yet
    and none may be built."""
    dataset = with_dev(open_dataset("python-docs"))
    if not build and not all(kept(dataset, "demo", (), name).exists() for name in _SOFTMAXES):
        return []
    with (
        opened(dataset, "demo", (), "level") as level,
        opened(dataset, "demo", (), "legal") as legal,
        one_thread(),
    ):
        systems = {"level": System(level, "level"), "legal": System(legal, "legal")}
        rows = compared(systems, asked_of(dataset, "test", level, limit), rounds, "", (50,))
    return [row for row in rows if row.what.startswith("legal, exact top")]


_SOFTMAXES = ("level", "legal")


def with_dev(dataset: Dataset) -> Dataset:
    return dataset if "dev" in dataset.splits() else hold_out(dataset)


def kept(dataset: Dataset, recipe: str, settings: Sequence[str], normalise: str) -> Path:
    """Where an index stays."""
    name = re.sub(r"\W+", "-", "-".join((dataset.name, recipe, *settings, normalise))).strip("-")
    return cache_folder() / "bench" / f"{name}.tl"


def opened(dataset: Dataset, recipe: str, settings: Sequence[str], normalise: str) -> Retriever:
    """The kept index of one softmax."""
    path = kept(dataset, recipe, settings, normalise)
    changes = [
        f"train.normalise={normalise}",
        f"decode.normalise={normalise}",
        "decode.omega=0",
        *settings,
    ]
    try:
        return Retriever.load(path, cache=cache_folder())
    except IndexFolderError:
        path.parent.mkdir(parents=True, exist_ok=True)
    return Retriever.build(
        dataset, recipe, path=path, settings=changes, cache=cache_folder(), watch=bars
    )


def asked_of(dataset: Dataset, split: str, retriever: Retriever, limit: int) -> Asked:
    queries = list(dataset.queries(split))[:limit]
    known = {query.id for query in queries}
    qrels = [qrel for qrel in dataset.qrels(split) if qrel.query_id in known]
    return Asked(queries, retriever.encoder.encode(queries, bars), qrels)


def best_omega(system: System, dev: Asked) -> float:
    """Chosen with a beam of 50 on dev queries."""
    found = {}
    for omega in OMEGAS:
        system.omega = omega
        found[omega] = system.quality(dev, partial(system.beam, width=50))[0]
    return max(found, key=lambda omega: found[omega])


def compared(
    systems: dict[str, System], test: Asked, rounds: int, more: str, beams: Sequence[int]
) -> list[Row]:
    """Beams of both softmaxes, and exact search of the legal one."""
    few = [
        test.vectors[n : n + 1]
        for n in range(0, len(test.vectors), max(1, len(test.vectors) // 20))
    ][:20]
    searches: dict[str, Callable[[Floats], list[Any]]] = {
        f"{name}{more}, beam {width}": partial(system.beam, width=width)
        for name, system in systems.items()
        for width in beams
    }
    legal = systems["legal"]
    searches[f"legal{more}, exact"] = legal.exact
    works = {name: _each(search, few) for name, search in searches.items()}
    ms = {name: spent / len(few) for name, spent in in_turns(works, rounds).items()}
    rows, found = [], {}
    for name, search in searches.items():
        system = systems[name.split(",")[0].removesuffix(more) if more else name.split(",")[0]]
        quality, found[name] = system.quality(test, search)
        about = {"ms": ms[name], "omega": system.omega}
        rows.append(Row(f"{name}: {MEASURE}", "", quality, more=about))
    rows.append(as_all(legal, few[:ALL], more))
    return rows + exact_beside_beams(systems, test, found, ms, more)


def exact_beside_beams(
    systems: dict[str, System],
    test: Asked,
    found: dict[str, list[Any]],
    ms: dict[str, float],
    more: str,
) -> list[Row]:
    """What exact search of the legal softmax costs, beside a beam of 50 of the other."""
    exact, beside = found[f"legal{more}, exact"], f"level{more}, beam 50"
    counted = Counted(systems["level"].spells)
    systems["level"].beam(test.vectors[:32], 50, counted)
    median = float(np.median([answer.rows for answer in exact]))
    certified = sum(answer.complete for answer in exact)
    note = f"{certified} of {len(exact)} certified within {BUDGET:,}; baseline: {beside}"
    bar = None if more else 75
    most = float(np.percentile([answer.rows for answer in exact], 95))
    same = np.mean(
        [
            len(np.intersect1d(a.items, b.items)) / K
            for a, b in zip(exact, found[f"legal{more}, beam 50"], strict=True)
        ]
    )
    return [
        Row(
            f"legal{more}, exact top {K}: decoder rows, median",
            "rows",
            median,
            bar,
            counted.rows / min(32, len(test.vectors)),
            note=note,
            more={"p95": most, "beam_50_recall": float(same)},
        ),
        Row(
            f"legal{more}, exact top {K}: time of a query",
            "ms",
            ms[f"legal{more}, exact"],
            None,
            ms[beside],
            note=f"baseline: {beside}",
        ),
    ]


def as_all(system: System, few: Sequence[Floats], more: str) -> Row:
    """Exact search beside scoring every item: the same items, but for ties, at the same scores."""
    same = 0
    for vector in few:
        (exact,), (every,) = system.exact(vector), system.every(vector)
        same += bool(exact.complete and np.allclose(exact.scores, every.scores, atol=1e-3))
    what = f"{system.normalise}{more}, exact top {K}: scores of scoring every item"
    return Row(what, f"of {len(few)} queries", same, len(few), at_least=True)


def dense(dataset: Dataset, retriever: Retriever, test: Asked, rounds: int) -> list[Row]:
    """Exact dense search with the same encoder."""
    items = list(dataset.items())
    near = Dense([item.id for item in items], retriever.encoder.encode(items, bars))
    few = test.vectors[:: max(1, len(test.vectors) // 20)][:20]
    ms = in_turns({"dense": lambda: [near.search(one[None], K) for one in few]}, rounds)["dense"]
    run = {q.id: hits for q, hits in zip(test.queries, near.search(test.vectors, K), strict=True)}
    quality = score(run, test.qrels, [MEASURE]).means[MEASURE]
    more = {
        "ms": ms / len(few),
        "bytes_an_item": near.nbytes / len(items),
        "items": len(items),
        "queries": len(test.queries),
        "trie_bytes_an_item": retriever.bytes_per_item()["trie"],
    }
    return [Row(f"dense, flat: {MEASURE}", "", quality, more=more)]


def _each(search: Callable[[Floats], Any], few: Sequence[Floats]) -> Callable[[], None]:
    def run() -> None:
        for vector in few:
            search(vector)

    return run


def main(
    corpus: Annotated[str, typer.Option(help="A dataset.")] = "python-docs",
    recipe: Annotated[str, typer.Option(help="What is trained.")] = "demo",
    change: Annotated[list[str] | None, typer.Option("--set", help="key=value")] = None,
    limit: Annotated[int, typer.Option(help="The first so many queries of a split.")] = 300,
    rounds: int = 3,
    json_out: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    out: Annotated[Path | None, typer.Option(help="Where the JSON goes.")] = None,
) -> None:
    """Measure beams and exact search on trained models; exit 1 where a bar is missed."""
    rows = measure(corpus, recipe, change or (), limit, rounds)
    if out is not None:
        out.write_text(json.dumps(as_json(rows), indent=1) + "\n", encoding="utf-8")
    elif json_out:
        json.dump(as_json(rows), sys.stdout, indent=1)
    else:
        Console().print(to_rich(as_table(rows, f"{corpus}, trained with {recipe}")))
    raise typer.Exit(0 if all(row.holds is not False for row in rows) else 1)


if __name__ == "__main__":
    typer.run(main)
