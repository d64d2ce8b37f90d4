"""What is between the matrix products of a decoder, row by row on a CPU: plain array functions.

    add_norm      residual += what a layer said; its root-mean-square norm, for the next product
    attend        each new row looks at its ancestors (self-attention)
    keep          keys and values of new rows into the arena, for those who come after
    look          each row looks at the states of its own query (cross-attention)
    narrow        rows to 8 bits, 128 for nought, each with its own scale

The products come in fp32, or in bf16 as the bits of their upper halves (uint16), each row to be
multiplied by its scale (ones, unless the product was of int8). Sums are done in fp32.
``model.stepper.TorchStepper`` is the slow twin of them all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from trieline.compiled import inlined, intrinsic, kernel, overload

__all__ = ["add_norm", "add_norm_narrow", "attend", "keep", "look", "narrow"]

Array = Any  # numba compiles one version for each element type
EPS = np.float32(1e-6)
LEAST = np.float32(-87.0)


# Numba widens integers to 64 bits, which spoils vectors of 32: bits are handled one level below.


@intrinsic
def _float_of_bf16(typing: Any, bits: Any) -> Any:
    """uint16, the upper half of a float -> float32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        i32 = ir.IntType(32)
        upper = builder.shl(builder.zext(args[0], i32), ir.Constant(i32, 16))
        return builder.bitcast(upper, ir.FloatType())

    return types.float32(types.uint16), generate


@intrinsic
def _bf16_of_float(typing: Any, value: Any) -> Any:
    """float32 -> the upper half, rounded to nearest, ties to even."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        i32 = ir.IntType(32)
        bits = builder.bitcast(args[0], i32)
        upper = builder.lshr(bits, ir.Constant(i32, 16))
        odd = builder.and_(upper, ir.Constant(i32, 1))
        rounded = builder.add(builder.add(bits, ir.Constant(i32, 0x7FFF)), odd)
        return builder.trunc(builder.lshr(rounded, ir.Constant(i32, 16)), ir.IntType(16))

    return types.uint16(types.float32), generate


@intrinsic
def _whole(typing: Any, value: Any) -> Any:
    """float32 -> float32 without what is behind the point."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.sitofp(builder.fptosi(args[0], ir.IntType(32)), ir.FloatType())

    return types.float32(types.float32), generate


@intrinsic
def _two_to(typing: Any, power: Any) -> Any:
    """2 to a whole float32 between -126 and 127."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        i32 = ir.IntType(32)
        biased = builder.add(builder.fptosi(args[0], i32), ir.Constant(i32, 127))
        return builder.bitcast(builder.shl(biased, ir.Constant(i32, 23)), ir.FloatType())

    return types.float32(types.float32), generate


@intrinsic
def _uint8_of(typing: Any, value: Any) -> Any:
    """float32 -> uint8, cut towards zero."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.trunc(builder.fptosi(args[0], ir.IntType(32)), ir.IntType(8))

    return types.uint8(types.float32), generate


def _wide(value: Any) -> Any:
    """fp32 of an element: bf16 comes as uint16."""


@overload(_wide)
def _wide_of(value: Any) -> Any:
    if isinstance(value, types.Integer):
        return lambda value: _float_of_bf16(value)
    return lambda value: value


def _put(out: Any, row: Any, column: Any, value: Any) -> None:
    """Store fp32 as the element type of ``out``: bf16 is rounded to nearest, ties to even."""


@overload(_put)
def _put_of(out: Any, row: Any, column: Any, value: Any) -> Any:
    if isinstance(out.dtype, types.Integer):

        def bf16(out: Any, row: Any, column: Any, value: Any) -> None:
            out[row, column] = _bf16_of_float(value)

        return bf16

    def fp32(out: Any, row: Any, column: Any, value: Any) -> None:
        out[row, column] = value

    return fp32


@inlined
def _exp(x: Any) -> Any:
    """exp for x <= 0, a polynomial that compilers can run on many numbers at once; 2e-7 off."""
    x = x if x > LEAST else LEAST
    n = _whole(x * np.float32(1.44269504) - np.float32(0.5))
    f = x - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)
    y = np.float32(1.9875691500e-4)
    y = y * f + np.float32(1.3981999507e-3)
    y = y * f + np.float32(8.3334519073e-3)
    y = y * f + np.float32(4.1665795894e-2)
    y = y * f + np.float32(1.6666665459e-1)
    y = y * f + np.float32(5.0000001201e-1)
    y = y * f * f + f + np.float32(1.0)
    return y * _two_to(n)


@kernel
def _add(h: Array, delta: Array, scales: Array, extra: Array, who: Array, row: int) -> Any:
    """Row of h [R, D] += delta * scale + extra[who]; its mean square."""
    width = h.shape[1]
    scale = scales[row]
    if delta.shape[0]:
        for i in range(width):
            h[row, i] += _wide(delta[row, i]) * scale
    if extra.shape[0]:
        query = who[row]
        for i in range(width):
            h[row, i] += extra[query, i]
    total = np.float32(0)
    for i in range(width):
        total += h[row, i] * h[row, i]
    return np.float32(1) / np.sqrt(total / np.float32(width) + EPS)


@kernel
def add_norm(h: Array, delta: Array, scales: Array, extra: Array, who: Array, out: Array) -> None:
    """h [R, D] += delta [R, D] * scales [R] + extra[who] [B, D]; out [R, D] = h, normalised.

    A delta or an extra without rows adds nothing.
    """
    for row in range(h.shape[0]):
        factor = _add(h, delta, scales, extra, who, row)
        for i in range(h.shape[1]):
            _put(out, row, i, h[row, i] * factor)


