"""Training runs in the tiny world, and what befalls them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import torch

from trieline.model import Speller
from trieline.train import Report, train
from trieline.train.checkpoint import weights_of


class Interrupted(Exception):
    """Somebody pulled the plug."""


def teach(world: Any, speller: Speller, folder: Path | None = None, **more: Any) -> Report:
    names = {f.name for f in msgspec.structs.fields(world.settings)}
    changes = {name: more.pop(name) for name in list(more) if name in names}
    settings = msgspec.structs.replace(world.settings, **changes)
    return train(
        speller,
        world.questions,
        world.pairs,
        world.codes,
        settings,
        item_vectors=world.items,
        trie=world.trie,
        folder=folder,
        **more,
    )


def stop_at(step: int) -> Callable[..., Any]:
    """A watch that fails at a step."""

    class Fuse:
        left = step

        def advance(self, n: int = 1, note: str = "") -> None:
            self.left -= n
            if self.left <= 0:
                raise Interrupted

    @contextmanager
    def watch(what: str, total: int | None) -> Iterator[Fuse]:
        yield Fuse()

    return watch


def same(one: Speller, other: Speller) -> bool:
    """Bit for bit."""
    ours, theirs = weights_of(one), weights_of(other)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)


def log_of(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "log.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line) for line in lines]


def falling() -> Callable[[Speller], float]:
    """A measure that is best the second time; the third is as good and comes too late."""
    measures = iter([0.4, 0.6, 0.6, 0.5, 0.3, 0.2, 0.1, 0.1, 0.1, 0.1])
    return lambda speller: next(measures)


def near_start(speller: Speller) -> float:
    """A measure made of the weights, so that it is the same in every run."""
    return -float(speller.alphabet.output.detach().abs().sum())
