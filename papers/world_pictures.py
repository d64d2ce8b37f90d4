"""Flickr8k in one learnt space: either way, and asked with a picture and words (see worlds.py)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from world_shapes import SPLITS, Split, World

from trieline.config import EncodeSettings, cache_folder
from trieline.data import open_captions
from trieline.encode import open_encoder
from trieline.encode.contrast import Contrast, held_out
from trieline.encode.projection import Pairs, Projection, Shape, learn_projection
from trieline.ids.vectors import unit
from trieline.show import bars
from trieline.types import Floats, Query

FEATURES = "efficientnet_lite0_f16.npy"
CAPTIONS = EncodeSettings(max_tokens=64)  # the longest has 42
SPOKEN = 2  # captions of a picture that become composed queries
WEIGHTS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.5)  # of the picture in a composed query
ALIKE = 20  # pictures that a composed query may start from
FEWEST = 2  # words that must be left of a caption


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
    return Pictures(ids, shown, unit(features), said, spoken, owned, split, maps)


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
        return unit(told[split] + np.float32(weight) * known.vectors[parts[split].reference])

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
