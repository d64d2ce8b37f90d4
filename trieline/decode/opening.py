"""From settings to guides: the one place that knows which settings open which guide."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from trieline.config import DecodeSettings
from trieline.decode.geometry import GeometricLook, GeometricPlan
from trieline.decode.guides import Geometric, Guide
from trieline.decode.lookahead import LookAhead
from trieline.ids import Docids, codebooks_of
from trieline.types import Floats

__all__ = ["GuidesOf", "open_guides"]


def open_guides(decode: DecodeSettings, codebooks: Sequence[Floats]) -> list[Guide]:
    """The guides that the settings ask for; they can be used for many searches, in any thread."""
    guides: list[Guide] = []
    if decode.omega and decode.geometry == "carry":
        guides.append(Geometric(codebooks, decode.omega, decode.standardise))
    if decode.omega and decode.geometry == "look":
        guides.append(GeometricLook(codebooks, decode.omega))
    if decode.plan != "none":
        planner = GeometricPlan(codebooks, decode.plan_size)
        guides.append(
            LookAhead(
                planner,
                plan=decode.plan,
                reduce=decode.plan_reduce,
                weight=decode.plan_weight,
            )
        )
    return guides


class GuidesOf:
    """Opens the guides of some docids, and keeps them until the settings change.

    Planners lay out a trie at their first search; opened anew for every search they would do so
    every time.
    """

    def __init__(self, docids: Docids) -> None:
        self._docids = docids
        self._open: tuple[DecodeSettings, list[Guide]] | None = None
        self._whole: GeometricPlan | None = None
        self._lock = Lock()

    def __call__(self, decode: DecodeSettings) -> list[Guide]:
        if not decode.guided:
            return []
        with self._lock:
            if self._open is None or self._open[0] != decode:
                self._open = decode, open_guides(decode, codebooks_of(self._docids))
            return self._open[1]

    def whole(self) -> GeometricPlan:
        """What the geometry says of complete docids, for searches that need it of every one."""
        with self._lock:
            if self._whole is None:
                self._whole = GeometricPlan(codebooks_of(self._docids), n=0)
            return self._whole
