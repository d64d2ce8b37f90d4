"""Docids by residual quantisation: each code names a vector, and the vectors of a docid add up.

x ~ c_{1, z_1} + ... + c_{L, z_L}, each level quantising what the levels before it left over
(Lee et al. 2022). The first code can be the item's modality, from its label and not from its
vector (GENIUS, PRO); see ``start`` for how codebooks are found.
The trap: where a corpus has fewer different vectors than a level has codes, the codes from
``used`` on have zero words and are never assigned (only ``collisions="reassign"`` gives them).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from trieline.config import IdSettings
from trieline.errors import DataError, IndexMismatch, SettingsError
from trieline.ids.assign import assign, reconstruct
from trieline.ids.docids import (
    Arrays,
    Judged,
    fingerprint_of,
    named_array,
    one_row_an_item,
    unfitted,
)
from trieline.ids.ema import refine_ema
from trieline.ids.gradient import refine_gradient
from trieline.ids.start import start_books, training_sample
from trieline.ids.vectors import checked
from trieline.types import Codes, Floats
from trieline.watch import Watch, silent

__all__ = ["ResidualIds"]


class ResidualIds:
    """Learns the codebooks, and assigns by nearest word, greedily or with a beam."""

    def __init__(
        self, settings: IdSettings, seed: int = 0, modalities: tuple[str, ...] = ()
    ) -> None:
        """``modalities`` in the order of their codes, where ``settings.modality`` asks for them."""
        if settings.modality and not modalities:
            raise SettingsError(
                "ids.modality = true, but no modalities were named. Give open_docids the "
                'modalities of the corpus, e.g. ("text", "image"), or set ids.modality=false.'
            )
        self.settings = settings
        self.seed = seed
        self.modalities = modalities if settings.modality else ()
        self._books: list[Floats] = []  # [used, D] of each level that has geometry

    @property
    def sizes(self) -> tuple[int, ...]:
        first = (max(2, len(self.modalities)),) if self.settings.modality else ()
        last = (self.settings.extra,) if self.settings.collisions == "extra" else ()
        return (*first, *self.settings.sizes, *last)

    @property
    def codebooks(self) -> list[Floats]:
        """float32[V, D] of each level; all zero for modality and for the level of ``extra``."""
        self._need_books()
        width = self._books[0].shape[1]
        padded = [np.zeros((size, width), dtype=np.float32) for size in self.sizes]
        for book, learnt in zip(padded[self._first :], self._books, strict=False):
            book[: len(learnt)] = learnt
        return padded

    @property
    def used(self) -> tuple[int, ...]:
        """How many codes ``assign`` can give at each level that has geometry."""
        return tuple(len(book) for book in self._books)

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
        items = checked(items)
        self._modality_codes(labels, len(items))
        how = self.settings
        seen = training_sample(items, how.sizes, self.seed)
        books = start_books(
            seen, how.sizes, metric=how.metric, beam=how.beam, seed=self.seed, watch=watch
        )
        if how.refine != "none":
            refine = refine_ema if how.refine == "ema" else refine_gradient
            books = refine(
                seen,
                books,
                metric=how.metric,
                beam=how.beam,
                epochs=how.refine_epochs,
                seed=self.seed,
                watch=watch,
            )
        self._books = books
        return self

    def take(self, books: Sequence[Floats]) -> None:
        """Go on with these codebooks, which somebody has learnt further."""
        self._books = list(books)

    def project(self, vectors: Floats) -> Floats:
        return vectors

    def assign(self, items: Floats, *, labels: Sequence[str] | None = None) -> Codes:
        self._need_books()
        how, items = self.settings, checked(items, self._books[0].shape[1])
        codes = np.zeros((len(items), len(self.sizes)), dtype=np.uint16)
        codes[:, : self._first] = self._modality_codes(labels, len(items))[:, None]
        geometric = slice(self._first, self._first + len(how.sizes))
        codes[:, geometric] = assign(items, self._books, metric=how.metric, beam=how.beam)
        return one_row_an_item(codes)

    def reconstruct(self, codes: NDArray[np.uint16]) -> Floats:
        """uint16[R, l] (docids, or prefixes of docids) -> float32[R, D]."""
        return reconstruct(codes, self.codebooks)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        self._need_books()
        names = "\n".join(self.modalities).encode()
        found: dict[str, NDArray[np.generic]] = {
            f"codebook.{level}": book for level, book in enumerate(self._books)
        }
        found["modalities"] = np.frombuffer(names, dtype=np.uint8).copy()
        found["seed"] = np.array([self.seed], dtype=np.int64)
        return found

    @classmethod
    def from_arrays(cls, settings: IdSettings, arrays: Arrays) -> Self:
        """The inverse of ``arrays``."""
        names = named_array(arrays, "modalities").tobytes().decode()
        seed = int(named_array(arrays, "seed").astype(np.int64)[0])
        loaded = cls(settings, seed, tuple(names.split("\n")) if names else ())
        for level, size in enumerate(settings.sizes):
            book = named_array(arrays, f"codebook.{level}").astype(np.float32)
            if book.ndim != 2 or not 1 <= len(book) <= size:
                raise IndexMismatch(
                    f"codebook {level} of the saved docids has shape {book.shape}, ids.sizes "
                    f"allows at most {size} codes there. Rebuild with 'trieline build'."
                )
            loaded._books.append(book)
        return loaded

    @property
    def _first(self) -> int:
        return 1 if self.settings.modality else 0

    def _need_books(self) -> None:
        if not self._books:
            raise unfitted()

    def _modality_codes(self, labels: Sequence[str] | None, items: int) -> NDArray[np.uint16]:
        if not self.settings.modality:
            return np.zeros(items, dtype=np.uint16)
        if labels is None or len(labels) != items:
            raise DataError(
                f"ids.modality = true needs the modality of each item: {items} items, "
                f"{'no' if labels is None else len(labels)} labels."
            )
        unknown = set(labels).difference(self.modalities)
        if unknown:
            raise DataError(
                f"no code for the modality '{min(unknown)}': these docids were made for "
                f"{', '.join(self.modalities)}. Rebuild with it among the corpus's items."
            )
        number = {name: code for code, name in enumerate(self.modalities)}
        return np.array([number[label] for label in labels], dtype=np.uint16)
