"""The beam as it narrows, drawn: what each level kept, and the way of one item through it.

Scores are drawn relative to the best prefix of their level, which is the top line: absolute ones
fall from level to level and would hide what matters, the distance to the cut-off.

Drawn with matplotlib's objects, not with pyplot, whose figures are global. The same explanation
gives the same bytes.
"""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trieline.diagnose.wording import spell
from trieline.errors import MissingExtra, SettingsError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from trieline.diagnose.explain import Explanation
    from trieline.diagnose.story import DocidStory

__all__ = ["check_picture", "draw"]

_INK, _GREY, _BAND, _CUT = "#22272e", "#8b949e", "#4c78a8", "#1f4e79"
_KEPT, _LOST, _OTHER = "#1a7f37", "#c62828", "#b08800"
_MARKS = 120  # prefixes of a level that are drawn one by one; more would be a bar anyway


def check_picture(path: str | Path) -> None:
    """Complain now about a picture that could not be drawn later."""
    path = Path(path)
    if path.suffix.lower() not in (".svg", ".png"):
        raise SettingsError(f"picture {path}: expected a file that ends in .svg or .png.")
    if not path.absolute().parent.is_dir():
        raise SettingsError(f"picture {path}: there is no folder {path.absolute().parent}.")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtra("pictures", "matplotlib", "plots") from None


def draw(told: Explanation, path: str | Path) -> None:
    """Write the picture of an explanation, 900 x 500 pixels, as .svg or .png."""
    check_picture(path)
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    path = Path(path)
    figure = Figure(figsize=(9.0, 5.0), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _beam(axes, told)
    for story in reversed(told.docids):
        _path(axes, told, story, first=story is told.docids[0])
    _wanted(axes, told)
    axes.margins(y=0.07)
    axes.autoscale_view()
    _rival(axes, told)
    _frame(axes, told)
    kind = path.suffix.lower()[1:]
    plain = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}
    # Text stays text: it can be searched, and a browser has the letters of any script.
    same: dict[Any, Any] = {"svg.hashsalt": "trieline", "svg.fonttype": "none"}
    drawn = io.BytesIO()
    with matplotlib.rc_context(same), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # titles of any script
        figure.savefig(drawn, format=kind, metadata=plain[kind])
    path.write_bytes(drawn.getvalue())


def _beam(axes: Axes, told: Explanation) -> None:
    """What was kept: a mark a prefix, the middle half as a box, the cut-off as a line."""
    for level in told.narrowing:
        if not level.kept:
            continue
        best, upper, median, lower, last = (q - level.kept[0] for q in level.quartiles())
        at = level.level
        left, right = at - 0.3, at + 0.3
        axes.fill_between([left, right], last, best, color=_BAND, alpha=0.10, lw=0)
        axes.fill_between([left, right], lower, upper, color=_BAND, alpha=0.18, lw=0)
        some = level.kept[:: math.ceil(len(level.kept) / _MARKS)]
        marks = [score - level.kept[0] for score in some]
        axes.hlines(marks, at - 0.22, at + 0.22, color=_BAND, lw=0.6, alpha=0.7)
        axes.hlines(median, left, right, color=_BAND, lw=1.6)
        if len(level.kept) < level.candidates:
            axes.hlines(last, at - 0.38, at + 0.38, color=_CUT, lw=2.2)


def _path(axes: Axes, told: Explanation, story: DocidStory, *, first: bool) -> None:
    """The way of one docid: dotted on from where it fell, as far as its scores are known."""
    best = {level.level: level.kept[0] for level in told.narrowing if level.kept}
    x, y = _points(story, best)
    if not x:
        return
    reached = len(story.levels)
    colour = _OTHER if not first else _LOST if story.lost_at else _KEPT
    weight = 2.2 if first else 1.2
    axes.plot(x[:reached], y[:reached], color=colour, lw=weight, zorder=4)
    start = max(reached - 1, 0)
    axes.plot(x[start:], y[start:], color=colour, lw=1.2, ls=(0, (1, 2)), zorder=3)
    kept = [n for n, level in enumerate(story.levels) if level.kept and n < len(x)]
    axes.scatter([x[n] for n in kept], [y[n] for n in kept], s=26, color=colour, zorder=5)
    for level in story.levels[: len(x)] if first else ():
        aside, side = ((7, 6), "left") if level.kept else ((-9, -4), "right")
        place = level.level, y[level.level - 1]
        _write(axes, f"#{level.rank}", place, aside, colour, size=8.5, ha=side)
    if story.levels and not story.levels[-1].kept and reached <= len(x):
        axes.scatter(
            x[reached - 1],
            y[reached - 1],
            s=90 if first else 40,
            marker="X",
            color=colour,
            zorder=6,
        )


