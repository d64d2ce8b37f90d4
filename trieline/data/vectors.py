"""Tables of vectors as arrays: ``.npy`` and safetensors memory-mapped, a Parquet column loaded.

The safetensors layout (8 bytes little-endian header length, a JSON header, the tensors) is opened
by its library first, which checks all of it; the memory map is ours, since the library copies.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trieline.data.columns import ITEM_NAMES, find_columns
from trieline.data.lines import Source
from trieline.data.parquet import open_parquet, read_rows
from trieline.errors import DataError, DimensionError, FormatError

__all__ = ["load_parquet", "map_npy", "map_safetensors"]

_DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}


def map_npy(path: Path) -> NDArray[Any]:
    """The array of an ``.npy`` file, left on disk."""
    _require_file(path)
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise FormatError(
            path,
            None,
            "an .npy file with an array of numbers",
            f"something else ({error})".replace(".)", ")"),
            "Save it with numpy.save(path, array).",
        ) from None
    if not isinstance(array, np.ndarray):
        array.close()
        raise FormatError(path, None, "one array", "an .npz archive", "Save it as .npy.")
    return array


def map_safetensors(path: Path, tensor: str | None = None) -> NDArray[Any]:
    """A tensor of a safetensors file, left on disk; ``tensor`` names it where there are several."""
    library = import_module("safetensors")
    _require_file(path)
    try:
        with library.safe_open(path, framework="numpy") as file:
            names = list(file.keys())
    except (library.SafetensorError, OSError) as error:
        raise FormatError(path, None, "a safetensors file", f"a damaged one ({error})") from None
    if tensor is None and len(names) == 1:
        tensor = names[0]
    if tensor not in names:
        wanted = f"a tensor {tensor!r}" if tensor else "one tensor"
        raise FormatError(
            path, None, wanted, f"the tensors {', '.join(names)}", "Name one with tensor=."
        )
    with path.open("rb") as raw:
        length = int.from_bytes(raw.read(8), "little")
        header = json.loads(raw.read(length))[tensor]
    if header["dtype"] not in _DTYPES:
        raise FormatError(
            path, None, f"numbers of type {', '.join(_DTYPES)}", header["dtype"], "Convert it."
        )
    shape = tuple(header["shape"])
    if 0 in shape:  # an empty map cannot be made
        return np.zeros(shape, dtype=_DTYPES[header["dtype"]])
    return np.memmap(
        path,
        dtype=_DTYPES[header["dtype"]],
        mode="r",
        offset=8 + length + header["data_offsets"][0],
        shape=shape,
    )


def load_parquet(
    path: Path, column: str | None = None, id_column: str | None = None
) -> tuple[list[str], NDArray[np.float32]]:
    """The ids and the vectors of a Parquet file; the vectors come to lie in memory."""
    with open_parquet(path) as file:
        names, total = file.schema_arrow.names, file.metadata.num_rows
    source = Source(path, "row")
    chosen = {role: name for role, name in (("id", id_column), ("embedding", column)) if name}
    columns = find_columns(names, ITEM_NAMES, chosen, source)
    if columns.embedding not in names:
        raise source.error(
            None, "a column of embeddings", f"the columns {', '.join(names)}", "Name it: column=."
        )
    ids: list[str] = []
    vectors = np.zeros((total, 0), dtype=np.float32)
    for number, row in read_rows(path, [columns.id, columns.embedding]):
        vector = row[columns.embedding]
        if not isinstance(vector, np.ndarray):
            raise source.error(number, "a list of floating-point numbers", repr(vector))
        if not ids:
            vectors = np.zeros((total, len(vector)), dtype=np.float32)
        if len(vector) != vectors.shape[1]:
            raise DimensionError(
                f"{path} row {number}: the embedding of {row[columns.id]!r} has {len(vector)} "
                f"values, the ones before have {vectors.shape[1]}."
            )
        vectors[number - 1] = vector
        ids.append(str(row[columns.id]) if row[columns.id] is not None else "")
    return ids, vectors


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise DataError(f"no file at {path}. Check the path.")
