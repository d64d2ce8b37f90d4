"""Runs the benchmarks and writes RESULTS.md with its plots.

    python bench/page.py --run decode trained growth living    run those, then write the page
    python bench/page.py                                       write it from bench/results/*.json

A benchmark is run in a process of its own and leaves its figures and the machine in bench/results/.
``device`` is run by hand, on a machine that has one: ``python bench/device.py --out FILE``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from measures import machine

from trieline.evaluate.table import Column, Table, to_markdown

__all__ = ["main", "page_of", "read_figures"]

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PLOTS = HERE / "plots"
RUNS = {
    "decode": ["decode.py", "--json"],
    "trained": ["trained.py", "--limit", "200", "--json"],
    "growth": ["growth.py", "--json"],
    "living": ["living.py", "--json"],
}
Figures = dict[str, Any]

HEAD = """# The decoding engine, measured

Written by `bench/page.py`; do not edit. One thread unless said; everything that is compared takes
its turn in the same run, the least of several rounds counts, and what runs in one thread is timed
by that thread's own clock. Read ratios, not milliseconds. T5-small shapes, their docids and the
rivals are in `bench/shapes.py` and `bench/rivals.py`.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", nargs="+", choices=tuple(RUNS), default=[])
    options = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    for name in options.run:
        run(name)
    found = read_figures()
    if "growth" in found:
        plot_growth(found["growth"]["figures"])
    if "trained" in found:
        plot_quality(found["trained"]["figures"])
    (HERE / "RESULTS.md").write_text(page_of(found), encoding="utf-8")


def read_figures() -> dict[str, Figures]:
    """What each benchmark has left."""
    files = sorted(RESULTS.glob("*.json"))
    return {file.stem: json.loads(file.read_text("utf-8")) for file in files}


def page_of(found: Mapping[str, Figures]) -> str:
    """The whole text."""
    return "\n".join([HEAD, *sections(found)]).rstrip() + "\n"


