"""Parquet tables, read a few rows at a time.

The trap: turning a column of vectors into Python lists costs thirty times its bytes, so columns of
float lists come out as NumPy rows and everything else as plain Python values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from trieline.errors import DataError, FormatError, MissingExtra

__all__ = ["open_parquet", "read_rows", "vectors_of"]

_BATCH = 512  # rows
# By default a row group is read whole: 303 MB for 200,000 vectors of 384, this way 11 MB.
_BUFFER = 1 << 20  # bytes of a column


def open_parquet(path: Path) -> Any:
    """The ``pyarrow.parquet.ParquetFile`` at ``path``, or a clear error."""
    try:
        parquet = import_module("pyarrow.parquet")
        arrow = import_module("pyarrow")
    except ImportError:
        raise MissingExtra("Parquet files", "pyarrow", "parquet") from None
    if not path.is_file():
        raise DataError(f"no file at {path}. Check the path.")
    try:
        return parquet.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False)
    except (arrow.ArrowInvalid, OSError) as error:
        raise FormatError(path, None, "a Parquet file", str(error).strip().rstrip(".")) from None


def read_rows(
    path: Path, columns: Sequence[str] | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(row number from 1, column -> value). ``columns``: only these, all by default."""
    file = open_parquet(path)
    names = [
        name
        for name in (file.schema_arrow.names if columns is None else columns)
        if not name.startswith("__index_level_")  # what pandas leaves behind
    ]
    number = 0
    with file:
        for batch in _batches(path, file, names):
            values = [_values(column) for column in batch.columns]
            for row in zip(*values, strict=True):
                number += 1
                yield number, dict(zip(batch.schema.names, row, strict=True))


def vectors_of(column: Any) -> list[NDArray[Any] | None]:
    """The rows of an Arrow column of float lists; views into one array, None where null."""
    if not len(column):
        return []
    compute = import_module("pyarrow.compute")
    lengths = compute.fill_null(compute.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    if column.null_count:
        # A null row of a fixed-size list still occupies its width in the child array.
        column = column.drop_null()
    flat = column.flatten().to_numpy(zero_copy_only=False)
    rows: list[NDArray[Any] | None] = list(np.split(flat, np.cumsum(lengths)[:-1]))
    return [row if length else None for row, length in zip(rows, lengths, strict=True)]


def _batches(path: Path, file: Any, names: Sequence[str]) -> Iterator[Any]:
    arrow = import_module("pyarrow")
    try:
        yield from file.iter_batches(batch_size=_BATCH, columns=list(names))
    except (arrow.ArrowException, OSError) as error:
        raise FormatError(
            path, None, "readable Parquet data", str(error).strip().rstrip(".")
        ) from None


def _values(column: Any) -> list[Any]:
    types = import_module("pyarrow.types")
    kind = column.type
    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if lists and types.is_floating(kind.value_type):
        return list(vectors_of(column))
    if types.is_temporal(kind):
        column = column.cast("string")  # nanoseconds do not fit Python's datetime
    plain: list[Any] = msgspec.to_builtins(column.to_pylist())
    return plain
