"""What would have let a search find an item: tried out, not guessed.

The rank at which a prefix fell is no more than a hint at the beam that keeps it: a wider beam
admits more rivals too. So searches are run again, wider or with other settings, and a beam width is
called the narrowest only where the next narrower one was seen to fail. (Finding is not monotone in
the width: a narrower beam than that may find the item by luck, having lost a rival.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trieline.config import Recipe, apply
from trieline.decode.beam import Expansion, Found
from trieline.decode.guides import Guide, Score
from trieline.diagnose.story import scores_along, stories
from trieline.errors import SettingsError, TrielineError
from trieline.index import Trie
from trieline.types import Floats

__all__ = [
    "WIDEST",
    "Attempt",
    "Outcome",
    "Probe",
    "Rescue",
    "Search",
    "Spotlight",
    "WhatIf",
    "what_ifs",
]

WIDEST = 1024
"""No wider beam is tried."""

_LIGHT = 1e9  # far above any score; what float64 rounds away beside it is below 1e-6

Ints = NDArray[np.int64]


class Search(Protocol):
    """One query's search, to be run again."""

    def __call__(
        self,
        observe: Callable[[Expansion], None],
        *,
        beam: int,
        changes: Sequence[str] = (),
        guides: Sequence[Guide] = (),
    ) -> Found:
        """The best ``beam`` items with that beam, ``changes`` to the recipe and more guides."""


class WhatIf(NamedTuple):
    """Settings that may find what the recipe's do not."""

    label: str
    changes: tuple[str, ...]  # as for --set
    geometry: bool = False  # compares query vectors with codebooks


WHAT_IFS = (
    WhatIf("no geometry", ("decode.omega=0",), geometry=True),
    *(
        WhatIf(f"geometry, omega {o}", (f"decode.omega={o}",), geometry=True)
        for o in (1, 3, 10, 30)
    ),
    WhatIf("looking ahead, omega 10", ("decode.geometry=look", "decode.omega=10"), geometry=True),
)


class Attempt(NamedTuple):
    """One search that was run to see whether it finds the item."""

    label: str
    changes: tuple[str, ...]  # to the recipe, as for --set
    beam: int
    rank: int | None  # of the item among its answers
    lost_at: int | None  # level at which the item's last docid left the beam
    finds: bool  # rank is within the k that were asked for


class Rescue(NamedTuple):
    """What was tried."""

    widths: tuple[Attempt, ...]  # narrowest first
    settings: tuple[Attempt, ...]
    searches: int  # all that were run, the explained one and its scoring included

    @property
    def narrowest(self) -> Attempt | None:
        """The narrowest beam that was seen to find the item."""
        return next((attempt for attempt in self.widths if attempt.finds), None)

    @property
    def fails(self) -> int | None:
        """The widest narrower beam that was seen to fail."""
        found = self.narrowest
        missed = [a.beam for a in self.widths if not a.finds and (not found or a.beam < found.beam)]
        return max(missed, default=None)


class Outcome(NamedTuple):
    """How the item did in one search."""

    found: Found
    seen: list[Expansion]
    rank: int | None
    lost_at: int | None


