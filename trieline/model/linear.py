"""Matrix products with packed weights, for inference on a CPU: fp32, bf16 and int8.

Weights are brought once into the order that oneDNN's kernels read them in. Rows travel as a matrix
and a scale for each: the product of int8 numbers is right up to a factor a row, and whoever reads
it multiplies. A row's scale comes from that row alone, so that a query's scores do not depend on
the others of its batch.

The trap: these operators are not part of torch's promises. ``works`` tries them.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, NamedTuple, Protocol, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trieline.errors import SettingsError
from trieline.types import Floats

__all__ = [
    "Linear",
    "Precision",
    "Rows",
    "check_precision",
    "elements",
    "make_linear",
    "narrowed",
    "works",
]

Precision = Literal["fp32", "bf16", "int8"]


class Rows(NamedTuple):
    """A matrix [R, D] whose row r stands for ``scales[r]`` times itself."""

    values: Tensor  # fp32, bf16, or uint8 with 128 for nought
    scales: Floats  # [R]


class Linear(Protocol):
    """x [R, D] -> x @ weight.T [R, O]"""

    def __call__(self, x: Rows, relu: bool = False) -> Rows:
        """With ``relu``, negative results become 0."""


def make_linear(weight: Tensor, precision: Precision) -> Linear:
    """weight [O, D], packed."""
    match precision:
        case "fp32":
            return _Packed(weight.float())
        case "bf16":
            return _Packed(weight.bfloat16())
        case "int8":
            return _Int8(weight.float())


@cache
def works(precision: Precision) -> bool:
    """Whether this torch on this machine multiplies so, and rightly."""
    backend: Any = torch.backends.mkldnn
    if not (backend.is_available() and backend.enabled):
        return False
    x = torch.linspace(-1, 1, 3 * 32).view(3, 32)
    weight = torch.linspace(1, -1, 16 * 32).view(16, 32).roll(7, 0)
    ones = np.ones(3, np.float32)
    try:
        given = Rows(x.bfloat16() if precision == "bf16" else x, ones)
        rows = make_linear(weight, precision)(narrowed(given) if precision == "int8" else given)
    except (AttributeError, RuntimeError, TypeError, NotImplementedError):
        return False
    y = rows.values.float() * torch.from_numpy(rows.scales)[:, None]
    return torch.allclose(y, x @ weight.T, atol=1e-4 if precision == "fp32" else 0.15)


def narrowed(x: Rows) -> Rows:
    """fp32 or bf16 rows in 8 bits."""
    from trieline.model import kernels

    values = torch.empty(x.values.shape, dtype=torch.uint8)
    scales = np.empty(len(x.scales), np.float32)
    kernels.narrow(elements(x.values), x.scales, values.numpy(), scales)
    return Rows(values, scales)


def elements(values: Tensor) -> NDArray[np.generic]:
    """The same memory for kernels: bf16 as uint16."""
    if values.dtype == torch.bfloat16:
        return values.view(torch.int16).numpy().view(np.uint16)
    return values.numpy()


class _Packed:
    """fp32 or bf16, in and out."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), 64)

    def __call__(self, x: Rows, relu: bool = False) -> Rows:
        then = "relu" if relu else "none"
        y = torch.ops.mkldnn._linear_pointwise(x.values, self.weight, None, then, [], "")
        return Rows(y, x.scales)


class _Int8:
    """8 bits in, bf16 out: weights with a scale an output, rows with one each.

    The trap: rows must be unsigned. Signed ones are right too, but processors without AMX have no
    instruction for them, and oneDNN falls back to a loop that took 690 ms where this takes 0.12
    (50 x 512 by 512 x 1536, EPYC, torch 2.13).
    """

    def __init__(self, weight: Tensor) -> None:
        sizes = weight.abs().amax(1).clamp_min(1e-12) / 127
        whole = (weight / sizes[:, None]).round().clamp(-127, 127).to(torch.int8)
        self.packed = torch.ops.onednn.qlinear_prepack(whole.contiguous(), [64, weight.shape[1]])
        self.sizes, self.zeros = sizes, torch.zeros(len(sizes), dtype=torch.int32)
        self.one, self.nought = torch.ones(()), torch.tensor(128, dtype=torch.int32)

    def __call__(self, x: Rows, relu: bool = False) -> Rows:
        y = torch.ops.onednn.qlinear_pointwise(
            x.values,
            self.one,
            self.nought,
            self.packed,
            self.sizes,
            self.zeros,
            None,
            1.0,
            0,
            torch.bfloat16,
            "relu" if relu else "none",
            [],
            "",
        )
        return Rows(y, x.scales)


def check_precision(precision: str) -> Precision:
    """The same, once it is known to be one."""
    for known in get_args(Precision):
        if precision == known:
            return cast(Precision, known)
    raise SettingsError(
        f"precision = {precision!r}: expected one of {', '.join(get_args(Precision))}."
    )
