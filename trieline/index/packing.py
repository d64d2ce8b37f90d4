"""Docids as strings of bits: each code in exactly the bits that its level needs, rows of bytes.

The codes of a row follow one another, the most significant bit first, so rows compare as byte
strings exactly as docids compare code by code: sorting, binary search and "where do these two
part" work on the packed rows and nothing has to be unpacked for them. A level of ``V`` codes takes
``ceil(log2 V)`` bits, sixteen levels of 512 to 2048 codes 20 bytes.

Trap: a row has three bytes at least. A code of up to 16 bits lies in three bytes wherever it
begins, and with rows of three or more those three never reach beyond the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Bytes",
    "Field",
    "code_at",
    "field_of",
    "pack",
    "packed_width",
    "parting",
    "row_keys",
    "sort_words",
    "unpack",
]

Bytes = NDArray[np.uint8]
LEAST = 3  # bytes of a row
BLOCK = 2**17  # rows compared at once


class Field(NamedTuple):
    """Where the code of a level lies: ``(three bytes from byte) >> shift & mask``."""

    byte: int
    shift: int
    mask: int


def packed_width(sizes: Sequence[int]) -> int:
    """Bytes of a packed row."""
    return max(LEAST, -(-sum(_bits(sizes)) // 8))


def field_of(sizes: tuple[int, ...], level: int) -> Field:
    """Where the code that follows a prefix of ``level`` codes lies."""
    return _fields(sizes)[level]


def sort_words(codes: NDArray[np.uint16], sizes: Sequence[int]) -> NDArray[np.uint64]:
    """uint64[words, R]: the packed rows in words of 64 bits, zeros at the end."""
    words = np.zeros((-(-packed_width(sizes) // 8), len(codes)), np.uint64)
    offset = 0
    for column, bits in zip(codes.T, _bits(sizes), strict=True):
        if bits:
            word, used = divmod(offset, 64)
            spill = used + bits - 64  # bits that belong to the next word
            code = column.astype(np.uint64)
            if spill <= 0:
                words[word] |= code << np.uint64(-spill)
            else:
                words[word] |= code >> np.uint64(spill)
                words[word + 1] |= code << np.uint64(64 - spill)
        offset += bits
    return words


def pack(words: NDArray[np.uint64], sizes: Sequence[int]) -> Bytes:
    """uint8[R, width] of the words [words, R] of some rows."""
    rows = np.ascontiguousarray(words.T).astype(">u8").view(np.uint8)
    return np.ascontiguousarray(rows[:, : packed_width(sizes)])


def unpack(packed: Bytes, sizes: tuple[int, ...]) -> NDArray[np.uint16]:
    """uint16[R, L]: the codes of packed rows."""
    codes = np.empty((len(packed), len(sizes)), np.uint16)
    fields = _fields(sizes)
    for start in range(0, len(packed), BLOCK):
        block = packed[start : start + BLOCK].astype(np.uint32)
        for level, field in enumerate(fields):
            codes[start : start + BLOCK, level] = _read(block, field)
    return codes


def code_at(packed: Bytes, docids: NDArray[np.int64], field: Field) -> NDArray[np.int64]:
    """int64[n]: the codes of some rows at one level."""
    near = packed[:, field.byte : field.byte + LEAST][docids].astype(np.int64)
    return _read(near, field._replace(byte=0))


def parting(one: Bytes, other: Bytes, sizes: Sequence[int]) -> NDArray[np.int64]:
    """int64[n]: the level, from 1, at which each row parts from its partner; 0 where they agree."""
    level_of_bit = np.repeat(np.arange(1, len(sizes) + 1), _bits(sizes))
    level_of_bit = np.append(level_of_bit, np.zeros(8 * one.shape[1] - len(level_of_bit), np.int64))
    first_bit = np.array([8 - value.bit_length() for value in range(256)])
    level = np.empty(len(one), np.int64)
    for start in range(0, len(one), BLOCK):
        differs = one[start : start + BLOCK] ^ other[start : start + BLOCK]
        byte = (differs != 0).argmax(axis=1)
        bits = differs[np.arange(len(differs)), byte]
        bit = np.minimum(8 * byte + first_bit[bits], len(level_of_bit) - 1)
        level[start : start + BLOCK] = np.where(bits == 0, 0, level_of_bit[bit])
    return level


def row_keys(packed: Bytes) -> NDArray[np.bytes_]:
    """The rows as strings that NumPy can search; no copy.

    NumPy ignores zero bytes at the end of a string, which is harmless: all have one length.
    """
    keys: NDArray[np.bytes_] = packed.view(f"S{packed.shape[1]}")[:, 0]
    return keys


def _bits(sizes: Sequence[int]) -> list[int]:
    return [(size - 1).bit_length() for size in sizes]


@lru_cache(maxsize=32)
def _fields(sizes: tuple[int, ...]) -> list[Field]:
    bits, width = _bits(sizes), packed_width(sizes)
    offsets = np.cumsum([0, *bits[:-1]]).tolist()
    places = [(offset, min(offset // 8, width - LEAST)) for offset in offsets]
    return [
        Field(byte, 24 - (offset - 8 * byte) - count, (1 << count) - 1)
        for (offset, byte), count in zip(places, bits, strict=True)
    ]


def _read(rows: NDArray[np.integer[Any]], field: Field) -> NDArray[np.int64]:
    high, middle, low = (rows[:, field.byte + at] for at in range(LEAST))
    codes: NDArray[np.int64] = ((high << 16) | (middle << 8) | low) >> field.shift & field.mask
    return codes
