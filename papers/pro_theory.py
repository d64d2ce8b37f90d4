"""The tables of pro.md on prefixes: schedules, the survival bound, sensitivity, docids, growth."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from statistics import mean

from pro_found import Told, cells_of, diagnosed, scores_of, short, spread
from pro_systems import LABELS, SYSTEMS, TESTED, TO_IMAGE, UNIFORM, VARIANTS, VARIED

from trieline.evaluate.table import Cell, Column, Table, to_markdown


def schedules(found: Sequence[Told]) -> str:
    """The paper's Table 1."""
    shapes = {"descending": "descending", "genius": "uniform", "VS": "ascending"}
    columns = (
        Column("schedule"),
        Column("level", "d"),
        Column("codes", "d"),
        Column("m", ".4f"),
        Column("K", ".3f"),
        Column("token survives", ".1%"),
        Column("prefix survives", ".1%"),
        Column("MRR of the model"),
    )
    rows: list[tuple[Cell, ...]] = []
    for system, label in shapes.items():
        seen = diagnosed(found, TO_IMAGE, system, "plain")
        own = cells_of(found, TO_IMAGE, system, "plain")
        for level in seen["levels"][:4] if seen else ():
            size = SYSTEMS[system].sizes[level["level"] - 1]
            alive = level["oracle_token"], level["oracle_beam"]
            right = spread([scores_of([t], "plain").means[TESTED] for t in own])
            bound = level["margin"], level["divergence"]
            rows.append((label, level["level"], size, *bound, *alive, right))
    if not rows:
        return ""
    return (
        f"## Vocabulary schedules, {TO_IMAGE} (the paper's Table 1)\n\n"
        + to_markdown(Table(columns, tuple(rows)))
        + "\nQuantised oracle, beam 20, tau .05, the first seed. m: teacher margin; K: ranking "
        "divergence; both as means over queries. Token: given the target's prefix, its code is "
        "among the 20 best of the level; prefix: in the beam, and so were all before.\n"
    )


def diagnosis(found: Sequence[Told]) -> str:
    """The paper's Figures 2, 4, 5 and 6a in numbers."""
    columns = (
        Column("world"),
        Column("system"),
        Column("K, mean", ".3f"),
        Column("m, mean", ".4f"),
        Column("epsilon, mean", ".3f"),
        Column("oracle keeps", ".1%"),
        Column("decoder keeps", ".1%"),
        Column("rho of K", ".2f"),
        Column("rho of m", ".2f"),
        Column("certified", "d"),
        Column("of", "d"),
    )
    rows: list[tuple[Cell, ...]] = []
    for world in (TO_IMAGE, "nfcorpus"):
        for system in ("genius", "PD", "VS", "PD+VS"):
            for way in ("plain", "SF"):
                seen = diagnosed(found, world, system, way)
                if seen is None:
                    continue
                levels = seen["levels"]
                last = levels[-1]
                factors = [mean(own[f] for own in levels) for f in ("divergence", "margin")]
                off = mean(own["mismatch"] for own in levels)
                alive = last["oracle_beam"], last["decoder_beam"]
                rho = seen["divergence_rho"], seen["margin_rho"]
                proven = last["certified_so_far"], seen["scored"]
                label = LABELS[(system, way)]
                rows.append((world, label, *factors, off, *alive, *rho, *proven))
    if not rows:
        return ""
    return (
        "## The survival bound (Figures 2, 4, 5 and 6a in numbers)\n\n"
        + to_markdown(Table(columns, tuple(rows)))
        + "\nBeam 20, tau .05, the first seed; means over levels and queries. Epsilon: total "
        "variation between the decoder's and the oracle's prefixes, of the queries in the last "
        "column. Kept: the target's whole docid is in the beam. Rho: Spearman, mean over levels "
        "against the number of levels that the oracle's beam keeps. Certified: queries for which "
        "Theorem 2's condition holds at every level. `trieline diagnose survival` draws them.\n"
    )


def sensitivity(found: Sequence[Told]) -> str:
    """The paper's Table 15, on dev."""
    columns = (
        Column("setting"),
        Column("value"),
        Column("nDCG@10 on dev, without SF"),
        Column("with SF"),
    )
    rows: list[tuple[Cell, ...]] = []
    default = {"tau": 0.05, "lambda": 100.0}
    for name, usual in default.items():
        tried = {usual: "PD+VS"} | {
            float(system.split()[1]): system for system in SYSTEMS if system.split()[0] == name
        }
        for value, system in sorted(tried.items()):
            own = [t for t in cells_of(found, TO_IMAGE, system, "SF") if t["cell"].get("seed") == 0]
            if own:
                dev = own[0]["ways"]
                label = f"{value:g}" + (" (default)" if value == usual else "")
                plain, fused = (max(dev[way]["dev"].values()) for way in ("plain", "SF"))
                rows.append((name, label, plain, fused))
    own = cells_of(found, TO_IMAGE, "PD+VS", "SF")
    for weight in own[0]["ways"]["SF"]["dev"] if own else ():
        values = [t["ways"]["SF"]["dev"][weight] for t in own]
        rows.append(("omega", f"{float(weight):g}", None, spread(values)))
    if not rows:
        return ""
    return f"## Sensitivity, {TO_IMAGE} (the paper's Table 15)\n\n" + to_markdown(
        Table(columns, tuple(rows))
    )


def variants(found: Sequence[Told]) -> str:
    """What of the distillation helps or harms, without a model."""
    names = (TESTED, "R@10", "error")
    columns = (
        Column("docids"),
        *(Column(f"{world}: {name}", ".3f") for world in VARIED for name in names),
    )
    rows: list[tuple[Cell, ...]] = []
    for variant in VARIANTS:
        figures: list[float | None] = []
        for world in VARIED:
            own = [
                t["found"]
                for t in found
                if (t["cell"]["data"], t["cell"]["system"]) == (world, f"docids: {variant}")
            ]
            figures += [own[0][name] for name in names] if own else [None] * len(names)
        if any(figure is not None for figure in figures):
            rows.append((variant, *figures))
    if not rows:
        return ""
    return (
        "## What distillation does to docids, without a model\n\n"
        + to_markdown(Table(columns, tuple(rows)))
        + f"\nDev queries, every docid scored; {short(UNIFORM)} codes; error: squared distance of "
        "items from their reconstructions. The first seed.\n"
    )


@lru_cache(maxsize=1)
def growth() -> str:
    """The paper's Figure 6b and Table 9, from the benchmark that has them."""
    file = Path(__file__).parents[1] / "bench" / "results" / "growth.json"
    if not file.exists():
        return ""
    figures = json.loads(file.read_text("utf-8"))["figures"]
    names = ("trieline fp32", "trieline int8", *(n for n in figures if "trieline" not in n))
    columns = (
        Column("system"),
        Column("items", ",d"),
        Column("queries a second", ",.1f"),
        Column("MB in memory", ",.1f"),
    )
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        for items, own in figures[name].items():
            size = own["bytes_an_item"]
            total = None if size is None else size * int(items) / 1e6
            rows.append((name, int(items), 1000 / own["ms"], total))
    return (
        "## Throughput and size against the number of items (Figure 6b, Table 9)\n\n"
        + to_markdown(Table(columns, tuple(rows)))
        + "\nFrom `bench/growth.py` (bench/RESULTS.md): PRO's shape with random weights, one "
        "thread, one query at a time; vectors of 384 numbers.\n"
    )
