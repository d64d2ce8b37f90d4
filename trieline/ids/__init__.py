"""How items get their docids: from vectors to short sequences of codes.

    docids = open_docids(settings, seed=0).fit(vectors)
    codes = resolve(docids.assign(vectors), settings, docids=docids, vectors=vectors)
    later = resolve(docids.assign(new), settings, docids=docids, vectors=new, taken=codes)

Belongs here: schemes (residual, pro, tree, atomic), what becomes of collisions, and figures on the
result. Does not: encoding items (encode), which docids exist and whose they are (index).
"""

from __future__ import annotations

from trieline.config import IdSettings
from trieline.errors import SettingsError
from trieline.ids.atomic import AtomicIds
from trieline.ids.collisions import resolve
from trieline.ids.docids import Arrays, Docids, Judged
from trieline.ids.pro import ProIds
from trieline.ids.residual import ResidualIds
from trieline.ids.schedule import schedule
from trieline.ids.stats import LevelStats, Stats, stats
from trieline.ids.tree import TreeIds
from trieline.types import Floats

__all__ = [
    "AtomicIds",
    "Docids",
    "Judged",
    "LevelStats",
    "ProIds",
    "ResidualIds",
    "Stats",
    "TreeIds",
    "codebooks_of",
    "load_docids",
    "open_docids",
    "resolve",
    "schedule",
    "stats",
]


def open_docids(settings: IdSettings, seed: int = 0, modalities: tuple[str, ...] = ()) -> Docids:
    """The scheme of ``settings``, with nothing learnt yet."""
    _check(settings)
    match settings.scheme:
        case "residual":
            return ResidualIds(settings, seed, modalities)
        case "pro":
            return ProIds(settings, seed, modalities)
        case "tree":
            return TreeIds(settings, seed)
        case "atomic":
            return AtomicIds(settings)


def load_docids(settings: IdSettings, arrays: Arrays) -> Docids:
    """The scheme of ``settings`` with what ``arrays()`` gave when it was saved."""
    _check(settings)
    match settings.scheme:
        case "residual":
            return ResidualIds.from_arrays(settings, arrays)
        case "pro":
            return ProIds.from_arrays(settings, arrays)
        case "tree":
            return TreeIds.from_arrays(settings, arrays)
        case "atomic":
            return AtomicIds.from_arrays(settings, arrays)


def codebooks_of(docids: Docids) -> list[Floats]:
    """float32[V, D] of each level; all zero where the codes do not stand for vectors."""
    return docids.codebooks


def _check(settings: IdSettings) -> None:
    """What goes together only in some schemes."""
    words = settings.scheme in ("residual", "pro")
    if not words and settings.collisions == "reassign":
        raise SettingsError(
            f"ids.collisions='reassign' needs codes that stand for vectors: {settings.scheme} "
            "docids have none, and are unique as they are. Leave it at 'keep'."
        )
    if not words and settings.modality:
        raise SettingsError(
            f"ids.modality=true goes with ids.scheme='residual' or 'pro', not '{settings.scheme}'."
        )
    if not 2 <= settings.extra <= 65536:
        raise SettingsError(f"ids.extra={settings.extra}: a level holds 2 to 65536 codes.")
    if settings.beam < 1 or settings.refine_epochs < 0:
        raise SettingsError(
            f"ids.beam={settings.beam}, ids.refine_epochs={settings.refine_epochs}: expected a "
            "beam of at least 1 and no fewer than 0 epochs."
        )
