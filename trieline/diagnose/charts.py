"""Plots of prefix survival, after PRO's Figures 2, 4, 5 and 6a.

Drawn with matplotlib's objects, not with pyplot, whose figures are global. The same figures give
the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trieline.errors import MissingExtra, SettingsError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trieline.diagnose.fifths import Fifths
    from trieline.diagnose.pruning import Pruning

__all__ = ["check_plots", "draw_pruning"]

_ORACLE, _DECODER, _GREY, _LOST = "#1f4e79", "#b5541c", "#8b949e", "#c62828"
_SHADES = ("#9ec5e8", "#6a9fd0", "#4178b0", "#1f4e79", "#0b2239")  # shallow levels to deep ones
_PANELS = 4  # levels of which fifths are drawn
_SIGNS = {"K": "ranking divergence K", "m": "teacher margin m", "epsilon": "decoder mismatch ε"}


def check_plots(folder: Path) -> None:
    """Complain now about plots that could not be drawn later."""
    if folder.exists() and not folder.is_dir():
        raise SettingsError(f"plots {folder}: expected a folder, and this is a file.")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtra("plots", "matplotlib", "plots") from None


def draw_pruning(told: Pruning, folder: Path) -> list[Path]:
    """Write ``survival.png``, ``error.png``, ``factors.png`` and ``fifths.png`` into the folder."""
    check_plots(folder)
    folder.mkdir(parents=True, exist_ok=True)
    drawings: dict[str, tuple[Callable[[Figure, Pruning], None], tuple[float, float]]] = {
        "survival": (_survival, (9.0, 3.6)),
        "error": (_error, (9.0, 3.4)),
        "factors": (_factors, (10.5, 3.6)),
        "fifths": (_grid, (10.5, 5.4)),
    }
    written = []
    for name, (draw, size) in drawings.items():
        figure = _figure(size)
        draw(figure, told)
        path = folder / f"{name}.png"
        figure.savefig(path, metadata={"Software": None})
        written.append(path)
    return written


def _figure(size: tuple[float, float]) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _survival(figure: Figure, told: Pruning) -> None:
    """Figures 2a and 6a: per-level survival, of the next code alone and of the beam."""
    token, beam = figure.subplots(1, 2, sharey=True)
    levels = [level.level for level in told.levels]
    for axes, kind, title in (
        (token, "token", f"the target's code is among the {told.beam} best of its level"),
        (beam, "beam", f"the target's prefix is in the beam of {told.beam}"),
    ):
        for who, colour, mark in (("oracle", _ORACLE, "o"), ("decoder", _DECODER, "s")):
            shares = [getattr(level, f"{who}_{kind}") for level in told.levels]
            name = "quantised oracle" if who == "oracle" else "decoder"
            axes.plot(levels, shares, color=colour, marker=mark, ms=4, lw=1.6, label=name)
        _frame(axes, title, "level")
        axes.set_xticks(levels)
    token.set_ylabel(f"share of {len(told.queries.error):,} targets", fontsize=9)
    _share_axis(token)
    beam.legend(fontsize=8, frameon=False)


def _error(figure: Figure, told: Pruning) -> None:
    """Figure 2b and 2c: the reconstruction error of targets that survived and that were pruned."""
    steps, bars = figure.subplots(1, 2)
    alive = told.queries.oracle_beam[:, -1]
    for name, own, colour, dash in (
        ("survived", alive, _ORACLE, "-"),
        ("pruned", ~alive, _LOST, "--"),
    ):
        error = np.sort(told.queries.error[own])
        if len(error):
            heights = np.arange(len(error) + 1) / len(error)
            ends = [*np.append(told.queries.error.min(), error), told.queries.error.max()]
            label = f"{name} ({len(error):,})"
            steps.step(ends, [*heights, 1.0], where="post", color=colour, ls=dash, label=label)
    _frame(steps, "oracle's beam: targets with at most this error", "squared error of the docid")
    _share_axis(steps)
    steps.legend(fontsize=8, frameon=False, loc="lower right")
    (fifths,) = [fifths for fifths in told.fifths if fifths.factor == "error"]
    places = np.arange(5)
    for offset, who, colour in ((-0.2, "oracle", _ORACLE), (0.2, "decoder", _DECODER)):
        shares = _numbers(getattr(fifths, who))
        rho = _signed(getattr(fifths, f"{who}_rho"))
        bars.bar(places + offset, shares, 0.38, color=colour, label=f"{who}'s beam, ρ = {rho}")
    _frame(bars, "in the beam at the last level", "fifth of the error, lowest first")
    _name_fifths(bars)
    _share_axis(bars)
    bars.legend(fontsize=8, frameon=False)


def _factors(figure: Figure, told: Pruning) -> None:
    """Figure 4: fifths of K and of m level by level, and the gap between extremes of epsilon."""
    from matplotlib.ticker import PercentFormatter

    divergence, margin, mismatch = figure.subplots(1, 3)
    levels = _some_levels(told)
    for axes, factor, who in ((divergence, "K", "oracle"), (margin, "m", "oracle")):
        for shade, level in zip(_shades(len(levels)), levels, strict=True):
            fifths = _found(told, factor, level)
            label = f"level {level}, ρ = {_signed(getattr(fifths, f'{who}_rho'))}"
            shares = _numbers(getattr(fifths, who))
            axes.plot(np.arange(5), shares, color=shade, marker="o", ms=4, lw=1.6, label=label)
        _frame(axes, f"{_SIGNS[factor]}, oracle's beam", "fifth, lowest first")
        _name_fifths(axes)
        _share_axis(axes)
        axes.legend(fontsize=7.5, frameon=False)
    every = [fifths for fifths in told.fifths if fifths.factor == "epsilon"]
    _frame(mismatch, "decoder mismatch ε: lowest fifth − highest", "level")
    if not every:
        mismatch.text(0.5, 0.5, "not measured", transform=mismatch.transAxes, ha="center")
        return
    gaps = [_numbers(fifths.decoder)[0] - _numbers(fifths.decoder)[-1] for fifths in every]
    places = [fifths.level for fifths in every]
    mismatch.bar(places, gaps, 0.7, color=[_DECODER if gap >= 0 else _GREY for gap in gaps])
    mismatch.axhline(0, color=_GREY, lw=0.8)
    mismatch.set_xticks(places)
    mismatch.yaxis.set_major_formatter(PercentFormatter(1.0))
    mismatch.set_ylabel("gap in survival, decoder's beam", fontsize=9)


def _grid(figure: Figure, told: Pruning) -> None:
    """Figure 5: a panel a level, K above and m below, the beams of oracle and decoder."""
    levels = _some_levels(told)
    panels = figure.subplots(2, len(levels), sharey=True, squeeze=False)
    for row, factor in zip(panels, ("K", "m"), strict=True):
        for axes, level in zip(row, levels, strict=True):
            fifths = _found(told, factor, level)
            for who, colour, mark in (("oracle", _ORACLE, "o"), ("decoder", _DECODER, "s")):
                label = f"{who}, ρ = {_signed(getattr(fifths, f'{who}_rho'))}"
                shares = _numbers(getattr(fifths, who))
                axes.plot(np.arange(5), shares, color=colour, marker=mark, ms=4, label=label)
            _frame(axes, f"{_SIGNS[factor]}, level {level}", "")
            axes.set_xticks(range(5), [_short(mean) for mean in fifths.means], fontsize=7.5)
            axes.set_xlabel("mean of the fifth", fontsize=8.5)
            axes.legend(fontsize=7.5, frameon=False)
        _share_axis(row[0])
        row[0].set_ylabel("share in the beam", fontsize=9)


def _some_levels(told: Pruning) -> list[int]:
    """The first levels, where prefixes are lost, and the last."""
    depth = len(told.levels)
    return sorted({*range(1, min(depth, _PANELS - 1) + 1), depth})


def _shades(count: int) -> Sequence[str]:
    return [_SHADES[round(n * (len(_SHADES) - 1) / max(count - 1, 1))] for n in range(count)]


def _found(told: Pruning, factor: str, level: int) -> Fifths:
    return next(f for f in told.fifths if f.factor == factor and f.level == level)


def _numbers(shares: Sequence[float | None]) -> NDArray[np.float64]:
    return np.array([np.nan if share is None else share for share in shares])


def _signed(rho: float | None) -> str:
    return "–" if rho is None else f"{rho:+.2f}"


def _short(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}"


def _name_fifths(axes: Axes) -> None:
    axes.set_xticks(range(5), ["1st", "2nd", "3rd", "4th", "5th"])


def _share_axis(axes: Axes) -> None:
    from matplotlib.ticker import PercentFormatter

    axes.set_ylim(-0.03, 1.05)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))


def _frame(axes: Axes, title: str, below: str) -> None:
    plain: dict[str, Any] = {"fontsize": 9}
    axes.set_title(title, loc="left", **plain)
    axes.set_xlabel(below, **plain)
    axes.tick_params(labelsize=8.5)
    axes.grid(axis="y", color=_GREY, alpha=0.2, lw=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
