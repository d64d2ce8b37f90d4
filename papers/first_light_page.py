"""The page first-light.md, from the cells that first_light.py ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import mean, stdev
from typing import Any

import numpy as np

from trieline.evaluate import Scores, compare
from trieline.evaluate.table import Cell, Column, Spread, Table, to_markdown

__all__ = ["NEXT", "NEXT_MEASURES", "SEEDS", "TESTED", "TEXT", "TEXT_MEASURES", "write_page"]

SEEDS = (0, 1, 2)
TEXT = ("nfcorpus", "scifact", "tldr")
TEXT_MEASURES = ("Success@1", "R@10", "nDCG@10", "RR@10")
NEXT = ("recsys/beauty",)
NEXT_MEASURES = ("R@5", "R@10", "nDCG@5", "nDCG@10")
TESTED = "nDCG@10"

BASELINES = ("BM25", "dense", "popular", "last item")
OWN = ("genius", "tiger")
LABELS = {"plain": "", "geometric": " + geometry"}

Told = dict[str, Any]

HEAD = """# First light

Written by `papers/first_light.py`; do not edit. Text retrieval after GENIUS (recipe `genius`) and
recommendation after TIGER (recipe `tiger`), trained here, beside BM25 (bm25s, k1 .9, b .4), exact
dense search with the same encoder (all-MiniLM-L6-v2), and for recommendation the most popular
items and what most often followed the last item. "+ geometry" is the same trained model with the
codebook's vote of PRO Eq. 7 in the beam, its weight omega chosen on dev. Mean ± standard deviation
over seeds; every choice was made on dev; the test split was searched once a cell. Bytes an item:
what a search reads (trie with docids; fp32 vectors; BM25's arrays), without the model and without
texts. Times: one query at a time, one thread, the query's vector given, beam 50, all systems of a
data set in turns, the least of five rounds; read them beside each other, not alone.

Recommendation is far below the literature here, and below what most often followed the last item:
TIGER's paper (Rajput et al. 2023) tells R@5 .0454 for beauty after 200,000 steps of 256 histories,
reproductions about .039. Here a seed has {steps:,} steps, an hour of one core.
"""


def write_page(found: Sequence[Told]) -> str:
    steps = {t["training"]["steps"] for t in found if t["cell"]["system"] == "tiger"}
    parts = [
        HEAD.format(steps=max(steps, default=0)),
        *(section(name, found) for name in (*TEXT, *NEXT)),
        gaps(found),
    ]
    machines = sorted({f"{t['machine']['cpu']}, torch {t['machine']['torch']}" for t in found})
    hours = sum(told["seconds"] for told in found) / 3600
    parts.append(f"Cells took {hours:.1f} hours in all. Machine: {'; '.join(machines)}.\n")
    return "\n".join(parts)


def section(name: str, found: Sequence[Told]) -> str:
    mine = [told for told in found if told["cell"]["data"] == name]
    times = next((told["ms"] for told in mine if told["cell"]["system"] == "times"), {})
    unit = times.get("dense")
    measures = TEXT_MEASURES if name in TEXT else NEXT_MEASURES
    columns = (
        Column("system"),
        *(Column(measure, best="high") for measure in measures),
        Column("bytes an item", ",.0f", best="low"),
        Column("ms a query", ".2f"),
        *([Column("times dense", ".0f")] if unit else []),
        Column("seeds", "d"),
    )
    rows: list[tuple[Cell, ...]] = []
    for system, label in systems_of(mine):
        told = [t for t in mine if t["cell"]["system"] == system and (not label or label in t)]
        if told:
            sides = [t[label] if label else t for t in told]
            ms = times.get(label or system)
            rows.append(
                (
                    system + LABELS.get(label, ""),
                    *(spread([s["measures"]["means"][m] for s in sides]) for m in measures),
                    mean(t["bytes"] for t in told) if "bytes" in told[0] else None,
                    ms,
                    *([None if ms is None else ms / unit] if unit else []),
                    len(told),
                )
            )
    lines = [f"## {name}", "", to_markdown(Table(columns, tuple(rows)))]
    return "\n".join([*lines, *missing(mine, bool(times)), *details(mine)])


def systems_of(mine: Sequence[Told]) -> list[tuple[str, str]]:
    """Systems and their variants, baselines first."""
    systems = {told["cell"]["system"] for told in mine}
    fixed = [(system, "") for system in BASELINES if system in systems]
    return fixed + [(system, label) for system in OWN if system in systems for label in LABELS]


def spread(values: Sequence[float]) -> Cell:
    return Spread(mean(values), stdev(values)) if len(values) > 1 else values[0]


def missing(mine: Sequence[Told], timed: bool) -> Iterator[str]:
    seeds = {t["cell"].get("seed") for t in mine}
    lacking = [f"seed {seed}" for seed in SEEDS if seed not in seeds]
    if not timed:
        lacking.append("times")
    if lacking:
        yield f"Still missing: {', '.join(lacking)}.\n"


def details(mine: Sequence[Told]) -> Iterator[str]:
    """Survival, training and omega of our own cells."""
    own = [told for told in mine if "training" in told]
    if not own:
        return
    depth = len(own[0]["plain"]["survival"])
    columns = (Column("survival after level"), *(Column(str(i + 1)) for i in range(depth)))
    rows = [
        (
            label,
            *(spread([t[label]["survival"][i] for t in own if label in t]) for i in range(depth)),
        )
        for label in LABELS
        if any(label in t for t in own)
    ]
    yield to_markdown(Table(columns, tuple(rows)))
    seconds = mean(t["training"]["seconds"] for t in own)
    steps = ", ".join(str(t["training"]["best_step"]) for t in own)
    shared = mean(t["collisions"] for t in own)
    most = own[0]["cell"]["recipe"]["train"]["max_steps"]
    yield (
        f"Docids: {own[0]['docid_bytes']:.0f} bytes an item; {shared:.1%} of the items share "
        f"theirs. Model: {own[0]['model_bytes'] / 1e6:.1f} MB. Training: {seconds / 60:.0f} "
        f"minutes a seed with {own[0]['machine']['threads']} thread(s), the machine's other core "
        f"busy; best at step {steps} of {most}.\n"
    )
    if len(own[0]["dev"]) > 1:
        columns = (Column("omega"), *(Column(f"{float(w):g}") for w in own[0]["dev"]))
        values = (spread([t["dev"][w] for t in own]) for w in own[0]["dev"])
        chosen = ", ".join(f"{t['omega']:g}" for t in own)
        yield f"Omega by nDCG@10 on dev; chosen by seed: {chosen}.\n"
        yield to_markdown(Table(columns, (("nDCG@10 on dev", *values),)))


def gaps(found: Sequence[Told]) -> str:
    """How far from what people would use instead, per set, with a paired test."""
    columns = (
        Column("data"),
        Column("system"),
        Column("beside"),
        Column("ours"),
        Column("theirs"),
        Column("difference", "+.3f"),
        Column("95 % from", "+.3f"),
        Column("to", "+.3f"),
        Column("p", ".4f"),
    )
    rows: list[tuple[Cell, ...]] = []
    for name in (*TEXT, *NEXT):
        mine = [t for t in found if t["cell"]["data"] == name]
        for system, label in systems_of(mine):
            own = [t[label] for t in mine if t["cell"]["system"] == system and label in t]
            for beside in ("BM25", "dense", "last item") if own else ():
                other = [t for t in mine if t["cell"]["system"] == beside]
                if other:
                    (tested,) = compare(averaged(own), averaged(other), [TESTED])
                    title = system + LABELS[label]
                    rows.append((name, title, beside, *tested[2:7], tested.p_value))
    return (
        f"## Beside what people use, {TESTED}\n\n"
        + to_markdown(Table(columns, tuple(rows)))
        + "\nPaired over the test queries, each with its mean over the seeds: bootstrap interval, "
        "randomisation test.\n"
    )


def averaged(sides: Sequence[Told]) -> Scores:
    """The tested measure of each query, over seeds. All systems have the same judged queries."""
    values = np.mean([side["measures"]["values"] for side in sides], axis=0)
    each = {f"{place:09d}": float(value) for place, value in enumerate(values)}
    return Scores({TESTED: float(values.mean())}, {TESTED: each})
