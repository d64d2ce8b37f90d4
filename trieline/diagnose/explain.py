"""Why an item was found or not: where each of its docids stood at every level of the beam.

The beam forgets an item when its prefix falls below the last kept candidate of a level; this names
that level, the score and rank of the prefix there, and the prefix that took the last place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.decode.beam import Expansion
from trieline.errors import IndexMismatch
from trieline.index import Trie

__all__ = ["DocidStory", "Explanation", "LevelStory", "explain"]


class LevelStory(NamedTuple):
    """One level of one docid."""

    level: int  # from 1
    code: int
    score: float  # what ranked the prefix here
    rank: int  # among all candidates of the level, from 1
    candidates: int
    kept: bool
    cutoff: float  # score of the last prefix that was kept
    rival: tuple[int, ...]  # that prefix
    step: float  # the model's part of the score at this level
    carry: float  # the guides' carried votes at this level
    look: float  # the guides' looks ahead at this level


class DocidStory(NamedTuple):
    """How far one docid of the item came."""

    docid: tuple[int, ...]
    levels: tuple[LevelStory, ...]  # up to the level where it was lost

    @property
    def lost_at(self) -> int | None:
        """The level (from 1) at which the beam forgot it; None when it was spelled out."""
        last = self.levels[-1]
        return None if last.kept else last.level

    @property
    def beam_needed(self) -> int:
        """The narrowest beam that keeps every level seen, the rest of the search as it was."""
        return max(level.rank for level in self.levels)


class Explanation(NamedTuple):
    """Why an item was or was not among the answers to a query."""

    query: str
    item_id: str
    title: str
    beam: int
    rank: int | None  # among the answers, from 1; None when it was not found
    docids: tuple[DocidStory, ...]

    def text(self) -> str:
        """For people."""
        name = f"{self.item_id} ({self.title})" if self.title else self.item_id
        found = f"found at rank {self.rank}" if self.rank else "not found"
        lines = [f"{name}: {found} for {self.query!r} with beam {self.beam}."]
        for story in self.docids:
            lines.append(f"docid {_spell(story.docid)}")
            lines.append("  level  code    score  rank  of      last kept  taken by")
            lines += [_line(level) for level in story.levels]
            if story.lost_at is not None:
                lines.append(
                    f"  lost at level {story.lost_at}: rank {story.levels[-1].rank} with places "
                    f"for {self.beam}; a beam of {story.beam_needed} would have kept it there."
                )
            elif self.rank is None:
                lines.append(f"  spelled out, but other items fill the first {self.beam} places.")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        told = self._asdict()
        told["docids"] = [
            {
                "docid": list(story.docid),
                "lost_at": story.lost_at,
                "beam_needed": story.beam_needed,
                "levels": [level._asdict() for level in story.levels],
            }
            for story in self.docids
        ]
        return told


def explain(
    search: Callable[[Callable[[Expansion], None]], int | None],
    trie: Trie,
    docids: NDArray[np.uint16],
    *,
    query: str,
    item_id: str,
    title: str = "",
    beam: int,
) -> Explanation:
    """The story of every docid of an item.

    ``search(observe)`` runs the search for the one query, calls ``observe`` at every level, and
    gives back the rank of the item or None. ``docids`` [rows, L] are the item's.
    """
    nodes = trie.walk(docids)  # [rows, L + 1]
    if (nodes < 0).any():
        raise IndexMismatch(
            f"a docid of item '{item_id}' is not in the trie: the index was changed since it was "
            "opened. Load it again."
        )
    seen: list[Expansion] = []
    rank = search(seen.append)
    prefixes = _prefixes(seen)
    stories = tuple(
        DocidStory(tuple(int(c) for c in row), _story(row, path, seen, prefixes))
        for row, path in zip(docids, nodes, strict=True)
    )
    return Explanation(query, item_id, title, beam, rank, stories)


def _story(
    docid: NDArray[np.uint16],
    path: NDArray[np.int64],
    seen: Sequence[Expansion],
    prefixes: Sequence[Sequence[tuple[int, ...]]],
) -> tuple[LevelStory, ...]:
    levels: list[LevelStory] = []
    for expansion, kept_prefixes in zip(seen, prefixes, strict=True):
        at = np.flatnonzero(expansion.nodes == path[expansion.level + 1])
        if not len(at):
            break
        mine = int(at[0])
        score = expansion.select[mine]
        ahead = (expansion.select > score).sum() + (expansion.select[:mine] == score).sum()
        kept = mine in expansion.kept
        levels.append(
            LevelStory(
                level=expansion.level + 1,
                code=int(docid[expansion.level]),
                score=float(score),
                rank=int(ahead) + 1,
                candidates=len(expansion.select),
                kept=bool(kept),
                cutoff=float(expansion.select[expansion.kept[-1]]),
                rival=kept_prefixes[-1],
                step=float(expansion.step[mine]),
                carry=float(expansion.carry[mine]),
                look=float(expansion.look[mine]),
            )
        )
        if not kept:
            break
    return tuple(levels)


def _prefixes(seen: Sequence[Expansion]) -> list[list[tuple[int, ...]]]:
    """The kept prefixes of each level, spelled out."""
    levels: list[list[tuple[int, ...]]] = []
    before: list[tuple[int, ...]] = [()]
    for expansion in seen:
        parents, codes = expansion.parents[expansion.kept], expansion.codes[expansion.kept]
        before = [(*before[p], int(c)) for p, c in zip(parents, codes, strict=True)]
        levels.append(before)
    return levels


def _line(level: LevelStory) -> str:
    rival = "" if level.kept else _spell(level.rival)
    return (
        f"  {level.level:5d} {level.code:5d} {level.score:8.3f} {level.rank:5d}  "
        f"{level.candidates:<6d} {level.cutoff:9.3f}  {rival}"
    )


def _spell(docid: Sequence[int]) -> str:
    return "-".join(map(str, docid))
