"""Arrays that come from a file are checked before they are trusted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from trieline.errors import IndexFolderError, IndexMismatch
from trieline.index import Trie
from trieline.types import Codes

Arrays = dict[str, NDArray[Any]]
SIZES = (8, 8, 8, 8)


@pytest.fixture
def arrays() -> Arrays:
    """Writable copies of the arrays of a trie with shared docids and forced tails."""
    rng = np.random.default_rng(0)
    table = Codes(rng.integers(0, 8, (200, 4)).astype(np.uint16), np.arange(200, dtype=np.uint32))
    table.codes[:, 0] %= 2  # so that there are long runs below the root
    table.codes[:20] = table.codes[20:40]
    return {name: array.copy() for name, array in Trie.build(table, SIZES).arrays().items()}


def test_the_arrays_themselves_are_accepted(arrays: Arrays) -> None:
    trie = Trie.from_arrays(arrays, SIZES)
    assert (trie.rows, trie.docids) == (200, len(arrays["packed"]))
    assert arrays["packed"].flags.writeable  # the caller's own array is left as it was


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_tiny_tries_are_accepted(rows: int) -> None:
    table = Codes(np.zeros((rows, 4), np.uint16), np.arange(rows, dtype=np.uint32))
    trie = Trie.build(table, SIZES)
    assert Trie.from_arrays(trie.arrays(), SIZES).rows == rows


NAMES = sorted(Trie.build(Codes(np.zeros((0, 1), np.uint16), np.zeros(0, np.uint32)), [2]).arrays())


@pytest.mark.parametrize("name", NAMES)
def test_every_array_must_be_there_whole_and_of_its_kind(arrays: Arrays, name: str) -> None:
    with pytest.raises(IndexFolderError, match=f"'{name}' is missing"):
        Trie.from_arrays({key: array for key, array in arrays.items() if key != name}, SIZES)
    with pytest.raises(IndexFolderError, match="do not fit together"):
        Trie.from_arrays(arrays | {name: arrays[name][:-1]}, SIZES)
    with pytest.raises(IndexFolderError, match="do not fit together"):
        Trie.from_arrays(arrays | {name: arrays[name][:0]}, SIZES)
    with pytest.raises(IndexFolderError, match=f"'{name}' is float32"):
        Trie.from_arrays(arrays | {name: arrays[name].astype(np.float32)}, SIZES)
    with pytest.raises(IndexFolderError, match=f"'{name}' is .* with 3 dimensions"):
        Trie.from_arrays(arrays | {name: arrays[name].reshape(-1, 1, 1)}, SIZES)


def _swap(array: NDArray[Any], one: int, two: int) -> None:
    array[[one, two]] = array[[two, one]]


DAMAGE: dict[str, tuple[str, Callable[[NDArray[Any]], None]]] = {
    "rows from elsewhere": ("extra", lambda a: a.__setitem__(-1, 999)),
    "extra rows out of order": ("extra", lambda a: _swap(a, 3, 4)),
    "shared docids out of order": ("shared", lambda a: _swap(a, 3, 4)),
    "shared docids past the end": ("shared", lambda a: a.__setitem__(-1, 999)),
    "no first docid": ("parts", lambda a: a.__setitem__(0, 1)),
    "no end": ("parts", lambda a: a.__setitem__(-1, 1)),
    "a docid twice": ("parts", lambda a: a.__setitem__(7, 0)),
    "a level too many": ("parts", lambda a: a.__setitem__(7, 5)),
    "parts of another trie": ("parts", lambda a: a.__setitem__(slice(1, -1), 4)),
    "levels out of order": ("levels", lambda a: _swap(a, 1, 2)),
    "two roots": ("levels", lambda a: a.__setitem__(1, 2)),
    "children out of order": ("begin", lambda a: _swap(a, 1, 2)),
    "children that begin late": ("begin", lambda a: a.__setitem__(0, 2)),
    "children past the end": ("begin", lambda a: a.__setitem__(-1, 2**31)),
    "a root of other docids": ("end", lambda a: a.__setitem__(0, 3)),
    "an empty node": ("first", lambda a: a.__setitem__(1, 2**31)),
    "docids past the end": ("end", lambda a: a.__setitem__(1, 2**31)),
    "nodes that overlap": ("end", lambda a: a.__setitem__(1, a[1] + 1)),
    "children elsewhere": ("child_nodes", lambda a: _swap(a, 3, 4)),
    "siblings out of order": ("child_codes", lambda a: _swap(a, 3, 4)),
    "siblings alike": ("child_codes", lambda a: a.__setitem__(3, a[4])),
    "other codes of the root": ("child_codes", lambda a: a.__setitem__(0, a[0] + 1)),
    "other codes": ("packed", lambda a: a.__setitem__(slice(None), 255 - a)),
    "docids of another trie": ("packed", lambda a: a.__setitem__(slice(None), a[0])),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_nonsense_is_refused(arrays: Arrays, case: str) -> None:
    name, damage = DAMAGE[case]
    damage(arrays[name])
    with pytest.raises(IndexFolderError, match=r"do not fit together.*--repair"):
        Trie.from_arrays(arrays, SIZES)


def test_settings_of_another_index_are_refused(arrays: Arrays) -> None:
    with pytest.raises(IndexMismatch, match="spell 4 levels, the settings say 3"):
        Trie.from_arrays(arrays, SIZES[:3])
    with pytest.raises(IndexMismatch, match="code 7 at level 2, the settings say 4 codes"):
        Trie.from_arrays(arrays, (16, 4, 8, 8))
