"""The page unseen.md, from the cells that unseen.py ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import mean, stdev
from typing import Any

from trieline.evaluate import Scores, compare
from trieline.evaluate.table import Cell, Column, Spread, Table, to_markdown

__all__ = ["HALVES", "MEASURES", "SEEDS", "SETS", "TESTED", "write_page"]

SEEDS = (0, 1, 2)
SETS = ("tldr", "scifact")
HALVES = ("seen", "unseen")
MEASURES = ("Success@1", "R@10", "nDCG@10")
TESTED = "nDCG@10"

SYSTEMS = {"dense": ("dense", ""), "genius": ("genius", "plain")}
SYSTEMS["genius + geometry"] = ("genius", "geometric")

Told = dict[str, Any]

HEAD = """# Items that the model was not trained on

Written by `papers/unseen.py`; do not edit. A seed cuts the items in two halves. Docids are fitted
and the model (recipe `genius`) is trained on the first half alone, with the train queries all of
whose answers are in it; then `Retriever.add` takes in the second half, without training, and the
index of both is asked. "seen": test queries all of whose answers are in the first half; "unseen":
in the second. "+ geometry" is the same model with the codebook's vote of PRO Eq. 7 in the beam, its
weight chosen on dev queries of the first half. "dense" is exact search over both halves with the
same encoder (all-MiniLM-L6-v2), which knows no difference between them: what it loses from one half
to the other is the queries', not the training's. Mean ± standard deviation over seeds, beam 50.
"""


def write_page(found: Sequence[Told]) -> str:
    parts = [HEAD, *(section(name, found) for name in SETS)]
    machines = sorted({f"{t['machine']['cpu']}, torch {t['machine']['torch']}" for t in found})
    hours = sum(told["seconds"] for told in found) / 3600
    parts.append(f"Cells took {hours:.1f} hours in all. Machine: {'; '.join(machines)}.\n")
    return "\n".join(parts)


def section(name: str, found: Sequence[Told]) -> str:
    mine = [told for told in found if told["cell"]["data"] == name]
    columns = (
        Column("system"),
        *(Column(f"{m}, {half}", best="high") for m in MEASURES for half in HALVES),
        Column("bytes an item", ",.0f", best="low"),
        Column("seeds", "d"),
    )
    rows: list[tuple[Cell, ...]] = []
    for label, sides in sides_of(mine).items():
        means = [side["measures"] for side, _ in sides]
        cells = (spread([m[half]["means"][x] for m in means]) for x in MEASURES for half in HALVES)
        rows.append((label, *cells, mean(told["bytes"] for _, told in sides), len(sides)))
    lines = [f"## {name}", "", to_markdown(Table(columns, tuple(rows)))]
    return "\n".join([*lines, *missing(mine), *gaps(mine), *weighed(mine), *details(mine)])


def sides_of(mine: Sequence[Told]) -> dict[str, list[tuple[Told, Told]]]:
    """System -> what was measured of it and the cell, one a seed."""
    sides: dict[str, list[tuple[Told, Told]]] = {}
    for label, (system, part) in SYSTEMS.items():
        for told in mine:
            if told["cell"]["system"] == system and (not part or part in told):
                sides.setdefault(label, []).append((told[part] if part else told, told))
    return sides


def spread(values: Sequence[float]) -> Cell:
    return Spread(mean(values), stdev(values)) if len(values) > 1 else values[0]


def missing(mine: Sequence[Told]) -> Iterator[str]:
    there = {t["cell"]["seed"] for t in mine if "training" in t}
    lacking = [f"seed {seed}" for seed in SEEDS if seed not in there]
    if lacking:
        yield f"Still missing: {', '.join(lacking)}.\n"


def gaps(mine: Sequence[Told]) -> Iterator[str]:
    """How far from dense on each half, query by query; every seed has queries of its own."""
    sides = sides_of(mine)
    dense = {told["cell"]["seed"]: side for side, told in sides.pop("dense", [])}
    columns = (
        Column(f"{TESTED} beside dense"),
        Column("half"),
        Column("ours"),
        Column("dense"),
        Column("difference", "+.3f"),
        Column("95 % from", "+.3f"),
        Column("to", "+.3f"),
        Column("p", ".4f"),
    )
    rows: list[tuple[Cell, ...]] = []
    for label, own in sides.items():
        pairs = [(s, dense[t["cell"]["seed"]]) for s, t in own if t["cell"]["seed"] in dense]
        for half in HALVES if pairs else ():
            (tested,) = compare(
                *(joined(side, half) for side in zip(*pairs, strict=True)), [TESTED]
            )
            rows.append((label, half, *tested[2:7], tested.p_value))
    if rows:
        yield to_markdown(Table(columns, tuple(rows)))
        yield "Paired over the queries of all seeds: bootstrap interval, randomisation test.\n"


def joined(sides: Sequence[Told], half: str) -> Scores:
    """The tested measure of the queries of a half, those of one seed after those of another."""
    values = [value for side in sides for value in side["measures"][half]["values"]]
    each = {f"{place:09d}": float(value) for place, value in enumerate(values)}
    return Scores({TESTED: mean(values)}, {TESTED: each})


def weighed(mine: Sequence[Told]) -> Iterator[str]:
    """What the weight of the geometry gives one half and takes from the other."""
    own = [told["weights"] for told in mine if "weights" in told]
    if not own:
        return
    columns = (
        Column(f"{TESTED} on dev, by omega"),
        *(Column(f"{at['omega']:g}") for at in own[0]),
        Column("seeds", "d"),
    )
    rows = [
        (half, *(spread([some[at][half] for some in own]) for at in range(len(own[0]))), len(own))
        for half in HALVES
    ]
    yield to_markdown(Table(columns, tuple(rows)))
    yield (
        "The model spells what it was taught: added items win only where the codes outweigh it, "
        "and that weight costs the items that it knows.\n"
    )


def details(mine: Sequence[Told]) -> Iterator[str]:
    own = [told for told in mine if "training" in told]
    if not own:
        return
    seen, unseen = (round(mean(t["items"][half] for t in own)) for half in (0, 1))
    asked = [len(own[0]["plain"]["measures"][half]["values"]) for half in HALVES]
    before, after = (mean(t["collisions"][when] for t in own) for when in (0, 1))
    steps = ", ".join(str(t["training"]["best_step"]) for t in own)
    chosen = ", ".join(f"{t['omega']:g}" for t in own)
    yield (
        f"{seen:,} items were trained on, {unseen:,} added; with the first seed {asked[0]:,} test "
        f"queries of the seen half, {asked[1]:,} of the unseen, {own[0]['mixed']:,} left out "
        f"because they have answers in both. Items that share their docid: {before:.1%} before, "
        f"{after:.1%} after. Best training step by seed: {steps}; omega by seed: {chosen}.\n"
    )
