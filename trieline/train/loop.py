"""The training loop: a speller learns which docids answer which questions.

Adam steps on cross-entropy, a retrieval measure now and then, the weights of the best measure in
the end.

The trap: a run that was interrupted must end with the same bits as one that was not. So nothing
depends on the clock but when a checkpoint is written, and every step draws its batch and its
dropout from (seed, step), whatever happened before in this process.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch
from torch import Tensor

from trieline.config import TrainSettings
from trieline.errors import TrainError
from trieline.index import Trie
from trieline.model.questions import Questions
from trieline.model.seq2seq import Speller
from trieline.train.batches import Batches
from trieline.train.checkpoint import (
    Progress,
    Unusable,
    load_checkpoint,
    load_weights,
    save_checkpoint,
    weights_of,
)
from trieline.train.checks import check_settings, check_vectors
from trieline.train.learner import Learner
from trieline.train.log import TrainLog
from trieline.train.optimiser import rate_at
from trieline.train.pairs import Pairs
from trieline.types import Codes, Floats
from trieline.watch import Watch, silent

__all__ = ["Report", "Validate", "train"]

_LOG_EVERY = 20  # steps
_WRITING = 20  # a checkpoint waits for this many times what the last one took: 5 % at most

Validate = Callable[[Speller], float]
"""How good a speller is (on its own device, in eval mode); more is better."""


class Report(NamedTuple):
    """How training went."""

    steps: int
    epochs: float
    measure: float | None  # the best validated one; None without validation
    best_step: int  # the step whose weights the speller has
    stopped_early: bool
    loss: float | None  # mean over the last logged steps
    seconds: float  # interrupted parts included
    precision: str
    log: Path | None


def train(
    speller: Speller,
    questions: Questions,
    pairs: Pairs,
    codes: Codes,
    settings: TrainSettings,
    *,
    item_vectors: Floats | None = None,
    trie: Trie | None = None,
    validate: Validate | None = None,
    folder: Path | None = None,
    key: str = "",
    pairs_per_query: int | None = None,  # None: as the settings say
    device: str | None = None,
    watch: Watch = silent,
) -> Report:
    """Teach the speller; it ends in eval mode with the best validated weights, else the last.

    ``item_vectors`` [N, D] are what query vectors are mixed with (``settings.interpolate``);
    ``trie`` is needed for ``settings.normalise = "legal"``. With a ``folder`` the run can be
    interrupted and called again; ``key`` stands for everything that cannot be seen from here (the
    vectors, the texts, the model's start): with another key it begins anew. A finished run is not
    repeated. ``device`` None: accelerate's choice.
    """
    check_settings(settings, trie)
    check_vectors(speller, questions, item_vectors)
    if pairs_per_query is not None:
        settings = msgspec.structs.replace(settings, pairs_per_query=pairs_per_query)
    batches = Batches(questions, pairs, codes, speller.sizes, settings, item_vectors)
    steps = max(1, math.ceil(settings.epochs * batches.steps_per_epoch), settings.min_steps)
    steps = min(steps, settings.max_steps or steps)
    gpus = range(torch.cuda.device_count())
    with torch.random.fork_rng(devices=gpus):  # the caller's random numbers stay the caller's
        learner = Learner(speller, batches, settings, steps, trie, device)
        try:
            run = _Run(learner, validate, folder, key)
            run.go(watch)
        finally:
            learner.leave()
    return run.report()


class _Run:
    """A training run while it lasts."""

    def __init__(
        self, learner: Learner, validate: Validate | None, folder: Path | None, key: str
    ) -> None:
        self.learner, self.validate = learner, validate
        self.settings, self.steps = learner.settings, learner.steps
        self.steps_per_epoch = learner.batches.steps_per_epoch
        self.progress = Progress()
        self.best: dict[str, Tensor] = {}
        self.is_main: bool = learner.accelerator.is_main_process
        self.file = None if folder is None else folder / "checkpoint.safetensors"
        self.log = TrainLog(folder / "log.jsonl" if folder and self.is_main else None)
        self.key = _full_key(key, learner, validate is not None)
        self.logged_at = self.saved_at = time.perf_counter()
        self.apart = 0.0  # seconds since the last log line that did not go into steps
        self.writing = 0.0  # seconds that the last checkpoint took

    def go(self, watch: Watch) -> None:
        """From wherever the run stands to its end."""
        self._resume()
        if self.progress.finished:
            return
        begin = time.perf_counter() - self.progress.seconds
        with watch("training", self.steps) as task:
            if self.progress.step:
                task.advance(self.progress.step, "going on from a checkpoint")
            while not self._is_over():
                self.learner.step(self.progress.step)
                seconds = time.perf_counter() - begin
                self._now(step=self.progress.step + 1, seconds=seconds)
                self._look_around()
                task.advance(1, self._note())
                self._save_in_time()
        self._finish()

    def report(self) -> Report:
        done = self.progress
        return Report(
            steps=done.step,
            epochs=done.step / self.steps_per_epoch,
            measure=done.best,
            best_step=done.best_step or done.step,
            stopped_early=done.stopped_early,
            loss=done.loss,
            seconds=done.seconds,
            precision=self.learner.precision,
            log=self.log.path,
        )

    def _now(self, **changes: Any) -> None:
        self.progress = msgspec.structs.replace(self.progress, **changes)

    def _is_over(self) -> bool:
        patience = self.settings.patience
        return self.progress.step >= self.steps or 0 < patience <= self.progress.stale

    # --- between steps --------------------------------------------------------------------------

    def _look_around(self) -> None:
        """Log, and validate, when it is time."""
        step = self.progress.step
        last = step == self.steps
        evaluate = self.validate is not None and (last or self._evaluation_is_due(step))
        if evaluate or last or step % _LOG_EVERY == 0:
            self._log_steps()
        if evaluate:
            self._evaluate()

    def _evaluation_is_due(self, step: int) -> bool:
        apart = self.settings.evaluate_every * self.steps_per_epoch
        return apart > 0 and int(step / max(apart, 1)) > int((step - 1) / max(apart, 1))

    def _log_steps(self) -> None:
        loss, questions = self.learner.tell()
        if not math.isfinite(loss):
            raise TrainError(
                f"the loss became {loss} by step {self.progress.step}. Try a lower train.lr (now "
                f"{self.settings.lr:g}) or train.precision = 'fp32' (now "
                f"'{self.learner.precision}')."
            )
        self._now(loss=loss)
        now = time.perf_counter()
        self.log.write(
            "step",
            step=self.progress.step,
            epoch=self._epoch(),
            loss=loss,
            lr=rate_at(self.progress.step - 1, self.steps, self.settings),
            samples_per_second=round(questions / max(now - self.logged_at - self.apart, 1e-9), 1),
        )
        self.logged_at, self.apart = now, 0.0

    def _evaluate(self) -> None:
        begin = time.perf_counter()
        measure = self._measure()
        if math.isnan(measure):
            raise TrainError(
                f"validation at step {self.progress.step} gave nan instead of a measure. Check "
                "that the validation queries have judgements."
            )
        better = self.progress.best is None or measure > self.progress.best
        if better:
            self._now(best=measure, best_step=self.progress.step, stale=0)
            weights = weights_of(self.learner.speller)
            self.best = {name: tensor.cpu().clone() for name, tensor in weights.items()}
        else:
            self._now(stale=self.progress.stale + 1)
        seconds = time.perf_counter() - begin
        self.apart += seconds
        self.log.write(
            "evaluation",
            step=self.progress.step,
            epoch=self._epoch(),
            name=self.settings.measure,
            measure=measure,
            best=better,
            seconds=round(seconds, 3),
        )

    def _measure(self) -> float:
        """One process searches; all learn what it found."""
        found = [0.0]
        if self.is_main and self.validate is not None:
            found = [float(self.validate(self.learner.speller.eval()))]
        if self.learner.accelerator.num_processes > 1:
            from accelerate.utils import broadcast_object_list

            broadcast_object_list(found)
        return found[0]

    def _epoch(self) -> float:
        return round(self.progress.step / self.steps_per_epoch, 4)

    def _note(self) -> str:
        loss, best = self.progress.loss, self.progress.best
        parts = [] if loss is None else [f"loss {loss:.2f}"]
        if best is not None:
            parts.append(f"best {self.settings.measure} " + f"{best:.3f}".removeprefix("0"))
        return " · ".join(parts)

    # --- checkpoints ----------------------------------------------------------------------------

    def _resume(self) -> None:
        note, found = "", None
        if self.file is not None:
            try:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                found = load_checkpoint(self.file, self.key)
            except Unusable as error:
                note = f"the checkpoint at {self.file} is not used: {error}"
        if found is not None:
            self.progress = found.progress
            load_weights(self.learner.speller, found.part("model"))
            if self.progress.finished:
                return
            self.best = found.part("best")
            self.learner.set_moments(found.part("optimiser"))
        self.log.restart(self.progress.step)
        if note:
            self.log.write("note", text=note)
        self.log.write(
            "start",
            steps=self.steps,
            from_step=self.progress.step,
            steps_per_epoch=self.steps_per_epoch,
            pairs=len(self.learner.batches.pairs.query),
            pairs_per_epoch=len(self.learner.batches.plan),
            precision=self.learner.precision,
            device=str(self.learner.device),
            key=self.key,
        )

    def _save_in_time(self) -> None:
        every, waited = self.settings.checkpoint_every, time.perf_counter() - self.saved_at
        if not every or waited >= max(every, _WRITING * self.writing):  # 0: after every step
            self._save(best=self.best, optimiser=self.learner.moments())

    def _save(self, **parts: dict[str, Tensor]) -> None:
        begin = time.perf_counter()
        if self.file is not None and self.is_main:
            parts = {"model": weights_of(self.learner.speller), **parts}
            tensors = {
                f"{part}.{name}": t for part, own in parts.items() for name, t in own.items()
            }
            save_checkpoint(self.file, self.key, self.progress, tensors)
        self.saved_at = time.perf_counter()
        self.writing = self.saved_at - begin
        self.apart += self.writing

    def _finish(self) -> None:
        self._now(stopped_early=self.progress.step < self.steps, finished=True)
        if self.best:
            load_weights(self.learner.speller, self.best)
        self._save()
        told = self.report()._asdict()
        self.log.write("end", **{name: value for name, value in told.items() if name != "log"})


def _full_key(key: str, learner: Learner, validated: bool) -> str:
    """A fingerprint of what decides the result."""
    settings = msgspec.to_builtins(learner.settings)
    del settings["checkpoint_every"]  # says when to write, not what
    shapes = {name: list(tensor.shape) for name, tensor in weights_of(learner.speller).items()}
    facts = [key, settings, shapes, learner.precision, learner.steps, validated]
    facts += [len(learner.batches.plan), learner.accelerator.num_processes]
    digest = hashlib.sha256(msgspec.json.encode(facts))
    for array in (*learner.batches.pairs, *learner.batches.codes):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:32]
