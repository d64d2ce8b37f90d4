"""Crashes and full disks: what is there afterwards is the old state or the new one, whole."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import trieline
from trieline.errors import IndexFolderError
from trieline.store import draft, open_folder


def run(program: str, *arguments: object) -> str:
    """What a Python program prints; it must end well."""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(Path(trieline.__file__).parents[1])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_full_disk_at_any_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save(value: int) -> None:
        with draft(tmp_path / "i.tl") as d:
            d.notes["value"] = value
            d.save_array("a.npy", np.arange(value))
            d.save_derived("trie", value, {"rows": np.arange(value)})

    save(1)
    real, failures = os.fsync, 0
    while True:
        left = failures

        def fsync(handle: int) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real(handle)

        monkeypatch.setattr(os, "fsync", fsync)
        try:
            save(2)
            break
        except IndexFolderError as error:
            assert "No space left" in str(error)  # noqa: PT017
            assert "Free some space" in str(error)  # noqa: PT017
        monkeypatch.setattr(os, "fsync", real)
        now = open_folder(tmp_path / "i.tl")
        assert len(list(now.path.iterdir())) == 3
        assert now.verify() == []
        if now.manifest.notes["value"] == 2:  # only the sync after the replacement failed
            save(1)
        failures += 1
    assert failures > 8


REAL_LIMIT = """
import resource, sys
from pathlib import Path
import numpy as np
from trieline.catalog import Catalog
from trieline.errors import IndexFolderError
from trieline.store import draft, open_folder
from trieline.types import Codes, Item

path, big = Path(sys.argv[1]), np.zeros(1_000_000, np.uint8)
with draft(path) as d:
    d.save_array("a.npy", np.arange(3))
index = open_folder(path)

def catalog(d):
    with Catalog.create(d.folder / "catalog.sqlite", [4]) as catalog:
        catalog.add([Item("a", "x" * 1_000_000)], Codes(np.zeros((1, 1)), np.zeros(1, int)))

resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for write in (
    lambda d: d.save_array("b.npy", big),
    lambda d: d.save_arrays("b.safetensors", {"b": big}),
    lambda d: d.save_derived("b", 1, {"b": big}),
    lambda d: (d.folder / "b").write_bytes(big),
    catalog,
):
    try:
        with draft(path) as d:
            write(d)
        raise SystemExit("saved what could not be saved")
    except IndexFolderError as error:
        print(error)
    assert open_folder(path).manifest == index.manifest and index.verify() == []
    assert sorted(p.name for p in path.iterdir()) == ["g000001", "lock", "manifest.json"]
"""


def test_a_disk_that_really_takes_no_more(tmp_path: Path) -> None:
    lines = run(REAL_LIMIT, tmp_path / "i.tl").splitlines()
    assert len(lines) == 5
    assert all("Free some space" in line for line in lines), lines


def test_all_is_on_the_disk_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str | int] = []
    real_sync, real_replace = os.fsync, os.replace

    def fsync(handle: int) -> None:
        events.append(os.fstat(handle).st_ino)
        real_sync(handle)

    def replace(source: Path, target: Path) -> None:
        events.append(target.name)
        real_replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    with draft(tmp_path / "i.tl") as d:
        d.save_array("deep/er/a.npy", np.zeros(3))
        d.save_arrays("b.safetensors", {"b": np.zeros(3)})
        d.save_derived("trie", 1, {"rows": np.zeros(3)})
        (d.folder / "catalog.sqlite").touch()
    at = events.index("manifest.json")
    index = tmp_path / "i.tl"
    entries = {entry: entry.stat().st_ino for entry in [index, *index.rglob("*")]}
    missed = [entry.name for entry, number in entries.items() if number not in events[:at]]
    assert missed == ["lock"]
    assert events[at + 1 :] == [entries[index]]


EVERY_STEP = """
import json, os, signal, sys
from pathlib import Path
import numpy as np
from safetensors.numpy import load_file, save_file
from trieline.errors import IndexFolderError
from trieline.store import draft, open_folder

def save(path, value):
    with draft(path) as d:
        d.notes["value"] = value
        d.save_arrays("a.safetensors", {"a": np.full(5, value)})
        d.save_array("b.npy", np.full(5, value))
        (d.folder / "catalog.sqlite").write_text(str(value))
        d.save_derived("trie", value, {"rows": np.full(5, value)})

def derive(path, value):
    index = open_folder(path)
    with index.writing() as writer:
        writer.replace_derived("trie", value, {"rows": np.full(5, value)})

def saved(path):
    index = open_folder(path)
    value = index.manifest.notes["value"]
    assert index.verify() == []
    assert (index.arrays("a.safetensors")["a"] == value).all()
    assert (index.mapped("b.npy") == value).all()
    assert index.file("catalog.sqlite").read_text() == str(value)
    return value

def derived(path):
    index = open_folder(path)
    assert index.verify() == []
    found = [value for value in range(1, 200) if index.derived("trie", value) is not None]
    (value,) = found
    assert (index.derived("trie", value)["rows"] == value).all()
    return value

def dies(work, step):
    # whether the work was killed, at the very moment before its step-th change of the disk
    child = os.fork()
    if not child:
        left = step
        def hook(event, arguments):
            nonlocal left
            if event in EVENTS and not str(arguments[0]).startswith(ELSEWHERE):
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(hook)
        work()
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])

EVENTS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod"}
ELSEWHERE = (sys.prefix, sys.base_prefix, os.environ["PYTHONPATH"])
os.fsync = lambda handle: None  # a killed process loses nothing that it wrote; saves 10 s
folder, seen = Path(sys.argv[1]), {"first": [], "again": [], "derived": []}

