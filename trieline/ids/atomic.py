"""Docids of one code: every item has its own, and nothing is shared.

DSI's unstructured atomic identifiers (Tay et al. 2022, section 3.2). There is room for a tenth more
items than the corpus has when it is fitted; an item added later takes the smallest free code.
The trap: the model must learn every code on its own, so a code that no training query leads to is
never found, and an added item is found only after training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from trieline.config import IdSettings
from trieline.errors import SettingsError
from trieline.ids.docids import (
    Arrays,
    Judged,
    fingerprint_of,
    named_array,
    one_row_an_item,
    unfitted,
)
from trieline.ids.vectors import checked
from trieline.types import Codes, Floats
from trieline.watch import Watch, silent

__all__ = ["AtomicIds"]

_MOST = 65536  # codes of a level


class AtomicIds:
    """Numbers items. ``assign`` gives 0 to all; ``collisions.resolve`` does the numbering."""

    def __init__(self, settings: IdSettings) -> None:
        self.settings = settings
        self._room = 0
        self._width = 0

    @property
    def sizes(self) -> tuple[int, ...]:
        self._need_room()
        return (self._room,)

    @property
    def codebooks(self) -> list[Floats]:
        self._need_room()
        return [np.zeros((self._room, self._width), dtype=np.float32)]

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
        count, self._width = checked(items).shape
        if count > _MOST:
            raise SettingsError(
                f"atomic docids hold {_MOST} items, the corpus has {count}. Use "
                "ids.scheme='tree' or 'residual'."
            )
        self._room = min(_MOST, max(2, count + -(-count // 10)))
        return self

    def project(self, vectors: Floats) -> Floats:
        return vectors

    def assign(self, items: Floats, *, labels: Sequence[str] | None = None) -> Codes:
        self._need_room()
        items = checked(items, self._width)
        return one_row_an_item(np.zeros((len(items), 1), dtype=np.uint16))

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        self._need_room()
        return {"room_width": np.array([self._room, self._width], dtype=np.int64)}

    @classmethod
    def from_arrays(cls, settings: IdSettings, arrays: Arrays) -> Self:
        """The inverse of ``arrays``."""
        loaded = cls(settings)
        room, width = named_array(arrays, "room_width").astype(np.int64)
        loaded._room, loaded._width = int(room), int(width)
        return loaded

    def _need_room(self) -> None:
        if self._room == 0:
            raise unfitted()
