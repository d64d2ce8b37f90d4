"""The precision of a run: bf16 where the machine computes it itself, fp32 elsewhere.

The trap: torch accepts bf16 on any processor. One without bf16 instructions converts back and forth
and is slower than in fp32.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch

__all__ = ["Precision", "choose_precision"]

Precision = Literal["fp32", "bf16"]

_CPU_FLAGS = frozenset({"avx512_bf16", "amx_bf16"})  # ARM's are not in here: not measured yet


def choose_precision(wanted: Literal["auto", "fp32", "bf16"], device: torch.device) -> Precision:
    """What "auto" means on this device."""
    if wanted != "auto":
        return wanted
    match device.type:
        case "cuda":
            native = torch.cuda.is_bf16_supported(including_emulation=False)
        case "cpu":
            native = not _CPU_FLAGS.isdisjoint(_cpu_flags())
        case _:
            native = False
    return "bf16" if native else "fp32"


def _cpu_flags(path: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """What the processor can do, as Linux tells it; nothing where it cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(flags.partition(":")[2].split())
