"""The page pro.md, from the cells that pro.py ran; and what there is to run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np

from trieline.evaluate import Scores, compare
from trieline.evaluate.compare import Comparison
from trieline.evaluate.table import Cell, Column, Spread, Table, to_markdown

__all__ = [
    "NEXT",
    "SEEDS",
    "SYSTEMS",
    "TESTED",
    "VARIANTS",
    "VARIED",
    "WAYS",
    "System",
    "measures_of",
    "write_page",
]

SEEDS = (0, 1, 2, 3, 4)
MEASURES = ("Success@1", "Success@5", "Success@10", "R@10", "nDCG@10")
NEXT_MEASURES = ("R@5", "R@10", "nDCG@5", "nDCG@10")
TESTED = "RR@10"
OMEGAS = (3.0, 10.0, 30.0, 100.0, 300.0)  # of the codebooks' votes, chosen on dev
FEW_OMEGAS = (0.1, 0.3, 1.0, 3.0)  # of standardised votes

UNIFORM = (512,) * 8
ASCENDING = (256, 256, 512, 512, 512, 512, 1024, 1024)
LEGAL = ("train.normalise=legal", "decode.normalise=legal")
TO_IMAGE = "flickr8k text to image"
PICTURES = (TO_IMAGE, "flickr8k image to text", "flickr8k composed")
EVERYWHERE = (*PICTURES, "nfcorpus", "tldr")
NEXT = ("recsys/beauty", "recsys/sports")


def measures_of(world: str) -> tuple[str, ...]:
    """What is told of a world."""
    return NEXT_MEASURES if world in NEXT else MEASURES


class Way(NamedTuple):
    """How a trained index is searched."""

    about: str
    changes: tuple[str, ...] = ()
    weighed: bool = True  # omega is chosen on dev
    model: bool = True
    exact: bool = False

    def settings(self, omega: float) -> tuple[str, ...]:
        weight = omega if self.weighed or not self.model else 0.0
        return (f"decode.omega={weight}", *self.changes)


WAYS = {
    "plain": Way("the model alone", weighed=False),
    "SF": Way("score fusion, Eq. 7"),
    "look": Way(
        "score fusion, prefixes ranked by the best they lead to", ("decode.geometry=look",)
    ),
    "exact": Way("the same scores, no beam", exact=True),
    "geometry": Way("the codebooks alone, beam", weighed=False, model=False),
    "all codes": Way(
        "the codebooks alone, every docid",
        ("decode.geometry=look",),
        weighed=False,
        model=False,
    ),
}
USUAL = ("plain", "SF", "look", "geometry", "all codes")


class System(NamedTuple):
    """Docids and a training."""

    recipe: str
    sizes: tuple[int, ...]
    changes: tuple[str, ...] = ()
    worlds: tuple[str, ...] = EVERYWHERE
    seeds: int = 3
    ways: tuple[str, ...] = USUAL
    diagnosed: bool = False
    omegas: tuple[float, ...] = OMEGAS


def _varied(setting: str) -> System:
    return System("pro", ASCENDING, (setting,), (TO_IMAGE,), 1, ("plain", "SF"))


SYSTEMS = {
    "genius": System("genius", UNIFORM, seeds=5, diagnosed=True),
    "PD": System("pro", UNIFORM, diagnosed=True),
    "VS": System("genius", ASCENDING, diagnosed=True),
    "PD+VS": System("pro", ASCENDING, seeds=5, diagnosed=True),
    "descending": System("genius", ASCENDING[::-1], (), (TO_IMAGE,), diagnosed=True),
    "legal": System("pro", ASCENDING, LEGAL, ways=("plain", "SF", "look", "exact")),
    "16 levels": System("genius", (256,) * 16, LEGAL, ways=(*USUAL, "exact")),
    "32 levels": System("genius", (256,) * 32, LEGAL, ways=(*USUAL, "exact")),
    "tiger": System("tiger", (256,) * 3, (), NEXT, ways=("plain",)),
    "pro-tiger": System(
        "pro-tiger", (160, 240, 256), (), NEXT, ways=("plain", "SF"), omegas=FEW_OMEGAS
    ),
    **{f"tau {t:g}": _varied(f"ids.pro.tau={t}") for t in (0.01, 0.02, 0.1, 0.2, 0.5, 1.0)},
    **{f"lambda {w:g}": _varied(f"ids.pro.rank={w}") for w in (0.0, 1.0, 10.0, 50.0, 200.0, 500.0)},
}


# Docids judged without a model: a recipe, and what is changed in it.
VARIANTS: dict[str, tuple[str, ...]] = {
    "residual": ("genius",),
    "residual, beam of 8": ("genius", "ids.beam=8"),
    "PD": ("pro",),
    "PD, tau .1": ("pro", "ids.pro.tau=0.1"),
    "PD, lambda 10": ("pro", "ids.pro.rank=10.0"),
    "PD without L_rank": ("pro", "ids.pro.rank=0.0"),
    "PD without L_mse": ("pro", "ids.pro.mse=0.0"),
    "PD without L_cl": ("pro", "ids.pro.contrast=0.0"),
    "PD, 100 L_rq + 100 L_mse": ("pro", "ids.pro.rq=100.0", "ids.pro.mse=100.0"),
    "PD of real queries alone": ("pro", "train.itself=false", "train.borrowed=0"),
    "PD by products": ("pro", "ids.pro.student=product"),
}
VARIED = (TO_IMAGE, "tldr")

Told = dict[str, Any]

HEAD = """# PRO, taken apart

