"""The door of the room: schemes by name, and settings that do not go together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from trieline.config import IdSettings, ProSettings
from trieline.errors import SettingsError
from trieline.ids import Docids, codebooks_of, load_docids, open_docids, resolve, stats
from trieline.ids.docids import fingerprint_of

Floats = NDArray[np.float32]
WAYS: list[dict[str, Any]] = [
    {},
    {"beam": 3, "metric": "cosine"},
    {"collisions": "extra", "extra": 300},
    {"collisions": "reassign"},
    {"modality": True},
    {"scheme": "pro", "beam": 2},
    {"scheme": "pro", "collisions": "extra", "extra": 300, "pro": ProSettings(project=True)},
    {"scheme": "pro", "collisions": "reassign", "modality": True},
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
    if settings.collisions != "keep" or settings.scheme in ("tree", "atomic"):
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


def test_docids_from_before_there_was_pro_are_still_known() -> None:
    """The settings of PRO are no part of what other schemes are."""
    once = fingerprint_of(IdSettings(), {"a": np.arange(3)})
    assert once == "650d7167fb3bc673b43178915023cd6a77c90dfc3b0654069db2736628e319e4"
    other = IdSettings(pro=ProSettings(rank=1.0))
    assert fingerprint_of(other, {"a": np.arange(3)}) == once
    told = {
        fingerprint_of(msgspec.structs.replace(how, scheme="pro"), {})
        for how in (other, IdSettings())
    }
    assert len(told) == 2
