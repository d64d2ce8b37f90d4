"""What the decoder makes of targets and of every prefix there is: its scores, its beam, its steps.

All of it by the searches and steppers that answer queries, so guides and normalisation are in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from trieline.decode import Expansion, Geometric, beam_search
from trieline.decode.steps import step_totals
from trieline.diagnose import bound, prefixes
from trieline.diagnose.ground import Aim, Asking, Decoder, Ground
from trieline.model import Asked
from trieline.types import Floats

__all__ = ["Steps", "beam_keeps", "codes_before", "every_score", "steps_of"]

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Steps(NamedTuple):
    """The decoder on the targets' own prefixes, one code at a time; each [Q, L]."""

    token: Ints  # codes in use on the level that it prefers to the target's
    legal: Ints  # codes below the prefix that it prefers
    slope: Doubles  # of its mismatch below the prefix, by the weight of geometry; or NaN


class _Fork(NamedTuple):
    """What may follow the targets' prefixes at a level, as the decoder scores it."""

    table: Floats  # [Q, V] codes that need not exist there
    parents: Ints  # [C]
    codes: Ints  # [C]
    nodes: Ints  # [C]
    scores: Doubles  # [C]


def codes_before(scores: NDArray[Any], at: int) -> int:
    """How many come before one of them; equal scores in their order."""
    return int((scores > scores[at]).sum() + (scores[:at] == scores[at]).sum())


def every_score(ground: Ground, decoder: Decoder, asking: Asking, query: int) -> list[Doubles]:
    """One query: the score of every prefix, float64[P] a level, by a beam that drops nothing.

    Minus infinity where a guide forbids a prefix. Costs as many decoder rows as there are prefixes.
    """
    scores = [np.full(len(level.first), -np.inf) for level in ground.levels]
    one = slice(query, query + 1)
    alone = Asked(*(None if field is None else field[one] for field in asking.asked))

    def observe(seen: Expansion) -> None:
        scores[seen.level][prefixes.places(ground.levels[seen.level], seen.nodes)] = seen.select

    _search(ground, decoder, alone, asking.vectors[one], ground.trie.docids, observe)
    return scores


def beam_keeps(
    ground: Ground, decoder: Decoder, asking: Asking, aims: Sequence[Aim], beam: int
) -> Bools:
    """bool[Q, L]: whether the target's prefix is in the decoder's beam after each level."""
    alive = np.zeros((len(aims), ground.trie.depth), np.bool_)

    def observe(seen: Expansion) -> None:
        nodes, kept = ground.levels[seen.level].nodes, seen.kept
        for q, aim in enumerate(aims):
            own = seen.nodes[kept[seen.query[kept] == q]]
            alive[q, seen.level] = nodes[aim.path[seen.level]] in own

    _search(ground, decoder, asking.asked, asking.vectors, beam, observe)
    return alive


@torch.inference_mode()
def steps_of(
    ground: Ground, decoder: Decoder, asking: Asking, aims: Sequence[Aim], tau: float
) -> Steps:
    """Every level, as if the beam had kept the target's prefix until then.

    Guides that look ahead know existing prefixes only: they vote in ``legal`` and not in ``token``.
    """
    guides, stepper = decoder.guides, decoder.speller.stepper()
    codes = np.array([aim.codes for aim in aims], np.int64).reshape(len(aims), ground.trie.depth)
    steps = Steps(np.zeros_like(codes), np.zeros_like(codes), np.full(codes.shape, np.nan))
    votes = [guide.start(asking.vectors, ground.trie) for guide in guides]
    residual, everyone = asking.vectors.astype(np.float64), np.arange(len(aims))
    nodes = np.zeros(len(aims), np.int64)
    read = stepper.begin(asking.asked)
    for level in range(ground.trie.depth):
        table = stepper.logits(read.states, level)
        base = -step_totals(
            stepper, ground.trie, read.states, table, level, nodes, decoder.normalise
        )
        fork = _fork(ground, decoder, level, nodes, table, base, votes)
        nodes = _compare(ground, fork, aims, residual, level, tau, steps)
        chosen = codes[:, level]
        if level + 1 < ground.trie.depth:
            read = stepper.extend(read.slots, chosen, np.full(len(aims), level), everyone)
            votes = [
                guide.follow(state, level, everyone, chosen)
                for guide, state in zip(guides, votes, strict=True)
            ]
        residual = residual - ground.codebooks[level][chosen]
    return steps


def _fork(
    ground: Ground,
    decoder: Decoder,
    level: int,
    nodes: Ints,
    table: Floats,
    base: Doubles,
    votes: Sequence[Any],
) -> _Fork:
    parents, codes, below = ground.trie.expand(level, nodes)
    scores = table[parents, codes] + base[parents]
    for guide, state in zip(decoder.guides, votes, strict=True):
        if isinstance(guide, Geometric):
            table = table + guide.table(state, level)
        for part in guide.score(state, level, parents, codes, below):
            scores = scores if part is None else scores + part
    return _Fork(table, parents, codes, below, scores)


def _compare(
    ground: Ground,
    fork: _Fork,
    aims: Sequence[Aim],
    residual: Doubles,
    level: int,
    tau: float,
    steps: Steps,
) -> Ints:
    """Fill in one level; gives the nodes of the targets' prefixes after it."""
    used, book = ground.used[level], ground.codebooks[level].astype(np.float64)
    nodes = np.empty(len(aims), np.int64)
    for q, aim in enumerate(aims):
        code, own = aim.codes[level], np.flatnonzero(fork.parents == q)
        at = int(np.searchsorted(fork.codes[own], code))
        nodes[q] = fork.nodes[own[at]]
        scores = fork.scores[own]
        steps.token[q, level] = codes_before(fork.table[q, used], int(np.searchsorted(used, code)))
        # Nothing forbidden is ever kept, however few there are.
        steps.legal[q, level] = (
            codes_before(scores, at) if np.isfinite(scores[at]) else np.iinfo(np.int64).max
        )
        if len(own) > 1 and np.isfinite(scores).any():
            words = book[fork.codes[own]]
            geometry = 2 * words @ residual[q] - np.einsum("cd,cd->c", words, words)
            oracle = bound.log_distribution(
                aim.oracle[level][prefixes.siblings(ground.levels[level], int(aim.path[level]))],
                tau,
            )
            decided = bound.log_distribution(scores, tau)
            steps.slope[q, level] = bound.mismatch_slope(oracle, decided, geometry)
    return nodes


def _search(
    ground: Ground,
    decoder: Decoder,
    asked: Asked,
    vectors: Floats,
    beam: int,
    observe: Callable[[Expansion], None],
) -> None:
    beam_search(
        decoder.speller,
        asked,
        ground.trie,
        beam=beam,
        k=1,
        normalise=decoder.normalise,
        guides=decoder.guides,
        vectors=vectors,
        observe=observe,
    )