class Probe:
    """Runs searches for one item, at most ``limit``, and keeps count."""

    def __init__(
        self,
        search: Search,
        trie: Trie,
        docids: NDArray[np.uint16],
        number: int,
        *,
        k: int,
        limit: int,
    ) -> None:
        """``docids`` [rows, L] are those of item ``number``, all of them in the trie."""
        self.search, self.trie, self.docids, self.number = search, trie, docids, number
        self.paths = trie.walk(docids)
        self.k, self.limit, self.count = k, limit, 0
        self.needed: float | None = None  # k answers are known to score at least this

    def run(self, beam: int, changes: Sequence[str] = (), guides: Sequence[Guide] = ()) -> Outcome:
        self.count += 1
        seen: list[Expansion] = []
        found = self.search(seen.append, beam=beam, changes=changes, guides=guides)
        if not changes and not guides and len(found.scores) >= self.k:
            last = float(found.scores[self.k - 1])
            self.needed = last if self.needed is None else max(last, self.needed)
        at = np.flatnonzero(found.items == self.number)
        best = stories(self.docids, self.paths, seen)[0]
        return Outcome(found, seen, int(at[0]) + 1 if len(at) else None, best.lost_at)

    def whole_scores(self, beam: int) -> dict[tuple[int, ...], tuple[float, ...]]:
        """Each docid's scores along its path, had nothing been able to push it out.

        One search with a guide that lights up the paths; the light is taken off again.
        """
        lit = self.run(max(beam, len(self.docids)), guides=[Spotlight(self.paths)])
        return {
            tuple(row.tolist()): tuple(s - _LIGHT for s in scores_along(path, lit.seen))
            for row, path in zip(self.docids, self.paths, strict=True)
        }

    def settings(self, beam: int, tried: Sequence[WhatIf]) -> tuple[Attempt, ...]:
        """Other settings with the same beam. What this index cannot do is left out."""
        attempts: list[Attempt] = []
        for what in tried:
            if self.count >= self.limit:
                break
            try:
                outcome = self.run(beam, what.changes)
            except TrielineError:
                continue
            attempts.append(self._attempt(what.label, what.changes, beam, outcome))
        return tuple(attempts)

    def widths(self, beam: int, hint: int) -> tuple[Attempt, ...]:
        """Wider beams, doubled from ``hint`` until one finds the item, then halved towards it."""
        cap = self.widest(beam)
        tried: list[Attempt] = []
        low, high, width = beam, 0, min(max(hint, beam + 1), cap)
        while low < width and self.count < self.limit:
            tried.append(self._width(width))
            if tried[-1].finds:
                high = width
            else:
                low = width
            width = (low + high) // 2 if high else min(2 * width, cap)
        return tuple(sorted(tried, key=lambda attempt: attempt.beam))

    def one_width(self, beam: int) -> tuple[Attempt, ...]:
        """Only the widest beam: where the item stands when hardly anything is pruned."""
        cap = self.widest(beam)
        return (self._width(cap),) if cap > beam and self.count < self.limit else ()

    def widest(self, beam: int) -> int:
        """A beam as wide as there are items prunes nothing and lists them all."""
        return max(beam, min(WIDEST, self.trie.rows))

    def _width(self, beam: int) -> Attempt:
        label = f"beam {beam}" + (", which prunes nothing" if beam >= len(self.trie) else "")
        return self._attempt(label, (f"decode.beam={beam}",), beam, self.run(beam))

    def _attempt(
        self, label: str, changes: tuple[str, ...], beam: int, outcome: Outcome
    ) -> Attempt:
        finds = outcome.rank is not None and outcome.rank <= self.k
        return Attempt(label, changes, beam, outcome.rank, outcome.lost_at, finds)


class Spotlight:
    """A guide that keeps some paths in the beam whatever they score."""

    name = "spotlight"

    def __init__(self, paths: Ints) -> None:
        """``paths`` [rows, L + 1]: the nodes of each docid."""
        self.paths = paths

    def start(self, vectors: Floats, trie: Trie) -> None:
        return None

    def score(self, state: Any, level: int, parents: Ints, codes: Ints, nodes: Ints) -> Score:
        return Score(look=np.where(np.isin(nodes, self.paths[:, level + 1]), _LIGHT, 0.0))

    def follow(self, state: Any, level: int, parents: Ints, codes: Ints) -> None:
        return None


def what_ifs(recipe: Recipe, codebooks: Sequence[Floats]) -> tuple[WhatIf, ...]:
    """Those that make a difference to this recipe and are possible with these codebooks."""
    # Docids that do not stand for vectors have codebooks of zeros; a history has a vector only
    # where a bridge gives it one.
    geometry = any(book.any() for book in codebooks) and (
        recipe.model.query != "history" or recipe.model.bridge or recipe.decode.omega > 0
    )
    return tuple(
        what
        for what in WHAT_IFS
        if (geometry or not what.geometry) and _changes(recipe, what.changes)
    )


def _changes(recipe: Recipe, changes: Sequence[str]) -> bool:
    """Whether the changes make a difference, and go with the recipe's other settings."""
    try:
        return apply(recipe, changes) != recipe
    except SettingsError:
        return False
