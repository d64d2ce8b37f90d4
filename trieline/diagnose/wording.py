"""An explanation in words and in JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trieline.diagnose.story import DocidStory, LevelStory

if TYPE_CHECKING:
    from trieline.diagnose.explain import Explanation
    from trieline.diagnose.rescue import Attempt

__all__ = ["name", "spell", "text", "to_json"]

_LONGEST = 80  # characters of a title or a query in a line


def text(told: Explanation) -> str:
    """For people."""
    found = f"found at rank {told.rank}" if told.rank else "not found"
    lines = [f"{name(told)}: {found} for {_short(told.query)!r} with beam {told.beam}."]
    if told.excluded:
        lines.insert(0, f"{name(told)}: the filter excludes it. Without the filter:")
    lines += [why for why in [_why(told)] if why]
    for story in told.docids:
        lines += ["", *_docid(story, told)]
    lines += _rescue(told)
    return "\n".join(lines)


def to_json(told: Explanation) -> dict[str, Any]:
    """For programs: see ``Explanation.to_json``."""
    plain = told._asdict()
    plain["docids"] = [
        {
            "docid": story.docid,
            "score": story.score,
            "scores": story.scores,
            "lost_at": story.lost_at,
            "beam_needed": story.beam_needed,
            "levels": [
                {**level._asdict(), "votes": [vote._asdict() for vote in level.votes]}
                for level in story.levels
            ],
        }
        for story in told.docids
    ]
    names = ("best", "upper", "median", "lower", "last")
    plain["narrowing"] = [
        {
            "level": level.level,
            "candidates": level.candidates,
            "kept": len(level.kept),
            **dict(zip(names, level.quartiles() or (None,) * 5, strict=True)),
        }
        for level in told.narrowing
    ]
    narrowest = told.rescue.narrowest
    plain["rescue"] = {
        "beam": narrowest.beam if narrowest else None,
        "rank": narrowest.rank if narrowest else None,
        "fails": told.rescue.fails,
        "widths": [attempt._asdict() for attempt in told.rescue.widths],
        "settings": [attempt._asdict() for attempt in told.rescue.settings],
        "searches": told.rescue.searches,
    }
    checked: dict[str, Any] = _plain(plain)
    return checked


def name(told: Explanation) -> str:
    """The item, by id and title."""
    return _named(told.item_id, told.title)


def spell(docid: Sequence[int]) -> str:
    """A docid or a prefix."""
    return "-".join(map(str, docid))


def _why(told: Explanation) -> str:
    """The verdict, in a sentence."""
    best = [story for story in told.docids if story.score == told.score]
    lost = max(story.lost_at or 0 for story in best)
    spelled = any(story.lost_at is None for story in told.docids)
    needed = "" if told.needed is None else f"answer {told.k} has {told.needed:.3f}"
    match told.verdict:
        case "pruned":
            enough = needed or f"fewer than {told.k} were found"
            return (
                f"Pruned by the beam at level {lost}, though its whole score, {told.score:.3f}, is "
                f"good enough: {enough}."
            )
        case "forbidden":
            return f"Forbidden at level {lost}: a guide rules its prefix out, at any beam width."
        case "out-scored" if told.rank:
            return (
                f"Out-scored: its score is {told.score:.3f}, {needed}. The search did its part; "
                "the scores prefer other items."
            )
        case "out-scored" if spelled:
            return (
                f"Out-scored: spelled out, but other items fill the first {told.beam} places "
                f"({needed}, its own score is {told.score:.3f})."
            )
        case "out-scored":
            return (
                f"Out-scored: the beam lost it at level {lost}, but its whole score is only "
                f"{told.score:.3f} and {needed}: no wider beam brings it into the first {told.k}."
            )
        case _:
            return ""


def _docid(story: DocidStory, told: Explanation) -> list[str]:
    """One docid as a table, and where it ended."""
    guides = [vote.guide for vote in story.levels[0].votes] if story.levels else []
    wide = [max(len(guide), 8) for guide in guides]
    votes = "".join(f"  {guide:>{width}}" for guide, width in zip(guides, wide, strict=True))
    whole = "" if story.score is None else f", whole score {story.score:.3f}"
    lines = [
        f"docid {spell(story.docid)}{whole}",
        f"  level   code     model{votes}     score   rank of        last kept",
    ]
    lines += [_level(level, wide) for level in story.levels]
    if story.lost_at is not None:
        lines.append(_lost(story, told))
    return lines


def _level(level: LevelStory, wide: Sequence[int]) -> str:
    votes = "".join(
        f"  {vote.carry + vote.look:>+{width}.3f}"
        for vote, width in zip(level.votes, wide, strict=True)
    )
    return (
        f"  {level.level:5d}  {level.code:5d}  {level.step:8.3f}{votes}  {level.score:8.3f}  "
        f"{level.rank:5d} {level.candidates:<8d}  {level.cutoff:9.3f}"
        f"{'' if level.kept else '  lost'}"
    )


def _lost(story: DocidStory, told: Explanation) -> str:
    last = story.levels[-1] if story.levels else None
    if last is None or last.kept:
        return f"  lost at level {story.lost_at}: its prefix was no candidate there."
    places = f"{told.beam} place" + "s" * (told.beam > 1)
    line = f"  lost at level {last.level}: rank {last.rank} for {places}."
    if last.rival:
        line += f" The last went to {spell(last.rival)}"
        if last.rival_item:
            where = f", answer {last.rival_rank}" if last.rival_rank else ""
            line += f", which leads to {_named(last.rival_item, last.rival_title)}{where}"
        line += "."
    return line


def _rescue(told: Explanation) -> list[str]:
    """What was tried, what helped first."""
    rescue = told.rescue
    if told.verdict == "found" or not (rescue.widths or rescue.settings):
        return []
    lines = ["", f"What would have found it ({rescue.searches} searches were run):"]
    best = rescue.narrowest
    if best is not None:
        fails = told.beam if rescue.fails is None else rescue.fails
        rest = f"{fails} does not find it"
        if fails < best.beam - 1:
            rest += ", and nothing between was tried"
        lines.append(f"  yes  {best.label}: rank {best.rank} ({rest})")
    lines += [f"  yes  {_tried(attempt)}" for attempt in rescue.settings if attempt.finds]
    if best is None and rescue.widths:
        lines.append(f"  no   {_tried(rescue.widths[-1])}")
    lines += [f"  no   {_tried(attempt)}" for attempt in rescue.settings if not attempt.finds]
    return lines


def _tried(attempt: Attempt) -> str:
    if attempt.rank is not None:
        return f"{attempt.label}: rank {attempt.rank}"
    if attempt.lost_at is not None:
        return f"{attempt.label}: lost at level {attempt.lost_at}"
    return f"{attempt.label}: spelled out, behind the first {attempt.beam}"


def _named(item_id: str, title: str) -> str:
    return f"{item_id} ({_short(title)})" if title else item_id


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1].rstrip() + "…"


def _plain(value: Any) -> Any:
    """Lists for tuples, null for what JSON cannot say."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
