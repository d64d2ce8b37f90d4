"""Data sets as vectors of one space: what pro.py trains on, on whatever machine.

A world holds items, queries of each split, judgements, and which items a split is asked over. It is
made once, with the real encoders, and kept as one NPZ file of float16 vectors, so that every
machine starts from the same numbers and one without encoders can train.

flickr8k's pictures and captions meet in the space of a linear pair of maps (see projection.py),
trained on the training pictures but for a tenth, which is the dev split; its own dev split is the
test set. A split asks over its own pictures (or captions) alone, as the usual test does.

A composed query is a picture A and some words; the answer is another picture B. A is drawn from the
20 pictures of the same split that are most like B (EfficientNet's features), the words are those of
one of B's captions that none of A's captions has. Its vector is the sum of both (UniIR's score
fusion), the picture with the weight that ranks dev queries best. A itself is no candidate, as in
CIRR.

recsys: a user's history asks for what comes next, leave-one-out; items are vectors of their texts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from world_pictures import composed, to_image, to_text
from world_shapes import SPLITS, Histories, Past, Split, World

from trieline import open_dataset
from trieline.config import EncodeSettings, cache_folder
from trieline.data import Dataset, hold_out
from trieline.encode import Encoder, open_encoder
from trieline.show import bars

__all__ = ["NEXT", "WORLDS", "Histories", "World", "open_world", "world_file"]

NEXT = ("recsys/beauty", "recsys/sports")
TEXTS, PRODUCTS = EncodeSettings(), EncodeSettings(max_tokens=64)


def world_file(name: str) -> Path:
    """Where a world is kept."""
    return cache_folder() / "worlds" / f"{name.replace('/', '-').replace(' ', '-')}.npz"


def open_world(name: str, data: Path) -> World | Histories:
    """The world as it was kept; made first where it is not there."""
    file = world_file(name)
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        made = WORLDS[name](name, data)
        part = file.with_suffix(".part.npz")
        np.savez_compressed(part, **made.arrays())
        part.replace(file)
    with np.load(file, allow_pickle=False) as arrays:
        return (Histories if name in NEXT else World).of(name, dict(arrays))


def texts(name: str, data: Path) -> World:
    """A BEIR folder."""
    dataset = open_dataset(data / name)
    dataset = dataset if "dev" in dataset.splits() else hold_out(dataset)
    encoder = open_encoder(TEXTS, cache_folder())
    items = list(dataset.items())
    row = {item.id: number for number, item in enumerate(items)}
    splits = {split: text_split(dataset, split, row, encoder) for split in SPLITS}
    ids = np.array([item.id for item in items])
    return World(name, ids, "text", encoder.encode(items, bars), splits, {}, {})


def text_split(dataset: Dataset, split: str, row: dict[str, int], encoder: Encoder) -> Split:
    queries = list(dataset.queries(split))
    place = {query.id: number for number, query in enumerate(queries)}
    judged = [q for q in dataset.qrels(split) if q.query_id in place and q.item_id in row]
    table = np.array([(place[q.query_id], row[q.item_id], q.relevance) for q in judged], np.int64)
    ids = np.array([query.id for query in queries])
    return Split(ids, encoder.encode(queries, bars), *table.T, np.full(len(ids), -1))


# --- what comes next ----------------------------------------------------------------------------


def sequences(name: str, data: Path) -> Histories:
    """Interaction sequences; an item without words stands for its id, as in a build."""
    dataset = open_dataset(data / name)
    items = list(dataset.items())
    worded = [i if (i.text + i.title).strip() else i._replace(text=i.id) for i in items]
    row = {item.id: number for number, item in enumerate(items)}
    splits = {}
    for split in SPLITS:
        asked = list(dataset.queries(split))
        answers = {qrel.query_id: row[qrel.item_id] for qrel in dataset.qrels(split)}
        parts = [[row[item] for item in query.history] for query in asked]
        splits[split] = Past(
            np.array([query.id for query in asked]),
            np.array([item for part in parts for item in part], np.int32),
            np.cumsum([len(part) for part in parts]),
            np.array([answers[query.id] for query in asked], np.int32),
        )
    vectors = open_encoder(PRODUCTS, cache_folder()).encode(worded, bars)
    return Histories(name, np.array([item.id for item in items]), vectors, splits)


WORLDS: dict[str, Callable[[str, Path], World | Histories]] = {
    "flickr8k text to image": to_image,
    "flickr8k image to text": to_text,
    "flickr8k composed": composed,
    "nfcorpus": texts,
    "tldr": texts,
    **dict.fromkeys(NEXT, sequences),
}
