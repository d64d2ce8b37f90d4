"""The page pro.md, from the cells that pro.py ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import mean

from pro_claims import claims
from pro_found import Told, cells_of, effect_of, short, spread, verdict_of
from pro_systems import (
    ASCENDING,
    BEYOND,
    CHOSEN_BY,
    EFFECTS,
    EVERYWHERE,
    LABELS,
    MOST,
    NEXT,
    OURS,
    SYSTEMS,
    TESTED,
    TIGER,
    TO_DENSE,
    UNIFORM,
    WAYS,
    measures_of,
)
from pro_theory import diagnosis, growth, schedules, sensitivity, variants

from trieline.evaluate.table import Cell, Column, Table, to_markdown

__all__ = ["write_page"]

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

What to read with care: on flickr8k a training is judged, and stopped, by dev queries asked over all
items, training pictures included, while dev and test are asked over their own. Models with the
usual softmax stop early for it, so that "GENIUS" and what is compared with it there are weaker than
they need be, and the gain of score fusion is too large.

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


def write_page(found: Sequence[Told]) -> str:
    """The whole page, from whatever cells are there."""
    parts = [_head(found), claims(found), _verdicts(found)]
    parts += [_world(name, found) for name in (*EVERYWHERE, *NEXT)]
    parts += [_beside_dense(found), schedules(found), diagnosis(found), sensitivity(found)]
    parts += [variants(found), growth(), _missing(found), _machines(found)]
    return "\n".join(part for part in parts if part)


def _head(found: Sequence[Told]) -> str:
    recipes = [t["cell"]["recipe"] for t in found if t["cell"]["system"] == "genius"]
    train = recipes[0]["train"] if recipes else {"max_steps": 0, "batch": 0}
    notes = [t["notes"] for t in found if t.get("notes")]
    return HEAD.format(
        uniform=short(UNIFORM),
        ascending=short(ASCENDING),
        steps=f"{train['max_steps']:,}",
        batch=train["batch"],
        chosen=CHOSEN_BY,
        most=f"{MOST:,}",
        weight=notes[0]["weight"] if notes else "–",
    )


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
        own = cells_of(found, name, system, way)
        if not own:
            continue
        means = [t["ways"][way]["means"] for t in own]
        weights = sorted({f"{t['ways'][way]['omega']:g}" for t in own if "omega" in t["ways"][way]})
        shown = ", ".join(weights) if way in WAYS and WAYS[way].weighed else None
        cells = (spread([m[measure] for m in means]) for measure in measures_of(name))
        spent = [ms.get(f"{system} {way}")] if ms else []
        rows.append((label, *cells, mean(t["bytes"] for t in own), *spent, shown, len(own)))
    if not rows:
        return ""
    parts = [f"## {name}", "", to_markdown(Table(columns, tuple(rows)))]
    return "\n".join([*parts, *_survival(name, found)])


def _survival(name: str, found: Sequence[Told]) -> Iterator[str]:
    """How much the decoder's beam of 50 keeps."""
    chosen = {key: label for key, label in LABELS.items() if cells_of(found, name, *key)}
    if not chosen:
        return
    columns = (Column("in the beam after level"), *(Column(str(i + 1)) for i in range(8)))
    rows = []
    for (system, way), label in chosen.items():
        levels = [t["ways"][way]["survival"] for t in cells_of(found, name, system, way)]
        rows.append((label, *(spread([own[i] for own in levels]) for i in range(8))))
    yield to_markdown(Table(columns, tuple(rows)))


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
            seen = effect_of(found, world, ours, theirs)
            if seen is not None:
                c, seeds = seen
                numbers = c.mean_b, c.mean_a, c.difference, c.low, c.high, c.p_value
                rows.append((effect, world, *numbers, seeds, verdict_of(c, effect in EFFECTS)))
    if not rows:
        return ""
    return (
        f"## The effects, by {TESTED}\n\n"
        + to_markdown(Table(columns, tuple(rows)))
        + "\nPaired over the test queries, each with its mean over the seeds: bootstrap interval, "
        "randomisation test. No correction for their number.\n"
    )


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
        dense = cells_of(found, world, "dense", "dense")
        for key in TO_DENSE:
            seen = effect_of(found, world, key, ("dense", "dense"))
            if seen is None or not dense:
                continue
            c, seeds = seen
            own = cells_of(found, world, *key)
            right = spread([t["ways"][key[1]]["means"]["R@10"] for t in own])
            bytes_ = mean(t["bytes"] for t in own)
            theirs = dense[0]["ways"]["dense"]["means"]["R@10"]
            numbers = bytes_, c.difference, c.low, c.high, c.p_value, seeds
            rows.append((world, (LABELS | BEYOND)[key], right, theirs, *numbers))
    if not rows:
        return ""
    return "## Beside dense search with the same vectors\n\n" + to_markdown(
        Table(columns, tuple(rows))
    )


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
