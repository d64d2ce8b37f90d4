"""Why an item was found or not, and what would have found it.

The beam forgets an item when its prefix falls below the last kept candidate of a level. This names
that level, the score and rank of the prefix there, every guide's vote, and the prefix that took the
last place. Two causes look alike from outside and are told apart by the score of the whole docid,
computed as if nothing could push it out: *pruned* is an error of the search (the score was good
enough, a wider beam finds the item), *out-scored* one of the model (enough answers score better).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.decode.beam import Found
from trieline.diagnose import wording
from trieline.diagnose.rescue import Attempt, Probe, Rescue, Search, WhatIf
from trieline.diagnose.story import DocidStory, Narrowing, narrowing, stories
from trieline.errors import IndexMismatch, SettingsError
from trieline.index import Trie
from trieline.types import Item

__all__ = ["Explanation", "explain"]

Verdict = Literal["found", "out-scored", "pruned", "forbidden"]
Items = Callable[[Iterable[int]], Mapping[int, Item]]

_CLOSE = 1e-4  # float32 scores of one docid differ by about this much between beams of two widths


class Explanation(NamedTuple):
    """Why an item was or was not among the answers to a query.

    Where a ``filter`` excludes the item, everything else tells of the search without the filter.
    """

    query: str
    item_id: str
    title: str
    beam: int
    k: int  # answers that were wanted
    rank: int | None  # among the answers, from 1; None when it was not found
    verdict: Verdict
    excluded: bool  # by the filter
    score: float | None  # of its best docid, spelled out or not; None when it is forbidden
    needed: float | None  # the k-th answer's score, the highest seen; None: fewer answers
    docids: tuple[DocidStory, ...]  # the one that came furthest first
    narrowing: tuple[Narrowing, ...]  # the beam as a whole, level by level
    rescue: Rescue

    def text(self) -> str:
        """For people."""
        return wording.text(self)

    def to_json(self) -> dict[str, Any]:
        """For programs: everything, in plain types. Infinite scores are null.

        query, item_id, title
        beam, k                 the search: its width, how many answers were wanted
        rank                    from 1, or null when it was not found
        verdict                 "found" (rank <= k) | "out-scored" | "pruned" | "forbidden"
        excluded                the filter excludes it; all else is the search without filter
        score, needed           of its best docid; of the k-th answer
        docids[]                the one that came furthest first
            docid, score        its codes; its score, spelled out or not
            scores[]            of each of its prefixes, had none been pruned
            lost_at             level from 1, or null when it was spelled out
            beam_needed         keeps every level seen, were the rest of the search as it was
            levels[]            up to where it was lost: level, code, score, rank, candidates,
                                kept, cutoff, step (the model's part), carry and look (the
                                guides'), votes[] {guide, carry, look}, rival (last kept
                                prefix), rival_item, rival_title, rival_rank
        narrowing[]             level, candidates, kept, and of the kept scores: best,
                                upper, median, lower (quartiles), last
        rescue
            beam, rank          the narrowest beam that was seen to find it, its rank there
            fails               the widest narrower beam that was seen to fail
            widths[], settings[] every search tried: label, changes, beam, rank, lost_at, finds
            searches            how many searches were run in all
        """
        return wording.to_json(self)

    def picture(self, path: str | Path) -> None:
        """Draw the beam as it narrows and the item's way through it: .svg or .png."""
        from trieline.diagnose.picture import draw

        draw(self, path)


