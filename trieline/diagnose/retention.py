"""Targets followed down the levels: who keeps their prefixes, and what the survival bound says.

PRO, sections 3 and 4. Two searches are watched, both over what exists: the quantised oracle, which
ranks a prefix by the similarity of query and partial reconstruction, and the decoder with whatever
guides it has. For each there are three figures a level:

    token   given the target's prefix, its code is among the B best of the level's codes (Fig. 2a)
    legal   the same among those codes alone that exist below the prefix
    beam    the prefix is in the beam, and so were all before it

The trap: the paper does not say whether its "candidate tokens" are those of the codebook or legal
ones. Below the second level few prefixes have B children, so ``legal`` is near 1 in any index and
the paper's falling curves must be ``token``; it counts the codes that some docid uses on the level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.diagnose import bound, prefixes
from trieline.diagnose.ground import Aim, Asking, Decoder, Ground, aims_of
from trieline.diagnose.spelling import beam_keeps, codes_before, every_score, steps_of
from trieline.ids.assign import reconstruct
from trieline.types import Floats

__all__ = ["Retention", "follow_targets", "joined"]

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Retention(NamedTuple):
    """Q queries with a target. What was not measured is NaN."""

    prefixes: Ints  # [L] distinct ones of each level
    divergence: Doubles  # [Q, L] K
    margin: Doubles  # [Q, L] m
    mismatch: Doubles  # [Q, L] epsilon
    slope: Doubles  # [Q, L] of the mismatch below the target's parent, by the weight of geometry
    oracle_token: Bools  # [Q, L]
    oracle_legal: Bools  # [Q, L]
    oracle_beam: Bools  # [Q, L]
    decoder_token: Bools  # [Q, L]
    decoder_legal: Bools  # [Q, L]
    decoder_beam: Bools  # [Q, L]
    error: Doubles  # [Q] squared distance of the target from its full reconstruction


def follow_targets(
    ground: Ground, decoder: Decoder, asking: Asking, *, beam: int, tau: float, mismatch: bool
) -> Retention:
    """One batch. Without ``mismatch`` the decoder is not asked for the score of every prefix."""
    aims = aims_of(ground, asking)
    shape = len(aims), ground.trie.depth
    factors = np.full((3, *shape), np.nan)
    oracle = np.zeros((3, *shape), np.bool_)
    for q, aim in enumerate(aims):
        seen = every_score(ground, decoder, asking, q) if mismatch else None
        kept = prefixes.oracle_beam(ground.levels, aim.oracle, beam)
        for level, place in enumerate(aim.path):
            scores = None if seen is None else seen[level]
            factors[:, q, level] = _factors(ground.levels[level], aim, scores, level, beam, tau)
            token, legal = _oracle_step(ground, aim, asking.vectors[q], level)
            oracle[:, q, level] = token < beam, legal < beam, kept[level][place]
    steps = steps_of(ground, decoder, asking, aims, tau)
    return Retention(
        prefixes=np.array([len(level.first) for level in ground.levels], np.int64),
        divergence=factors[0],
        margin=factors[1],
        mismatch=factors[2],
        slope=steps.slope,
        oracle_token=oracle[0],
        oracle_legal=oracle[1],
        oracle_beam=oracle[2],
        decoder_token=steps.token < beam,
        decoder_legal=steps.legal < beam,
        decoder_beam=beam_keeps(ground, decoder, asking, aims, beam),
        error=_errors(ground, np.array([aim.row for aim in aims], np.int64)),
    )


def joined(parts: Sequence[Retention]) -> Retention:
    """Several batches of one index as one."""
    arrays = [np.concatenate(values) for values in zip(*(part[1:] for part in parts), strict=True)]
    return Retention(parts[0].prefixes, *arrays)


def _factors(
    level: prefixes.Level, aim: Aim, decoder: Doubles | None, depth: int, beam: int, tau: float
) -> tuple[float, float, float]:
    """(K, m, epsilon) of one query at one level."""
    teacher = bound.log_distribution(prefixes.best_below(level, aim.teacher), tau)
    oracle = bound.log_distribution(aim.oracle[depth], tau)
    margin = bound.teacher_margin(teacher, int(aim.path[depth]), beam)
    mismatch = np.nan
    if decoder is not None:
        mismatch = bound.decoder_mismatch(oracle, bound.log_distribution(decoder, tau))
    return bound.ranking_divergence(teacher, oracle), margin, mismatch


def _oracle_step(ground: Ground, aim: Aim, query: Floats, level: int) -> tuple[int, int]:
    """How many codes the oracle prefers to the target's: of those in use, of those that exist."""
    used = ground.used[level]
    votes = ground.codebooks[level][used].astype(np.float64) @ query.astype(np.float64)
    token = codes_before(votes, int(np.searchsorted(used, aim.codes[level])))
    place = int(aim.path[level])
    own = prefixes.siblings(ground.levels[level], place)
    return token, codes_before(aim.oracle[level][own], place - own.start)


def _errors(ground: Ground, rows: Ints) -> Doubles:
    left = ground.vectors[rows] - reconstruct(ground.trie.codes[rows], ground.codebooks)
    squared: Doubles = np.einsum("qd,qd->q", left, left, dtype=np.float64)
    return squared
