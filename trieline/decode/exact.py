"""Exact search: the true best items of a query, and a certificate that says so.

Best first. Log-probabilities only fall, so the score of a prefix bounds every docid below it, and
with geometry the best vote below it is added. The prefixes with the best bounds are read, many at a
time, until no bound reaches the k-th best item that was found. If the budget runs out before, the
certificate says how many of the answers are certain and what the rest can score at most.

With ``legal`` a docid is complete as soon as no other shares its prefix: its other codes are
certain. With ``level`` and ``vocab`` they still cost, and are read a few at a time in one pass.

The trap: an equal bound must still be read, for the item below it may have the smaller number.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trieline.decode.answers import Trace
from trieline.decode.beam import Normalise
from trieline.decode.frontier import FOUND, PREFIX, Best, Frontier, Records
from trieline.decode.votes import highest
from trieline.errors import IndexMismatch, SettingsError
from trieline.index import Trie
from trieline.index.trie import Children
from trieline.model.readers import Asked
from trieline.model.stepper import Prefixes, Spells
from trieline.types import Floats

__all__ = ["Exact", "exact_search"]

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]

_TOGETHER = 16  # queries; what was read of them all is kept until the last is answered
_SHARE = 16  # a pass reads at most this part of what was read before, or ``batch``


class Exact(NamedTuple):
    """The answers to one query, best first, and what is certain about them."""

    items: NDArray[np.uint32]  # [k] item numbers
    scores: Floats  # [k]
    leaves: Ints  # [k] the trie's leaf of each item's docid
    traces: tuple[Trace, ...]  # none: there is no beam that a path could be followed through
    certified: int  # so many of them, from the first, are the true ones
    bound: float  # no other item scores higher; minus infinity when there is no other
    rows: int  # prefixes that the decoder read
    complete: bool  # nothing unread could change the answers


class _Rows(NamedTuple):
    """Prefixes of one length that a pass reads, and what may follow them."""

    level: int  # their length
    query: Ints  # [n]
    slot: Ints  # [n] of the prefix without its last code
    code: Ints  # [n] that last code
    score: Doubles  # of those that were waiting; settled spellings that go on come behind them
    children: Children
    going: NDArray[np.bool_]  # [C] children that the same pass reads


@torch.inference_mode()
def exact_search(
    speller: Spells,
    asked: Asked,
    trie: Trie,
    *,
    k: int = 10,
    normalise: Normalise = "level",
    votes: Floats | None = None,
    budget: int | None = None,
    batch: int = 16,
) -> list[Exact]:
    """The true best ``k`` items of every query.

    ``votes`` [B, R] is what the docid of each row of the trie earns beside the model's score, of
    either sign (see ``GeometricPlan``). ``budget`` is the most prefixes that are read for a query,
    ``batch`` how many are read at once at first. To filter, restrict the trie beforehand.
    """
    _check(speller, asked, trie, k, normalise, votes, budget, batch)
    answers: list[Exact] = []
    for low in range(0, asked.queries, _TOGETHER):
        some = slice(low, low + _TOGETHER)
        few = asked.some(some)
        search = _Search(speller, few, trie, k, normalise, None if votes is None else votes[some])
        while search.advance(batch, budget):
            pass
        answers += [search.answer(query) for query in range(few.queries)]
    return answers


def _check(
    speller: Spells,
    asked: Asked,
    trie: Trie,
    k: int,
    normalise: Normalise,
    votes: Floats | None,
    budget: int | None,
    batch: int,
) -> None:
    if tuple(trie.sizes) != tuple(speller.sizes):
        raise IndexMismatch(
            f"this index spells codes of {tuple(trie.sizes)}, the model of {tuple(speller.sizes)}. "
            "Rebuild with 'trieline build', or load the model trained for it."
        )
    if normalise == "raw":
        raise SettingsError(
            "normalise = 'raw': dot products rise as well as fall, so that a prefix says nothing "
            "about what is below it. An exact search needs 'level', 'legal' or 'vocab'."
        )
    if k < 1 or batch < 1 or (budget is not None and budget < 1):
        raise SettingsError(f"k = {k}, batch = {batch}, budget = {budget}: each is at least 1.")
    if votes is not None and votes.shape != (asked.queries, trie.rows):
        raise SettingsError(
            f"votes have shape {votes.shape}: expected one for each query and row of the trie, "
            f"({asked.queries}, {trie.rows}). Make them for the trie that is searched."
        )


class _Search:
    """A batch of queries, pass by pass. Each keeps its own frontier; a pass reads for all."""

    def __init__(
        self,
        speller: Spells,
        asked: Asked,
        trie: Trie,
        k: int,
        normalise: Normalise,
        votes: Floats | None,
    ) -> None:
        self.trie, self.normalise, self.votes = trie, normalise, votes
        self.stepper = speller.stepper()
        read = self.stepper.begin(asked.to(speller.device))
        count = len(read.slots)
        self.frontiers = [Frontier() for _ in range(count)]
        self.best = [Best(k) for _ in range(count)]
        self.dropped = np.full(count, -np.inf)  # best bound that was too low to wait
        self.rows = np.ones(count, np.int64)
        none = np.zeros(count, np.int64)
        children = trie.expand(0, none)
        stays = np.zeros(len(children.codes), np.bool_)
        root = _Rows(0, np.arange(count), none, none, np.zeros(count), children, stays)
        self._grow([root], read)

    def advance(self, batch: int, budget: int | None) -> bool:
        """Read the best waiting prefixes of every query; False when none is worth reading."""
        popped, lengths = [], []
        for best, frontier, spent in zip(
            self.best, self.frontiers, self.rows.tolist(), strict=True
        ):
            room = sys.maxsize if budget is None else budget - spent
            # A long search may read more at a time: what it reads in vain stays a small share.
            width = max(batch, spent // _SHARE)
            popped.append(frontier.pop(min(width, room), best.floor))
            lengths.append(_lengths(popped[-1], self.trie.depth, room, best.floor))
        query = np.repeat(np.arange(len(popped)), [len(some) for some in popped])
        if not len(query):
            return False
        plan = self._plan(query, np.concatenate(popped), np.concatenate(lengths))
        read = self.stepper.extend(
            np.concatenate([rows.slot for rows in plan]),
            np.concatenate([rows.code for rows in plan]),
            np.concatenate([np.full(len(rows.slot), rows.level - 1) for rows in plan]),
            np.concatenate([rows.query for rows in plan]),
        )
        for part in plan:
            self.rows += np.bincount(part.query, minlength=len(self.rows))
        self._grow(plan, read)
        return True

    def answer(self, query: int) -> Exact:
        """What is known of a query so far."""
        best, frontier = self.best[query], self.frontiers[query]
        scores = best.found["score"]
        unread = max(frontier.bound, float(self.dropped[query]))
        return Exact(
            items=best.found["item"].astype(np.uint32),
            scores=scores.astype(np.float32),
            leaves=self._leaves(best.found["level"], best.found["node"]),
            traces=(),
            certified=int((scores > unread).sum()),
            bound=max(unread, best.lost),
            rows=int(self.rows[query]),
            complete=frontier.bound < best.floor or frontier.bound == -np.inf,
        )

    def _plan(self, query: Ints, waiting: Records, lengths: Ints) -> list[_Rows]:
        """What to read, the shorter first; ``lengths`` prefixes of each spelling."""
        plan: list[_Rows] = []
        slots = int(self.rows.sum())  # every row that was ever read has one
        # What goes on from the level before: query, slot, code, node, prefixes left.
        on = np.empty((5, 0), np.int64)
        for level in range(1, self.trie.depth):
            here = np.flatnonzero(waiting["level"] == level)
            if not len(here) and not on.shape[1]:
                continue
            mine = waiting[here]
            fresh = np.stack([query[here], mine["slot"], mine["code"], mine["node"], lengths[here]])
            asker, slot, code, node, left = np.concatenate([fresh, on], axis=1)
            children = self.trie.expand(level, node)
            parents = children.parents
            going = left[parents] > 1
            plan.append(_Rows(level, asker, slot, code, mine["score"], children, going))
            own = slots + parents
            on = np.stack([asker[parents], own, children.codes, children.nodes, left[parents] - 1])
            on = on[:, going]
            slots += len(node)
        return plan

    def _grow(self, plan: list[_Rows], read: Prefixes) -> None:
        """The children of what was read are found, wait, or are dropped."""
        born: list[tuple[Ints, Records]] = []
        first, gone_on = 0, np.empty(0)
        for rows in plan:
            last = first + len(rows.query)
            score = np.concatenate([rows.score, gone_on])
            at = rows.children.parents
            score = score[at] + self._steps(read.states[first:last], rows.level, rows.children)
            gone_on = score[rows.going]
            slot = read.slots[first:last][at]
            born.append(self._children(rows, slot, score))
            first = last
        query = np.concatenate([who for who, _ in born])
        children = np.concatenate([some for _, some in born])
        order = np.lexsort((-children["bound"], query))
        children = children[order]
        ends = np.searchsorted(query[order], np.arange(len(self.frontiers) + 1))
        for who, (low, high) in enumerate(pairwise(ends.tolist())):
            if low < high:
                self._settle(who, children[low:high])

    def _children(self, rows: _Rows, slot: Ints, score: Doubles) -> tuple[Ints, Records]:
        """(query, prefixes) of the children that this pass does not read."""
        stays = ~rows.going
        parents, codes, nodes = (column[stays] for column in rows.children)
        level, query = rows.level + 1, rows.query[parents]
        made = np.empty(len(nodes), PREFIX)
        made["score"], made["slot"], made["code"] = score[stays], slot[stays], codes
        made["level"], made["node"] = level, nodes
        made["low"], made["high"] = low, high = self.trie.interval(level, nodes)
        made["forced"] = self.trie.forced(level, nodes)
        settled = made["forced"] if self.normalise == "legal" else False
        made["complete"] = settled | (level == self.trie.depth)
        made["bound"] = made["score"]
        if self.votes is not None:
            made["bound"] += highest(self.votes, query, low, high, parents)
        return query, made

    def _settle(self, query: int, prefixes: Records) -> None:
        """New prefixes of a query, best first: the complete are offered, the hopeless dropped."""
        best, lowest = self.best[query], np.finfo(np.float64).min  # -inf forbids: see ``Score``
        bounds, complete = prefixes["bound"], prefixes["complete"]
        offered = complete & (bounds >= max(best.floor, lowest))
        best.offer(_items(self.trie, prefixes[offered], best.k))
        hopeful = bounds >= max(best.floor, lowest)
        self.frontiers[query].push(prefixes[hopeful & ~complete])
        self.dropped[query] = max(self.dropped[query], bounds[~hopeful].max(initial=-np.inf))

    def _steps(self, states: Tensor, level: int, children: Children) -> Doubles:
        """The model's log-probability of each child: none is above 0."""
        logits = self.stepper.logits(states, level)  # [n, V]
        steps: Doubles = logits[children.parents, children.codes].astype(np.float64)
        if self.normalise == "legal":
            return steps - _log_sums(steps, children.parents)
        if self.normalise == "level":
            top = logits.max(axis=1, keepdims=True)
            total = top[:, 0] + np.log(np.exp(logits - top).sum(axis=1))
        else:
            total = self.stepper.totals(states)
        # Rounding may lift a certain code above 0, and then it would be no bound.
        steps = np.minimum(steps - total[children.parents].astype(np.float64), 0.0)
        return steps

    def _leaves(self, levels: Ints, nodes: Ints) -> Ints:
        """The docid below each prefix that only one docid has."""
        nodes = nodes.copy()
        for level in range(self.trie.depth):
            above = np.flatnonzero(levels <= level)
            if len(above):
                nodes[above] = self.trie.expand(level, nodes[above]).nodes
        return nodes


