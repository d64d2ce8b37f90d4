"""Precomputed embeddings: id -> vector, from .npy or safetensors with a list of ids, or Parquet.

The ids stand in a text file, one a line, in the order of the rows: by default ``vectors.ids.txt``
or ``vectors.txt`` beside ``vectors.npy``, else ``ids.txt``. The trap: an empty line in the middle
shifts every vector after it, so it is refused and not skipped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trieline.data.dataset import Dataset, pool_of
from trieline.data.lines import Source, find_file, read_lines
from trieline.data.vectors import load_parquet, map_npy, map_safetensors
from trieline.errors import DataError, DimensionError, FormatError
from trieline.types import Floats, Item, Qrel, Query

__all__ = ["EmbeddedDataset", "Embeddings", "open_embeddings", "with_embeddings"]

_BLOCK = 1 << 22  # values looked at together


class Embeddings:
    """Vectors by id. The vectors may lie on disk; the ids are in memory, some 150 bytes each."""

    def __init__(self, ids: Sequence[str], vectors: NDArray[Any], path: str | Path) -> None:
        """Checks everything: shape, count, duplicate ids, NaN and infinite values."""
        self.path = Path(path)
        if vectors.ndim != 2 or vectors.dtype.kind != "f" or not vectors.shape[1]:
            raise DimensionError(
                f"{self.path}: expected a table of floating-point numbers, one row an id, got "
                f"{vectors.dtype} of shape {vectors.shape}."
            )
        if len(ids) != len(vectors):
            raise DataError(
                f"{self.path}: {len(vectors):,} vectors but {len(ids):,} ids. Every row needs its "
                "id, in the same order."
            )
        self.vectors = vectors
        self._row = {id_: row for row, id_ in enumerate(ids)}
        if len(self._row) < len(ids):
            row, id_ = next((n, id_) for n, id_ in enumerate(ids) if self._row[id_] != n)
            raise DataError(
                f"{self.path}: id {id_!r} stands twice, in rows {row + 1} and "
                f"{self._row[id_] + 1}. Every id may occur once."
            )
        _refuse_non_finite(ids, vectors, self.path)

    @property
    def width(self) -> int:
        """D, the length of a vector."""
        return int(self.vectors.shape[1])

    def __len__(self) -> int:
        return len(self._row)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._row

    def __iter__(self) -> Iterator[str]:
        return iter(self._row)

    def __getitem__(self, id_: str) -> Floats:
        vector: Floats = self.rows([id_])[0]
        return vector

    def rows(self, ids: Sequence[str]) -> Floats:
        """The vectors of ``ids`` as float32[N, D], in that order."""
        missing = [id_ for id_ in ids if id_ not in self._row]
        if missing:
            raise DataError(
                f"{self.path} has no embedding of {missing[0]!r} ({len(missing):,} of {len(ids):,} "
                "ids asked for are missing). Compute them too, or leave these out."
            )
        numbers = np.fromiter((self._row[id_] for id_ in ids), dtype=np.int64, count=len(ids))
        return self.vectors[numbers].astype(np.float32, copy=False)


def open_embeddings(
    path: str | Path,
    ids: str | Path | None = None,
    *,
    tensor: str | None = None,
    column: str | None = None,
    id_column: str | None = None,
    width: int | None = None,
) -> Embeddings:
    """The embeddings of a file.

    ``ids``: the text file of ids. ``tensor``: which one of a safetensors file. ``column`` and
    ``id_column``: which ones of a Parquet file. ``width``: what D must be.
    """
    path = Path(path)
    if path.suffix == ".parquet":
        names, vectors = load_parquet(path, column, id_column)
    elif path.suffix in (".npy", ".safetensors"):
        vectors = map_npy(path) if path.suffix == ".npy" else map_safetensors(path, tensor)
        names = _read_ids(Path(ids) if ids else _ids_beside(path))
    else:
        raise DataError(f"cannot read embeddings from {path}: use .npy, .safetensors or .parquet.")
    found = Embeddings(names, vectors, path)
    if width is not None and found.width != width:
        raise DimensionError(
            f"{path}: the embeddings have {found.width} values each, expected {width}. "
            "Use the ones made by the same encoder."
        )
    return found


def with_embeddings(
    dataset: Dataset, items: Embeddings, queries: Embeddings | None = None
) -> EmbeddedDataset:
    """The dataset with a vector in every item, and in every query where ``queries`` is given.

    Items that are nothing but their vector need a dataset opened with ``keep_empty=True``.
    """
    if queries is not None and queries.width != items.width:
        raise DimensionError(
            f"{items.path} has {items.width} values an item, {queries.path} {queries.width} a "
            "query. Use vectors of the same encoder."
        )
    return EmbeddedDataset(dataset, items, queries)


class EmbeddedDataset:
    """See ``with_embeddings``."""

    def __init__(self, dataset: Dataset, items: Embeddings, queries: Embeddings | None) -> None:
        self.name = dataset.name
        self._dataset, self._items, self._queries = dataset, items, queries

    def items(self) -> Iterator[Item]:
        """Every item with its vector."""
        for item in self._dataset.items():
            yield item._replace(embedding=self._items[item.id])

    def splits(self) -> tuple[str, ...]:
        """The dataset's splits."""
        return self._dataset.splits()

    def queries(self, split: str) -> Iterator[Query]:
        """The queries of ``split``, with their vectors where there are any."""
        for query in self._dataset.queries(split):
            if self._queries is not None:
                query = query._replace(embedding=self._queries[query.id])
            yield query

    def qrels(self, split: str) -> Iterator[Qrel]:
        """The judgements of ``split``."""
        return self._dataset.qrels(split)

    def pool(self, split: str) -> Collection[str] | None:
        """The dataset's pool."""
        return pool_of(self._dataset, split)


def _refuse_non_finite(ids: Sequence[str], vectors: NDArray[Any], path: Path) -> None:
    step = max(1, _BLOCK // vectors.shape[1])
    for start in range(0, len(vectors), step):
        with np.errstate(over="ignore"):  # float64 that is too large for float32
            block = vectors[start : start + step].astype(np.float32, copy=False)
        good = np.isfinite(block).all(axis=1)
        if not good.all():
            row = start + int(np.argmin(good))
            raise DimensionError(
                f"{path}: the embedding of {ids[row]!r} (row {row + 1}) has NaN or infinite "
                "values. Leave the item out or compute its embedding again."
            )


def _read_ids(path: Path) -> list[str]:
    ids: list[str] = []
    empty = None
    for number, text in read_lines(path, blank=True):
        if not text.strip():
            empty = empty or number
        elif empty:
            raise Source(path).error(empty, "an id on every line", "an empty line")
        else:
            ids.append(text)
    return ids


def _ids_beside(path: Path) -> Path:
    names = (f"{path.stem}.ids.txt", f"{path.stem}.txt", "ids.txt")
    for name in names:
        if found := find_file(path.parent, name):
            return found
    raise FormatError(
        path, None, f"its ids in {', '.join(names)} beside it", "none of these", "Or give ids=."
    )
