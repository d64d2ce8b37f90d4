"""How often, and at which level, beam search misses what an exact search finds.

The exact answers of a query are those the model (and the geometry) scores best among all items: no
beam finds better ones, so every difference is an error of the search and not of the model. Only
queries whose exact answer is certified are compared; the others are counted and left out.

The trap: equal scores have no true order. An answer counts as missed only where its score is above
what the beam gave in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.decode import Exact, Expansion, Found, Guide, beam_search, exact_search
from trieline.decode.beam import Normalise
from trieline.evaluate.table import Column, Table
from trieline.index import Trie
from trieline.model import Asked
from trieline.model.stepper import Spells
from trieline.types import Floats

__all__ = ["BatchErrors", "BeamError", "SearchError", "compare_searches", "search_error"]

_TIE = 1e-4  # scores nearer than this are equal but for rounding


class BeamError(NamedTuple):
    """One beam width against the exact answers."""

    beam: int
    top_1: float  # share of queries with another best answer
    top_k: float  # share of queries that miss one of the exact first k
    recall: float  # of the exact first k among the beam's
    gap_1: float  # mean of how far the beam's best score is below the exact one
    gap_k: float  # the same over all ranks
    lost: tuple[int, ...]  # missed answers by the level that dropped their prefix, level 1 first
    spelled: int  # missed answers whose docid was spelled out all the same


class SearchError(NamedTuple):
    """All widths, over the queries that could be compared."""

    k: int
    queries: int  # compared
    uncertified: int  # left out: the budget ran out before their answer was certain
    rows: float  # prefixes that exact search read for a compared query: the median
    beams: tuple[BeamError, ...]

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        beams = [{**beam._asdict(), "lost": list(beam.lost)} for beam in self.beams]
        return {**self._asdict(), "beams": beams}

    def tables(self) -> list[Table]:
        """For people: how often, then where."""
        title = f"beam search against the exact top {self.k}: {self.queries:,} queries"
        if self.uncertified:
            title += f" ({self.uncertified:,} more are left out: not certified within the budget)"
        often = (
            Column("beam", ",d"),
            Column("other top 1", ".1%", "low"),
            Column(f"other top {self.k}", ".1%", "low"),
            Column(f"recall of exact top {self.k}", ".3f", "high"),
            Column("score lost at rank 1", ".3f", "low"),
            Column(f"at ranks 1 to {self.k}", ".3f", "low"),
        )
        depth = max((len(beam.lost) for beam in self.beams), default=0)
        where = (
            Column("beam", ",d"),
            *(Column(f"level {level + 1}", ",d") for level in range(depth)),
            Column("spelled out", ",d"),
        )
        return [
            Table(often, tuple(beam[:6] for beam in self.beams), title),
            Table(
                where,
                tuple((beam.beam, *beam.lost, beam.spelled) for beam in self.beams),
                "missed answers by the level that dropped them",
            ),
        ]


class BatchErrors(NamedTuple):
    """One batch of queries; ``Q`` of them could be compared."""

    beams: tuple[int, ...]  # [W]
    k: int
    rows: NDArray[np.int64]  # [Q] prefixes that the exact search read
    uncertified: int
    top_1: NDArray[np.bool_]  # [W, Q] another best answer
    missed: NDArray[np.int64]  # [W, Q] exact answers that the beam does not have
    answers: NDArray[np.int64]  # [Q] exact answers: k, or as many as exist
    gap_1: NDArray[np.float64]  # [W, Q]
    gap_k: NDArray[np.float64]  # [W, Q] mean over the ranks
    lost: NDArray[np.int64]  # [W, L + 1] missed answers by level; the last: spelled out


def compare_searches(
    speller: Spells,
    asked: Asked,
    trie: Trie,
    *,
    beams: Sequence[int],
    k: int = 10,
    normalise: Normalise = "level",
    guides: Sequence[Guide] = (),
    vectors: Floats | None = None,
    votes: Floats | None = None,
    budget: int | None = None,
) -> BatchErrors:
    """Both searches on one batch. ``votes`` must say of whole docids what the guides say of steps:
    see ``exact_search`` and ``GeometricPlan``."""
    exact = exact_search(speller, asked, trie, k=k, normalise=normalise, votes=votes, budget=budget)
    sure = [query for query, answer in enumerate(exact) if answer.complete]
    lost = np.zeros((len(beams), trie.depth + 1), np.int64)
    figures = np.zeros((4, len(beams), len(sure)))
    for place, beam in enumerate(beams):
        seen: list[Expansion] = []
        found = beam_search(
            speller,
            asked,
            trie,
            beam=beam,
            k=k,
            normalise=normalise,
            guides=guides,
            vectors=vectors,
            observe=seen.append,
        )
        for nth, query in enumerate(sure):
            missed, *rest = _differences(exact[query], found[query])
            figures[:, place, nth] = len(missed), *rest
            lost[place] += _where(trie, exact[query].leaves[missed], query, seen)
    return BatchErrors(
        beams=tuple(beams),
        k=k,
        rows=np.array([exact[query].rows for query in sure], np.int64),
        uncertified=len(exact) - len(sure),
        top_1=figures[1].astype(np.bool_),
        missed=figures[0].astype(np.int64),
        answers=np.array([len(exact[query].items) for query in sure], np.int64),
        gap_1=figures[2],
        gap_k=figures[3],
        lost=lost,
    )


def search_error(batches: Sequence[BatchErrors]) -> SearchError:
    """All batches together; they compare the same beams."""
    if not batches:
        return SearchError(0, 0, 0, 0.0, ())
    rows, answers, top_1, missed, gap_1, gap_k = (
        np.concatenate([getattr(batch, name) for batch in batches], axis=-1)
        for name in ("rows", "answers", "top_1", "missed", "gap_1", "gap_k")
    )
    lost = np.sum([batch.lost for batch in batches], axis=0)
    beams = [
        BeamError(
            beam=beam,
            top_1=_mean(top_1[place]),
            top_k=_mean(missed[place] > 0),
            recall=1.0 - _mean(missed[place] / np.maximum(answers, 1)),
            gap_1=_mean(gap_1[place]),
            gap_k=_mean(gap_k[place]),
            lost=tuple(lost[place, :-1].tolist()),
            spelled=int(lost[place, -1]),
        )
        for place, beam in enumerate(batches[0].beams)
    ]
    return SearchError(
        k=batches[0].k,
        queries=len(rows),
        uncertified=sum(batch.uncertified for batch in batches),
        rows=float(np.median(rows)) if len(rows) else 0.0,
        beams=tuple(beams),
    )


def _differences(exact: Exact, found: Found) -> tuple[NDArray[np.int64], bool, float, float]:
    """(places of missed answers, whether the best is another, gap of the best, of all ranks)."""
    both = min(len(exact.items), len(found.items))
    gaps = np.maximum(exact.scores[:both].astype(np.float64) - found.scores[:both], 0.0)
    # The score that an answer had to beat to be among the beam's.
    full = len(found.items) == len(exact.items) > 0
    last = float(found.scores[-1]) + _TIE if full else -np.inf
    missed = np.flatnonzero(~np.isin(exact.items, found.items) & (exact.scores > last))
    other = bool(both and exact.items[0] != found.items[0] and gaps[0] > _TIE)
    other |= bool(len(exact.items) and not both)
    return missed, other, float(gaps[:1].sum()), _mean(gaps)


def _where(
    trie: Trie, leaves: NDArray[np.int64], query: int, seen: Sequence[Expansion]
) -> NDArray[np.int64]:
    """[L + 1] docids by the level that dropped their prefix; the last: none did."""
    lost = np.zeros(trie.depth + 1, np.int64)
    if not len(leaves):
        return lost
    docids = np.array([trie.docid(int(leaf)) for leaf in leaves], np.int64)
    paths = trie.walk(docids)  # [n, L + 1]
    alive = np.ones(len(leaves), np.bool_)
    for expansion in seen:
        kept = expansion.kept[expansion.query[expansion.kept] == query]
        here = np.isin(paths[:, expansion.level + 1], expansion.nodes[kept])
        lost[expansion.level] = (alive & ~here).sum()
        alive &= here
    lost[-1] = alive.sum()
    return lost


def _mean(values: NDArray[Any]) -> float:
    return float(values.mean()) if values.size else 0.0
