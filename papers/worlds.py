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

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline import open_dataset
from trieline.config import EncodeSettings, cache_folder
from trieline.data import Dataset, MemoryDataset, hold_out, open_captions
from trieline.encode import Encoder, open_encoder
from trieline.encode.contrast import Contrast, held_out
from trieline.encode.projection import Pairs, Projection, Shape, learn_projection
from trieline.show import bars
from trieline.types import Floats, Item, Qrel, Query

__all__ = ["NEXT", "WORLDS", "Histories", "World", "open_world", "world_file"]

NEXT = ("recsys/beauty", "recsys/sports")

SPLITS = ("train", "dev", "test")
FEATURES = "efficientnet_lite0_f16.npy"
CAPTIONS = EncodeSettings(max_tokens=64)  # the longest has 42
TEXTS, PRODUCTS = EncodeSettings(), EncodeSettings(max_tokens=64)
SPOKEN = 2  # captions of a picture that become composed queries
WEIGHTS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.5)  # of the picture in a composed query
ALIKE = 20  # pictures that a composed query may start from
FEWEST = 2  # words that must be left of a caption


class Split(NamedTuple):
    """Queries and what answers them."""

    ids: NDArray[np.str_]  # [Q]
    vectors: Floats  # [Q, D]
    query: NDArray[np.int64]  # [P] row of ids
    item: NDArray[np.int64]  # [P] item number
    grade: NDArray[np.int64]  # [P]
    barred: NDArray[np.int64]  # [Q] item number that is no candidate; -1: none


class World(NamedTuple):
    """Queries are vectors."""

    name: str
    ids: NDArray[np.str_]  # [N]
    kind: str  # of the items
    vectors: Floats  # [N, D]
    splits: dict[str, Split]
    pools: dict[str, NDArray[np.int64]]  # item numbers a split is asked over; absent: all
    notes: dict[str, Any]

    @property
    def pairs(self) -> int:
        """To be learnt."""
        return len(self.splits["train"].query)

    def dataset(self) -> Dataset:
        """What ``Retriever.build`` reads with encode.kind = "precomputed"."""
        return _dataset(self, self.kind)

    def queries(self, split: str) -> list[Query]:
        """With their vectors."""
        own = self.splits[split]
        return [
            Query(str(name), embedding=vector)
            for name, vector in zip(own.ids, own.vectors, strict=True)
        ]

    def qrels(self, split: str) -> list[Qrel]:
        """Of a split."""
        own = self.splits[split]
        return [
            Qrel(str(own.ids[query]), str(self.ids[item]), int(grade))
            for query, item, grade in zip(own.query, own.item, own.grade, strict=True)
        ]

    def barred(self, split: str) -> dict[str, str]:
        """The item that is no candidate, by query; not all queries have one."""
        own = self.splits[split]
        pairs = zip(own.ids, own.barred, strict=True)
        return {str(name): str(self.ids[item]) for name, item in pairs if item >= 0}

    def pool(self, split: str) -> NDArray[np.int64]:
        """Numbers of the items that a split is asked over."""
        return self.pools.get(split, np.arange(len(self.ids)))

    def arrays(self) -> dict[str, Any]:
        """For the file."""
        flat: dict[str, Any] = {"ids": self.ids, "vectors": _half(self.vectors)}
        flat |= {"kind": np.array(self.kind), "notes": np.array(json.dumps(self.notes))}
        for split, own in self.splits.items():
            for field, array in own._asdict().items():
                flat[f"{split}.{field}"] = _half(array) if field == "vectors" else array
        return flat | {f"pool.{split}": pool for split, pool in self.pools.items()}

    @classmethod
    def of(cls, name: str, arrays: dict[str, Any]) -> World:
        """The inverse of ``arrays``."""
        splits = {
            split: Split(*(_whole(arrays[f"{split}.{field}"]) for field in Split._fields))
            for split in SPLITS
        }
        pools = {split: arrays[f"pool.{split}"] for split in SPLITS if f"pool.{split}" in arrays}
        parts = arrays["ids"], str(arrays["kind"]), _whole(arrays["vectors"]), splits, pools
        return cls(name, *parts, json.loads(str(arrays["notes"])))


class Past(NamedTuple):
    """Histories of a split, end to end, and what came next."""

    ids: NDArray[np.str_]  # [Q]
    items: NDArray[np.int64]  # [H] of all histories, oldest first
    ends: NDArray[np.int64]  # [Q] of each history
    answer: NDArray[np.int64]  # [Q]


