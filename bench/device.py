"""The same engine on a graphics card: the same answers as on the CPU, and what a search takes.

    python bench/device.py                 on cuda; --device names another
    python bench/device.py --out FILE      the figures as JSON, for bench/RESULTS.md

T5-small with random weights and 10,000 clustered docids, as in ``bench/decode.py``. The CPU is
asked the same questions in fp32. Beside it, transformers' generate with a prefix function on the
same device. Wall time, the device having finished; the least of several rounds, taken in turns.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from measures import in_turns, machine
from rivals import Rival
from shapes import PRO, World

from trieline.decode import Found, beam_search, exact_search
from trieline.model import Asked, Speller
from trieline.model.packed import quickest
from trieline.model.stepper import Spells

__all__ = ["main"]

K = 10
COMPARED, EXACT = 16, 4  # queries that the CPU is asked as well
BATCHES = (1, 16, 64)


def search(world: World, spells: Spells, asked: Asked, normalise: Any = "level") -> list[Found]:
    """One search of a batch."""
    given = asked.to(spells.device)
    return beam_search(spells, given, world.trie, beam=PRO.beam, k=K, normalise=normalise)


def agreement(ours: list[Any], theirs: list[Any]) -> dict[str, Any]:
    """How many of the queries have the same items in the same order, and how far scores differ."""
    pairs = list(zip(ours, theirs, strict=True))
    same = sum(np.array_equal(a.items, b.items) for a, b in pairs)
    overlap = np.mean([len(np.intersect1d(a.items, b.items)) / K for a, b in pairs])
    off = max(float(np.abs(np.sort(a.scores) - np.sort(b.scores)).max()) for a, b in pairs)
    return {"same_order": same, "of": len(pairs), "overlap": float(overlap), "score_off": off}


def on_device(speller: Speller, device: str) -> Speller:
    return copy.deepcopy(speller).to(device).eval()


def finished(device: str, work: Callable[[], Any]) -> Callable[[], None]:
    """The work, until the device has done it."""

    def run() -> None:
        work()
        if device.startswith("cuda"):
            torch.cuda.synchronize()

    return run


def measure(device: str, rounds: int) -> dict[str, Any]:
    world = World(PRO, 10_000)
    asked = world.ask(max(BATCHES))
    few, fewer = asked.some(slice(COMPARED)), asked.some(slice(EXACT))
    there = on_device(world.speller, device)
    spells: dict[str, Spells] = {"fp32": there, "bf16": quickest(there, "bf16")}
    told: dict[str, Any] = {"device": _name(device), "machine": machine(), "agreement": {}}
    for normalise in ("level", "legal", "vocab", "raw"):
        reference = search(world, world.speller, few, normalise)
        found = search(world, spells["fp32"], few, normalise)
        told["agreement"][f"fp32 {normalise}"] = agreement(found, reference)
    reference = search(world, world.speller, few)
    told["agreement"]["bf16 level"] = agreement(search(world, spells["bf16"], few), reference)
    exact = [
        exact_search(s, fewer.to(s.device), world.trie, k=K, normalise="legal", budget=2000)
        for s in (there, world.speller)
    ]
    told["agreement"]["exact legal"] = agreement(*exact)
    works: dict[str, Callable[[], None]] = {}
    for batch in BATCHES:
        for name, speller in spells.items():
            work = partial(search, world, speller, asked.some(slice(batch)))
            works[f"{name}, batch {batch}"] = finished(device, work)
    world.t5.to(device)
    world.speller.to(device)
    rival, one = Rival(world, "fp32", K), asked.some(slice(1)).to(device)
    works["generate fp32, batch 1"] = finished(device, partial(rival, one))
    ms = in_turns(works, rounds, clock=time.perf_counter)
    told["ms_a_query"] = {name: spent / _batch_of(name) for name, spent in ms.items()}
    return told


def _batch_of(name: str) -> int:
    return int(name.rpartition(" ")[2])


def _name(device: str) -> str:
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


def main(
    device: Annotated[str, typer.Option(help="cuda, cuda:1, cpu ...")] = "cuda",
    rounds: int = 3,
    out: Annotated[Path | None, typer.Option(help="Where the JSON goes; else it is shown.")] = None,
) -> None:
    """Compare a device with the CPU."""
    text = json.dumps(measure(device, rounds), indent=1)
    if out is None:
        typer.echo(text)
    else:
        out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
