"""Vectors of pictures, clips and frames in their three layouts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from trieline.data.features import open_features, pool_frames
from trieline.errors import DataError, DimensionError, FormatError

IDS = ("a.jpg", "clip_2", "c")


@pytest.fixture
def frames() -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.normal(size=(count, 6)).astype(np.float32) for count in (1, 4, 2)]


def read(path: Path, **settings) -> np.ndarray:
    found = open_features(path, lambda: len(IDS), **settings)
    return np.stack([found.vector(row, id_) for row, id_ in enumerate(IDS)])


def test_each_layout_gives_the_same(tmp_path: Path, frames: list[np.ndarray]):
    means = np.stack([clip.mean(axis=0) for clip in frames])
    padded = np.zeros((3, 4, 6), np.float32)
    mask = np.zeros((3, 4), bool)
    (tmp_path / "clips").mkdir()
    for row, clip in enumerate(frames):
        padded[row, : len(clip)], mask[row, : len(clip)] = clip, True
    np.save(tmp_path / "clips" / "a.npy", frames[0])  # by the name without its ending
    np.save(tmp_path / "clips" / "clip_2.npy", frames[1])
    save_file({"frames": frames[2]}, tmp_path / "clips" / "c.safetensors")
    save_file(dict(zip(("a", "clip_2", "c"), frames, strict=True)), tmp_path / "all.safetensors")
    np.save(tmp_path / "padded.npy", padded)
    np.save(tmp_path / "mask.npy", mask)
    np.save(tmp_path / "means.npy", means)
    save_file({"means": means}, tmp_path / "one.safetensors")
    for name in ("clips", "all.safetensors", "means.npy", "one.safetensors"):
        np.testing.assert_allclose(read(tmp_path / name), means, atol=1e-6, err_msg=name)
    masked = read(tmp_path / "padded.npy", mask=tmp_path / "mask.npy")
    np.testing.assert_allclose(masked, means, atol=1e-6)
    assert not np.allclose(read(tmp_path / "padded.npy"), means), "padding pulls means down"


def test_pooling_refuses_what_makes_no_sense():
    with pytest.raises(DimensionError, match=r"2 frames and a mask of shape \[3\]"):
        pool_frames(np.ones((2, 4), np.float32), np.ones(3))
    with pytest.raises(DataError, match="no frame that is present"):
        pool_frames(np.ones((2, 4), np.float32), np.zeros(2))
    with pytest.raises(DataError, match="no frame that is present"):
        pool_frames(np.ones((0, 4), np.float32), None)


def test_bad_values_and_shapes(tmp_path: Path):
    bad = np.ones((3, 4), np.float32)
    bad[1, 2] = np.nan
    np.save(tmp_path / "v.npy", bad)
    with pytest.raises(DimensionError, match="'clip_2' have NaN"):
        read(tmp_path / "v.npy")
    np.save(tmp_path / "v.npy", np.ones((3, 2, 2, 2)))
    with pytest.raises(DimensionError, match=r"'a.jpg' have shape \[2, 2, 2\]"):
        read(tmp_path / "v.npy")
    tensors = {"a": np.ones(2, np.float32), "clip_2": np.ones(3, np.float32)}
    save_file(tensors, tmp_path / "v.safetensors")
    with pytest.raises(DimensionError, match="'clip_2' has 3 values, the ones before 2"):
        read(tmp_path / "v.safetensors")


def test_what_is_missing(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"has no a.jpg.npy or .safetensors"):
        read(tmp_path / "empty")
    save_file({"x": np.ones(2), "y": np.ones(2)}, tmp_path / "v.safetensors")
    with pytest.raises(DataError, match=r"has no tensor 'a.jpg'"):
        read(tmp_path / "v.safetensors")
    (tmp_path / "w.safetensors").write_bytes(b"no")
    with pytest.raises(FormatError, match="expected a safetensors file"):
        read(tmp_path / "w.safetensors")
    with pytest.raises(DataError, match="cannot read features from"):
        read(tmp_path / "v.pt")
