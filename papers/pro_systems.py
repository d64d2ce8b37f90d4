"""What pro.py runs: systems, the ways of searching them, and which are compared."""

from __future__ import annotations

from typing import NamedTuple

from worlds import NEXT

SEEDS = (0, 1, 2, 3, 4)
MEASURES = ("Success@1", "Success@5", "Success@10", "R@10", "nDCG@10")
NEXT_MEASURES = ("R@5", "R@10", "nDCG@5", "nDCG@10")
TESTED = "RR@10"
CHOSEN_BY = "nDCG@10"  # on dev
MOST = 1000  # test queries, drawn with seed 0 where there are more
OMEGAS = (3.0, 10.0, 30.0, 100.0, 300.0)  # of the codebooks' votes, chosen on dev
FEW_OMEGAS = (0.1, 0.3, 1.0, 3.0)  # of standardised votes

UNIFORM = (512,) * 8
ASCENDING = (256, 256, 512, 512, 512, 512, 1024, 1024)
LEGAL = ("train.normalise=legal", "decode.normalise=legal")
TO_IMAGE = "flickr8k text to image"
PICTURES = (TO_IMAGE, "flickr8k image to text", "flickr8k composed")
EVERYWHERE = (*PICTURES, "nfcorpus", "tldr")


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
    "PD, L_rq of items alone": ("pro", "ids.pro.quantised=items"),
    "PD, 10 L_rq of items, no L_mse, tau .1": (
        "pro",
        "ids.pro.quantised=items",
        "ids.pro.rq=10.0",
        "ids.pro.mse=0.0",
        "ids.pro.tau=0.1",
    ),
    "PD of real queries alone": ("pro", "train.itself=false", "train.borrowed=0"),
    "PD by products": ("pro", "ids.pro.student=product"),
}
VARIED = (TO_IMAGE, "tldr")

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
