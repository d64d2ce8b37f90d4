"""The loop: interrupted or not, cut or not, in this precision or that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor

from trieline.errors import DimensionError, SettingsError, TrainError
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
    """A measure that is best the second time."""
    measures = iter([0.4, 0.6, 0.5, 0.5, 0.3, 0.2, 0.1, 0.1, 0.1, 0.1])
    return lambda speller: next(measures)


# --- interruption -----------------------------------------------------------------------------


def near_start(speller: Speller) -> float:
    """A measure made of the weights, so that it is the same in every run."""
    return -float(speller.alphabet.output.detach().abs().sum())


@pytest.mark.parametrize("settings", [{}, {"precision": "bf16", "normalise": "legal"}])
def test_an_interrupted_run_ends_with_the_same_bits(
    world: Any, tmp_path: Path, settings: dict[str, Any]
) -> None:
    straight, broken = world.new_speller(), world.new_speller()
    whole = teach(world, straight, validate=near_start, evaluate_every=0.5, **settings)
    assert whole.steps == 15
    for step in (3, 3, 4):  # the last: steps 5 and 6 are done, then it fails once more
        with pytest.raises(Interrupted):
            teach(
                world,
                broken := world.new_speller(),
                tmp_path,
                validate=near_start,
                evaluate_every=0.5,
                watch=stop_at(step),
                **settings,
            )
    broken = world.new_speller()
    ended = teach(world, broken, tmp_path, validate=near_start, evaluate_every=0.5, **settings)
    assert same(straight, broken)
    unequal = {"seconds": 0.0, "log": None}
    assert ended._replace(**unequal) == whole._replace(**unequal)
    starts = [entry["from_step"] for entry in log_of(tmp_path) if entry["event"] == "start"]
    assert starts[0] == 0
    assert starts[-1] > 1


def test_an_interrupted_validation_is_done_again(world: Any, tmp_path: Path) -> None:
    straight, broken = world.new_speller(), world.new_speller()
    teach(world, straight, validate=near_start)

    def fails(speller: Speller) -> float:
        torch.rand(5)  # what validation draws is not training's concern
        raise Interrupted

    with pytest.raises(Interrupted):
        teach(world, broken, tmp_path, validate=fails)
    teach(world, broken, tmp_path, validate=near_start)
    assert same(straight, broken)
    steps = [e["step"] for e in log_of(tmp_path) if e["event"] in ("step", "evaluation")]
    assert steps == [5, 5, 10, 10, 15, 15]  # logged once, though step 5 was done twice


def test_without_a_checkpoint_in_time_it_begins_anew(world: Any, tmp_path: Path) -> None:
    straight, broken = world.new_speller(), world.new_speller()
    teach(world, straight)
    with pytest.raises(Interrupted):
        teach(world, broken, tmp_path, checkpoint_every=3600.0, watch=stop_at(9))
    assert not (tmp_path / "checkpoint.safetensors").exists()
    teach(world, restarted := world.new_speller(), tmp_path)
    assert same(straight, restarted)


def test_a_finished_run_is_not_repeated(world: Any, tmp_path: Path) -> None:
    done = teach(world, one := world.new_speller(), tmp_path, validate=near_start)

    def never(speller: Speller) -> float:
        raise AssertionError("nothing is left to validate")

    again = teach(world, other := world.new_speller(seed=5), tmp_path, validate=never)
    assert again == done
    assert same(one, other)


@pytest.mark.parametrize("change", [{"key": "other vectors"}, {"lr": 1e-3}, {"seed": 3}])
def test_a_changed_run_begins_anew(world: Any, tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(Interrupted):
        teach(world, world.new_speller(), tmp_path, watch=stop_at(9))
    teach(world, changed := world.new_speller(), tmp_path, **change)
    teach(world, straight := world.new_speller(), **change)
    assert same(changed, straight)
    note, start = log_of(tmp_path)[:2]
    assert "other settings or other data" in note["text"]
    assert start["from_step"] == 0


def test_a_cut_checkpoint_is_ignored_and_noted(world: Any, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        teach(world, world.new_speller(), tmp_path, watch=stop_at(9))
    file = tmp_path / "checkpoint.safetensors"
    file.write_bytes(file.read_bytes()[:-5])
    teach(world, mended := world.new_speller(), tmp_path)
    teach(world, straight := world.new_speller())
    assert same(mended, straight)
    assert "damaged" in log_of(tmp_path)[0]["text"]


def test_only_safetensors_and_json_are_written(world: Any, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        teach(world, world.new_speller(), tmp_path / "run", watch=stop_at(9), validate=near_start)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "checkpoint.safetensors",
        "log.jsonl",
    ]
    assert b"PK\x03\x04" not in (tmp_path / "run" / "checkpoint.safetensors").read_bytes()[:16]


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
    assert [entry["measure"] for entry in evaluations] == [0.4, 0.6, 0.5, 0.5, 0.3]
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
