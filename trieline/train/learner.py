"""One step of learning: batches in, better weights out.

Mixed precision, accumulation over several batches, several processes. The loss of a step is the
mean over all its questions, however they were cut into batches: the last, smaller batch weighs
less, so that accumulating gives what one big batch would.

The trap: accelerate's own mixed precision is a setting of the whole process that cannot be changed
any more, and it replaces the model's ``forward``. So it is left alone and autocast is done here.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trieline.config import TrainSettings
from trieline.index import Trie
from trieline.model.seq2seq import Speller
from trieline.train.batches import Batch, Batches
from trieline.train.loss import legal_children, legal_loss, level_loss
from trieline.train.optimiser import make_optimiser, rate_at, set_rate
from trieline.train.precision import choose_precision

__all__ = ["Learner"]

_DROPOUT = 4  # a stream of random numbers; ``pairs`` and ``batches`` have the first three


class Learner:
    """A speller and its optimiser on their device."""

    def __init__(
        self,
        speller: Speller,
        batches: Batches,
        settings: TrainSettings,
        steps: int,
        trie: Trie | None,
        device: str | None,
    ) -> None:
        from accelerate import Accelerator

        self.accelerator: Any = Accelerator()
        self.device = torch.device(device or self.accelerator.device)
        self.speller, self.batches, self.settings, self.steps = speller, batches, settings, steps
        self.trie = trie if settings.normalise == "legal" else None
        self.precision = choose_precision(settings.precision, self.device)
        self.home = speller.device
        self.model: Any = self.accelerator.prepare_model(
            speller.to(self.device), device_placement=False
        )
        self.optimiser = make_optimiser(speller, settings)
        self._total = torch.zeros((), device=self.device)
        self._steps = self._questions = 0

    def step(self, number: int) -> None:
        """Learn from the batches of a step (from 0)."""
        world, rank = self.accelerator.num_processes, self.accelerator.process_index
        self.model.train()
        torch.manual_seed(_dropout_seed(self.settings.seed, number, rank))
        batches = list(self.batches.step(number, rank, world))
        for batch in batches[:-1]:
            with self.accelerator.no_sync(self.model):  # processes share gradients once a step
                self._learn(batch, world)
        self._learn(batches[-1], world)
        if self.settings.clip > 0:
            self.accelerator.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        set_rate(self.optimiser, rate_at(number, self.steps, self.settings))
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self._steps += 1
        self._questions += self.batches.size_of(number)

    def tell(self) -> tuple[float, int]:
        """Mean loss and number of questions since this was last asked."""
        told = float(self._total) / max(self._steps, 1), self._questions
        self._total.zero_()
        self._steps = self._questions = 0
        return told

    def moments(self) -> dict[str, Tensor]:
        """The optimiser's tensors, "KIND.PARAMETER"."""
        state = self.optimiser.state
        return {
            f"{kind}.{name}": tensor
            for name, parameter in self.speller.named_parameters()
            for kind, tensor in state.get(parameter, {}).items()
        }

    def set_moments(self, moments: dict[str, Tensor]) -> None:
        """The inverse of ``moments``."""
        state: dict[str, dict[str, Tensor]] = {}
        for place, tensor in moments.items():
            kind, _, name = place.partition(".")
            state.setdefault(name, {})[kind] = tensor
        names = {parameter: name for name, parameter in self.speller.named_parameters()}
        groups = [group["params"] for group in self.optimiser.param_groups]
        ordered = enumerate(names[parameter] for group in groups for parameter in group)
        numbered = {number: state[name] for number, name in ordered if name in state}
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": numbered})

    def leave(self) -> None:
        """Give the speller back as a plain module, where it was."""
        self.accelerator.unwrap_model(self.model, keep_fp32_wrapper=False)
        self.speller.to(self.home).eval()

    def _learn(self, batch: Batch, world: int) -> None:
        """Add the gradients of one batch."""
        targets = batch.targets.to(self.device)
        low = self.precision == "bf16"
        with torch.autocast(self.device.type, torch.bfloat16) if low else nullcontext():
            logits = self.model(batch.asked.to(self.device), targets)
        losses = self._losses(logits, batch.targets, targets)
        # Processes average their gradients, and each weighs its part of the whole step.
        loss = losses.mean() * batch.share * world
        self.accelerator.backward(loss)
        self._total += loss.detach()

    def _losses(self, logits: list[Tensor], given: Tensor, targets: Tensor) -> Tensor:
        smoothing = self.settings.label_smoothing
        if self.trie is None:
            return level_loss(logits, targets, smoothing)
        legal = [allowed.to(self.device) for allowed in legal_children(self.trie, given.numpy())]
        return legal_loss(logits, targets, legal, smoothing)


def _dropout_seed(seed: int, step: int, rank: int) -> int:
    sequence = np.random.SeedSequence((seed, _DROPOUT, step, rank))
    return int(sequence.generate_state(1, np.uint64)[0]) >> 1  # torch takes signed numbers
