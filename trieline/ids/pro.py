"""Docids whose prefixes survive a beam: residual codes, trained by prefix ranking distillation.

PRO (Chen et al. 2026), section 4 and appendix C. Codebooks start as those of ``residual`` and learn
from training queries (``teaching``): a query should rank the prefixes of the items as it ranks the
items. Vectors are brought to length one first. By default only codebooks are trained, as appendix C
has it, and so get gradients; L_cl then changes nothing.
Where paper and released code differ, this follows the paper: prefixes are distilled, not items;
squared errors are sums, not means; partial sums are not normalised; L_rank is not scaled by tau^2;
the teacher is the frozen encoder's similarity. Queries and items take the same projection, if any.
``student = "distance"`` is ours: prefixes scored as beams score them (Eq. 7), where the paper has
products. On NFCorpus, 8 x 512 codes, a beam of 20 without a model kept a relevant prefix of .676 of
the dev queries; products .611, residual codes .608, the vectors themselves .735 (bench/pro_ids.py).
``quantised = "items"`` is ours as well: the paper's L_rq is of queries and items alike, and words
that serve both lie far from the items where queries lie apart from them, as captions do from
pictures; more weight of it helps there only with items alone (papers/pro.md).
The trap: with ``project`` the paper's weights pull all vectors together: there the error fell from
.044 to .014, and .472 were kept. And guides must compare queries with codebooks where both are:
``project(vectors)``. The model reads the encoder's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from trieline.config import IdSettings, ProSettings
from trieline.errors import SettingsError
from trieline.ids.docids import Arrays, Judged, fingerprint_of, named_array
from trieline.ids.residual import ResidualIds
from trieline.ids.teaching import Lesson, Teaching
from trieline.ids.vectors import checked, unit
from trieline.types import Codes, Floats
from trieline.watch import Watch, silent

__all__ = ["ProIds"]


class _Preset(NamedTuple):
    epochs: float
    batch: int
    lr: float


_PRESETS = {"cpu": _Preset(4, 256, 1e-3), "paper": _Preset(20, 2048, 1e-4)}


class ProIds:
    """Residual docids that learn from queries; without any, each item asks for itself."""

    def __init__(
        self, settings: IdSettings, seed: int = 0, modalities: tuple[str, ...] = ()
    ) -> None:
        self.settings = settings
        self.seed = seed
        self._words = ResidualIds(settings, seed, modalities)
        self._map: Floats | None = None  # [D, D], where a projection was learnt

    @property
    def sizes(self) -> tuple[int, ...]:
        return self._words.sizes

    @property
    def codebooks(self) -> list[Floats]:
        """float32[V, D] of each level; all zero for modality and for the level of ``extra``."""
        return self._words.codebooks

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.settings, self.arrays())

    def fit(
        self,
        items: Floats,
        *,
        labels: Sequence[str] | None = None,
        judged: Judged | None = None,
        watch: Watch = silent,
    ) -> Self:
        items = unit(checked(items))
        self._words.fit(items, labels=labels, watch=watch)
        if judged is None or not len(judged.query):
            everybody = np.arange(len(items))
            judged = Judged(items, everybody, everybody)
        else:
            judged = judged._replace(queries=unit(checked(judged.queries, items.shape[1])))
        kinds = np.zeros((len(items), 0), np.uint16)
        if self.settings.modality and labels is not None:
            numbers = np.unique(np.asarray(labels), return_inverse=True)[1]
            kinds = numbers.astype(np.uint16)[:, None]
        self._learn(items, judged, kinds, watch)
        return self

    def project(self, vectors: Floats) -> Floats:
        vectors = unit(np.asarray(vectors, np.float32))
        return vectors if self._map is None else unit(vectors + vectors @ self._map.T)

    def assign(self, items: Floats, *, labels: Sequence[str] | None = None) -> Codes:
        width = self.codebooks[0].shape[1]
        return self._words.assign(self.project(checked(items, width)), labels=labels)

    def reconstruct(self, codes: NDArray[np.uint16]) -> Floats:
        """uint16[R, l] (docids, or prefixes of docids) -> float32[R, D], as ``project`` has it."""
        return self._words.reconstruct(codes)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        found = self._words.arrays()
        if self._map is not None:
            found["projection"] = self._map
        return found

    @classmethod
    def from_arrays(cls, settings: IdSettings, arrays: Arrays) -> Self:
        """The inverse of ``arrays``."""
        words = ResidualIds.from_arrays(settings, arrays)
        loaded = cls(settings, words.seed, words.modalities)
        loaded._words = words
        if settings.pro.project:
            loaded._map = named_array(arrays, "projection").astype(np.float32)
        return loaded

    def _learn(
        self, items: Floats, judged: Judged, kinds: NDArray[np.uint16], watch: Watch
    ) -> None:
        how, (epochs, batch, lr) = self.settings.pro, _preset(self.settings.pro)
        steps = max(1, round(epochs * -(-len(judged.query) // batch))) if epochs else 0
        books = [book[:used] for book, used in zip(self._geometric, self._words.used, strict=True)]
        teaching = Teaching(books, self.settings, lr=lr, seed=self.seed)
        with watch("learning to rank prefixes", steps) as task:
            lessons = _lessons(items, judged, kinds, batch, self.seed)
            for number, lesson in zip(range(steps), lessons, strict=False):
                done = number / steps
                rank = how.rank * min(1.0, done / how.warmup if how.warmup else 1.0)
                # The paper's rate is constant; a short training ends better with a falling one.
                rate = (1 + np.cos(np.pi * done)) / 2 if how.preset == "cpu" else 1.0
                loss = teaching.step(lesson, rank, rate=float(rate))
                if not np.isfinite(loss):
                    raise SettingsError(
                        f"the loss of the docids became {loss} at step {number + 1} of {steps}. "
                        f"Try a lower ids.pro.lr (now {lr:g})."
                    )
                task.advance(note=f"loss {loss:.2f}")
        self._words.take([book.copy() for book in teaching.books])
        self._map = teaching.map.copy() if how.project else None

    @property
    def _geometric(self) -> list[Floats]:
        first = 1 if self.settings.modality else 0
        return self.codebooks[first : first + len(self.settings.sizes)]


def _preset(how: ProSettings) -> _Preset:
    preset = _PRESETS[how.preset]
    return _Preset(how.epochs or preset.epochs, how.batch or preset.batch, how.lr or preset.lr)


def _lessons(
    items: Floats, judged: Judged, kinds: NDArray[np.uint16], batch: int, seed: int
) -> Iterator[Lesson]:
    """Batches without end, epoch after epoch in another order."""
    answered = np.unique(judged.query * len(items) + judged.item)
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(len(judged.query))
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            query = judged.query[rows]
            there, answers = np.unique(judged.item[rows], return_inverse=True)
            asked = query[:, None] * len(items) + there
            known = np.isin(asked, answered)
            yield Lesson(
                judged.queries[query], items[there], answers.astype(np.int64), known, kinds[there]
            )
