"""Files of small modules that were trained here: safetensors, with a format and facts beside them.

The metadata hold one entry, ``trieline``: a JSON object with ``format`` (the layout's name and
version) and ``about`` (the shape of the module, and the fingerprints of what it belongs to). The
trap: safetensors writes several entries in any order, and the file's checksum would be another.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from trieline.errors import SettingsError
from trieline.store.disk import atomic_write

__all__ = ["read_learnt", "write_learnt"]

T = TypeVar("T")


def write_learnt(
    path: str | Path, format_: str, about: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    """Write a module, whole or not at all."""
    from safetensors.torch import save

    metadata = {"trieline": json.dumps({"format": format_, "about": about}, sort_keys=True)}
    held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    atomic_write(Path(path), save(held, metadata))


def read_learnt(
    path: str | Path,
    format_: str,
    build: Callable[[Mapping[str, Any], dict[str, Tensor]], T],
    fix: str,
) -> T:
    """What ``build`` makes of a file's facts and tensors. ``fix``: where to get such a file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata: Mapping[str, str] = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        facts = json.loads(metadata.get("trieline", "{}"))
        if facts.get("format") != format_:
            raise ValueError(f"its format is {facts.get('format')!r}")
        return build(facts["about"], tensors)
    except (SafetensorError, OSError, LookupError, TypeError, ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise SettingsError(f"{path} is no file of {format_} ({reason}). {fix}") from None
