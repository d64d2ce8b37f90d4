"""Interrupted or not, a run ends with the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.train.lessons import Interrupted, log_of, near_start, same, stop_at, teach
from trieline.model import Speller


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


def test_the_best_weights_survive_an_interruption(world: Any, tmp_path: Path) -> None:
    """The first evaluation is the best; the run is cut after it."""
    measures = iter([0.9, 0.1, 0.1])
    teach(world, straight := world.new_speller(), validate=lambda _: next(measures))
    with pytest.raises(Interrupted):
        teach(
            world,
            world.new_speller(),
            tmp_path,
            validate=lambda _: 0.9,
            watch=stop_at(8),
        )
    report = teach(world, broken := world.new_speller(), tmp_path, validate=lambda _: 0.1)
    assert (report.measure, report.best_step, report.steps) == (0.9, 5, 15)
    assert same(straight, broken)


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