def run(name: str) -> None:
    """One benchmark in a process of its own. A missed bar is a result, not a failure."""
    script, *options = RUNS[name]
    done = subprocess.run(
        [sys.executable, str(HERE / script), *options], stdout=subprocess.PIPE, check=False
    )
    if done.returncode not in (0, 1) or not done.stdout.strip():
        raise SystemExit(f"bench/{script} failed with exit code {done.returncode}.")
    told = {"machine": machine(), "figures": json.loads(done.stdout)}
    (RESULTS / f"{name}.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def sections(found: Mapping[str, Figures]) -> list[str]:
    """The parts of the page that there are figures for."""
    parts: list[str] = []
    if "decode" in found:
        parts += ["## Bars", bars(found["decode"]["figures"])]
    if "trained" in found:
        parts += ["## On a trained model", trained(found["trained"]["figures"])]
    if "growth" in found:
        parts += ["## More items", growth(found["growth"]["figures"])]
    if "living" in found:
        parts += ["## Changes and filters", bars(found["living"]["figures"], "baseline")]
    if "device" in found:
        parts += ["## On a graphics card", device(found["device"])]
    missing = [name for name in (*RUNS, "device") if name not in found]
    if missing:
        parts.append(f"Not measured yet: {', '.join(missing)}.\n")
    return [*parts, "## Machines", machines(found)]


def bars(figures: Figures, baseline: str = "baseline") -> str:
    rows = []
    for what, own in figures.items():
        name, _, unit = what.rpartition(" (")
        holds = {None: "", True: "yes", False: "**no**"}[own["holds"]]
        cells = (own["value"], own["bar"], own["baseline"])
        rows.append((name, unit.rstrip(")"), *cells, holds, own.get("note", "")))
    columns = (
        Column("what"),
        Column("unit"),
        Column("value", ",.4g"),
        Column("bar", ",.4g"),
        Column(baseline, ",.4g"),
        Column("holds"),
        Column("note"),
    )
    return to_markdown(Table(columns, tuple(rows)))


def trained(figures: Figures) -> str:
    """Quality and time of beams, exact search and dense search."""
    quality = {what: own for what, own in figures.items() if "ms" in own}
    rest = {what: own for what, own in figures.items() if "ms" not in own}
    rows = [
        (what.rpartition(":")[0], own["value"], own["ms"], own.get("omega"))
        for what, own in quality.items()
    ]
    columns = (
        Column("search"),
        Column("nDCG@10", ".3f", "high"),
        Column("ms a query", ",.1f"),
        Column("omega", "g"),
    )
    about = next(own for what, own in quality.items() if what.startswith("dense"))
    said = (
        f"Python's documentation ({about['items']:,} items, {about['queries']} test queries), the "
        "recipe `demo` with each softmax; omega chosen on dev. "
        f"{about['trie_bytes_an_item']:.1f} bytes an item, dense {about['bytes_an_item']:,.0f}.\n"
    )
    shown = "![quality against time](plots/quality.svg)\n"
    return "\n".join([said, to_markdown(Table(columns, tuple(rows))), shown, bars(rest)])


def growth(figures: Figures) -> str:
    sizes = sorted({int(size) for own in figures.values() for size in own})
    rows = [
        (
            name,
            *(own.get(str(size), {}).get("ms") for size in sizes),
            next(reversed(own.values()))["bytes_an_item"],
        )
        for name, own in figures.items()
    ]
    columns = (
        Column("system"),
        *(Column(f"ms, {size:,} items", ",.3g") for size in sizes),
        Column("bytes an item", ",.1f"),
    )
    said = (
        "Dense search is another kind of search and faster, above all approximate search: what "
        "generative retrieval saves is bytes, and a vector index to keep. Dictionaries of prefixes "
        "and HNSW are not built for a million items.\n"
    )
    plots = "![time against items](plots/growth.svg)\n\n![bytes an item](plots/bytes.svg)\n"
    return "\n".join([said, to_markdown(Table(columns, tuple(rows))), plots])


def device(told: Figures) -> str:
    """A device beside the CPU."""
    rows = [
        (name, f"{own['same_order']} of {own['of']}", own["overlap"], own["score_off"])
        for name, own in told["agreement"].items()
    ]
    columns = (
        Column("scores"),
        Column("same items in the same order"),
        Column("same items", ".1%"),
        Column("scores differ by at most", ".2g"),
    )
    times = tuple((name, ms) for name, ms in told["ms_a_query"].items())
    said = f"{told['device']}, beside the CPU's answers in fp32 to the same queries.\n"
    ms = Table((Column("search"), Column("ms a query", ",.1f")), times)
    return "\n".join([said, to_markdown(Table(columns, tuple(rows))), to_markdown(ms)])


def machines(found: Mapping[str, Figures]) -> str:
    lines = []
    for name, told in sorted(found.items()):
        own = told["machine"]
        lines.append(
            f"- {name}: {own['cpu']}, Python {own['python']}, torch {own['torch']}, "
            f"transformers {own['transformers']}"
        )
    return "\n".join(lines)


# --- plots --------------------------------------------------------------------------------------


def plot_growth(figures: Figures) -> None:
    axes = _axes("items", "ms a query")
    for name, own in figures.items():
        sizes = [int(size) for size in own]
        axes.plot(sizes, [one["ms"] for one in own.values()], marker="o", label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    _save(axes, "growth")
    axes = _axes("", "bytes an item")
    held = {name: next(reversed(own.values()))["bytes_an_item"] for name, own in figures.items()}
    held = {name.removesuffix(" fp32"): size for name, size in held.items() if size}
    held = {name: size for name, size in held.items() if not name.endswith(("bf16", "int8"))}
    drawn = axes.bar(list(held), list(held.values()), width=0.5)
    axes.bar_label(drawn, fmt="{:,.0f}")
    _save(axes, "bytes", legend=False)


def plot_quality(figures: Figures) -> None:
    quality = {what: own for what, own in figures.items() if "ms" in own}
    axes = _axes("ms a query", "nDCG@10")
    lines: dict[str, list[tuple[float, float]]] = {}
    for what, own in quality.items():
        name, _, how = what.rpartition(":")[0].partition(", ")
        line = name if how.startswith("beam") else f"{name}, {how}"
        lines.setdefault(line, []).append((own["ms"], own["value"]))
    for name, points in lines.items():
        alone = len(points) == 1
        x, y = zip(*sorted(points), strict=True)
        axes.plot(x, y, marker="*" if alone else "o", markersize=12 if alone else 5, label=name)
    axes.set_xscale("log")
    axes.set_xticks([2, 5, 10, 20, 50], labels=["2", "5", "10", "20", "50"])
    axes.minorticks_off()
    _save(axes, "quality")


def _axes(x: str, y: str) -> Any:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "trieline"  # the same figures, the same file
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(figsize=(7, 4.2))
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _save(axes: Any, name: str, legend: bool = True) -> None:
    import matplotlib.pyplot as plt

    if legend:
        axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    PLOTS.mkdir(exist_ok=True)
    axes.figure.tight_layout()
    axes.figure.savefig(PLOTS / f"{name}.svg", metadata={"Date": None})
    plt.close(axes.figure)


if __name__ == "__main__":
    main()