for step in range(10_000):
    path = folder / f"first-{step}.tl"
    killed = dies(lambda: save(path, 1), step)
    try:
        seen["first"].append(saved(path))
    except IndexFolderError as error:
        assert any(words in str(error) for words in ("no such", "is empty", "half-written")), error
        seen["first"].append(0)
    save(path, 2)
    assert saved(path) == 2
    if not killed:
        break

for name, work, look in (("again", save, saved), ("derived", derive, derived)):
    path = folder / f"{name}.tl"
    save(path, 1)
    value = 1
    for step in range(10_000):
        killed = dies(lambda: work(path, value + 1), step)
        assert look(path) in (value, value + 1)
        seen[name].append(look(path) - value)
        value = look(path)
        if not killed:
            break
    names = {p.name for p in path.iterdir()}
    assert len(names) == 3, names
    assert len([p for p in (open_folder(path).folder / "derived").iterdir()]) == 2
print(json.dumps(seen))
"""


def test_killed_before_any_step_of_saving(tmp_path: Path) -> None:
    seen = json.loads(run(EVERY_STEP, tmp_path))
    for name, least in {"first": 20, "again": 20, "derived": 8}.items():
        outcomes = seen[name]
        assert len(outcomes) >= least, name
        assert outcomes == sorted(outcomes), name  # the old state up to one step, then the new one
        assert outcomes[0] == 0, name
        assert outcomes[-1] == 1, name


RANDOM_KILLS = """
import json, os, random, signal, sys, time, zlib
from pathlib import Path
import numpy as np
from trieline.catalog import Catalog
from trieline.types import Codes, Item

path, seed, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
N = 800

def rows(name):
    crc = zlib.crc32(name.encode())
    return [[crc >> 8 * (level + row) & 15 for level in range(2)] for row in range(1 + crc % 2)]

def item(name):
    return Item(name, text=name * 20, metadata={"name": name})

def names(revision):
    return [f"{revision}-{i}" for i in range(N)]

def step(catalog, pause=lambda: None):
    # the revision says what is to be done next: add, add, remove, add, add, remove ...
    revision = catalog.revision
    if revision % 3 == 2:
        catalog.remove(names(revision - 1)[::2] + names(revision - 2))
        return
    added = names(revision)
    table = [row for name in added for row in rows(name)]
    owner = [i for i, name in enumerate(added) for row in rows(name)]
    def stream():
        for i, name in enumerate(added):
            pause(i)
            yield item(name)
    catalog.add(stream(), Codes(np.array(table, np.uint16), np.array(owner, np.uint32)))

def expected(revision):
    kept = []
    for r in range(revision):
        if r % 3 == 2:
            kept = kept[: -2 * N] + names(r - 1)[1::2]
        else:
            kept += names(r)
    return kept

def whole(killed_at):
    with Catalog.open(path) as catalog:
        revision, (codes, owner) = catalog.state()
        assert catalog.verify() == []
        kept = expected(revision)
        assert list(catalog.items()) == [item(name) for name in kept]
        assert codes.tolist() == [row for name in kept for row in rows(name)]
        assert len(catalog) == len(kept)
        assert catalog.ids(dict.fromkeys(owner.tolist())) == kept
        return revision

def child(work):
    pid = os.fork()
    if not pid:
        with Catalog.open(path) as catalog:
            work(catalog)
        os._exit(0)
    return pid

def kill_in_add(at):
    def pause(i):
        if i == at:
            os.kill(os.getpid(), signal.SIGKILL)
    def work(catalog):
        while True:
            step(catalog, pause)
    return work

def forever(catalog):
    while True:
        step(catalog, lambda i: None)

Catalog.create(path, [16, 16]).close()
luck, seen = random.Random(seed), [0]
for round in range(rounds):
    if round % 3 == 0:
        pid = child(kill_in_add(luck.randrange(N)))
    else:
        pid = child(forever)
        time.sleep(luck.uniform(0.01, 0.12))
        os.kill(pid, signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    seen.append(whole(round))
print(json.dumps(seen))
"""


def test_killed_in_the_middle_of_changes(tmp_path: Path) -> None:
    seen = json.loads(run(RANDOM_KILLS, tmp_path / "catalog.sqlite", 1, 18))
    assert seen == sorted(seen)
    assert seen[-1] >= 3  # the children did get somewhere: adds and removes


KILLED_IN_COMPACT = """
import os, random, signal, sys, time
from pathlib import Path
import numpy as np
from trieline.catalog import Catalog
from trieline.types import Codes, Item

path, luck = Path(sys.argv[1]), random.Random(0)
with Catalog.create(path, [4]) as catalog:
    items = [Item(f"{i}", "text " * 100) for i in range(6000)]
    catalog.add(items, Codes(np.arange(6000)[:, None] % 4, np.arange(6000)))
    catalog.remove(f"{i}" for i in range(0, 6000, 2))
    expected = list(catalog.items())
full = path.stat().st_size
for round in range(8):
    pid = os.fork()
    if not pid:
        with Catalog.open(path) as catalog:
            while True:
                catalog.compact()
    time.sleep(luck.uniform(0.005, 0.05))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with Catalog.open(path) as catalog:
        assert list(catalog.items()) == expected and catalog.verify() == []
with Catalog.open(path) as catalog:
    catalog.compact()
assert path.stat().st_size < 0.6 * full
"""


def test_killed_in_compact(tmp_path: Path) -> None:
    run(KILLED_IN_COMPACT, tmp_path / "catalog.sqlite")
