"""The index folder: what is saved is what is opened, and nothing else is."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from trieline.errors import IndexFolderError
from trieline.store import Draft, IndexFolder, atomic_write, disk, draft, open_folder
from trieline.store.disk import locked, seal

CODES = np.arange(12, dtype=np.uint16).reshape(4, 3)


def save(path: Path, value: int = 1) -> IndexFolder:
    """A small index of every kind of file, all of whose contents say ``value``."""
    with draft(path, recipe={"ids": {"sizes": [value]}}, created="2026-01-01T00:00:00") as d:
        d.fingerprints["encoder"] = str(value)
        d.notes["value"] = [value, 0.5, None]
        d.save_arrays("docids.safetensors", {"a": CODES * value, "scalar": np.float32(value)})
        d.save_array("big/codes.npy", CODES + value)
        d.save_derived("trie", value, {"rows": CODES.T * value})
        (d.folder / "catalog.sqlite").write_bytes(b"live")
    return open_folder(path)


def value_of(index: IndexFolder) -> int:
    """The value that an index was saved with, after a look at everything in it."""
    value = int(index.manifest.fingerprints["encoder"])
    assert index.verify() == []
    assert index.manifest.recipe == {"ids": {"sizes": [value]}}
    assert index.manifest.notes == {"value": [value, 0.5, None]}
    arrays = index.arrays("docids.safetensors")
    np.testing.assert_array_equal(arrays["a"], CODES * value)
    assert arrays["scalar"].shape == ()
    assert arrays["scalar"] == value
    np.testing.assert_array_equal(index.mapped("big/codes.npy"), CODES + value)
    derived = index.derived("trie", value)
    assert derived is not None
    np.testing.assert_array_equal(derived["rows"], CODES.T * value)
    return value


def names(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir()}


def test_what_is_saved_is_what_is_opened(tmp_path: Path) -> None:
    index = save(tmp_path / "new" / "name.tl")
    assert value_of(index) == 1
    assert index.manifest.created == "2026-01-01T00:00:00"
    assert index.manifest.live == ("catalog.sqlite",)
    assert set(index.manifest.files) == {"docids.safetensors", "big/codes.npy"}
    assert index.file("catalog.sqlite").read_bytes() == b"live"
    assert set(index.sizes()) == {
        "big/codes.npy",
        "catalog.sqlite",
        "derived/trie.000001/rows.npy",
        "derived/trie.json",
        "docids.safetensors",
    }
    with pytest.raises(IndexFolderError, match=r"no file 'model'.*big/codes\.npy"):
        index.file("model")


def test_saving_again_replaces_all_of_it(tmp_path: Path) -> None:
    old = save(tmp_path / "i.tl")
    mapped = old.mapped("big/codes.npy")
    (tmp_path / "i.tl" / "README").write_text("the user's own")
    assert value_of(save(tmp_path / "i.tl", 2)) == 2
    assert names(tmp_path / "i.tl") == {"manifest.json", "lock", "g000002", "README"}
    np.testing.assert_array_equal(mapped, CODES + 1)  # whoever had it open keeps it
    assert not old.is_current()
    with pytest.raises(IndexFolderError, match="saved anew"):
        old.arrays("docids.safetensors")
    with pytest.raises(IndexFolderError, match="saved anew"), old.writing():
        pass


def test_the_manifest_is_json_as_specified(tmp_path: Path) -> None:
    save(tmp_path / "i.tl")
    tree = json.loads((tmp_path / "i.tl" / "manifest.json").read_text())
    assert set(tree) == {
        *("kind", "format", "trieline", "created", "generation", "recipe", "fingerprints"),
        *("files", "live", "notes", "seal"),
    }
    assert (tree["kind"], tree["format"], tree["generation"]) == ("trieline index", 1, 1)
    record = tree["files"]["big/codes.npy"]
    assert record["size"] == (tmp_path / "i.tl/g000001/big/codes.npy").stat().st_size
    assert len(record["sha256"]) == 64


def test_files_can_be_read_by_whoever_may_read_new_files(tmp_path: Path) -> None:
    index = save(tmp_path / "i.tl")
    (tmp_path / "ordinary").touch()
    modes = {stat.S_IMODE(index.file(n).stat().st_mode) for n in index.manifest.files}
    assert modes == {stat.S_IMODE((tmp_path / "ordinary").stat().st_mode)}


def test_arrays_that_are_not_contiguous_or_empty(tmp_path: Path) -> None:
    odd = {"t": CODES.T, "step": CODES[::2, ::-1], "none": CODES[:0]}
    with draft(tmp_path / "i.tl") as d:
        d.save_arrays("a.safetensors", odd)
        for name, array in odd.items():
            d.save_array(f"{name}.npy", array)
    index = open_folder(tmp_path / "i.tl")
    for name, array in odd.items():
        np.testing.assert_array_equal(index.arrays("a.safetensors")[name], array)
        np.testing.assert_array_equal(index.mapped(f"{name}.npy"), array)


def test_no_pickle(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="pickle"), draft(tmp_path / "i.tl") as d:
        d.save_array("objects.npy", np.array([{}], dtype=object))


def _edit(change: Callable[[dict], None]) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        tree = json.loads((path / "manifest.json").read_text())
        change(tree)
        tree["seal"] = seal(tree)
        (path / "manifest.json").write_text(json.dumps(tree))

    return edit


def _flip(name: str) -> Callable[[Path], None]:
    def flip(path: Path) -> None:
        data = bytearray((path / name).read_bytes())
        data[-1] ^= 1
        (path / name).write_bytes(data)

    return flip


def _cut(name: str) -> Callable[[Path], None]:
    return lambda path: os.truncate(path / name, (path / name).stat().st_size - 9)


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated file": (_cut("g000001/docids.safetensors"), r"has \d+ bytes, expected \d+"),
    "truncated map": (_cut("g000001/big/codes.npy"), r"has \d+ bytes, expected \d+"),
    "flipped bit": (_flip("g000001/docids.safetensors"), "sha256 differs"),
    "missing file": (lambda p: (p / "g000001/big/codes.npy").unlink(), "codes.npy cannot be read"),
    "missing live": (lambda p: (p / "g000001/catalog.sqlite").unlink(), "missing or empty"),
    "empty live": (lambda p: os.truncate(p / "g000001/catalog.sqlite", 0), "missing or empty"),
    "no generation": (lambda p: (p / "g000001").rename(p / "x"), r"more problems.*trieline build"),
    "cut manifest": (lambda p: os.truncate(p / "manifest.json", 99), "manifest.json is damaged"),
    "empty manifest": (lambda p: os.truncate(p / "manifest.json", 0), "manifest.json is damaged"),
    "not text": (lambda p: (p / "manifest.json").write_bytes(b'{"\xff":1}'), "is damaged"),
    "edited": (
        lambda p: (p / "manifest.json").write_text(
            (p / "manifest.json").read_text().replace("2026", "2025")
        ),
        "was it edited",
    ),
    "no manifest": (lambda p: (p / "manifest.json").unlink(), "half-written.*trieline build"),
    "newer": (_edit(lambda tree: tree.update(format=2)), "format 2.*Upgrade it with"),
    "wrong type": (_edit(lambda tree: tree.update(files=[])), "is damaged"),
    "outside": (_edit(lambda tree: tree["live"].append("../../x")), "outside the index"),
    "absolute": (_edit(lambda tree: tree["live"].append("/etc/passwd")), "outside the index"),
    "foreign": (lambda p: (p / "manifest.json").write_text('{"name": "a"}'), "another program"),
    "a list": (lambda p: (p / "manifest.json").write_text("[1]"), "another program"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_damaged_or_foreign_folder_is_refused(tmp_path: Path, case: str) -> None:
    save(tmp_path / "i.tl")
    damage, message = REFUSED[case]
    damage(tmp_path / "i.tl")
    with pytest.raises(IndexFolderError, match=message):
        open_folder(tmp_path / "i.tl")


def test_what_is_no_index_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    for name, message in {
        "nowhere": "there is no such folder",
        "file": "expected a folder, got a file",
        "empty": "the folder is empty",
        "photos": "not a trieline index",
    }.items():
        with pytest.raises(IndexFolderError, match=message):
            open_folder(tmp_path / name)


def test_keys_of_later_versions_are_ignored(tmp_path: Path) -> None:
    save(tmp_path / "i.tl")
    _edit(lambda tree: tree.update(later={"x": 1}))(tmp_path / "i.tl")
    assert value_of(open_folder(tmp_path / "i.tl")) == 1


def test_verify_reads_what_opening_does_not(tmp_path: Path) -> None:
    index = save(tmp_path / "i.tl")
    _flip("big/codes.npy")(index.folder)
    _flip("derived/trie.000001/rows.npy")(index.folder)
    problems = open_folder(tmp_path / "i.tl").verify()
    assert [Path(line.split()[0]).name for line in problems] == ["codes.npy", "rows.npy"]
    (index.folder / "derived/trie.json").write_text("{")
    assert index.verify()[-1].endswith("trie.json is damaged")


def test_what_is_not_ours_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "manifest.json").write_text('{"name": "app"}')
    newer = save(tmp_path / "newer").path
    _edit(lambda tree: tree.update(format=2))(newer)
    for name in ("file", "photos", "app", "newer"):
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(IndexFolderError), draft(tmp_path / name):
            raise AssertionError("the block must not run")
        assert sorted(tmp_path.rglob("*")) == before


def _save_and_raise(drafted: Draft, error: type[BaseException]) -> None:
    drafted.save_array("a.npy", CODES)
    raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_leaves_nothing_or_the_old_index(
    tmp_path: Path, error: type[BaseException]
) -> None:
    def fail(path: Path) -> None:
        with pytest.raises(error), draft(path) as d:
            _save_and_raise(d, error)

    fail(tmp_path / "i.tl")
    assert not (tmp_path / "i.tl").exists()
    (tmp_path / "was").mkdir()
    fail(tmp_path / "was")
    assert names(tmp_path / "was") == set()
    save(tmp_path / "i.tl")
    fail(tmp_path / "i.tl")
    assert value_of(open_folder(tmp_path / "i.tl")) == 1
    assert names(tmp_path / "i.tl") == {"manifest.json", "lock", "g000001"}


def test_an_open_catalog_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IndexFolderError, match="Close the catalog"), draft(tmp_path / "i.tl") as d:
        (d.folder / "catalog.sqlite-wal").touch()
    assert not (tmp_path / "i.tl").exists()


@pytest.mark.parametrize("flock", [True, False])
def test_one_writer_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flock: bool) -> None:
    if not flock:
        monkeypatch.setattr(disk, "_lacks_flock", lambda: True)
    index = save(tmp_path / "i.tl")
    with index.writing():
        with pytest.raises(IndexFolderError, match=f"process {os.getpid()} is writing"):
            save(tmp_path / "i.tl", 2)
        with pytest.raises(IndexFolderError, match="is writing"), index.writing():
            pass
        assert value_of(open_folder(tmp_path / "i.tl")) == 1  # readers are not asked
    assert value_of(save(tmp_path / "i.tl", 2)) == 2


def test_a_lock_that_was_deleted_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    real, calls = fcntl.flock, []

    def flock(handle: int, how: int) -> None:
        if not calls:
            (tmp_path / "lock").unlink()  # as a failed first build does, at the worst moment
        calls.append(handle)
        real(handle, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(tmp_path):
        assert len(calls) == 2
        with pytest.raises(IndexFolderError, match="is writing"), locked(tmp_path):
            pass


def test_derived_sets_are_good_for_one_revision(tmp_path: Path) -> None:
    index = save(tmp_path / "i.tl")
    assert index.derived("trie", 2) is None
    assert index.derived("fm", 1) is None
    with index.writing() as writer:
        writer.replace_derived("trie", 2, {"rows": CODES, "none": CODES[:0]})
        writer.replace_derived("trie.tails", 1, {})
    assert index.derived("trie", 1) is None
    derived = open_folder(tmp_path / "i.tl").derived("trie", 2)
    assert derived is not None
    np.testing.assert_array_equal(derived["rows"], CODES)
    assert derived["none"].shape == (0, 3)
    assert index.derived("trie.tails", 1) == {}
    assert names(index.folder / "derived") == {
        *("trie.json", "trie.000002", "trie.tails.json", "trie.tails.000001"),
    }
    with index.writing() as writer, pytest.raises(ValueError, match="file name"):
        writer.replace_derived("../trie", 2, {})


@pytest.mark.parametrize("name", ["trie.json", "trie.000001/rows.npy"])
def test_a_damaged_derived_set_counts_as_absent(tmp_path: Path, name: str) -> None:
    index = save(tmp_path / "i.tl")
    _cut(f"derived/{name}")(index.folder)
    assert index.derived("trie", 1) is None
    with index.writing() as writer:
        writer.replace_derived("trie", 1, {"rows": CODES.T})
    assert value_of(index) == 1


def test_readers_of_a_derived_set_that_is_being_replaced(tmp_path: Path) -> None:
    index = save(tmp_path / "i.tl")
    done = threading.Event()

    def write() -> None:
        for _ in range(40):
            with index.writing() as writer:
                writer.replace_derived("trie", 1, {"rows": CODES.T})
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    while not done.is_set():
        derived = index.derived("trie", 1)
        assert derived is not None
        np.testing.assert_array_equal(derived["rows"], CODES.T)
    thread.join()


def test_opening_while_it_is_saved(tmp_path: Path) -> None:
    save(tmp_path / "i.tl")
    done = threading.Event()

    def write() -> None:
        for value in range(2, 15):
            save(tmp_path / "i.tl", value)
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    last = 1
    while not done.is_set():
        value = int(open_folder(tmp_path / "i.tl").manifest.fingerprints["encoder"])
        assert value >= last
        last = value
    thread.join()
    assert value_of(open_folder(tmp_path / "i.tl")) == 14


def test_atomic_write(tmp_path: Path) -> None:
    file = tmp_path / "run.txt"
    atomic_write(file, b"one")
    file.chmod(0o640)
    atomic_write(file, lambda out: out.write(b"two"))
    assert file.read_bytes() == b"two"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640

    def fail(out: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        atomic_write(file, fail)
    (tmp_path / "link").symlink_to("run.txt")
    atomic_write(tmp_path / "link", b"three")
    assert file.read_bytes() == b"three"
    assert names(tmp_path) == {"run.txt", "link"}


def test_writing_elsewhere_than_in_the_index_keeps_its_own_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), draft(tmp_path / "i.tl"):
        (tmp_path / "corpus.jsonl").read_bytes()
