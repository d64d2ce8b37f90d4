"""Checkpoints: whole or not at all, and only for the run they belong to."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from trieline.errors import IndexFolderError
from trieline.train.checkpoint import (
    Progress,
    Unusable,
    load_checkpoint,
    load_weights,
    save_checkpoint,
    weights_of,
)

PROGRESS = Progress(step=7, best=0.5, best_step=4, stale=1, loss=2.25, seconds=1.5)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoint.safetensors"
    tensors = {
        "model.a": torch.arange(4.0),
        "best.a": torch.zeros(2, 2).T,
        "model.b": torch.ones(1),
    }
    save_checkpoint(path, "key", PROGRESS, tensors)
    return path


def test_what_was_saved_comes_back(file: Path) -> None:
    found = load_checkpoint(file, "key")
    assert found is not None
    assert found.progress == PROGRESS
    assert sorted(found.part("model")) == ["a", "b"]
    assert torch.equal(found.part("model")["a"], torch.arange(4.0))
    assert torch.equal(found.part("best")["a"], torch.zeros(2, 2))


def test_nothing_was_saved(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path / "checkpoint.safetensors", "key") is None


def test_a_checkpoint_of_another_run(file: Path) -> None:
    with pytest.raises(Unusable, match="other settings or other data"):
        load_checkpoint(file, "other key")


def test_a_file_that_is_something_else(file: Path) -> None:
    save_file({"a": torch.ones(1)}, file)
    with pytest.raises(Unusable, match="not a checkpoint of this version"):
        load_checkpoint(file, "key")


def test_a_checkpoint_cut_at_any_byte_is_recognised(file: Path) -> None:
    whole = file.read_bytes()
    for length in (*range(0, len(whole), 17), len(whole) - 1):
        file.write_bytes(whole[:length])
        with pytest.raises(Unusable, match="damaged"):
            load_checkpoint(file, "key")


def test_a_full_disk_leaves_the_old_checkpoint(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(IndexFolderError, match="No space left"):
        save_checkpoint(file, "key", Progress(step=9), {"model.a": torch.ones(9)})
    found = load_checkpoint(file, "key")
    assert found is not None
    assert found.progress == PROGRESS
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_tensor_of_two_names_is_saved_once(tmp_path: Path) -> None:
    first, second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    second.weight = first.weight
    model = torch.nn.Sequential(first, second)
    weights = {name: tensor.clone() for name, tensor in weights_of(model).items()}
    assert sorted(weights) == ["0.bias", "0.weight", "1.bias"]
    torch.nn.init.zeros_(first.weight)
    load_weights(model, weights)
    assert torch.equal(second.weight, weights["0.weight"])
