"""The data that travel through trieline: plain NamedTuples and NumPy arrays, nothing that acts.

House letters for shapes, everywhere: ``B`` queries, ``W`` beams, ``L`` docid length, ``V`` codes
of a level, ``N`` items, ``R`` docids (rows), ``D`` embedding width, ``C`` candidates of a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Codes", "Floats", "Hit", "Item", "Qrel", "Query", "Run", "Step"]

Floats = NDArray[np.float32]


class Item(NamedTuple):
    """One thing that can be found."""

    id: str
    text: str = ""
    title: str = ""
    image: str | None = None  # path of a picture
    embedding: Floats | None = None  # float32[D], when the user brings vectors
    modality: str = "text"
    metadata: Mapping[str, Any] | None = None


class Query(NamedTuple):
    """One question. ``history`` holds item ids, oldest first, when the question is "what next?"."""

    id: str
    text: str = ""
    image: str | None = None
    embedding: Floats | None = None
    history: tuple[str, ...] = ()
    modality: str = "text"
    metadata: Mapping[str, Any] | None = None


class Qrel(NamedTuple):
    """One judgement: how well an item answers a query. Above zero is relevant."""

    query_id: str
    item_id: str
    relevance: int


class Step(NamedTuple):
    """One level of the path that led to a hit, as the beam saw it (see ``decode``)."""

    code: int
    score: float  # carried score after this level
    rank: int  # place in the beam after this level, from 1


class Hit(NamedTuple):
    """One answer."""

    item_id: str
    score: float
    docid: tuple[int, ...] = ()
    rank: int = 0  # from 1
    title: str = ""
    trace: tuple[Step, ...] = ()


Run = Mapping[str, Sequence[Hit]]
"""Query id -> its hits, best first."""


class Codes(NamedTuple):
    """A table of docids. An item owns one row or several; several items may share a docid."""

    codes: NDArray[np.uint16]  # [R, L]
    owner: NDArray[np.uint32]  # [R] item number of each row
