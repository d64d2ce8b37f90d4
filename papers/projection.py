"""Captions and pictures in one space that is learnt here. Writes projection.md.

    python papers/projection.py --data DATA             every cell that is missing, the page
    python papers/projection.py --page                  the page alone, from what is there
    python papers/projection.py --data DATA --epochs 1 --cells /tmp/cells    to try this script

DATA holds flickr8k: captions.jsonl and efficientnet_lite0_f16.npy. Captions are encoded by MiniLM,
pictures are the given EfficientNet-Lite0 features, and neither encoder has seen the other's half. A
cell is one system with one seed. The seed draws a tenth of the training pictures for validation:
they decide when training stops, the ridge's strength and the pair's dropout; both systems learn
from the other nine tenths. The dev split is the test set, 1,000 pictures and 5,000 captions; a cell
looks at it once.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: see trieline.cli.main

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from cells import fill, read_cells, write_text
from numpy.typing import NDArray
from projection_page import MEASURES, SEEDS, write_page

from trieline import score
from trieline.config import EncodeSettings, cache_folder
from trieline.data import open_captions
from trieline.encode import open_encoder
from trieline.encode.contrast import Contrast, held_out
from trieline.encode.projection import (
    Pairs,
    Projection,
    Shape,
    learn_projection,
    ridge_projection,
)
from trieline.evaluate.baselines import Dense
from trieline.show import bars
from trieline.types import Floats, Qrel

STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0)
DROPOUTS = (0.5, 0.7)
HELD_OUT = 0.1
CHOSEN_BY = "RR@10"  # on validation, mean of both directions
ENCODER = EncodeSettings(max_tokens=64)  # the longest caption has 42

Maker = Callable[[Pairs, int, int], Iterator[tuple[dict[str, Any], Projection]]]


class Side(NamedTuple):
    """The pairs of some pictures, as vectors and as names."""

    pairs: Pairs
    captions: list[str]
    pictures: list[str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--cells", type=Path, default=Path(__file__).with_name("projection"))
    parser.add_argument("--epochs", type=int, default=60, help="at most; fewer to try this script")
    parser.add_argument("--page", action="store_true", help="write the page, run nothing")
    options = parser.parse_args()
    options.cells.mkdir(parents=True, exist_ok=True)
    if not options.page:
        train, test = (read(options.data / "flickr8k", split) for split in ("train", "dev"))
        for seed in SEEDS:
            for system, make in SYSTEMS.items():
                cell = {"data": "flickr8k", "system": system, "seed": seed}
                cell |= {"settings": SETTINGS[system], "epochs": options.epochs}
                fill(options.cells, cell, lambda m=make, s=seed: run(m, train, test, s, options))
                save_page(options.cells)
    save_page(options.cells)


def save_page(cells: Path) -> None:
    write_text(cells.with_suffix(".md"), write_page(read_cells(cells)))


def read(folder: Path, split: str) -> Side:
    """The pairs of a split."""
    dataset = open_captions(folder, corpus=split, features=folder / "efficientnet_lite0_f16.npy")
    items, queries = list(dataset.items()), list(dataset.queries(split))
    row = {item.id: place for place, item in enumerate(items)}
    answers = {qrel.query_id: qrel.item_id for qrel in dataset.qrels(split)}
    owner = np.array([row[answers[query.id]] for query in queries], np.int64)
    captions = open_encoder(ENCODER, cache_folder()).encode(queries, bars)
    features = np.stack([item.embedding for item in items if item.embedding is not None])
    pairs = Pairs(captions, features, owner)
    return Side(pairs, [query.id for query in queries], [item.id for item in items])


def cut(side: Side, chosen: NDArray[np.bool_]) -> Side:
    """The pairs that are chosen, and their pictures."""
    own = np.unique(side.pairs.owner[chosen])
    owner = np.searchsorted(own, side.pairs.owner[chosen])
    pairs = Pairs(side.pairs.captions[chosen], side.pairs.features[own], owner)
    captions = [name for name, take in zip(side.captions, chosen, strict=True) if take]
    return Side(pairs, captions, [side.pictures[place] for place in own])


# --- systems ------------------------------------------------------------------------------------


def ridge(pairs: Pairs, seed: int, epochs: int) -> Iterator[tuple[dict[str, Any], Projection]]:
    """Least squares from features to captions' vectors, for each strength."""
    kept = ~held_out(pairs.owner, HELD_OUT, seed)
    own = np.unique(pairs.owner[kept])
    rest = Pairs(pairs.captions[kept], pairs.features[own], np.searchsorted(own, pairs.owner[kept]))
    for strength in STRENGTHS:
        yield {"strength": strength}, ridge_projection(rest, strength)