class Histories(NamedTuple):
    """Queries are histories of items; otherwise as ``World``."""

    name: str
    ids: NDArray[np.str_]  # [N]
    vectors: Floats  # [N, D]
    splits: dict[str, Past]

    @property
    def pairs(self) -> int:
        return len(self.splits["train"].ids)

    @property
    def notes(self) -> dict[str, Any]:
        return {}

    def dataset(self) -> Dataset:
        return _dataset(self, "text")

    def queries(self, split: str) -> list[Query]:
        own = self.splits[split]
        names = [str(name) for name in self.ids]
        parts = np.split(own.items, own.ends[:-1])
        return [
            Query(str(name), history=tuple(names[item] for item in part.tolist()))
            for name, part in zip(own.ids, parts, strict=True)
        ]

    def qrels(self, split: str) -> list[Qrel]:
        own = self.splits[split]
        pairs = zip(own.ids, own.answer, strict=True)
        return [Qrel(str(name), str(self.ids[item]), 1) for name, item in pairs]

    def barred(self, split: str) -> dict[str, str]:
        return {}

    def pool(self, split: str) -> NDArray[np.int64]:
        return np.arange(len(self.ids))

    def arrays(self) -> dict[str, Any]:
        flat: dict[str, Any] = {"ids": self.ids, "vectors": _half(self.vectors)}
        for split, own in self.splits.items():
            flat |= {f"{split}.{field}": array for field, array in own._asdict().items()}
        return flat

    @classmethod
    def of(cls, name: str, arrays: dict[str, Any]) -> Histories:
        splits = {
            split: Past(*(arrays[f"{split}.{field}"] for field in Past._fields)) for split in SPLITS
        }
        return cls(name, arrays["ids"], _whole(arrays["vectors"]), splits)


def _dataset(world: World | Histories, kind: str) -> Dataset:
    items = [
        Item(str(name), embedding=vector, modality=kind)
        for name, vector in zip(world.ids, world.vectors, strict=True)
    ]
    queries = {split: world.queries(split) for split in world.splits}
    qrels = {split: world.qrels(split) for split in world.splits}
    return MemoryDataset(items, queries, qrels, world.name)


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


def _half(vectors: Floats) -> NDArray[np.float16]:
    return vectors.astype(np.float16)


def _whole(array: NDArray[Any]) -> NDArray[Any]:
    """Half precision as float32 of unit length; the rest as it is."""
    return _unit(array.astype(np.float32)) if array.dtype == np.float16 else array


def _unit(vectors: Floats) -> Floats:
    unit: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return unit


# --- texts --------------------------------------------------------------------------------------


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


# --- pictures -----------------------------------------------------------------------------------


class Pictures(NamedTuple):
    """Flickr8k: pictures with captions, in the learnt space."""

    ids: list[str]
    vectors: Floats  # [M, D]
    features: Floats  # [M, 1280], unit length
    said: list[str]  # captions
    spoken: Floats  # [C, D]
    owner: NDArray[np.int64]  # [C] picture
    split: NDArray[np.str_]  # [M]
    maps: Projection


@lru_cache(maxsize=1)
def pictures(data: Path) -> Pictures:
    """All pictures; the pair of maps has learnt from those of "train" alone."""
    folder = data / "flickr8k"
    dataset = open_captions(folder, features=folder / FEATURES)
    items = list(dataset.items())
    row = {item.id: number for number, item in enumerate(items)}
    given = {"train": "train", "dev": "test"}
    queries: list[Query] = []
    owner: list[int] = []
    split = np.empty(len(items), dtype="<U5")
    for theirs, ours in given.items():
        answers = {qrel.query_id: row[qrel.item_id] for qrel in dataset.qrels(theirs)}
        some = list(dataset.queries(theirs))
        queries += some
        owner += [answers[query.id] for query in some]
        split[[answers[query.id] for query in some]] = ours
    owned = np.array(owner, np.int64)
    features = np.stack([item.embedding for item in items if item.embedding is not None])
    captions = open_encoder(CAPTIONS, cache_folder()).encode(queries, bars)
    known = split[owned] == "train"
    pictured = np.unique(owned[known])
    pairs = Pairs(captions[known], features[pictured], np.searchsorted(pictured, owned[known]))
    how = Contrast()
    split[np.unique(owned[known][held_out(pairs.owner, how.held_out, how.seed)])] = "dev"
    maps, _ = learn_projection(pairs, Shape(), how, bars)
    shown = maps.pictures.vectors(features, "features")
    spoken = maps.texts.vectors(captions, "captions")
    ids, said = [item.id for item in items], [query.text for query in queries]
    return Pictures(ids, shown, _unit(features), said, spoken, owned, split, maps)


def to_image(name: str, data: Path) -> World:
    """Captions ask, pictures answer."""
    known = pictures(data)
    names = caption_names(known)
    splits = {}
    for split in SPLITS:
        rows = np.flatnonzero(known.split[known.owner] == split)
        splits[split] = _asking(names[rows], known.spoken[rows], known.owner[rows])
    pools = {split: np.flatnonzero(known.split == split) for split in SPLITS}
    return World(name, np.array(known.ids), "image", known.vectors, splits, pools, {})


