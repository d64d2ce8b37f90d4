"""Forced tails: when few docids are left below a query's beams, all of them are spelled at once.

A beam of width W that has at most W docids below it prunes nothing any more, so that what is left
needs no step a level: each docid is a chain of rows, read in one pass. The docids come with upper
bounds, their prefix's score and all votes of the guides, which do not wait for the model; the best
are scored first, and what cannot reach the k-th item is left. Results are those of the plain beam.

With ``normalise="legal"`` a forced code has probability one: docids that part from no other are
complete as they stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from trieline.decode.answers import Complete, item_threshold
from trieline.decode.guides import Guide
from trieline.decode.steps import Doubles, Ints, Normalise, falls, step_totals
from trieline.index import Trie
from trieline.model.stepper import Stepper

__all__ = ["Stems", "finish"]


_ROWS = 1024  # read at once: more would leave the caches


class Stems(NamedTuple):
    """Beams whose docids are to be completed, by query."""

    level: int  # of the last code
    query: Ints  # [n]
    node: Ints  # [n]
    carried: Doubles  # [n]
    slot: Ints  # [n] of the prefix without its last code


class _Tails(NamedTuple):
    """Every docid below some stems."""

    stem: Ints  # [n]
    leaf: Ints  # [n] nodes of the last level
    codes: Ints  # [n, L]
    nodes: Ints  # [n, L + 1] on the way; only where they are asked for
    rows: Ints  # [n] how many prefixes of it the model must read
    bound: Doubles  # [n] the score, if the model were sure of all codes to come


def finish(
    stepper: Stepper,
    trie: Trie,
    stems: Stems,
    *,
    k: int,
    normalise: Normalise,
    guides: Sequence[Guide] = (),
    states: Sequence[Any] = (),
) -> dict[int, Complete]:
    """Query -> its docids that may be among the best ``k`` items, with their final scores."""
    tails = _below(trie, stems, normalise, guides, states)
    query = stems.query[tails.stem]
    scores = np.full(len(query), -np.inf)
    queries = np.unique(query)
    allowed = tails.bound > -np.inf  # what a guide forbids does not exist
    own = [np.flatnonzero(allowed & (query == q)) for q in queries]
    own = [of[np.argsort(-tails.bound[of], kind="stable")] for of in own]
    first = k if falls(normalise) else len(query)
    done = [0] * len(own)
    wanted = [of[:first] for of in own]
    while True:
        now = np.concatenate(wanted) if wanted else np.empty(0, np.int64)
        if not len(now):
            break
        for some in _blocks(now, tails.rows):
            scores[some] = tails.bound[some] + _score(stepper, trie, stems, tails, some, normalise)
        for place, of in enumerate(own):
            done[place] += len(wanted[place])
            rest = of[done[place] :]
            if len(rest):
                known = of[: done[place]]
                least = item_threshold(trie, Complete(tails.leaf[known], scores[known]), k)
                rest = rest[tails.bound[rest] >= least]
            wanted[place] = rest
    return {
        int(q): Complete(tails.leaf[of[:n]], scores[of[:n]])
        for q, of, n in zip(queries, own, done, strict=True)
    }


def _below(
    trie: Trie, stems: Stems, normalise: Normalise, guides: Sequence[Guide], states: Sequence[Any]
) -> _Tails:
    level, depth = stems.level, trie.depth
    low, high = trie.docid_interval(level + 1, stems.node)
    stem = np.repeat(np.arange(len(low)), high - low)
    start = np.cumsum(high - low) - (high - low)
    docids = np.arange(len(stem)) - start[stem] + low[stem]
    codes = trie.docid_codes(docids).astype(np.int64)
    nodes = np.zeros((0, depth + 1), np.int64)
    if guides or normalise == "legal":
        nodes = trie.walk(codes)
    rows = np.full(len(stem), depth - 1 - level)
    if normalise == "legal":
        open_below = [
            trie.counts(length, nodes[:, length]) > 1 for length in range(level + 1, depth)
        ]
        rows = np.stack(open_below, 1).sum(axis=1)
    votes = _votes(stem, codes, nodes, level, guides, states)
    return _Tails(stem, trie.leaves(docids), codes, nodes, rows, stems.carried[stem] + votes)


def _votes(
    stem: Ints, codes: Ints, nodes: Ints, level: int, guides: Sequence[Guide], states: Sequence[Any]
) -> Doubles:
    """What the guides will have added to each docid in the end."""
    total = np.zeros(len(stem))
    depth = codes.shape[1]
    for guide, state in zip(guides, states, strict=True):
        parents = stem
        for at in range(level + 1, depth):
            vote = guide.score(state, at, parents, codes[:, at], nodes[:, at + 1])
            if vote.carry is not None:
                total += vote.carry
            if at == depth - 1:
                total += 0.0 if vote.look is None else vote.look
            else:
                state = guide.follow(state, at, parents, codes[:, at])
                parents = np.arange(len(stem))
    return total


def _blocks(some: Ints, rows: Ints) -> list[Ints]:
    """Parts of some docids with about ``_ROWS`` rows each."""
    parts = (np.cumsum(rows[some]) // _ROWS).astype(np.int64)
    return np.split(some, np.flatnonzero(np.diff(parts)) + 1)


def _score(
    stepper: Stepper, trie: Trie, stems: Stems, tails: _Tails, some: Ints, normalise: Normalise
) -> Doubles:
    """The model's score of all codes to come, of some docids: one pass."""
    rows = tails.rows[some]
    total = np.zeros(len(some))
    if not rows.any():
        return total
    which = np.repeat(np.arange(len(some)), rows)  # chains, one docid after the other
    step = np.arange(len(which)) - (np.cumsum(rows) - rows)[which]
    docid = some[which]
    parents = stepper.used + np.arange(len(which)) - 1
    begin = step == 0
    parents[begin] = stems.slot[tails.stem[docid[begin]]]
    levels = stems.level + step
    codes = tails.codes[docid, levels]
    query = stems.query[tails.stem[docid]]
    read = stepper.extend(parents, codes, levels, query, keep=False)
    # One product for all levels: the codes of all levels are many, and reading their weights once
    # a level took longer than multiplying.
    sums = stepper.totals(read.states) if normalise == "vocab" else None
    for offset in range(int(rows.max())):
        here = np.flatnonzero(step == offset)
        level = stems.level + 1 + offset
        states = read.states[torch.from_numpy(here).to(read.states.device)]
        table = stepper.logits(states, level)
        nodes = tails.nodes[docid[here], level] if len(tails.nodes) else here
        if sums is None:
            totals = step_totals(stepper, trie, states, table, level, nodes, normalise)
        else:
            totals = sums[here].astype(np.float64)
        said = table[np.arange(len(here)), tails.codes[docid[here], level]]
        total[which[here]] += said - totals
    return total
