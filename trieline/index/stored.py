"""Arrays of a trie that come from a file, checked before anything trusts them.

The checks read the node tables and the edges of the rows, not the rows themselves, so that opening
a memory-mapped index stays cheap; damage inside the rows is what checksums are for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trieline.errors import IndexFolderError, IndexMismatch
from trieline.index.layout import Layout

__all__ = ["check_arrays"]

SHAPES: dict[str, tuple[type[np.generic], int]] = {  # name -> element type, dimensions
    "codes": (np.uint16, 2),
    "owner": (np.uint32, 1),
    "docid_rows": (np.uint32, 1),
    "levels": (np.int64, 1),
    "node_codes": (np.uint16, 1),
    "node_first": (np.uint32, 1),
    "node_end": (np.uint32, 1),
    "node_children": (np.uint32, 1),
}


def check_arrays(arrays: Mapping[str, NDArray[Any]], sizes: tuple[int, ...]) -> Layout:
    """The arrays as a read-only layout, not copied, or a clear refusal."""
    trie = Layout(**{name: _array(arrays, name) for name in SHAPES})
    if trie.codes.shape[1] != len(sizes):
        raise IndexMismatch(
            f"the trie's arrays spell {trie.codes.shape[1]} levels, the settings say {len(sizes)}: "
            f"{sizes}. Load them with the settings they were written with."
        )
    _check_lengths(trie)
    _check_rows(trie)
    _check_nodes(trie)
    _check_codes(trie, sizes)
    return trie


def _array(arrays: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    if name not in arrays:
        raise IndexFolderError(
            f"the trie's array {name!r} is missing, got {sorted(arrays)}. "
            "Repair the index with 'trieline verify --repair'."
        )
    array = np.asarray(arrays[name]).view()
    kind, dimensions = SHAPES[name]
    if array.dtype != kind or array.ndim != dimensions:
        raise IndexFolderError(
            f"the trie's array {name!r} is {array.dtype} with {array.ndim} dimensions, expected "
            f"{np.dtype(kind)} with {dimensions}. Repair the index with 'trieline verify --repair'."
        )
    array.flags.writeable = False
    return array


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise IndexFolderError(
            f"the trie's arrays do not fit together: {what}. They are damaged or of different "
            "indexes. Repair the index with 'trieline verify --repair'."
        )


def _check_lengths(trie: Layout) -> None:
    stored = len(trie.node_codes)
    _require(len(trie.owner) == len(trie.codes), "owner and codes have different lengths")
    _require(len(trie.docid_rows) >= 1, "docid_rows is empty")
    _require(len(trie.levels) == trie.codes.shape[1] + 2, "levels has the wrong length")
    _require(len(trie.node_first) == stored, "node_first and node_codes have different lengths")
    _require(len(trie.node_end) == stored, "node_end and node_codes have different lengths")
    _require(len(trie.node_children) == stored + 1, "node_children has the wrong length")


def _check_rows(trie: Layout) -> None:
    rows = trie.docid_rows
    _require(bool((rows[1:] > rows[:-1]).all()), "docid_rows does not increase")
    _require(rows[0] == 0 and rows[-1] == len(trie.owner), "docid_rows does not cover the rows")


def _check_nodes(trie: Layout) -> None:
    levels, children = trie.levels, trie.node_children
    stored = len(trie.node_codes)
    _require(bool((levels[1:] >= levels[:-1]).all()), "levels does not increase")
    covered = levels[0] == 0 and levels[1] == 1 and levels[-1] == stored
    _require(covered, "levels does not cover the nodes")
    _require(bool((children[1:] >= children[:-1]).all()), "node_children does not increase")
    covered = children[0] == 1 and children[-1] == stored
    _require(covered, "node_children does not cover the nodes")
    begins = bool((children[levels[:-1]] == levels[1:]).all())
    _require(begins, "node_children does not begin where a level does")
    _check_docids(trie)


def _check_docids(trie: Layout) -> None:
    first, end, children = trie.node_first, trie.node_end, trie.node_children
    _require(first[0] == 0 and end[0] == trie.docids, "the root does not cover the docids")
    _require(bool((end[1:] > first[1:]).all()), "a node has no docids")
    _require(bool((end <= trie.docids).all()), "node_end goes past the docids")
    back = np.flatnonzero(first[1:] < end[:-1]) + 1
    _require(_all_marked(back, trie.levels), "nodes of a level overlap")
    has_children = children[1:] > children[:-1]
    _require(bool(has_children[end - first > 1].all()), "an open node has no children")
    back = np.flatnonzero(trie.node_codes[1:] <= trie.node_codes[:-1]) + 1
    _require(_all_marked(back, children), "siblings are out of order")


def _all_marked(some: NDArray[np.int64], marks: NDArray[Any]) -> bool:
    """Whether every one of some positions is among the marks."""
    marked = np.zeros(int(marks[-1]) + 1, bool)
    marked[marks] = True
    return bool(marked[some].all())


def _check_codes(trie: Layout, sizes: tuple[int, ...]) -> None:
    """Stored codes are within the sizes; where a level begins and ends they are the rows' own."""
    for level, size in enumerate(sizes, start=1):
        begin, end = trie.levels[level : level + 2]
        if begin == end:
            continue
        highest = int(trie.node_codes[begin:end].max())
        if highest >= size:
            raise IndexMismatch(
                f"the trie has code {highest} at level {level}, the settings say {size} codes: "
                f"{sizes}. Load it with the settings it was written with."
            )
        edges = np.array([begin, end - 1])
        rows = trie.docid_rows[trie.node_first[edges]]
        same = trie.codes[rows, level - 1] == trie.node_codes[edges]
        _require(bool(same.all()), f"codes and node_codes differ at level {level}")
