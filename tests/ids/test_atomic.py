"""One code an item, and no more than there is room for."""

from __future__ import annotations

import numpy as np
import pytest

from trieline.config import IdSettings
from trieline.errors import DataError, DimensionError, SettingsError
from trieline.ids import AtomicIds, load_docids, open_docids, resolve
from trieline.ids.docids import one_row_an_item

SETTINGS = IdSettings(scheme="atomic")


def vectors(items: int, width: int = 2) -> np.ndarray:
    return np.zeros((items, width), np.float32)


@pytest.mark.parametrize(
    ("items", "room"), [(1, 2), (2, 3), (10, 11), (100, 110), (60_000, 65_536), (65_536, 65_536)]
)
def test_items_are_numbered_with_a_tenth_of_room(items: int, room: int) -> None:
    docids = open_docids(SETTINGS).fit(vectors(items))
    codes = resolve(docids.assign(vectors(items)), SETTINGS, docids=docids)
    assert docids.sizes == (room,)
    np.testing.assert_array_equal(codes.codes, np.arange(items)[:, None])
    assert docids.codebooks[0].shape == (room, 2) and not docids.codebooks[0].any()


def test_later_items_take_the_smallest_free_code() -> None:
    docids = AtomicIds(SETTINGS).fit(vectors(20))
    taken = one_row_an_item(np.array([[0], [1], [3], [19]], np.uint16))
    codes = resolve(docids.assign(vectors(4)), SETTINGS, docids=docids, taken=taken)
    assert codes.codes[:, 0].tolist() == [2, 4, 5, 6]


def test_no_room_left() -> None:
    docids = AtomicIds(SETTINGS).fit(vectors(10))
    taken = resolve(docids.assign(vectors(11)), SETTINGS, docids=docids)
    with pytest.raises(SettingsError, match="room for 11 items.*Rebuild"):
        resolve(docids.assign(vectors(1)), SETTINGS, docids=docids, taken=taken)


def test_too_many_items() -> None:
    with pytest.raises(SettingsError, match="hold 65536 items, the corpus has 65537"):
        AtomicIds(SETTINGS).fit(vectors(65_537))


def test_saved_and_loaded() -> None:
    docids = AtomicIds(SETTINGS).fit(vectors(10))
    loaded = load_docids(SETTINGS, docids.arrays())
    assert loaded.sizes == docids.sizes and loaded.fingerprint == docids.fingerprint
    assert loaded.fingerprint != AtomicIds(SETTINGS).fit(vectors(30)).fingerprint


def test_wrong_use() -> None:
    with pytest.raises(SettingsError, match="call fit"):
        AtomicIds(SETTINGS).assign(vectors(1))
    with pytest.raises(DataError, match="empty"):
        AtomicIds(SETTINGS).fit(vectors(0))
    with pytest.raises(DimensionError, match="2 wide"):
        AtomicIds(SETTINGS).fit(vectors(3)).assign(vectors(3, 4))
