"""The training log: one JSON object a line, for people and for plots.

    {"event": "start", "steps": 1200, "from_step": 0, ...}
    {"event": "step", "step": 20, "epoch": 0.5, "loss": 4.1, "lr": 1e-3, "samples_per_second": 900}
    {"event": "evaluation", "step": 40, "epoch": 1.0, "measure": 0.41, "best": true, "seconds": 3.2}
    {"event": "note", "text": ...}
    {"event": "end", "steps": 1200, ...}

The trap: a run that goes on from a checkpoint takes some steps again; their first lines go.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from trieline.store.disk import atomic_write, disk_errors

__all__ = ["TrainLog"]


class TrainLog:
    """Appends to ``path``, line by line; writes nothing where there is no path."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def restart(self, step: int) -> None:
        """Begin anew (step 0), or keep what was logged up to a step."""
        if self.path is None:
            return
        kept = []
        if step and self.path.exists():
            for line in self.path.read_bytes().splitlines():
                try:
                    entry = msgspec.json.decode(line)
                except msgspec.DecodeError:
                    continue  # the process died while it wrote this line
                if entry.get("step", 0) <= step:
                    kept.append(line + b"\n")
        with disk_errors(self.path):
            atomic_write(self.path, b"".join(kept))

    def write(self, event: str, **fields: Any) -> None:
        """Add one line."""
        if self.path is None:
            return
        line = msgspec.json.encode({"event": event, **fields}) + b"\n"
        with disk_errors(self.path), self.path.open("ab") as file:
            file.write(line)
