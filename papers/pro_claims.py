"""A line for each effect of the paper: what it says, what is seen here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import mean

from pro_found import Told, cells_of, diagnosed, effect_of, verdict_of
from pro_systems import EFFECTS, EVERYWHERE, NEXT, TESTED, TO_IMAGE

PAPER = {
    "prefix distillation": "R@1 up by 1.7 to 3.4 on five of six tasks, down .3 on one (Table 8)",
    "vocabulary schedule": "R@1 up by 1.2 to 3.7 on five of six tasks, down .4 on one (Table 8)",
    "score fusion": "R@1 up by 1.9 to 3.9 on five of six tasks, down .6 on one (Table 8)",
    "schedule after distillation": "R@1 up by .4 to 3.8 on all six tasks (Table 8)",
    "score fusion after both": "R@1 up by .3 to 5.7 on all six tasks (Table 8)",
    "all of PRO": "R@1 up by 3.2 to 11.2 on all six tasks (Table 8)",
    "PRO on TIGER": "R@10 up by 13 to 14 % on three categories (Table 4)",
}


def claims(found: Sequence[Told]) -> str:
    """A line for each effect of the paper."""
    lines = []
    for effect, said in PAPER.items():
        seen = {
            world: compared
            for world in (*EVERYWHERE, *NEXT)
            if (compared := effect_of(found, world, *EFFECTS[effect])) is not None
        }
        if not seen:
            continue
        verdicts: dict[str, list[str]] = {}
        for world, (c, _) in seen.items():
            told = f"{world} ({c.difference:+.3f}, p {c.p_value:.4f})"
            verdicts.setdefault(verdict_of(c, papers=True), []).append(told)
        here = "; ".join(f"{verdict}: {', '.join(own)}" for verdict, own in verdicts.items())
        lines.append(f"- **{effect}**. Paper: {said}. Here, by {TESTED}: {here}.")
    lines += [*_claims_of_schedules(found), *_claims_of_bound(found), *_claims_of_weights(found)]
    if not lines:
        return ""
    return "\n".join(["## The paper's effects, a line each", "", *lines, ""])


def _claims_of_schedules(found: Sequence[Told]) -> Iterator[str]:
    shapes = {"descending": "descending", "uniform": "genius", "ascending": "VS"}
    seen = {name: diagnosed(found, TO_IMAGE, system, "plain") for name, system in shapes.items()}
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
        f"{'the same' if rising[1] else 'another'}."
    )


def _claims_of_bound(found: Sequence[Told]) -> Iterator[str]:
    plain = {
        (world, system): own
        for world in (TO_IMAGE, "nfcorpus")
        for system in ("genius", "PD", "VS", "PD+VS")
        if (own := diagnosed(found, world, system, "plain")) is not None
    }
    if not plain:
        return
    off = {key: mean(level["mismatch"] for level in own["levels"]) for key, own in plain.items()}
    fused = {
        key: mean(level["mismatch"] for level in own["levels"])
        for key in plain
        if (own := diagnosed(found, *key, "SF")) is not None
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
        f"{min(rho):.2f} to {max(rho):.2f}, and {min(margin):.2f} to {max(margin):.2f} of the "
        "margin m."
    )
    yield (
        "- **the bound is loose** (the paper says so, without a count). Here Theorem 2 certifies "
        f"{certified} of {asked} queries."
    )


def _claims_of_weights(found: Sequence[Told]) -> Iterator[str]:
    own = cells_of(found, TO_IMAGE, "PD+VS", "SF")
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
