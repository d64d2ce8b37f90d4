"""What a world is: vectors, queries, judgements; how it goes into a file and out of it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.data import Dataset, MemoryDataset
from trieline.ids.vectors import unit
from trieline.types import Floats, Item, Qrel, Query

SPLITS = ("train", "dev", "test")


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
        flat: dict[str, Any] = {"ids": self.ids, "vectors": half(self.vectors)}
        flat |= {"kind": np.array(self.kind), "notes": np.array(json.dumps(self.notes))}
        for split, own in self.splits.items():
            for field, array in own._asdict().items():
                flat[f"{split}.{field}"] = half(array) if field == "vectors" else array
        return flat | {f"pool.{split}": pool for split, pool in self.pools.items()}

    @classmethod
    def of(cls, name: str, arrays: dict[str, Any]) -> World:
        """The inverse of ``arrays``."""
        splits = {
            split: Split(*(whole(arrays[f"{split}.{field}"]) for field in Split._fields))
            for split in SPLITS
        }
        pools = {split: arrays[f"pool.{split}"] for split in SPLITS if f"pool.{split}" in arrays}
        parts = arrays["ids"], str(arrays["kind"]), whole(arrays["vectors"]), splits, pools
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
        flat: dict[str, Any] = {"ids": self.ids, "vectors": half(self.vectors)}
        for split, own in self.splits.items():
            flat |= {f"{split}.{field}": array for field, array in own._asdict().items()}
        return flat

    @classmethod
    def of(cls, name: str, arrays: dict[str, Any]) -> Histories:
        splits = {
            split: Past(*(arrays[f"{split}.{field}"] for field in Past._fields)) for split in SPLITS
        }
        return cls(name, arrays["ids"], whole(arrays["vectors"]), splits)


def _dataset(world: World | Histories, kind: str) -> Dataset:
    items = [
        Item(str(name), embedding=vector, modality=kind)
        for name, vector in zip(world.ids, world.vectors, strict=True)
    ]
    queries = {split: world.queries(split) for split in world.splits}
    qrels = {split: world.qrels(split) for split in world.splits}
    return MemoryDataset(items, queries, qrels, world.name)


def half(vectors: Floats) -> NDArray[np.float16]:
    return vectors.astype(np.float16)


def whole(array: NDArray[Any]) -> NDArray[Any]:
    """Half precision as float32 of unit length; the rest as it is."""
    return unit(array.astype(np.float32)) if array.dtype == np.float16 else array