def linear(pairs: Pairs, seed: int, epochs: int) -> Iterator[tuple[dict[str, Any], Projection]]:
    """Two linear maps, trained, for each dropout."""
    for dropout in DROPOUTS:
        yield trained(pairs, Shape(256, 0, dropout), seed, epochs)


def hidden(pairs: Pairs, seed: int, epochs: int) -> Iterator[tuple[dict[str, Any], Projection]]:
    """Two maps with a hidden layer beside the linear one."""
    yield trained(pairs, Shape(256, 512, DROPOUTS[-1]), seed, epochs)


def trained(
    pairs: Pairs, shape: Shape, seed: int, epochs: int
) -> tuple[dict[str, Any], Projection]:
    how = Contrast(epochs=epochs, held_out=HELD_OUT, seed=seed)
    maps, learnt = learn_projection(pairs, shape, how, bars)
    return {"dropout": shape.dropout, "epochs": learnt.best_epoch}, maps


SYSTEMS: dict[str, Maker] = {"ridge map": ridge, "linear pair": linear, "hidden pair": hidden}
SETTINGS: dict[str, Any] = {
    "ridge map": {"strengths": STRENGTHS},
    "linear pair": {"dim": 256, "dropouts": DROPOUTS, **Contrast()._asdict()},
    "hidden pair": {"dim": 256, "hidden": 512, "dropout": DROPOUTS[-1], **Contrast()._asdict()},
}


# --- cells --------------------------------------------------------------------------------------


def run(
    make: Maker, train: Side, test: Side, seed: int, options: argparse.Namespace
) -> dict[str, Any]:
    """The choice that validation prefers, measured once on the test set."""
    validation = cut(train, held_out(train.pairs.owner, HELD_OUT, seed))
    tried: list[tuple[float, dict[str, Any], Projection]] = []
    for choice, maps in make(train.pairs, seed, options.epochs):
        found = measured(maps, validation, (CHOSEN_BY,))
        tried.append((float(np.mean([own[CHOSEN_BY] for own in found.values()])), choice, maps))
    _, choice, maps = max(tried, key=lambda one: one[0])
    return {
        "choice": choice,
        "validation": [{"score": value, **tested} for value, tested, _ in tried],
        "measures": measured(maps, test, MEASURES),
        "bytes": 4 * maps.dim,
        "dim": maps.dim,
    }


def measured(maps: Projection, side: Side, measures: Sequence[str]) -> dict[str, dict[str, float]]:
    """Means of all measures in both directions."""
    said = maps.texts.vectors(side.pairs.captions, "captions")
    shown = maps.pictures.vectors(side.pairs.features, "features")
    answers = [side.pictures[row] for row in side.pairs.owner]
    there = [Qrel(c, p, 1) for c, p in zip(side.captions, answers, strict=True)]
    back = [Qrel(p, c, 1) for c, p in zip(side.captions, answers, strict=True)]
    return {
        "text to image": means(side.captions, said, side.pictures, shown, there, measures),
        "image to text": means(side.pictures, shown, side.captions, said, back, measures),
    }


def means(
    asked: Sequence[str],
    questions: Floats,
    items: Sequence[str],
    vectors: Floats,
    qrels: Sequence[Qrel],
    measures: Sequence[str],
) -> dict[str, float]:
    hits = Dense(items, vectors).search(questions, 10)
    return dict(score(dict(zip(asked, hits, strict=True)), qrels, measures).means)


if __name__ == "__main__":
    main()
