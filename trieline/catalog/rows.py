"""How items and docids become rows of the catalog, and back.

Trap: JSON has no numpy numbers and no NaN; metadata with either is refused, not changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np

from trieline.errors import DataError, IndexFolderError, IndexMismatch
from trieline.types import Codes, Item

__all__ = [
    "ITEM_COLUMNS",
    "Blobs",
    "State",
    "blobs_of",
    "codes_of",
    "item_of",
    "row_of",
    "unencodable",
]

ITEM_COLUMNS = "number, id, title, image, modality, metadata, text"


_CHUNK = 65536


class State(NamedTuple):
    """All docids of a catalog, and the revision at which it held them."""

    revision: int
    codes: Codes  # rows in the order of item numbers


class Blobs(NamedTuple):
    """The docids of a batch of items as bytes: those of item i lie between two offsets."""

    data: bytes
    offsets: list[int]  # one more than items

    def between(self, start: int, stop: int) -> list[bytes]:
        """The rows of items start to stop; an item without rows has none of the bytes."""
        return [self.data[a:b] for a, b in pairwise(self.offsets[start : stop + 1])]

    def __len__(self) -> int:
        return len(self.offsets) - 1


def blobs_of(codes: Codes, sizes: Sequence[int]) -> Blobs:
    """Docids, checked against the levels of the catalog, grouped by item in the given row order."""
    table, owner = np.asarray(codes.codes), np.asarray(codes.owner)
    rows, depth = len(owner), len(sizes)
    if table.ndim != 2 or table.shape[1] != depth:
        raise IndexMismatch(
            f"docids have the shape {table.shape}, expected (rows, {depth}): this catalog spells "
            f"{depth} levels. Assign the docids with the scheme that the catalog was made for."
        )
    if len(table) != rows:
        raise DataError(f"{len(table)} docids with {rows} owners: expected one owner a docid.")
    over = (table.max(axis=0) >= np.asarray(sizes)) if rows else np.zeros(depth, bool)
    if over.any():
        level = int(over.argmax())
        raise IndexMismatch(
            f"docids use code {table[:, level].max()} at level {level + 1}, which has codes 0 to "
            f"{sizes[level] - 1}. Assign the docids with the scheme that the catalog was made for."
        )
    order = np.argsort(owner, kind="stable")
    ends = np.cumsum(np.bincount(owner)) if rows else np.zeros(0, np.int64)
    return Blobs(table[order].astype("<u2").tobytes(), [0, *(ends * 2 * depth).tolist()])


def codes_of(rows: Iterable[tuple[int, bytes]], depth: int) -> Codes:
    """The inverse: rows of (item number, blob) as one table."""
    rows, tables, owners = iter(rows), [b""], [np.zeros(0, np.uint32)]
    while chunk := list(islice(rows, _CHUNK)):
        numbers, blobs = zip(*chunk, strict=True)
        lengths = np.fromiter(map(len, blobs), np.int64, len(blobs))
        if (lengths % (2 * depth)).any():
            raise IndexFolderError(
                f"the catalog holds docids that are not of {depth} levels: it is damaged. Restore "
                "it from a copy, or build the index again."
            )
        tables.append(b"".join(blobs))
        owners.append(np.repeat(np.asarray(numbers, np.uint32), lengths // (2 * depth)))
    codes = np.frombuffer(b"".join(tables), "<u2").reshape(-1, depth).astype(np.uint16)
    return Codes(codes, np.concatenate(owners))


def row_of(number: int, item: Item) -> tuple[int | str | None, ...]:
    """An item as a row of ITEM_COLUMNS."""
    if not isinstance(item.id, str) or not item.id:
        raise DataError(f"item {number} has the id {item.id!r}: expected a text, not empty.")
    if not (
        isinstance(item.text, str)
        and isinstance(item.title, str)
        and isinstance(item.modality, str)
        and isinstance(item.image, str | None)
    ):
        raise DataError(f"item '{item.id}': text, title, modality and image must be texts.")
    return (
        number,
        item.id,
        item.title or None,
        item.image,
        None if item.modality == "text" else item.modality,
        None if item.metadata is None else _metadata(item),
        item.text or None,
    )


def unencodable(rows: Iterable[Sequence[Any]]) -> DataError:
    """Why SQLite would not take these rows, when it said that a text has no UTF-8 form."""
    for row in rows:
        for field, value in zip(ITEM_COLUMNS.split(", "), row, strict=True):
            try:
                str(value).encode()
            except UnicodeEncodeError as error:
                return DataError(f"item {row[1]!r}: its {field} is not valid text: {error}.")
    raise AssertionError("every text has a UTF-8 form")


def item_of(row: Sequence[Any]) -> Item:
    """The inverse of ``row_of``."""
    _, name, title, image, modality, metadata, text = row
    return Item(
        id=name,
        text=text or "",
        title=title or "",
        image=image,
        modality="text" if modality is None else modality,
        metadata=None if metadata is None else json.loads(metadata),
    )


def _metadata(item: Item) -> str:
    metadata = dict(item.metadata or {})
    try:
        if all(isinstance(key, str) for key in metadata):
            return _json(metadata)
    except (TypeError, ValueError, RecursionError):
        pass
    key, why = next(_not_json(metadata))
    raise DataError(
        f"item '{item.id}': metadata key {key!r} is not JSON: {why}. Expected texts, numbers, "
        "booleans, None, and lists and dicts of them."
    )


def _not_json(metadata: dict[Any, Any]) -> Iterator[tuple[Any, str]]:
    for key, value in metadata.items():
        if not isinstance(key, str):
            yield key, f"the key is of type {type(key).__name__}"
        try:
            _json(value)
        except (TypeError, ValueError, RecursionError) as error:
            yield key, str(error)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
