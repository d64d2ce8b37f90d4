"""Loops that are compiled: numba with the settings that every kernel here has.

``cache``: compiled once a machine, not once a process. ``nogil``: searches run in threads.
``fastmath`` lets sums be reordered, so that they run on vectors; kernels do not meet NaN.

Import this only where a kernel is written, and a kernel's file only where it is called: numba takes
half a second to import, and a file's kernels a second or more to compile for the first time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numba.extending

__all__ = ["inlined", "intrinsic", "kernel", "overload"]

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """A loop over arrays."""
    compiler: Any = numba.njit
    return cast(Function, compiler(cache=True, nogil=True, fastmath=True)(function))


def inlined(function: Function) -> Function:
    """A few lines inside a kernel's innermost loop."""
    compiler: Any = numba.njit
    options = {"cache": True, "nogil": True, "fastmath": True, "inline": "always"}
    return cast(Function, compiler(**options)(function))


def intrinsic(function: Function) -> Callable[..., Any]:
    """A piece of LLVM code; called without its first argument."""
    compiler: Any = numba.extending.intrinsic
    return cast(Callable[..., Any], compiler(function))


def overload(function: Callable[..., Any]) -> Callable[[Function], Function]:
    """What a function becomes for the types it is called with."""
    compiler: Any = numba.extending.overload
    return cast(Callable[[Function], Function], compiler(function, inline="always", strict=False))