def _lengths(popped: Records, depth: int, room: int, floor: float) -> Ints:
    """How many prefixes of each spelling a pass reads: where it is settled as many as are likely to
    matter, if the score goes on falling as it has, before the bound is below the floor.
    """
    fall = np.maximum(-popped["score"] / popped["level"], 1e-3)
    likely = np.clip((popped["bound"] - floor) / fall, 1, depth - popped["level"])
    more = np.where(popped["forced"], likely.astype(np.int64) - 1, 0)
    over = np.maximum(np.cumsum(more) - (room - len(popped)), 0)
    lengths: Ints = 1 + np.maximum(more - over, 0)
    return lengths


def _log_sums(values: Doubles, groups: Ints) -> Doubles:
    """For each value the log of the summed exponentials of its group; one alone gets itself."""
    if not len(values):
        return values
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    sizes = np.diff(starts, append=len(values))
    top = np.repeat(np.maximum.reduceat(values, starts), sizes)
    sums: Doubles = np.add.reduceat(np.exp(values - top), starts)
    logs: Doubles = top + np.log(np.repeat(sums, sizes))
    return logs


def _items(trie: Trie, docids: Records, k: int) -> Records:
    """The items of complete docids. Of a crowded one the first k + 1, of which one must go: so the
    best that is left out is known."""
    count = np.minimum(docids["high"] - docids["low"], k + 1)
    which = np.repeat(np.arange(len(docids)), count)
    nth = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    found = np.empty(len(which), FOUND)
    found["score"], found["item"] = docids["bound"][which], trie.owner[docids["low"][which] + nth]
    found["level"], found["node"] = docids["level"][which], docids["node"][which]
    return found
