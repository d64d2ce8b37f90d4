"""The door of the room: schemes by name, and settings that do not go together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from trieline.config import IdSettings
from trieline.errors import SettingsError
from trieline.ids import Docids, codebooks_of, load_docids, open_docids, resolve, stats

Floats = NDArray[np.float32]
WAYS: list[dict[str, Any]] = [
    {},
    {"beam": 3, "metric": "cosine"},
    {"collisions": "extra", "extra": 300},
    {"collisions": "reassign"},
    {"modality": True},
    {"scheme": "tree", "extra": 300},
    {"scheme": "tree", "collisions": "extra", "extra": 300},
    {"scheme": "atomic"},
]


@pytest.mark.parametrize("how", WAYS, ids=str)
@pytest.mark.parametrize("items", [1, 2, 300])
def test_from_vectors_to_docids_and_back(
    how: dict[str, Any], items: int, clustered: Callable[..., Floats]
) -> None:
    settings = IdSettings(sizes=(8, 8, 8), **how)
    vectors, labels = clustered(items), ["text"] * items
    docids: Docids = open_docids(settings, 1, ("text",)).fit(vectors, labels=labels)
    assigned = docids.assign(vectors, labels=labels)
    codes = resolve(assigned, settings, docids=docids, vectors=vectors)
    assert codes.codes.shape == (items, len(docids.sizes))
    assert (codes.codes < docids.sizes).all()
    loaded = load_docids(settings, docids.arrays())
    assert (loaded.sizes, loaded.fingerprint) == (docids.sizes, docids.fingerprint)
    shapes = [(size, 12) for size in docids.sizes]
    assert [book.shape for book in codebooks_of(loaded)] == shapes
    if settings.collisions != "keep" or settings.scheme != "residual":
        assert stats(codes, docids.sizes).collision_rate == 0


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"scheme": "tree", "collisions": "reassign"}, "tree docids have none"),
        ({"scheme": "atomic", "collisions": "reassign"}, "atomic docids have none"),
        (
            {"scheme": "tree", "modality": True},
            "goes with ids.scheme='residual' or 'pro', not 'tree'",
        ),
        ({"extra": 1}, "ids.extra=1"),
        ({"extra": 70_000}, "2 to 65536"),
        ({"beam": 0}, "ids.beam=0"),
        ({"refine_epochs": -1}, "no fewer than 0"),
    ],
)
def test_what_does_not_go_together(how: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        open_docids(IdSettings(**how), 0, ("text",))
    with pytest.raises(SettingsError, match=said):
        load_docids(IdSettings(**how), {})
