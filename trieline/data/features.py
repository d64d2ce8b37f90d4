"""Vectors that somebody computed of pictures and clips: one each, or one a frame, to be pooled.

Three layouts, told apart by what is given:

    FILE.npy (or a safetensors file of one tensor)   a row each, in the order in which things are
                                                     read: [N, D], or [N, F, D] with F frames each
    FILE.safetensors with a tensor for each id       [D] or [F, D]
    FOLDER with a file for each id                   ID.npy or ID.safetensors, [D] or [F, D]

Frames become one vector: their mean, over those that ``mask`` (rows by frames, or a folder of one
mask each) calls present. The trap: clips of one length are often padded to it with zero frames;
without their mask, a short clip's mean is too short as well as wrong beside others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trieline.data.vectors import map_npy, map_safetensors
from trieline.errors import DataError, DimensionError, FormatError
from trieline.types import Floats

__all__ = ["Features", "open_features", "pool_frames"]

Array = NDArray[Any]
_Read = Callable[[int, str], Array]


class Features:
    """The vector of each thing, by the number of its row and its id."""

    def __init__(self, path: Path, read: _Read, mask: _Read | None) -> None:
        self.path, self._read, self._mask = path, read, mask
        self._width = 0

    def vector(self, row: int, id_: str) -> Floats:
        """float32[D]; all of one width and finite."""
        array = np.asarray(self._read(row, id_), dtype=np.float32)
        mask = None if self._mask is None else np.asarray(self._mask(row, id_))
        if array.ndim == 2:
            array = pool_frames(array, mask, f"{self.path}: {id_!r}")
        if array.ndim != 1 or not len(array):
            raise DimensionError(
                f"{self.path}: the features of {id_!r} have shape {list(array.shape)}, expected "
                "[D] or [frames, D]."
            )
        if not np.isfinite(array).all():
            raise DimensionError(
                f"{self.path}: the features of {id_!r} have NaN or infinite values. Leave it out "
                "or compute its features again."
            )
        self._width = self._width or len(array)
        if len(array) != self._width:
            raise DimensionError(
                f"{self.path}: {id_!r} has {len(array)} values, the ones before {self._width}. "
                "Use features of one model."
            )
        return array


def open_features(
    path: str | Path, count: Callable[[], int], mask: str | Path | None = None
) -> Features:
    """The features at ``path``. ``count``: how many things there are, where rows must agree."""
    path = Path(path)
    return Features(
        path, _reader(path, count), None if mask is None else _reader(Path(mask), count)
    )


def pool_frames(frames: Floats, mask: Array | None, where: str = "features") -> Floats:
    """float32[F, D] -> float32[D]: the mean of the frames that ``mask`` [F] calls present."""
    if mask is None:
        present = np.ones(len(frames), dtype=bool)
    else:
        present = mask.astype(bool)
        if present.shape != (len(frames),):
            raise DimensionError(
                f"{where} has {len(frames)} frames and a mask of shape {list(present.shape)}. "
                "A mask says of each frame whether it is there."
            )
    if not present.any():
        raise DataError(f"{where} has no frame that is present. Leave it out.")
    pooled: Floats = frames[present].mean(axis=0, dtype=np.float64).astype(np.float32)
    return pooled


def _reader(path: Path, count: Callable[[], int]) -> _Read:
    if path.is_dir():
        return lambda row, id_: _of_folder(path, id_)
    if path.suffix == ".npy":
        return _rows(path, map_npy(path), count)
    if path.suffix == ".safetensors":
        names = _tensors(path)
        if len(names) == 1:
            return _rows(path, map_safetensors(path), count)
        return lambda row, id_: _tensor(path, names, id_)
    raise DataError(
        f"cannot read features from {path}: expected an .npy or a .safetensors file, or a folder "
        "with one of them for each id."
    )


def _rows(path: Path, table: Array, count: Callable[[], int]) -> _Read:
    wanted = count()
    if table.ndim < 2 or len(table) != wanted:
        raise DimensionError(
            f"{path}: expected {wanted:,} rows, one for each thing of the captions in their "
            f"order, got shape {list(table.shape)}."
        )
    return lambda row, id_: table[row]


def _of_folder(folder: Path, id_: str) -> Array:
    for stem in dict.fromkeys((id_, Path(id_).stem)):
        for ending in (".npy", ".safetensors"):
            path = folder / f"{stem}{ending}"
            if path.is_file():
                return map_npy(path) if ending == ".npy" else map_safetensors(path)
    raise DataError(f"{folder} has no {id_}.npy or .safetensors. Every thing needs its features.")


def _tensors(path: Path) -> frozenset[str]:
    library = import_module("safetensors")
    try:
        with library.safe_open(path, framework="numpy") as file:
            return frozenset(file.keys())
    except (library.SafetensorError, OSError) as error:
        raise FormatError(path, None, "a safetensors file", f"something else ({error})") from None


def _tensor(path: Path, names: frozenset[str], id_: str) -> Array:
    candidates: Sequence[str] = [name for name in (id_, Path(id_).stem) if name in names]
    if not candidates:
        raise DataError(f"{path} has no tensor {id_!r}. Every thing needs its features.")
    return map_safetensors(path, candidates[0])