Written by `papers/pro.py`; do not edit. What the parts of PRO (Chen et al. 2026) bring, each with a
line that says whether the paper's effect is seen here, and what lies beyond the paper.

Sizes are those of the profile `cpu`: docids of 8 levels, 9 bytes' worth of codes ({uniform} for
"uniform", {ascending} for "ascending", the same number of bits), a T5 decoder 384 wide, {steps}
steps of {batch} pairs at most, stopped early on dev. PD: docids trained by prefix ranking
distillation (recipe `pro`). VS: ascending vocabulary. SF: the codebooks' votes while decoding,
their weight omega chosen on dev by {chosen}. "legal": trained and decoded with the softmax over
those codes that exist. "look": SF with prefixes ranked by the best docid below them. "exact": the
same scores without a beam. "codebooks alone": no model; with a beam of 50, and with every docid
scored. Dense is exact search with the vectors that the docids are made of. Nothing is reranked.

Every item, test items as well, is asked for in training by pseudo queries made of vectors: its own,
and four that borrow the step from item to query from items near it (`train.itself`,
`train.borrowed`). Test queries are never seen. Mean ± standard deviation over seeds. At most
{most} test queries a set, drawn once; they are asked over the items of their own split. Bytes: what
a search reads of an item (trie with docids, or vectors, or BM25's arrays). Milliseconds: one query
at a time, one thread, its vector given, all systems in turns, the least of three rounds.

- **flickr8k**: EfficientNet-Lite0 features and MiniLM captions, brought into one space by a linear
  pair of maps learnt on its training pictures (`papers/projection.md`); its dev split, 1,000
  pictures, is the test set. Text to image: a caption asks for its picture. Image to text: a picture
  asks for its five captions. MiniLM may have read some of these captions (Flickr30k's), never a
  picture.
- **flickr8k composed**: a picture and some words ask for another picture. The first picture is
  drawn from the 20 most like the second (EfficientNet), the words are those of a caption of the
  second that no caption of the first has; vectors are added, the picture with weight {weight}
  (chosen on dev). The first picture is no candidate.
- **nfcorpus**, **tldr**: MiniLM vectors of texts and queries.
- **recsys/beauty**, **recsys/sports**: what a user takes next (recipes `tiger`, `pro-tiger`), 5
  epochs, histories of 10 items at most, over all test users.
"""

LABELS = {
    ("genius", "plain"): "GENIUS",
    ("PD", "plain"): "+PD",
    ("VS", "plain"): "+VS",
    ("genius", "SF"): "+SF",
    ("PD", "SF"): "+PD+SF",
    ("VS", "SF"): "+VS+SF",
    ("PD+VS", "plain"): "+PD+VS",
    ("PD+VS", "SF"): "PRO: +PD+VS+SF",
}
BEYOND = {
    ("genius", "geometry"): "codebooks alone, beam",
    ("genius", "all codes"): "codebooks alone, every docid",
    ("PD+VS", "geometry"): "codebooks alone, +PD+VS, beam",
    ("PD+VS", "all codes"): "codebooks alone, +PD+VS, every docid",
    ("genius", "look"): "GENIUS, look",
    ("PD+VS", "look"): "+PD+VS, look",
    ("legal", "plain"): "+PD+VS, legal",
    ("legal", "SF"): "+PD+VS, legal, SF",
    ("legal", "look"): "+PD+VS, legal, look",
    ("legal", "exact"): "+PD+VS, legal, exact",
    ("16 levels", "all codes"): "16 x 256 codebooks alone, every docid",
    ("16 levels", "SF"): "16 x 256, legal, SF",
    ("16 levels", "look"): "16 x 256, legal, look",
    ("16 levels", "exact"): "16 x 256, legal, exact",
    ("32 levels", "all codes"): "32 x 256 codebooks alone, every docid",
    ("32 levels", "SF"): "32 x 256, legal, SF",
    ("32 levels", "look"): "32 x 256, legal, look",
    ("32 levels", "exact"): "32 x 256, legal, exact",
}
TIGER = {
    ("tiger", "plain"): "TIGER",
    ("pro-tiger", "plain"): "TIGER, docids of PRO",
    ("pro-tiger", "SF"): "TIGER, docids of PRO, SF",
}
# What is compared: (system, way) with, (system, way) without. The paper's effects, then ours.
EFFECTS = {
    "prefix distillation": (("PD", "plain"), ("genius", "plain")),
    "vocabulary schedule": (("VS", "plain"), ("genius", "plain")),
    "score fusion": (("genius", "SF"), ("genius", "plain")),
    "schedule after distillation": (("PD+VS", "plain"), ("PD", "plain")),
    "score fusion after both": (("PD+VS", "SF"), ("PD+VS", "plain")),
    "all of PRO": (("PD+VS", "SF"), ("genius", "plain")),
    "PRO on TIGER": (("pro-tiger", "SF"), ("tiger", "plain")),
}
OURS = {
    "look ahead beside SF (PRO)": (("PD+VS", "look"), ("PD+VS", "SF")),
    "legal beside level (PRO, SF)": (("legal", "SF"), ("PD+VS", "SF")),
    "the model beside codebooks alone (PRO, look)": (("PD+VS", "look"), ("PD+VS", "all codes")),
}
TO_DENSE = (
    ("PD+VS", "SF"),
    ("PD+VS", "look"),
    ("legal", "look"),
    ("16 levels", "look"),
    ("32 levels", "look"),
)


def write_page(found: Sequence[Told]) -> str:
    """The whole page, from whatever cells are there."""
    parts = [_head(found), _claims(found), _verdicts(found)]
    parts += [_world(name, found) for name in (*EVERYWHERE, *NEXT)]
    parts += [_beside_dense(found), _schedules(found), _diagnosis(found), _sensitivity(found)]
    parts += [_variants(found), _growth(), _missing(found), _machines(found)]
    return "\n".join(part for part in parts if part)


def _head(found: Sequence[Told]) -> str:
    recipes = [t["cell"]["recipe"] for t in found if "recipe" in t["cell"]]
    train = recipes[0]["train"] if recipes else {"max_steps": 0, "batch": 0}
    notes = [t["notes"] for t in found if t.get("notes")]
    return HEAD.format(
        uniform=_short(UNIFORM),
        ascending=_short(ASCENDING),
        steps=f"{train['max_steps']:,}",
        batch=train["batch"],
        chosen="nDCG@10",
        most=f"{1000:,}",
        weight=notes[0]["weight"] if notes else "–",
    )


def _short(sizes: Sequence[int]) -> str:
    """8 x 512, or 2 x 256, 4 x 512."""
    counts: list[list[int]] = []
    for size in sizes:
        if counts and counts[-1][1] == size:
            counts[-1][0] += 1
        else:
            counts.append([1, size])
    return ", ".join(f"{count} x {size}" for count, size in counts)


# --- worlds -------------------------------------------------------------------------------------


def _cells(found: Sequence[Told], world: str, system: str, way: str) -> list[Told]:
    """What was found by a system searched one way, a seed each."""
    own = [t for t in found if (t["cell"]["data"], t["cell"]["system"]) == (world, system)]
    return [t for t in own if way in t.get("ways", ())]


def _world(name: str, found: Sequence[Told]) -> str:
    timed = [t["ms"] for t in found if t["cell"]["data"] == name and "ms" in t]
    ms: dict[str, float] = timed[0] if timed else {}
    columns = (
        Column("system"),
        *(Column(measure, best="high") for measure in measures_of(name)),
        Column("bytes an item", ",.0f", best="low"),
        *([Column("ms a query", ".2f")] if ms else []),
        Column("omega"),
        Column("seeds", "d"),
    )
    rows: list[tuple[Cell, ...]] = []
    lines = {("BM25", "BM25"): "BM25", ("dense", "dense"): "dense"} | LABELS | BEYOND | TIGER
    for (system, way), label in lines.items():
        own = _cells(found, name, system, way)
        if not own:
            continue
        means = [t["ways"][way]["means"] for t in own]
        weights = sorted({f"{t['ways'][way]['omega']:g}" for t in own if "omega" in t["ways"][way]})
        shown = ", ".join(weights) if way in WAYS and WAYS[way].weighed else None
        cells = (_spread([m[measure] for m in means]) for measure in measures_of(name))
        spent = [ms.get(f"{system} {way}")] if ms else []
        rows.append((label, *cells, mean(t["bytes"] for t in own), *spent, shown, len(own)))
    if not rows:
        return ""
    parts = [f"## {name}", "", to_markdown(Table(columns, tuple(rows)))]
    return "\n".join([*parts, *_survival(name, found)])


def _survival(name: str, found: Sequence[Told]) -> Iterator[str]:
    """How much the decoder's beam of 50 keeps."""
    chosen = {key: label for key, label in LABELS.items() if _cells(found, name, *key)}
    if not chosen:
        return
    columns = (Column("in the beam after level"), *(Column(str(i + 1)) for i in range(8)))
    rows = []
    for (system, way), label in chosen.items():
        levels = [t["ways"][way]["survival"] for t in _cells(found, name, system, way)]
        rows.append((label, *(_spread([own[i] for own in levels]) for i in range(8))))
    yield to_markdown(Table(columns, tuple(rows)))


def _spread(values: Sequence[float]) -> Cell:
    return Spread(mean(values), stdev(values)) if len(values) > 1 else values[0]


# --- effects ------------------------------------------------------------------------------------


def _reciprocal(ranks: str) -> np.ndarray:
    """1 / rank of the first answer of each query, 0 where there is none among ten."""
    return np.array([0.0 if own == "-" else 1 / (int(own) + 1) for own in ranks])


def _scores(cells: Sequence[Told], way: str) -> Scores:
    """Each query's mean over the seeds."""
    values = np.mean([_reciprocal(t["ways"][way]["ranks"]) for t in cells], axis=0)
    each = {f"{place:09d}": float(value) for place, value in enumerate(values)}
    return Scores({TESTED: float(values.mean())}, {TESTED: each})


def _effect(
    found: Sequence[Told], world: str, ours: tuple[str, str], theirs: tuple[str, str]
) -> tuple[Comparison, int] | None:
    """A comparison over the seeds that both have (a baseline has none), and how many they are."""
    a, b = _cells(found, world, *ours), _cells(found, world, *theirs)
    if all("seed" in t["cell"] for t in (*a, *b)):
        seeds = {t["cell"]["seed"] for t in a} & {t["cell"]["seed"] for t in b}
        a, b = ([t for t in own if t["cell"]["seed"] in seeds] for own in (a, b))
    if not a or not b:
        return None
    (compared,) = compare(_scores(a, ours[1]), _scores(b, theirs[1]), [TESTED])
    return compared, len(a)


PAPER = {
    "prefix distillation": "R@1 up by 1.7 to 3.4 on five of six tasks, down .3 on one (Table 8)",
    "vocabulary schedule": "R@1 up by 1.2 to 3.7 on five of six tasks, down .4 on one (Table 8)",
    "score fusion": "R@1 up by 1.9 to 3.9 on five of six tasks, down .6 on one (Table 8)",
    "schedule after distillation": "R@1 up by .4 to 3.8 on all six tasks (Table 8)",
    "score fusion after both": "R@1 up by .3 to 5.7 on all six tasks (Table 8)",
    "all of PRO": "R@1 up by 3.2 to 11.2 on all six tasks (Table 8)",
    "PRO on TIGER": "R@10 up by 13 to 14 % on three categories (Table 4)",
}


def _claims(found: Sequence[Told]) -> str:
    """A line for each effect of the paper."""
    lines = []
    for effect, said in PAPER.items():
        seen = {
            world: compared
            for world in (*EVERYWHERE, *NEXT)
            if (compared := _effect(found, world, *EFFECTS[effect])) is not None
        }
        if not seen:
            continue
        verdicts: dict[str, list[str]] = {}
        for world, (c, _) in seen.items():
            told = f"{world} ({c.difference:+.3f}, p {c.p_value:.4f})"
            verdicts.setdefault(_verdict(c, papers=True), []).append(told)
        here = "; ".join(f"{verdict}: {', '.join(own)}" for verdict, own in verdicts.items())
        lines.append(f"- **{effect}**. Paper: {said}. Here, by {TESTED}: {here}.")
    lines += [*_claims_of_schedules(found), *_claims_of_bound(found), *_claims_of_weights(found)]
    if not lines:
        return ""
    return "\n".join(["## The paper's effects, a line each", "", *lines, ""])


def _claims_of_schedules(found: Sequence[Told]) -> Iterator[str]:
    shapes = {"descending": "descending", "uniform": "genius", "ascending": "VS"}
    seen = {name: _diagnosed(found, TO_IMAGE, system, "plain") for name, system in shapes.items()}
    levels = {name: own["levels"] for name, own in seen.items() if own is not None}
    if len(levels) < len(shapes):
        return
    first, last = (
        {name: own[place]["oracle_beam"] for name, own in levels.items()} for place in (0, -1)
    )
    told = [", ".join(f"{n} {v:.1%}" for n, v in own.items()) for own in (first, last)]
    rising = [own["ascending"] > own["uniform"] > own["descending"] for own in (first, last)]
    words = [("reproduced" if holds else "not reproduced") for holds in rising]
    yield (
        "- **the ascending schedule keeps most after the first level**. Paper, level 0: descending "
        f"55.2 %, uniform 66.6 %, ascending 75.1 % (Table 1). Here: {told[0]}: {words[0]}. After "
        f"the last level, which the paper does not tell: {told[1]}: the order is "
        f"{'the same' if rising[1] else 'another'}. What the small first levels save, the next "
        "level loses: few prefixes hold many items each, and all of them compete there."
    )


def _claims_of_bound(found: Sequence[Told]) -> Iterator[str]:
    plain = {
        (world, system): own
        for world in (TO_IMAGE, "nfcorpus")
        for system in ("genius", "PD", "VS", "PD+VS")
        if (own := _diagnosed(found, world, system, "plain")) is not None
    }
    if not plain:
        return
    off = {key: mean(level["mismatch"] for level in own["levels"]) for key, own in plain.items()}
    fused = {
        key: mean(level["mismatch"] for level in own["levels"])
        for key in plain
        if (own := _diagnosed(found, *key, "SF")) is not None
    }
    yield (
        "- **the decoder is far from the oracle everywhere**. Paper: mean epsilon above .95. Here "
        f"{min(off.values()):.2f} to {max(off.values()):.2f} without score fusion, "
        f"{min(fused.values()):.2f} to {max(fused.values()):.2f} with it; lower with it in "
        f"{sum(fused[key] < off[key] for key in fused)} of {len(fused)} indexes."
    )
    rho = [own["divergence_rho"] for own in plain.values()]
    margin = [own["margin_rho"] for own in plain.values()]
    certified = sum(own["levels"][-1]["certified_so_far"] for own in plain.values())
    asked = sum(own["scored"] for own in plain.values())
    yield (
        "- **K foretells survival best** (Figure 4). Paper: Spearman -.59. Here "
        f"{min(rho):.2f} to {max(rho):.2f}; the margin m foretells it better, "
        f"{min(margin):.2f} to {max(margin):.2f}."
    )
    yield (
        "- **the bound is loose** (the paper says so, without a count). Here Theorem 2 certifies "
        f"{certified} of {asked} queries."
    )


def _claims_of_weights(found: Sequence[Told]) -> Iterator[str]:
    own = _cells(found, TO_IMAGE, "PD+VS", "SF")
    if not own:
        return
    tried = {w: mean(t["ways"]["SF"]["dev"][w] for t in own) for w in own[0]["ways"]["SF"]["dev"]}
    best = max(tried, key=lambda w: tried[w])
    none = mean(max(t["ways"]["plain"]["dev"].values()) for t in own)
    told = ", ".join(f"{float(w):g}: {value:.3f}" for w, value in tried.items())
    yield (
        "- **omega has its best near 10, and less of it above 20** (Table 15). Here, nDCG@10 on "
        f"{TO_IMAGE}'s dev queries, 0: {none:.3f}, {told}: best at {float(best):g}"
        f"{', not reproduced' if float(best) > 20 else ''}."
    )


def _verdicts(found: Sequence[Told]) -> str:
    """A line for each effect and world."""
    columns = (
        Column("effect"),
        Column("world"),
        Column("without"),
        Column("with"),
        Column("difference", "+.3f"),
        Column("95 % from", "+.3f"),
        Column("to", "+.3f"),
        Column("p", ".4f"),
        Column("seeds", "d"),
        Column("verdict"),
    )
    rows: list[tuple[Cell, ...]] = []
    for effect, (ours, theirs) in (EFFECTS | OURS).items():
        for world in (*EVERYWHERE, *NEXT):
            seen = _effect(found, world, ours, theirs)
            if seen is not None:
                c, seeds = seen
                numbers = c.mean_b, c.mean_a, c.difference, c.low, c.high, c.p_value
                rows.append((effect, world, *numbers, seeds, _verdict(c, effect in EFFECTS)))
    if not rows:
        return ""
    return (
        f"## The effects, by {TESTED}\n\n"
        + to_markdown(Table(columns, tuple(rows)))
        + "\nPaired over the test queries, each with its mean over the seeds: bootstrap interval, "
        "randomisation test. No correction for their number.\n"
    )


def _verdict(seen: Comparison, papers: bool) -> str:
    if seen.p_value >= 0.05:
        return "not seen" if papers else "no difference seen"
    if papers:
        return "reproduced" if seen.difference > 0 else "the opposite"
    return "better" if seen.difference > 0 else "worse"


def _beside_dense(found: Sequence[Told]) -> str:
    columns = (
        Column("world"),
        Column("system"),
        Column("R@10"),
        Column("dense R@10"),
        Column("bytes an item", ",.0f"),
        Column(f"{TESTED}: difference", "+.3f"),
        Column("95 % from", "+.3f"),
        Column("to", "+.3f"),
        Column("p", ".4f"),
        Column("seeds", "d"),
    )
    rows: list[tuple[Cell, ...]] = []
    for world in EVERYWHERE:
        dense = _cells(found, world, "dense", "dense")
        for key in TO_DENSE:
            seen = _effect(found, world, key, ("dense", "dense"))
            if seen is None or not dense:
                continue
            c, seeds = seen
            own = _cells(found, world, *key)
            right = _spread([t["ways"][key[1]]["means"]["R@10"] for t in own])
            bytes_ = mean(t["bytes"] for t in own)
            theirs = dense[0]["ways"]["dense"]["means"]["R@10"]
            numbers = bytes_, c.difference, c.low, c.high, c.p_value, seeds
            rows.append((world, (LABELS | BEYOND)[key], right, theirs, *numbers))
    if not rows:
        return ""
    return "## Beside dense search with the same vectors\n\n" + to_markdown(
        Table(columns, tuple(rows))
    )


# --- what the diagnostics say -------------------------------------------------------------------


def _diagnosed(found: Sequence[Told], world: str, system: str, way: str) -> Told | None:
    own = [
        t[f"diagnosed {way}"]
        for t in found
        if (t["cell"]["data"], t["cell"]["system"]) == (world, system) and f"diagnosed {way}" in t
    ]
    return own[0] if own else None


def _schedules(found: Sequence[Told]) -> str:
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
        seen = _diagnosed(found, TO_IMAGE, system, "plain")
        own = _cells(found, TO_IMAGE, system, "plain")
        for level in seen["levels"][:4] if seen else ():
            size = SYSTEMS[system].sizes[level["level"] - 1]
            alive = level["oracle_token"], level["oracle_beam"]
            right = _spread([_scores([t], "plain").means[TESTED] for t in own])
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


def _diagnosis(found: Sequence[Told]) -> str:
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
                seen = _diagnosed(found, world, system, way)
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


def _sensitivity(found: Sequence[Told]) -> str:
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
            own = [t for t in _cells(found, TO_IMAGE, system, "SF") if t["cell"].get("seed") == 0]
            if own:
                dev = own[0]["ways"]
                label = f"{value:g}" + (" (default)" if value == usual else "")
                plain, fused = (max(dev[way]["dev"].values()) for way in ("plain", "SF"))
                rows.append((name, label, plain, fused))
    own = _cells(found, TO_IMAGE, "PD+VS", "SF")
    for weight in own[0]["ways"]["SF"]["dev"] if own else ():
        values = [t["ways"]["SF"]["dev"][weight] for t in own]
        rows.append(("omega", f"{float(weight):g}", None, _spread(values)))
    if not rows:
        return ""
    return f"## Sensitivity, {TO_IMAGE} (the paper's Table 15)\n\n" + to_markdown(
        Table(columns, tuple(rows))
    )


def _variants(found: Sequence[Told]) -> str:
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
        + f"\nDev queries, every docid scored; {_short(UNIFORM)} codes; error: squared distance of "
        "items from their reconstructions. The first seed.\n"
    )


@lru_cache(maxsize=1)
def _growth() -> str:
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


# --- the rest -----------------------------------------------------------------------------------


def _missing(found: Sequence[Told]) -> str:
    """Which cells are not there yet."""
    there = {(t["cell"]["data"], t["cell"]["system"], t["cell"].get("seed")) for t in found}
    lacking: dict[str, list[str]] = {}
    for name, system in SYSTEMS.items():
        for world in system.worlds:
            seeds = [str(s) for s in range(system.seeds) if (world, name, s) not in there]
            if seeds:
                lacking.setdefault(world, []).append(f"{name} ({', '.join(seeds)})")
    lines = [f"- {world}: {'; '.join(own)}" for world, own in lacking.items()]
    return "## Still missing (seeds)\n\n" + "\n".join(lines) + "\n" if lines else ""


def _machines(found: Sequence[Told]) -> str:
    names = sorted({f"{t['machine']['cpu']}, torch {t['machine']['torch']}" for t in found})
    hours = sum(t["seconds"] for t in found) / 3600
    return f"{len(found)} cells took {hours:.1f} hours in all. Machines: {'; '.join(names)}.\n"
