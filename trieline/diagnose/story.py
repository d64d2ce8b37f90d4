"""The stories of an item's docids: where each prefix stood at every level of a search.

A story is read from what a search showed level by level (``Expansion``); it searches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.decode.beam import Expansion

__all__ = ["DocidStory", "LevelStory", "Narrowing", "Vote", "narrowing", "scores_along", "stories"]

Prefix = tuple[int, ...]


class Vote(NamedTuple):
    """What one guide said about one prefix."""

    guide: str
    carry: float  # part of the score from here on
    look: float  # part of the score at this level only


class LevelStory(NamedTuple):
    """One level of one docid."""

    level: int  # from 1
    code: int
    score: float  # what ranked the prefix here
    rank: int  # among all candidates of the level, from 1
    candidates: int
    kept: bool
    cutoff: float  # score of the last prefix that was kept
    rival: Prefix  # that prefix
    step: float  # the model's part of the score at this level
    carry: float  # the guides' carried votes at this level
    look: float  # the guides' looks ahead at this level
    votes: tuple[Vote, ...] = ()  # the same, guide by guide
    rival_item: str = ""  # id of the best answer below the rival, or of some item there
    rival_title: str = ""
    rival_rank: int | None = None  # of that item among the answers


class DocidStory(NamedTuple):
    """How far one docid of the item came."""

    docid: Prefix
    levels: tuple[LevelStory, ...]  # up to the level where it was lost
    scores: tuple[float, ...] = ()  # of every prefix, had none been pruned; [L] where known

    @property
    def lost_at(self) -> int | None:
        """The level (from 1) at which the beam forgot it; None when it was spelled out."""
        if self.levels and not self.levels[-1].kept:
            return self.levels[-1].level
        reached = len(self.levels)  # a forbidden prefix is no candidate: it has no story
        return None if reached == len(self.docid) else reached + 1

    @property
    def beam_needed(self) -> int:
        """The narrowest beam that keeps every level seen, the rest of the search as it was.

        A search with that beam may still lose the docid: a wider beam also admits more rivals.
        """
        return max((level.rank for level in self.levels), default=1)

    @property
    def score(self) -> float | None:
        """The whole docid's, whether or not it was spelled out; None where it is forbidden."""
        whole = len(self.scores) == len(self.docid) and np.isfinite(self.scores[-1])
        return self.scores[-1] if whole else None


class Narrowing(NamedTuple):
    """One level of the beam as a whole: the scores of the prefixes that were kept."""

    level: int  # from 1
    candidates: int
    kept: tuple[float, ...]  # best first

    def quartiles(self) -> tuple[float, ...]:
        """Best, upper quartile, median, lower quartile, last kept."""
        if not self.kept:
            return ()
        return tuple(float(q) for q in np.quantile(self.kept, (1.0, 0.75, 0.5, 0.25, 0.0)))


def stories(
    docids: NDArray[np.uint16], paths: NDArray[np.int64], seen: Sequence[Expansion]
) -> tuple[DocidStory, ...]:
    """The story of each docid [rows, L], whose nodes are ``paths`` [rows, L + 1].

    The one that came furthest is first; of equals, the one that stood best at the end.
    """
    prefixes = _prefixes(seen)
    told = [
        DocidStory(tuple(row.tolist()), levels, tuple(level.score for level in levels))
        for row, path in zip(docids, paths, strict=True)
        for levels in [_levels(row, path, seen, prefixes)]
    ]
    return tuple(sorted(told, key=_shortfall))


def narrowing(seen: Sequence[Expansion]) -> tuple[Narrowing, ...]:
    """The beam at every level."""
    return tuple(
        Narrowing(e.level + 1, len(e.select), tuple(e.select[e.kept].tolist())) for e in seen
    )


def scores_along(path: NDArray[np.int64], seen: Sequence[Expansion]) -> tuple[float, ...]:
    """What ranked each prefix of a path, down to where the search no longer saw it."""
    scores: list[float] = []
    for expansion in seen:
        at = np.flatnonzero(expansion.nodes == path[expansion.level + 1])
        if not len(at):
            break
        scores.append(float(expansion.select[at[0]]))
    return tuple(scores)


def _shortfall(story: DocidStory) -> tuple[float, float]:
    """Less is better."""
    depth = len(story.docid) + 1 if story.lost_at is None else story.lost_at
    last = story.levels[-1].score if story.levels else -np.inf
    return (-depth, -last)


def _levels(
    docid: NDArray[np.uint16],
    path: NDArray[np.int64],
    seen: Sequence[Expansion],
    prefixes: Sequence[Sequence[Prefix]],
) -> tuple[LevelStory, ...]:
    levels: list[LevelStory] = []
    for expansion, kept in zip(seen, prefixes, strict=True):
        at = np.flatnonzero(expansion.nodes == path[expansion.level + 1])
        if not len(at):
            break
        code = int(docid[expansion.level])
        levels.append(_level(expansion, int(at[0]), code, kept[-1] if kept else ()))
        if not levels[-1].kept:
            break
    return tuple(levels)


def _level(expansion: Expansion, mine: int, code: int, rival: Prefix) -> LevelStory:
    select, kept = expansion.select, expansion.kept
    score = select[mine]
    ahead = (select > score).sum() + (select[:mine] == score).sum()
    votes = tuple(
        Vote(
            name,
            0.0 if vote.carry is None else float(vote.carry[mine]),
            0.0 if vote.look is None else float(vote.look[mine]),
        )
        for name, vote in expansion.votes
    )
    return LevelStory(
        level=expansion.level + 1,
        code=code,
        score=float(score),
        rank=int(ahead) + 1,
        candidates=len(select),
        kept=bool((kept == mine).any()),
        cutoff=float(select[kept[-1]]) if len(kept) else -np.inf,
        rival=rival,
        step=float(expansion.step[mine]),
        carry=float(expansion.carry[mine]),
        look=float(expansion.look[mine]),
        votes=votes,
    )


def _prefixes(seen: Sequence[Expansion]) -> list[list[Prefix]]:
    """The kept prefixes of each level, spelled out."""
    levels: list[list[Prefix]] = []
    before: list[Prefix] = [()]
    for expansion in seen:
        parents, codes = expansion.parents[expansion.kept], expansion.codes[expansion.kept]
        before = [(*before[p], int(c)) for p, c in zip(parents, codes, strict=True)]
        levels.append(before)
    return levels