def explain(
    search: Search,
    trie: Trie,
    docids: NDArray[np.uint16],
    number: int,
    *,
    query: str,
    item: Item,
    beam: int,
    k: int | None = None,
    items: Items | None = None,
    excluded: bool = False,
    tried: Sequence[WhatIf] = (),
    searches: int = 32,
) -> Explanation:
    """The story of every docid of item ``number``, and what would have found it.

    ``docids`` [rows, L] are the item's. ``k`` answers were wanted, 10 or the beam if that is
    narrower. ``items`` gives names to rivals. ``tried`` are settings to try, and ``searches`` the
    most searches to run; with 2 the item is explained and nothing is tried.
    """
    k = min(10, beam) if k is None else k
    if beam < 1 or k < 1:
        raise SettingsError(f"beam = {beam}, k = {k}: both must be at least 1.")
    beam = max(beam, k)  # as a search does
    _check(trie, docids, item.id)
    probe = Probe(search, trie, docids, number, k=k, limit=searches)
    first = probe.run(beam)
    told = stories(docids, probe.paths, first.seen)
    if any(story.lost_at for story in told):
        whole = probe.whole_scores(beam)
        told = tuple(story._replace(scores=whole[story.docid]) for story in told)
    best = max(told, key=lambda story: -np.inf if story.score is None else story.score)
    verdict = _verdict(first.rank, best, probe)
    settings = () if verdict == "found" else probe.settings(beam, tried)
    widths = _widths(verdict, beam, best, probe)
    if verdict == "pruned" and not any(attempt.finds for attempt in widths):
        # By answers that were pruned as well, or that share its score and come before it?
        tied = bool(widths) and widths[-1].lost_at is None
        verdict = _verdict(first.rank, best, probe, tied=tied)
    if items is not None:
        told = _name_rivals(told, trie, first.found, items)
    return Explanation(
        query=query,
        item_id=item.id,
        title=item.title,
        beam=beam,
        k=k,
        rank=first.rank,
        verdict=verdict,
        excluded=excluded,
        score=best.score,
        needed=probe.needed,
        docids=told,
        narrowing=narrowing(first.seen),
        rescue=Rescue(widths, settings, probe.count),
    )


def _check(trie: Trie, docids: NDArray[np.uint16], item_id: str) -> None:
    if not len(docids):
        raise IndexMismatch(
            f"item '{item_id}' has no docid, so nothing can spell it. 'trieline verify' tells what "
            "is wrong with the index."
        )
    if (trie.walk(docids) < 0).any():
        raise IndexMismatch(
            f"a docid of item '{item_id}' is not in the trie: the index was changed since it was "
            "opened. Load it again."
        )


def _verdict(rank: int | None, best: DocidStory, probe: Probe, *, tied: bool = False) -> Verdict:
    """``best`` is the docid with the best score; the others cannot do what it cannot."""
    score, needed = best.score, probe.needed
    if rank is not None and rank <= probe.k:
        return "found"
    if score is None:
        return "forbidden"
    if needed is not None:
        close = _CLOSE * max(1.0, abs(needed))
        if score < needed + (close if tied else -close):
            return "out-scored"
    return "out-scored" if best.lost_at is None else "pruned"


def _widths(verdict: Verdict, beam: int, best: DocidStory, probe: Probe) -> tuple[Attempt, ...]:
    """Wider beams, where they can help; the widest alone, for the rank, where they cannot."""
    if verdict == "pruned":
        return probe.widths(beam, best.beam_needed)
    return probe.one_width(beam) if verdict == "out-scored" else ()


def _name_rivals(
    told: Sequence[DocidStory], trie: Trie, found: Found, items: Items
) -> tuple[DocidStory, ...]:
    """With an item for each rival prefix: the best answer below it, else the first item there."""
    leaves = [trie.docid(int(leaf)) for leaf in found.leaves]
    wanted: dict[tuple[int, ...], tuple[int, int | None]] = {}  # number and rank
    for rival in {level.rival for story in told for level in story.levels if level.rival}:
        of_them = (n for n, leaf in enumerate(leaves) if leaf[: len(rival)] == rival)
        answer = next(of_them, None)
        if answer is not None:
            wanted[rival] = int(found.items[answer]), answer + 1
        else:
            node = trie.walk(np.array([rival], np.int64))[0, -1]
            low, _ = trie.interval(len(rival), [node])
            wanted[rival] = int(trie.owner[low[0]]), None
    known = items(sorted({number for number, _ in wanted.values()}))

    def named(story: DocidStory) -> DocidStory:
        levels = []
        for level in story.levels:
            number, rank = wanted.get(level.rival, (-1, None))
            item = known.get(number)
            if item is not None:
                level = level._replace(rival_item=item.id, rival_title=item.title, rival_rank=rank)
            levels.append(level)
        return story._replace(levels=tuple(levels))

    return tuple(named(story) for story in told)