def to_text(name: str, data: Path) -> World:
    """Pictures ask, each of their captions answers."""
    known = pictures(data)
    splits, place = {}, known.split[known.owner]
    for split in SPLITS:
        shown = np.flatnonzero(known.split == split)
        rows = np.flatnonzero(place == split)
        query = np.searchsorted(shown, known.owner[rows])
        ids, ones = np.array(known.ids)[shown], np.ones(len(rows), np.int64)
        splits[split] = Split(ids, known.vectors[shown], query, rows, ones, np.full(len(ids), -1))
    pools = {split: np.flatnonzero(place == split) for split in SPLITS}
    return World(name, caption_names(known), "text", known.spoken, splits, pools, {})


def composed(name: str, data: Path) -> World:
    """A picture and words ask for another picture: see the module."""
    known = pictures(data)
    encoder = open_encoder(CAPTIONS, cache_folder())
    parts = {split: _compose(known, split) for split in SPLITS}
    told: dict[str, Floats] = {}
    for split, own in parts.items():
        asked = [Query(f"{row}", text=words) for row, words in enumerate(own.words)]
        told[split] = known.maps.texts.vectors(encoder.encode(asked, bars), "captions")
    pools = {split: np.flatnonzero(known.split == split) for split in SPLITS}

    def vectors(split: str, weight: float) -> Floats:
        return _unit(told[split] + np.float32(weight) * known.vectors[parts[split].reference])

    def right(weight: float) -> float:
        own, row = parts["dev"], np.arange(len(parts["dev"].words))
        near = vectors("dev", weight) @ known.vectors[pools["dev"]].T
        near[row, np.searchsorted(pools["dev"], own.reference)] = -np.inf
        answer = near[row, np.searchsorted(pools["dev"], own.answer)]
        return float(np.mean((near > answer[:, None]).sum(axis=1) < 10))

    found = {weight: right(weight) for weight in WEIGHTS}
    weight = max(found, key=lambda tried: found[tried])
    splits = {}
    for split, own in parts.items():
        ids = np.array([f"{known.ids[b]}#{n}" for n, b in enumerate(own.answer.tolist())])
        asked = _asking(ids, vectors(split, weight), own.answer)
        splits[split] = asked._replace(barred=own.reference)
    notes = {"weight": weight, "R@10 on dev by weight": found}
    return World(name, np.array(known.ids), "image", known.vectors, splits, pools, notes)


def caption_names(known: Pictures) -> NDArray[np.str_]:
    """ "PICTURE#n", counted within each picture."""
    seen: dict[int, int] = {}
    names = []
    for owner in known.owner.tolist():
        seen[owner] = seen.get(owner, -1) + 1
        names.append(f"{known.ids[owner]}#{seen[owner]}")
    return np.array(names)


def _asking(ids: NDArray[np.str_], vectors: Floats, answers: NDArray[np.int64]) -> Split:
    """Every query has one answer."""
    one, nobody = np.ones(len(ids), np.int64), np.full(len(ids), -1)
    return Split(ids, vectors, np.arange(len(ids)), answers, one, nobody)


class _Composed(NamedTuple):
    reference: NDArray[np.int64]  # [Q] picture asked with
    answer: NDArray[np.int64]  # [Q] picture that answers
    words: list[str]


def _compose(known: Pictures, split: str) -> _Composed:
    shown = np.flatnonzero(known.split == split)
    near = known.features[shown] @ known.features[shown].T
    np.fill_diagonal(near, -np.inf)
    alike = np.argpartition(-near, ALIKE - 1, axis=1)[:, :ALIKE]
    drawn = np.random.default_rng(0).integers(ALIKE, size=len(shown))
    like = shown[np.sort(alike, axis=1)[np.arange(len(shown)), drawn]]
    captions: dict[int, list[str]] = {}
    for words, owner in zip(known.said, known.owner.tolist(), strict=True):
        captions.setdefault(owner, []).append(words)
    found = []
    for answer, reference in zip(shown.tolist(), like.tolist(), strict=True):
        heard = {word for caption in captions[reference] for word in _words(caption)}
        for caption in captions[answer][:SPOKEN]:
            left = [word for word in _words(caption) if word not in heard]
            if len(left) >= FEWEST:
                found.append((reference, answer, " ".join(left)))
    reference, answer, words = zip(*found, strict=True)
    return _Composed(np.array(reference), np.array(answer), list(words))


def _words(caption: str) -> Sequence[str]:
    return re.findall(r"[a-z0-9']+", caption.lower())


WORLDS: dict[str, Callable[[str, Path], World | Histories]] = {
    "flickr8k text to image": to_image,
    "flickr8k image to text": to_text,
    "flickr8k composed": composed,
    "nfcorpus": texts,
    "tldr": texts,
    **dict.fromkeys(NEXT, sequences),
}
