"""The page projection.md, from the cells that projection.py ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import mean, stdev
from typing import Any

from trieline.evaluate.table import Cell, Column, Spread, Table, to_markdown

__all__ = ["MEASURES", "SEEDS", "write_page"]

SEEDS = (0, 1, 2)
MEASURES = ("Success@1", "Success@5", "Success@10")
DIRECTIONS = ("text to image", "image to text")
SYSTEMS = ("ridge map", "linear pair", "hidden pair")

Told = dict[str, Any]

HEAD = """# Captions and pictures in one space that is learnt here

Written by `papers/projection.py`; do not edit. No CLIP here: two encoders that never met,
all-MiniLM-L6-v2 for captions (384 numbers) and EfficientNet-Lite0 for pictures (1,280 numbers,
trained on ImageNet's labels), and maps between them learnt from Flickr8k's training pictures. Test
set: the dev split, 1,000 pictures with five captions each; all 1,000 pictures or all 5,000 captions
are ranked, by exact search. Success@k: a right answer is among the first k (papers on pictures call
it R@k).

"ridge map" sends features to the captions' vectors by least squares, captions stay as they are;
"linear pair" maps both sides to 256 numbers, trained by contrast in both directions
(`trieline.encode.projection`); "hidden pair" has a hidden layer of 512 beside each linear map. A
seed draws a tenth of the training pictures for validation. It chooses the ridge's strength and the
linear pair's dropout, by RR@10 as the mean of both directions, and when training stops; all systems
learn from the other nine tenths. Mean ± standard deviation over seeds, which differ in validation
pictures, and for the pairs in first weights too.

A cell looks at the test set once, after its choice. But what there is to choose from (256 numbers,
dropouts of 0.5 and 0.7, the range of strengths) was settled after a trial with seed 0 that showed
test figures beside validation; both ranked dropout 0.5 before 0.2.

MiniLM was trained on captions of Flickr30k, which grew out of Flickr8k: it may have read some of
these captions, though never a picture. All systems share what that helps.
"""


def write_page(found: Sequence[Told]) -> str:
    columns = (
        Column("system"),
        *(Column(f"{measure}, {way}", best="high") for way in DIRECTIONS for measure in MEASURES),
        Column("bytes a picture, dense", ",d"),
        Column("seeds", "d"),
    )
    rows: list[tuple[Cell, ...]] = []
    for system in SYSTEMS:
        mine = [told for told in found if told["cell"]["system"] == system]
        if mine:
            cells = (
                spread([told["measures"][way][measure] for told in mine])
                for way in DIRECTIONS
                for measure in MEASURES
            )
            rows.append((system, *cells, mine[0]["bytes"], len(mine)))
    lines = [HEAD, to_markdown(Table(columns, tuple(rows))), *missing(found), *choices(found)]
    machines = sorted({f"{t['machine']['cpu']}, torch {t['machine']['torch']}" for t in found})
    minutes = sum(told["seconds"] for told in found) / 60
    lines.append(f"Cells took {minutes:.0f} minutes in all. Machine: {'; '.join(machines)}.\n")
    return "\n".join(lines)


def spread(values: Sequence[float]) -> Cell:
    return Spread(mean(values), stdev(values)) if len(values) > 1 else values[0]


def missing(found: Sequence[Told]) -> Iterator[str]:
    there = {(told["cell"]["system"], told["cell"]["seed"]) for told in found}
    lacking = [f"{s}, seed {n}" for s in SYSTEMS for n in SEEDS if (s, n) not in there]
    if lacking:
        yield f"Not run yet: {'; '.join(lacking)}.\n"


def choices(found: Sequence[Told]) -> Iterator[str]:
    """What validation chose."""
    for system in SYSTEMS:
        mine = sorted(
            (told for told in found if told["cell"]["system"] == system),
            key=lambda told: int(told["cell"]["seed"]),
        )
        told = "; ".join(
            f"seed {one['cell']['seed']}: "
            + ", ".join(f"{name} {value}" for name, value in one["choice"].items())
            for one in mine
        )
        if told:
            yield f"Chosen on validation, {system}: {told}.\n"