@kernel
def add_norm_narrow(
    h: Array, delta: Array, scales: Array, extra: Array, who: Array, out: Array, outs: Array
) -> None:
    """As ``add_norm``, with out uint8 [R, D] and a scale outs [R] for each row."""
    for row in range(h.shape[0]):
        factor = _add(h, delta, scales, extra, who, row)
        outs[row] = factor * _narrow_row(h, row, out)


@kernel
def narrow(x: Array, scales: Array, out: Array, outs: Array) -> None:
    """x [R, D] * scales [R] -> out uint8 [R, D], 128 for nought, and its scales outs [R]."""
    for row in range(x.shape[0]):
        outs[row] = scales[row] * _narrow_row(x, row, out)


@kernel
def _narrow_row(x: Array, row: int, out: Array) -> Any:
    most = np.float32(1e-30)
    for i in range(x.shape[1]):
        size = abs(_wide(x[row, i]))
        most = size if size > most else most
    factor = np.float32(127) / most
    for i in range(x.shape[1]):  # to the nearest
        out[row, i] = _uint8_of(_wide(x[row, i]) * factor + np.float32(128.5))
    return most / np.float32(127)


@kernel
def attend(
    qkv: Array,
    scales: Array,
    arena: Array,
    first: int,
    ancestors: Array,
    positions: Array,
    bias: Array,
    out: Array,
) -> None:
    """Self-attention of new rows: qkv [R, 3A], of slots ``first``, ``first`` + 1, ...; out [R, A].

    Keys and values of older slots are in arena [slots, 2A], those of the new ones in qkv itself.
    ancestors [R, T] are the slots on the way to each row, positions [R] how many codes it has,
    bias [T, T, H] what distance adds.
    """
    rows, inner = out.shape
    heads = bias.shape[2]
    width = inner // heads
    asked = np.empty(inner, np.float32)
    found = np.empty(inner, np.float32)
    weights = np.empty((heads, bias.shape[0]), np.float32)
    for row in range(rows):
        last = positions[row]
        for i in range(inner):
            asked[i] = _wide(qkv[row, i]) * scales[row]
        for t in range(last + 1):
            slot = ancestors[row, t]
            if slot >= first:
                _ask(asked, qkv, slot - first, inner, scales[slot - first], width, weights, t)
            else:
                _ask(asked, arena, slot, 0, np.float32(1), width, weights, t)
            for head in range(heads):
                weights[head, t] += bias[last, t, head]
        for head in range(heads):
            _softmax(weights, head, last + 1)
        found[:] = np.float32(0)
        for t in range(last + 1):
            slot = ancestors[row, t]
            if slot >= first:
                _gather(
                    found, qkv, slot - first, 2 * inner, scales[slot - first], width, weights, t
                )
            else:
                _gather(found, arena, slot, inner, np.float32(1), width, weights, t)
        for i in range(inner):
            _put(out, row, i, found[i])


@kernel
def keep(qkv: Array, scales: Array, arena: Array, first: int) -> None:
    """Keys and values of new rows into the arena, at their slots."""
    inner = arena.shape[1] // 2
    for row in range(qkv.shape[0]):
        for i in range(2 * inner):
            _put(arena, first + row, i, _wide(qkv[row, inner + i]) * scales[row])


@inlined
def _ask(
    asked: Array, keys: Array, row: int, at: int, scale: Any, width: int, weights: Array, t: int
) -> None:
    """weights[head, t] = how well each head's question fits the key at keys[row, at:]."""
    for head in range(weights.shape[0]):
        score = np.float32(0)
        begin = head * width
        if width == 64:  # known to the compiler, this is twice as fast
            for i in range(64):
                score += asked[begin + i] * _wide(keys[row, at + begin + i])
        else:
            for i in range(width):
                score += asked[begin + i] * _wide(keys[row, at + begin + i])
        weights[head, t] = score * scale


@inlined
def _gather(
    found: Array, values: Array, row: int, at: int, scale: Any, width: int, weights: Array, t: int
) -> None:
    """found += each head's weight times the value at values[row, at:]."""
    for head in range(weights.shape[0]):
        weight = weights[head, t] * scale
        begin = head * width
        if width == 64:
            for i in range(64):
                found[begin + i] += weight * _wide(values[row, at + begin + i])
        else:
            for i in range(width):
                found[begin + i] += weight * _wide(values[row, at + begin + i])


@kernel
def look(
    asks: Array, scales: Array, memory: Array, lengths: Array, who: Array, heads: int, out: Array
) -> None:
    """Cross-attention: row r, asks [R, A], looks at memory[who[r]] [S, 2A], the first ``lengths``
    states of it; out [R, A]."""
    rows, inner = out.shape
    width = inner // heads
    asked = np.empty(inner, np.float32)
    found = np.empty(inner, np.float32)
    weights = np.empty((heads, memory.shape[1]), np.float32)
    for row in range(rows):
        query = who[row]
        length = lengths[query]
        for i in range(inner):
            asked[i] = _wide(asks[row, i]) * scales[row]
        for t in range(length):
            _ask(asked, memory[query], t, 0, np.float32(1), width, weights, t)
        for head in range(heads):
            _softmax(weights, head, length)
        found[:] = np.float32(0)
        for t in range(length):
            _gather(found, memory[query], t, inner, np.float32(1), width, weights, t)
        for i in range(inner):
            _put(out, row, i, found[i])


@kernel
def _softmax(weights: Array, head: int, count: int) -> None:
    most = weights[head, 0]
    for t in range(1, count):
        most = weights[head, t] if weights[head, t] > most else most
    total = np.float32(0)
    for t in range(count):
        value = _exp(weights[head, t] - most)
        weights[head, t] = value
        total += value
    share = np.float32(1) / total
    for t in range(count):
        weights[head, t] *= share
