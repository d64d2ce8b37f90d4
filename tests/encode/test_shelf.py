from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trieline.encode import shelf as shelf_module
from trieline.encode.shelf import Keys, Shelf
from trieline.errors import IndexFolderError
from trieline.types import Floats


def keys_of(*names: object) -> Keys:
    digests = b"".join(hashlib.sha256(str(name).encode()).digest() for name in names)
    return np.frombuffer(digests, dtype=np.uint8).reshape(-1, 32)


def vectors_of(*numbers: float) -> Floats:
    return np.array([[n, -n, n / 2] for n in numbers], dtype=np.float32).reshape(-1, 3)


def fetch(shelf: Shelf, *names: object) -> dict[object, float]:
    """name -> the first value of its vector, of those that are there."""
    out = np.full((len(names), 3), np.nan, dtype=np.float32)
    found = shelf.fetch(keys_of(*names), out)
    assert np.array_equal(out[:, 1], -out[:, 0], equal_nan=True)
    assert np.isnan(out[~found]).all(), "what was not found is left alone"
    return {name: float(out[n, 0]) for n, name in enumerate(names) if found[n]}


def chunk_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


@given(
    chunks=st.lists(st.lists(st.integers(0, 30), max_size=8), max_size=6),
    asked=st.lists(st.integers(0, 40), max_size=20),
)
def test_finds_what_was_put_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[list[int]], asked: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("shelf")
    shelf = Shelf(folder)
    for numbers in chunks:
        shelf.put(keys_of(*numbers), vectors_of(*numbers))
    known = {number for numbers in chunks for number in numbers}
    expected = {number: float(number) for number in asked if number in known}
    assert fetch(shelf, *asked) == expected
    assert fetch(Shelf(folder), *asked) == expected, "another process sees the same"


def test_an_empty_folder_and_none() -> None:
    shelf = Shelf(Path("no/such/folder"))
    assert fetch(shelf, "a") == {}
    assert shelf.dim is None


def test_sees_what_another_process_adds(tmp_path: Path) -> None:
    one, other = Shelf(tmp_path / "s"), Shelf(tmp_path / "s")
    one.put(keys_of("a"), vectors_of(1))
    assert fetch(other, "a", "b") == {"a": 1}
    one.put(keys_of("b"), vectors_of(2))
    assert fetch(other, "a", "b") == {"a": 1, "b": 2}


def test_the_same_chunk_twice_is_one_file(tmp_path: Path) -> None:
    for shelf in (Shelf(tmp_path), Shelf(tmp_path)):
        shelf.put(keys_of("a", "b"), vectors_of(1, 2))
    assert len(chunk_files(tmp_path)) == 1


@pytest.mark.parametrize("damage", ["truncate", "empty", "flip header", "flip value", "delete"])
def test_a_damaged_chunk_is_a_gap(tmp_path: Path, damage: str) -> None:
    shelf = Shelf(tmp_path)
    shelf.put(keys_of("a", "b"), vectors_of(1, 2))
    (file,) = chunk_files(tmp_path)
    shelf.put(keys_of("c"), vectors_of(3))
    seen_before = Shelf(tmp_path)
    seen_before.refresh()

    content = bytearray(file.read_bytes())
    if damage == "truncate":
        file.write_bytes(content[:-5])
    elif damage == "empty":
        file.write_bytes(b"")
    elif damage == "delete":
        file.unlink()
    else:
        content[3 if damage == "flip header" else -3] ^= 0x40
        file.write_bytes(content)

    for reader in (Shelf(tmp_path), seen_before):
        assert fetch(reader, "a", "b", "c") == {"c": 3}
        assert reader.dim == 3
    seen_before.put(keys_of("b", "a"), vectors_of(2, 1))
    for reader in (Shelf(tmp_path), seen_before):
        assert fetch(reader, "a", "b", "c") == {"a": 1, "b": 2, "c": 3}


def test_the_same_chunk_again_mends_a_damaged_one(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.put(keys_of("a"), vectors_of(1))
    (file,) = chunk_files(tmp_path)
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert fetch(shelf, "a") == {}
    shelf.put(keys_of("a"), vectors_of(1))
    assert fetch(shelf, "a") == {"a": 1}
    assert file.read_bytes() == content


def test_foreign_files_are_let_be(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    shelf = Shelf(tmp_path / "s", about="whose these are")
    shelf.put(keys_of("a"), vectors_of(1))
    (tmp_path / "s" / "notes.txt").write_text("mine")
    save_file({"other": np.zeros(3)}, tmp_path / "s" / "0.safetensors")
    wide = np.ones((1, 99), np.float32)
    save_file({"keys": keys_of("b"), "vectors": wide}, tmp_path / "s" / "00.safetensors")
    fresh = Shelf(tmp_path / "s")
    assert fetch(fresh, "a", "b") == {"a": 1}
    assert fresh.dim == 3
    assert (tmp_path / "s" / "about.txt").read_text() == "whose these are\n"


def test_what_a_killed_process_left_is_cleared_after_a_day(tmp_path: Path) -> None:
    old, young = tmp_path / ".x.safetensors.1.tmp", tmp_path / ".x.safetensors.2.tmp"
    for file in (old, young):
        file.write_bytes(b"half")
    os.utime(old, (time.time() - 90_000,) * 2)
    Shelf(tmp_path).refresh()
    assert not old.exists()
    assert young.exists()


def test_a_disk_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shelf_module, "atomic_write", full)
    with pytest.raises(IndexFolderError, match="No space left"):
        Shelf(tmp_path).put(keys_of("a"), vectors_of(1))
    assert chunk_files(tmp_path) == []


def test_a_million_entries_are_found_quickly(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 256, size=(1_000_000, 32), dtype=np.uint8)
    values = np.arange(1_000_000, dtype=np.float32)[:, None]
    shelf = Shelf(tmp_path)
    for start in range(0, len(keys), 100_000):
        shelf.put(keys[start : start + 100_000], values[start : start + 100_000])
    began = time.process_time()
    order = rng.permutation(len(keys))
    out = np.empty((len(keys), 1), dtype=np.float32)
    assert shelf.fetch(keys[order], out).all()
    assert np.array_equal(out[:, 0], order.astype(np.float32))
    assert time.process_time() - began < 10, "about one second when the machine is idle"
