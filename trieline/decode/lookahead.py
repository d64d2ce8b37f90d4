"""Looking ahead: a prefix ranks by what can still be reached from it.

PAG (Lost in Decoding, Eq. 4-6) and ComGTIR (Eq. 12-13): rank = carried + step + phi(prefix), where
phi is the best planned score of the items below; the beam carries the sequential sum alone, so the
final score of a docid is its sequential sum plus its own planned score.

The trap: phi of a prefix is not a vote to be added up. It looks at the same items at every level,
and carrying it would count them once a level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.decode.guides import Score
from trieline.decode.planner import Plan, Planner
from trieline.errors import IndexMismatch, SettingsError
from trieline.index import Trie
from trieline.types import Floats

__all__ = ["Legal", "LookAhead", "Looking", "Reduce"]

Ints = NDArray[np.int64]
Reduce = Literal["max", "mean", "min"]
Legal = Literal["soft", "hard"]


class Looking(NamedTuple):
    """The state of a look ahead: the plans of all queries end to end, and whose each beam is."""

    query: Ints  # [n] of each live beam
    trie: Trie
    keys: Ints | None  # [P] query * R + row, ascending; None: each plan holds all R rows
    scores: Floats  # [P]
    links: tuple[Ints, Ints] | None  # [P] each: the item's docid before and after, if any
    nothing: Floats  # [B] phi where nothing below is planned


class LookAhead:
    """A planner's scores as a guide: ``weight`` times the max, mean or min of the items below.

    ``plan="soft"`` (the papers' equations) leaves the whole trie legal. A prefix without planned
    items gets no bonus: the plan's ``floor``, which is 0 for the papers' planners, whose scores are
    sums of non-negative weights. Where a planner gives lower scores than its floor, the lowest
    planned score stands in for it, or being left out would rank above being planned.
    ``plan="hard"`` (PAG's released code) forbids what is not planned, docid by docid: items that
    share a planned docid come with it.

    Only planned items below a prefix count for its mean and min, and each once, with its best
    docid below.
    """

    def __init__(
        self,
        planner: Planner,
        *,
        plan: Legal = "soft",
        reduce: Reduce = "max",
        weight: float = 1.0,
        name: str = "plan",
    ) -> None:
        if not weight >= 0:
            raise SettingsError(f"weight = {weight} of a plan: expected a number from 0 upwards.")
        self.planner, self.reduce, self.hard = planner, reduce, plan == "hard"
        self.weight, self.name = float(weight), name

    def start(self, vectors: Floats, trie: Trie) -> Looking:
        plans = [_checked(plan, trie) for plan in self.planner.plan(vectors, trie)]
        nothing = [-np.inf if self.hard else _floor(plan) for plan in plans]
        everything = all(plan.rows is None for plan in plans)
        rows = [_rows(plan, trie) for plan in plans] if not everything else None
        return Looking(
            np.arange(len(plans)),
            trie,
            None if rows is None else _end_to_end(rows, [trie.rows] * len(plans)),
            np.concatenate([np.empty(0, np.float32), *(plan.scores for plan in plans)]),
            None if self.reduce == "max" else _links(rows, trie, len(plans)),
            np.array(nothing, np.float32),
        )

    def score(self, state: Looking, level: int, parents: Ints, codes: Ints, nodes: Ints) -> Score:
        from trieline.decode.kernels import segment_items, segment_max

        query = state.query[parents]
        low, high = state.trie.interval(level + 1, nodes)
        first, end = query * state.trie.rows + low, query * state.trie.rows + high
        if state.keys is not None:
            first, end = np.searchsorted(state.keys, first), np.searchsorted(state.keys, end)
        phi = state.nothing[query]
        if state.links is None:
            segment_max(state.scores, first, end, phi)
        else:
            segment_items(state.scores, *state.links, first, end, self.reduce == "min", phi)
        if self.weight == 0:  # 0 * -inf is no number
            return Score(look=np.where(np.isfinite(phi), np.float32(0), phi))
        return Score(look=np.float32(self.weight) * phi)

    def follow(self, state: Looking, level: int, parents: Ints, codes: Ints) -> Looking:
        return state._replace(query=state.query[parents])


def _checked(plan: Plan, trie: Trie) -> Plan:
    """What compiled loops may trust."""
    count = trie.rows if plan.rows is None else len(plan.rows)
    scores = np.asarray(plan.scores, np.float32)
    if scores.shape != (count,):
        raise IndexMismatch(
            f"a plan has scores of shape {scores.shape} for {count} rows: give one to each row."
        )
    if plan.rows is None:
        return Plan(None, scores)
    rows = np.asarray(plan.rows, np.int64)
    inside = not count or (rows[0] >= 0 and rows[-1] < trie.rows)
    if not inside or (rows[1:] <= rows[:-1]).any():
        raise IndexMismatch(
            f"a plan's rows must ascend and lie below {trie.rows}, the rows of the trie that is "
            "searched. ItemRows(trie).plan(...) finds the rows of item numbers."
        )
    return Plan(rows, scores, plan.floor)


def _floor(plan: Plan) -> float:
    """What a prefix without planned items gets; where all rows are planned there is none."""
    return 0.0 if plan.rows is None else min(plan.floor, float(plan.scores.min(initial=np.inf)))


def _rows(plan: Plan, trie: Trie) -> Ints:
    return np.arange(trie.rows) if plan.rows is None else plan.rows


def _end_to_end(parts: Sequence[Ints], lengths: Sequence[int]) -> Ints:
    """Places within parts as places within all parts, laid end to end."""
    before = np.cumsum([0, *lengths])
    moved = [part + start for part, start in zip(parts, before, strict=False)]
    return np.concatenate([np.empty(0, np.int64), *moved])


def _links(rows: Sequence[Ints] | None, trie: Trie, count: int) -> tuple[Ints, Ints]:
    """For each planned row, the place of the row of the same item before it and after it."""
    owner = trie.owner
    if rows is None:
        pairs = [_neighbours(owner)] * count
    else:
        pairs = [_neighbours(owner[part]) for part in rows]
    lengths = [len(before) for before, _ in pairs]
    total = sum(lengths)
    before = _end_to_end([before for before, _ in pairs], lengths)
    after = _end_to_end([after for _, after in pairs], lengths)
    alone_before = np.concatenate([np.empty(0, bool), *(before < 0 for before, _ in pairs)])
    alone_after = np.concatenate([np.empty(0, bool), *(after < 0 for _, after in pairs)])
    return np.where(alone_before, -1, before), np.where(alone_after, total, after)


def _neighbours(owner: NDArray[np.uint32]) -> tuple[Ints, Ints]:
    """(before, after): the nearest places that hold the same owner, -1 where there is none."""
    order = np.argsort(owner, kind="stable")
    same = owner[order[1:]] == owner[order[:-1]]
    before, after = np.full(len(owner), -1, np.int64), np.full(len(owner), -1, np.int64)
    before[order[1:][same]] = order[:-1][same]
    after[order[:-1][same]] = order[1:][same]
    return before, after
