"""Arrays of a trie that come from a file, checked before anything trusts them.

The checks read where docids part, and make the table of long runs again from that; the packed
docids themselves are read only at the edges, so that opening a memory-mapped index stays cheap.
Damage inside them is what checksums are for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trieline.errors import IndexFolderError, IndexMismatch
from trieline.index.layout import Layout, parts_kind, table_of
from trieline.index.packing import code_at, field_of, packed_width, parting

__all__ = ["check_arrays"]

SHAPES: dict[str, tuple[type[np.generic], int]] = {  # name -> element type, dimensions
    "packed": (np.uint8, 2),
    "parts": (np.uint8, 1),
    "owner": (np.uint8, 2),
    "shared": (np.uint32, 1),
    "extra": (np.uint32, 1),
    "levels": (np.int64, 1),
    "first": (np.uint32, 1),
    "end": (np.uint32, 1),
    "begin": (np.uint32, 1),
    "child_codes": (np.uint16, 1),
    "child_nodes": (np.uint32, 1),
}
LEVELS = ("levels", "first", "end", "begin", "child_nodes")  # what follows from ``parts``


def check_arrays(arrays: Mapping[str, NDArray[Any]], sizes: tuple[int, ...]) -> Layout:
    """The arrays as a read-only layout, not copied, or a clear refusal."""
    kinds = SHAPES | {"parts": (parts_kind(len(sizes)), 1)}
    trie = Layout(**{name: _array(arrays, name, *kinds[name]) for name in kinds})
    _check_settings(trie, sizes)
    _check_rows(trie)
    _check_parts(trie, sizes)
    _check_table(trie, len(sizes))
    _check_codes(trie, sizes)
    return trie


def _array(
    arrays: Mapping[str, NDArray[Any]], name: str, kind: type[np.generic], dimensions: int
) -> NDArray[Any]:
    if name not in arrays:
        raise IndexFolderError(
            f"the trie's array {name!r} is missing, got {sorted(arrays)}. "
            "Repair the index with 'trieline verify --repair'."
        )
    array = np.asarray(arrays[name]).view()
    if array.dtype != kind or array.ndim != dimensions or not array.flags.c_contiguous:
        raise IndexFolderError(
            f"the trie's array {name!r} is {array.dtype} with {array.ndim} dimensions, expected "
            f"{np.dtype(kind)} with {dimensions}. Repair the index with 'trieline verify --repair'."
        )
    array.flags.writeable = False
    return array


def _require(holds: bool | np.bool_, what: str) -> None:
    if not holds:
        raise IndexFolderError(
            f"the trie's arrays do not fit together: {what}. They are damaged or of different "
            "indexes. Repair the index with 'trieline verify --repair'."
        )


def _check_settings(trie: Layout, sizes: tuple[int, ...]) -> None:
    """The arrays are those of as many levels, with docids of as many bytes, as the settings say."""
    deepest = int(trie.parts.max(initial=0))
    _require(len(trie.levels) > max(deepest, 1), f"levels ends before level {deepest}")
    if len(trie.levels) != len(sizes) + 1:
        raise IndexMismatch(
            f"the trie's arrays spell {len(trie.levels) - 1} levels, the settings say "
            f"{len(sizes)}: {sizes}. Load them with the settings they were written with."
        )
    width = packed_width(sizes)
    if trie.packed.shape[1] != width:
        raise IndexMismatch(
            f"the trie's docids take {trie.packed.shape[1]} bytes, those of the settings {width}: "
            f"{sizes}. Load them with the settings they were written with."
        )


def _check_rows(trie: Layout) -> None:
    shared, extra = trie.shared, trie.extra
    _require(1 <= trie.owner.shape[1] <= 4, "item numbers take 1 to 4 bytes")
    _require(len(trie.parts) == trie.docids + 1, "parts and packed have different lengths")
    _require(len(extra) == len(shared) + 1, "extra and shared have different lengths")
    _require((shared[1:] > shared[:-1]).all(), "shared does not increase")
    _require(not len(shared) or shared[-1] < trie.docids, "shared goes past the docids")
    _require((extra[1:] > extra[:-1]).all(), "extra does not increase")
    covered = extra[0] == 0 and trie.docids + int(extra[-1]) == len(trie.owner)
    _require(covered, "extra does not cover the rows")


def _check_parts(trie: Layout, sizes: tuple[int, ...]) -> None:
    """Every docid parts from the one before; at the edges and in the middle as the docids do."""
    parts, packed = trie.parts, trie.packed
    _require(parts[0] == 0 and parts[-1] == 0, "parts does not begin and end with 0")
    inner = parts[1:-1]
    _require(not len(inner) or 0 < inner.min() <= inner.max() <= len(sizes), "parts has no level")
    some = np.linspace(1, trie.docids - 1, 16 * (len(inner) > 0)).astype(np.int64)
    for docid in some.tolist():
        pair = packed[docid : docid + 1], packed[docid - 1 : docid]
        _require(pair[0].tobytes() > pair[1].tobytes(), "docids are out of order")
        _require(parting(*pair, sizes)[0] == parts[docid], "parts and packed differ")


def _check_table(trie: Layout, depth: int) -> None:
    """The table of long runs is the one that follows from ``parts``."""
    table = table_of(trie.parts, depth)
    for name in LEVELS:
        same = np.array_equal(getattr(trie, name), getattr(table, name))
        _require(same, f"{name} does not follow from parts")
    _require(len(trie.child_codes) == len(trie.child_nodes), "child_codes has the wrong length")


def _check_codes(trie: Layout, sizes: tuple[int, ...]) -> None:
    """Listed codes are within the sizes and ascend; at the edges they are the docids' own."""
    rises = np.ones(len(trie.child_codes) + 1, bool)
    rises[1:-1] = trie.child_codes[1:] > trie.child_codes[:-1]
    rises[trie.begin] = True
    _require(rises.all(), "siblings are out of order")
    for level, size in enumerate(sizes):
        some = trie.child_codes[slice(*trie.begin[trie.levels[level : level + 2]])]
        if not len(some):
            continue
        if int(some.max()) >= size:
            raise IndexMismatch(
                f"the trie has code {int(some.max())} at level {level + 1}, the settings say "
                f"{size} codes: {sizes}. Load it with the settings it was written with."
            )
        runs = slice(*trie.levels[level : level + 2])
        edges = trie.child_codes[trie.begin[runs.start : runs.stop]]
        docids = trie.first[runs].astype(np.int64)
        same = code_at(trie.packed, docids[[0, -1]], field_of(sizes, level)) == edges[[0, -1]]
        _require(same.all(), f"child_codes and packed differ at level {level + 1}")
