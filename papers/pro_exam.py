"""What is asked of the worlds, and the baselines that answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pro_systems import CHOSEN_BY, MOST, TESTED, measures_of
from worlds import Histories, World, open_world

from trieline import open_dataset, score
from trieline.data import hold_out
from trieline.evaluate.baselines import Bm25, Dense
from trieline.types import Hit, Qrel, Query

K = 10


class Exam(NamedTuple):
    """Queries of a split and what answers them."""

    world: World | Histories
    pool: NDArray[np.int64]  # item numbers that are asked over
    queries: list[Query]
    qrels: list[Qrel]
    barred: dict[str, str]  # query id -> the item that is no candidate

    @classmethod
    def of(cls, world: World | Histories, split: str, most: int) -> Exam:
        queries = world.queries(split)
        if len(queries) > most:
            drawn = np.random.default_rng(0).choice(len(queries), most, replace=False)
            queries = [queries[row] for row in np.sort(drawn)]
        asked = {query.id for query in queries}
        qrels = [qrel for qrel in world.qrels(split) if qrel.query_id in asked]
        return cls(world, world.pool(split), queries, qrels, world.barred(split))

    def vectors(self) -> NDArray[np.float32]:
        return np.stack([query.embedding for query in self.queries if query.embedding is not None])

    @property
    def deep(self) -> int:
        """Hits to ask for."""
        return K + bool(self.barred)

    def answers(self, found: Sequence[Sequence[Hit]]) -> dict[str, list[Hit]]:
        """Without what is no candidate."""
        return {
            query.id: [hit for hit in hits if hit.item_id != self.barred.get(query.id)][:K]
            for query, hits in zip(self.queries, found, strict=True)
        }

    def measured(self, found: Sequence[Sequence[Hit]]) -> dict[str, Any]:
        """Means, and for each judged query by id the rank of its first answer ("-": none)."""
        measures = measures_of(self.world.name)
        scores = score(self.answers(found), self.qrels, [*measures, TESTED])
        ranks = [value for _, value in sorted(scores.per_query[TESTED].items())]
        told = "".join(f"{round(1 / value) - 1}" if value else "-" for value in ranks)
        return {"means": {name: scores.means[name] for name in measures}, "ranks": told}

    def tested(self, found: Sequence[Sequence[Hit]]) -> float:
        return score(self.answers(found), self.qrels, [TESTED]).means[TESTED]

    def value(self, found: Sequence[Sequence[Hit]]) -> float:
        return score(self.answers(found), self.qrels, [CHOSEN_BY]).means[CHOSEN_BY]


def dense(world: World) -> dict[str, Any]:
    exam = Exam.of(world, "test", MOST)
    index = Dense([str(world.ids[row]) for row in exam.pool], world.vectors[exam.pool])
    found = index.search(exam.vectors(), exam.deep)
    told = {"ways": {"dense": exam.measured(found)}, "bytes": index.nbytes / len(exam.pool)}
    return told | {"notes": world.notes}


def words(name: str, data: Path) -> dict[str, Any]:
    dataset = open_dataset(data / name)
    dataset = dataset if "dev" in dataset.splits() else hold_out(dataset)
    exam = Exam.of(world_of(name, data), "test", MOST)
    texts = {query.id: query for query in dataset.queries("test")}
    index = Bm25(list(dataset.items()))
    found = index.search([texts[query.id] for query in exam.queries], exam.deep)
    size = index.nbytes / len(exam.world.ids)
    return {"ways": {"BM25": exam.measured(found)}, "bytes": size}


@lru_cache(maxsize=2)
def world_of(name: str, data: Path) -> World | Histories:
    return open_world(name, data)
