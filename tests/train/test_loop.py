"""The loop: what it learns, when it stops, what it tells."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.train.lessons import Interrupted, falling, log_of, near_start, same, stop_at, teach
from trieline.errors import DimensionError, SettingsError, TrainError
from trieline.model import Speller
from trieline.train import train
from trieline.train.batches import Batches
from trieline.train.checkpoint import weights_of
from trieline.train.optimiser import rate_at

# --- what it learns ---------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_weights(world: Any) -> None:
    torch.manual_seed(1)
    teach(world, one := world.new_speller())
    torch.manual_seed(2)  # somebody else's
    before = torch.get_rng_state()
    teach(world, other := world.new_speller())
    teach(world, third := world.new_speller(), seed=1)
    assert same(one, other)
    assert not same(one, third)
    assert torch.equal(before, torch.get_rng_state())


def test_it_does_what_a_plain_loop_does(world: Any) -> None:
    speller, plain = world.new_speller(dropout=0.0), world.new_speller(dropout=0.0).train()
    report = teach(world, speller, weight_decay=0.0, clip=0.5)
    batches = Batches(
        world.questions, world.pairs, world.codes, plain.sizes, world.settings, world.items
    )
    optimiser = torch.optim.Adam(plain.parameters())
    for step in range(report.steps):
        (batch,) = batches.step(step)
        logits = plain(batch.asked, batch.targets)
        levels = [F.cross_entropy(s, batch.targets[:, at]) for at, s in enumerate(logits)]
        optimiser.zero_grad()
        torch.stack(levels).mean().backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
        optimiser.param_groups[0]["lr"] = rate_at(step, report.steps, world.settings)
        optimiser.step()
    ours, theirs = weights_of(speller), weights_of(plain)
    for name, tensor in ours.items():
        assert torch.allclose(tensor, theirs[name], atol=2e-4), name


def test_several_batches_a_step_equal_one_big_batch(world: Any) -> None:
    big, small = world.new_speller(dropout=0.0), world.new_speller(dropout=0.0)
    start = world.new_speller()
    one = teach(world, big, batch=16, accumulate=1)
    many = teach(world, small, batch=4, accumulate=4)  # 36 pairs: the last step is a smaller one
    assert many.steps == one.steps == 9
    for name, weight in weights_of(big).items():
        moved = (weight - weights_of(start)[name]).abs().max()
        apart = (weight - weights_of(small)[name]).abs().max()
        assert apart <= 0.02 * moved + 1e-6, name
    assert many.loss == pytest.approx(one.loss, rel=1e-4)


def test_it_stops_early_with_the_best_weights(world: Any, tmp_path: Path) -> None:
    kept: list[dict[str, Tensor]] = []
    measure = falling()

    def validate(speller: Speller) -> float:
        assert not speller.training
        kept.append({name: tensor.clone() for name, tensor in weights_of(speller).items()})
        return measure(speller)

    speller = world.new_speller()
    report = teach(world, speller, tmp_path, validate=validate, patience=2, epochs=9)
    assert report.stopped_early
    assert (report.measure, report.best_step) == (0.6, 10)
    assert (report.steps, report.epochs) == (20, 4.0)
    assert all(torch.equal(kept[1][name], t) for name, t in weights_of(speller).items())
    assert not speller.training


def test_patience_begins_anew_with_every_best(world: Any) -> None:
    measures = iter([0.4, 0.3, 0.5, 0.3, 0.6, 0.3, 0.3, 0.9])
    report = teach(
        world, world.new_speller(), validate=lambda _: next(measures), patience=2, epochs=9
    )
    assert (report.measure, report.best_step, report.steps) == (0.6, 25, 35)


def moved(world: Any, **settings: Any) -> float:
    """How far the weights have gone."""
    start, speller = weights_of(world.new_speller()), world.new_speller()
    teach(world, speller, **settings)
    apart = [(tensor - start[name]).abs().sum() for name, tensor in weights_of(speller).items()]
    return float(torch.stack(apart).sum())


def test_steps_are_as_long_as_the_schedule_says(world: Any) -> None:
    once = {"max_steps": 1, "clip": 0.0, "weight_decay": 0.0}
    full, half = moved(world, **once), moved(world, lr=world.settings.lr / 2, **once)
    assert half == pytest.approx(full / 2, rel=0.01)
    early = {"epochs": 3, "schedule": "constant"}
    assert moved(world, warmup=1.0, **early) < 0.8 * moved(world, warmup=0.0, **early)


def test_gradients_are_clipped(world: Any) -> None:
    """Adam forgets how long gradients are, until they are shorter than what keeps it stable."""
    assert moved(world, max_steps=2, clip=1e-12, weight_decay=0.0) < 0.01 * moved(
        world, max_steps=2, clip=1.0, weight_decay=0.0
    )


def test_without_patience_it_goes_to_the_end(world: Any) -> None:
    report = teach(world, world.new_speller(), validate=falling(), patience=0, epochs=9)
    assert not report.stopped_early
    assert (report.steps, report.best_step) == (45, 10)


@pytest.mark.parametrize(("every", "times"), [(0.4, 8), (1.0, 3), (2.0, 2), (0.0, 1), (1e-9, 15)])
def test_how_often_it_validates(world: Any, every: float, times: int) -> None:
    seen = []
    teach(
        world,
        world.new_speller(),
        validate=lambda speller: seen.append(1) or 0.5,
        evaluate_every=every,
    )
    assert len(seen) == times


def test_steps_can_be_capped(world: Any) -> None:
    assert teach(world, world.new_speller(), max_steps=4).steps == 4
    assert teach(world, world.new_speller(), epochs=0.1).steps == 1


def test_precisions_take_turns_in_one_process(world: Any) -> None:
    reports = [
        teach(world, world.new_speller(), precision=precision, max_steps=3)
        for precision in ("fp32", "bf16", "fp32")
    ]
    assert [report.precision for report in reports] == ["fp32", "bf16", "fp32"]
    assert reports[0].loss == reports[2].loss
    assert reports[1].loss != reports[0].loss
    assert reports[1].loss == pytest.approx(reports[0].loss, rel=0.02)


def test_the_speller_comes_back_as_it_was(world: Any) -> None:
    speller = world.new_speller()
    types = {name: tensor.dtype for name, tensor in weights_of(speller).items()}
    teach(world, speller, precision="bf16", max_steps=2)
    assert {name: tensor.dtype for name, tensor in weights_of(speller).items()} == types
    assert "forward" not in vars(speller)
    with pytest.raises(Interrupted):
        teach(world, speller, watch=stop_at(2))
    assert not speller.training


# --- what it tells ----------------------------------------------------------------------------


def test_the_log_tells_it_all(world: Any, tmp_path: Path) -> None:
    report = teach(world, world.new_speller(), tmp_path, validate=falling(), epochs=5)
    log = log_of(tmp_path)
    assert report.log == tmp_path / "log.jsonl"
    assert log[0]["event"] == "start"
    assert (log[0]["steps"], log[0]["pairs_per_epoch"], log[0]["precision"]) == (25, 36, "fp32")
    steps = [entry for entry in log if entry["event"] == "step"]
    assert [entry["step"] for entry in steps] == [5, 10, 15, 20, 25]
    assert steps[-1]["loss"] < steps[0]["loss"]
    assert all(entry["samples_per_second"] > 0 for entry in steps)
    assert [entry["lr"] for entry in steps[1:]] == sorted(
        (entry["lr"] for entry in steps[1:]), reverse=True
    )
    evaluations = [entry for entry in log if entry["event"] == "evaluation"]
    assert [entry["measure"] for entry in evaluations] == [0.4, 0.6, 0.6, 0.5, 0.3]
    assert [entry["best"] for entry in evaluations] == [True, True, False, False, False]
    assert log[-1]["event"] == "end"
    assert log[-1]["measure"] == 0.6


def test_progress_counts_to_the_end(world: Any, tmp_path: Path) -> None:
    told: list[tuple[int, str]] = []

    class Told:
        def advance(self, n: int = 1, note: str = "") -> None:
            told.append((n, note))

    @contextmanager
    def watch(what: str, total: int | None) -> Iterator[Told]:
        told.append((0, f"{what} {total}"))
        yield Told()

    with pytest.raises(Interrupted):
        teach(world, world.new_speller(), tmp_path, validate=near_start, watch=stop_at(8))
    teach(world, world.new_speller(), tmp_path, validate=lambda _: 0.41, watch=watch)
    assert told[0][1] == "training 15"
    assert told[1] == (7, "going on from a checkpoint")
    assert sum(n for n, _ in told) == 15
    assert told[-1][1].startswith("loss ")
    assert told[-1][1].endswith(" · best R@10 .410")


# --- what cannot work -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "train.epochs = 0: must be above 0"),
        ({"batch": 0}, "train.batch = 0"),
        ({"lr": float("nan")}, "train.lr = nan"),
        ({"warmup": 2.0}, "train.warmup = 2.0: must be 0 to 1"),
        ({"seed": -1}, "train.seed = -1: cannot be negative"),
        ({"normalise": "legal", "trie": None}, "needs the trie"),
    ],
)
def test_settings_that_cannot_work(world: Any, change: dict[str, Any], message: str) -> None:
    changes = dict(change)
    settings = {k: changes.pop(k) for k in list(changes) if k != "trie"}
    with pytest.raises(SettingsError, match=message):
        train(
            world.new_speller(),
            world.questions,
            world.pairs,
            world.codes,
            msgspec.structs.replace(world.settings, **settings),
        )


def test_vectors_of_another_width(world: Any) -> None:
    narrow = world._replace(items=world.items[:, :5])
    with pytest.raises(DimensionError, match="item vectors have shape"):
        teach(narrow, world.new_speller())


def test_a_loss_that_is_no_number_is_not_saved(world: Any, tmp_path: Path) -> None:
    with pytest.raises(TrainError, match=r"the loss became nan by step 15\. Try a lower train\.lr"):
        teach(
            world,
            world.new_speller(),
            tmp_path,
            lr=1e30,
            clip=0.0,
            warmup=0.0,
            checkpoint_every=3600.0,
        )
    assert not (tmp_path / "checkpoint.safetensors").exists()


def test_a_measure_that_is_no_number(world: Any) -> None:
    with pytest.raises(TrainError, match="gave nan instead of a measure"):
        teach(world, world.new_speller(), validate=lambda _: float("nan"))
