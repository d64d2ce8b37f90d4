"""Beam search over a trie: many queries together, only what exists, ties always the same way.

The trap in released code: a beam padded with fillers at -1e9, which overwrite good hypotheses where
fewer docids exist than beams. Here the children of all live prefixes are gathered first and the
best are taken of those, so that nothing illegal is ever a candidate and a beam holds as many
hypotheses as exist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from trieline.decode.answers import Complete, Found, Trace, answer
from trieline.decode.guides import Geometric, Guide, Score
from trieline.decode.steps import Doubles, Ints, Normalise, step_totals
from trieline.decode.tails import Stems, finish
from trieline.errors import IndexMismatch, SettingsError
from trieline.index import Trie
from trieline.index.top import best_of
from trieline.model.readers import Asked
from trieline.model.stepper import Prefixes, Spells, Stepper
from trieline.types import Floats, Step

__all__ = ["Expansion", "Found", "Normalise", "beam_search", "check_search"]


class Expansion(NamedTuple):
    """Everything that one level of the search saw, for those who ask why."""

    level: int
    query: Ints  # [C] of each candidate, ascending
    parents: Ints  # [C] live beam that it extends
    codes: Ints  # [C]
    nodes: Ints  # [C]
    step: Doubles  # [C] the model's score
    carry: Doubles  # [C] sum of the guides' carried votes
    look: Doubles  # [C] sum of the guides' looks ahead
    select: Doubles  # [C] what ranks
    kept: Ints  # [n] candidates that live on: by query, best first
    votes: tuple[tuple[str, Score], ...] = ()  # each guide's name and vote


class _Kept(NamedTuple):
    """The candidates of a level that live on: by query, best first."""

    parents: Ints  # [n] live beam that each extends
    codes: Ints  # [n]
    nodes: Ints  # [n]
    select: Doubles  # [n] what ranked it
    carried: Doubles  # [n]


class _Beams(NamedTuple):
    """All live prefixes, by query, best first."""

    query: Ints  # [n]
    node: Ints  # [n]
    carried: Doubles  # [n]


class _Level(NamedTuple):
    """One level for ``trace``."""

    parents: Ints
    codes: Ints
    carried: Doubles
    place: Ints  # within the query's beam


@torch.inference_mode()
def beam_search(
    speller: Spells,
    asked: Asked,
    trie: Trie,
    *,
    beam: int = 50,
    k: int = 10,
    normalise: Normalise = "level",
    guides: Sequence[Guide] = (),
    vectors: Floats | None = None,
    trace: bool = False,
    observe: Callable[[Expansion], None] | None = None,
    tails: bool = True,
) -> list[Found]:
    """The best ``k`` items of every query. ``vectors`` [B, D] are what guides compare with.

    The beam is never narrower than ``k``, and where its docids are those of fewer items, because
    items have several, the query is asked again with one twice as wide: so k items come back
    wherever the trie has them. (Not with ``observe``, which wants to see this beam.)
    ``tails=False`` spells forced tails level by level; the results are the same.
    """
    check_search(speller.sizes, trie, beam, k)
    if guides and vectors is None:
        raise SettingsError("guides compare with query vectors: pass vectors=.")
    width = max(beam, k)
    search = _Search(speller.stepper(), trie, width, k, normalise, guides)
    search.tails = tails and not trace and observe is None
    found = search.run(asked, vectors, trace, observe)
    few = np.array([len(own.items) < k for own in found], np.bool_)
    short = np.flatnonzero(few & search.full)
    if observe is not None or not len(short) or width >= trie.docids or _has_all(found, trie):
        return found
    again = beam_search(
        speller,
        asked.some(short),
        trie,
        beam=2 * width,
        k=k,
        normalise=normalise,
        guides=guides,
        vectors=None if vectors is None else vectors[short],
        trace=trace,
        tails=tails,
    )
    for query, own in zip(short.tolist(), again, strict=True):
        found[query] = own
    return found


def _has_all(found: Sequence[Found], trie: Trie) -> bool:
    """Whether every query has every item there is, so that no wider beam could bring more."""
    return min(len(own.items) for own in found) == len(np.unique(trie.owner))


def check_search(sizes: tuple[int, ...], trie: Trie, beam: int, k: int) -> None:
    """Refuse a model for other docids, and widths of nothing."""
    if tuple(trie.sizes) != sizes:
        raise IndexMismatch(
            f"this index spells {_spell(trie.sizes)}, the model {_spell(sizes)}. "
            "Rebuild with 'trieline build', or load the model trained for it."
        )
    if beam < 1 or k < 1:
        raise SettingsError(f"beam = {beam}, k = {k}: both must be at least 1.")


def _spell(sizes: Sequence[int]) -> str:
    if len(set(sizes)) == 1:
        return f"{len(sizes)} levels of {sizes[0]} codes"
    return f"{len(sizes)} levels of {'/'.join(map(str, sizes))} codes"


class _Search:
    """One batch of queries on its way down the trie."""

    def __init__(
        self,
        stepper: Stepper,
        trie: Trie,
        width: int,
        k: int,
        normalise: Normalise,
        guides: Sequence[Guide],
    ) -> None:
        self.stepper, self.trie, self.guides = stepper, trie, guides
        self.width, self.k, self.normalise = width, k, normalise
        self.tails = True
        self.votes: list[Any] = []  # each guide's state
        self.levels: list[_Level] = []
        self.last = np.empty(0, np.int64)  # query of each beam of the last level
        self.full = np.empty(0, np.bool_)  # queries whose beam was: a wider one may find more

    def run(
        self,
        asked: Asked,
        vectors: Floats | None,
        trace: bool,
        observe: Callable[[Expansion], None] | None,
    ) -> list[Found]:
        read = self.stepper.begin(asked)
        count = len(read.slots)
        live = _Beams(np.arange(count), np.zeros(count, np.int64), np.zeros(count))
        self.votes = [
            guide.start(vectors, self.trie) for guide in self.guides if vectors is not None
        ]
        complete: dict[int, Complete] = {}
        self.full = np.zeros(count, np.bool_)
        for level in range(self.trie.depth):
            kept = self._choose(level, read, live, count, observe)
            query = live.query[kept.parents]
            self.full |= np.bincount(query, minlength=count) >= self.width
            last = level == self.trie.depth - 1
            if trace:
                place = np.arange(len(query)) - np.searchsorted(query, query)
                carried = kept.select if last else kept.carried
                self.levels.append(_Level(kept.parents, kept.codes, carried, place))
            if last:
                self.last = query
                for q in np.unique(query):
                    own = query == q
                    complete[int(q)] = Complete(kept.nodes[own], kept.select[own])
                break
            going = self._finish_some(level, read, query, kept, complete)
            if not going.any():
                break
            parents, codes = kept.parents[going], kept.codes[going]
            self.votes = self._follow(level, parents, codes)
            live = _Beams(query[going], kept.nodes[going], kept.carried[going])
            levels = np.full(len(codes), level)
            read = self.stepper.extend(read.slots[parents], codes, levels, live.query)
        return [self._answer(complete.get(q), q) for q in range(count)]

    def _choose(
        self,
        level: int,
        read: Prefixes,
        live: _Beams,
        count: int,
        observe: Callable[[Expansion], None] | None,
    ) -> _Kept:
        table = self.stepper.logits(read.states, level)
        base = live.carried - step_totals(
            self.stepper, self.trie, read.states, table, level, live.node, self.normalise
        )
        if observe is None and all(isinstance(guide, Geometric) for guide in self.guides):
            return self._choose_from_tables(level, table, base, live, count)
        seen = self._expand(level, table, base - live.carried, live)
        seen = seen._replace(kept=best_of(seen.select, seen.query, count, self.width))
        if observe is not None:
            observe(seen)
        kept = seen.kept
        select = seen.select[kept]
        return _Kept(
            seen.parents[kept], seen.codes[kept], seen.nodes[kept], select, select - seen.look[kept]
        )

    def _choose_from_tables(
        self, level: int, table: Floats, base: Doubles, live: _Beams, count: int
    ) -> _Kept:
        """Without a list of all candidates: every vote is a table of codes."""
        for guide, state in zip(self.guides, self.votes, strict=True):
            assert isinstance(guide, Geometric)
            table = table + guide.table(state, level)
        bounds = np.searchsorted(live.query, np.arange(count + 1))
        best = self.trie.best(level, live.node, base, table, bounds, self.width)
        return _Kept(best.parents, best.codes, best.nodes, best.scores, best.scores)

    def _expand(self, level: int, table: Floats, totals: Doubles, live: _Beams) -> Expansion:
        """All children of all live prefixes, scored; ``totals`` [n] belong to the model's score."""
        parents, codes, nodes = self.trie.expand(level, live.node)
        step = table[parents, codes] + totals[parents]
        carry, look = np.zeros(len(codes)), np.zeros(len(codes))
        votes = [
            (guide.name, guide.score(state, level, parents, codes, nodes))
            for guide, state in zip(self.guides, self.votes, strict=True)
        ]
        for _, vote in votes:
            carry += 0.0 if vote.carry is None else vote.carry
            look += 0.0 if vote.look is None else vote.look
        select = live.carried[parents] + step + carry + look
        query = live.query[parents]
        nobody = np.empty(0, np.int64)
        return Expansion(
            level, query, parents, codes, nodes, step, carry, look, select, nobody, tuple(votes)
        )

    def _follow(self, level: int, parents: Ints, codes: Ints) -> list[Any]:
        return [
            guide.follow(state, level, parents, codes)
            for guide, state in zip(self.guides, self.votes, strict=True)
        ]

    def _finish_some(
        self, level: int, read: Prefixes, query: Ints, kept: _Kept, complete: dict[int, Complete]
    ) -> NDArray[np.bool_]:
        """Complete the queries that have no more docids below their beams than beams; which of
        the kept candidates go on."""
        going = np.ones(len(query), np.bool_)
        if not self.tails or not len(query):
            return going
        below = self.trie.counts(level + 1, kept.nodes)
        few = np.bincount(query, below) <= self.width
        ready = few[query]
        if ready.any():
            parents, codes = kept.parents[ready], kept.codes[ready]
            stems = Stems(
                level, query[ready], kept.nodes[ready], kept.carried[ready], read.slots[parents]
            )
            votes = self._follow(level, parents, codes)
            complete.update(
                finish(
                    self.stepper,
                    self.trie,
                    stems,
                    k=self.k,
                    normalise=self.normalise,
                    guides=self.guides,
                    states=votes,
                )
            )
        return ~ready

    def _answer(self, complete: Complete | None, query: int) -> Found:
        if complete is None:
            complete = Complete(np.empty(0, np.int64), np.empty(0))
        found, chosen = answer(self.trie, complete, self.k)
        if not self.levels:
            return found
        beams = np.flatnonzero(self.last == query)[chosen]
        return found._replace(traces=tuple(self._backtrack(int(beam)) for beam in beams))

    def _backtrack(self, beam: int) -> Trace:
        """The steps that led to a beam of the last level."""
        steps: list[Step] = []
        for level in reversed(self.levels):
            place = int(level.place[beam]) + 1
            steps.append(Step(int(level.codes[beam]), float(level.carried[beam]), place))
            beam = int(level.parents[beam])
        return tuple(reversed(steps))