def _points(story: DocidStory, best: dict[int, float]) -> tuple[list[int], list[float]]:
    """Levels and scores under the best, down to the first that cannot be drawn."""
    x: list[int] = []
    y: list[float] = []
    for level, score in enumerate(story.scores, start=1):
        if level not in best or not math.isfinite(score):
            break
        x.append(level)
        y.append(score - best[level])
    return x, y


def _rival(axes: Axes, told: Explanation) -> None:
    """Who has the last place."""
    best = {level.level: level.kept[0] for level in told.narrowing if level.kept}
    levels = told.docids[0].levels
    if not levels or levels[-1].kept or not levels[-1].rival:
        return
    level = levels[-1]
    if level.level not in best:
        return
    named = level.rival_title or level.rival_item
    named = textwrap.shorten(named, 50, placeholder=" …")
    answer = f", answer {level.rival_rank}" if level.rival_rank else ""
    note = f"last place: {spell(level.rival)}" + (f"\n{named}{answer}" if named else "")
    low, high = axes.get_ylim()
    axes.set_ylim(low - 0.16 * (high - low), high)  # a strip below, where nothing else is
    side = "left" if level.level <= len(told.narrowing) / 2 else "right"
    axes.annotate(
        note,
        xy=(level.level + 0.34, level.cutoff - best[level.level]),
        xytext=(level.level + 0.34, 0.03),
        textcoords=axes.get_xaxis_transform(),
        arrowprops={
            "arrowstyle": "-",
            "color": _CUT,
            "lw": 0.8,
            "relpos": (0.0 if side == "left" else 1.0, 1.0),
        },
        color=_CUT,
        fontsize=8.5,
        ha=side,
        va="bottom",
        parse_math=False,
        zorder=7,
    )


def _wanted(axes: Axes, told: Explanation) -> None:
    """The score that an answer had to have."""
    if told.needed is None or not told.narrowing or not told.narrowing[-1].kept:
        return
    last = told.narrowing[-1]
    height = told.needed - last.kept[0]
    axes.hlines(height, last.level - 0.38, last.level + 0.5, color=_INK, lw=1.2, ls="--", zorder=3)
    _write(axes, f"answer {told.k}", (last.level + 0.52, height), (2, 0), _INK, 8.5, va="center")


def _frame(axes: Axes, told: Explanation) -> None:
    levels = [level.level for level in told.narrowing]
    axes.set_xlim(0.5, max(levels, default=1) + 1.1)
    axes.set_xticks(levels)
    axes.set_xticklabels(
        [f"level {n.level}\n{n.candidates} → {len(n.kept)}" for n in told.narrowing], fontsize=8.5
    )
    axes.set_ylabel("score under the best prefix", fontsize=9)
    axes.tick_params(axis="y", labelsize=8.5)
    axes.grid(axis="y", color=_GREY, alpha=0.2, lw=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    outcome = f"rank {told.rank}" if told.rank else told.verdict
    if told.excluded:
        outcome += " (without the filter, which excludes it)"
    item = textwrap.shorten(told.title or told.item_id, 90, placeholder=" …")
    query = textwrap.shorten(told.query, 100, placeholder=" …")
    axes.set_title(
        f"{item}: {outcome}\n“{query}”, beam {told.beam}", fontsize=10, loc="left", parse_math=False
    )
    _legend(axes, told)


def _legend(axes: Axes, told: Explanation) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    lost = told.docids[0].lost_at is not None
    colour = _LOST if lost else _KEPT
    handles: list[Any] = [
        Line2D([], [], color=_BAND, lw=0.8, label="kept prefix"),
        Patch(color=_BAND, alpha=0.28, label="their middle half"),
        Line2D([], [], color=_CUT, lw=2.2, label="cut-off"),
        Line2D([], [], color=colour, lw=2, marker="o", ms=5, label="the item, #rank"),
    ]
    if lost:
        handles.append(Line2D([], [], color=colour, marker="X", ls="", ms=8, label="lost"))
        handles.append(
            Line2D([], [], color=colour, lw=1.2, ls=(0, (1, 2)), label="had it been kept")
        )
    if len(told.docids) > 1:
        handles.append(
            Line2D([], [], color=_OTHER, lw=1.2, marker="o", ms=4, label="its other docids")
        )
    axes.figure.legend(
        handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8, frameon=False
    )


def _write(
    axes: Axes,
    text: str,
    at: tuple[float, float],
    offset: tuple[int, int],
    colour: str,
    size: float,
    **more: Any,
) -> None:
    """A note beside a point; a dollar sign in a title is a dollar sign."""
    axes.annotate(
        text,
        at,
        offset,
        textcoords="offset points",
        color=colour,
        fontsize=size,
        zorder=7,
        parse_math=False,
        **more,
    )
