"""Killed in the middle of compacting: what is there afterwards opens, and to the same state."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import trieline


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


WORLD = """
import json, os, random, signal, sys, time
from pathlib import Path
import numpy as np
from trieline.catalog import Catalog
from trieline.checkup import verify_index
from trieline.index import Trie
from trieline.living import compact_index, open_view
from trieline.store import draft, open_folder
from trieline.types import Codes, Item

SIZES = (8, 8)

def codes(n, seed):
    table = np.random.default_rng(seed).integers(0, 8, (n, 2)).astype(np.uint16)
    return Codes(table, np.arange(n, dtype=np.uint32))

def make(path, n, text):
    # an index with changes since its trie was stored: some came, some went, some were replaced
    with draft(path) as drafted:
        with Catalog.create(drafted.folder / "catalog.sqlite", SIZES) as catalog:
            catalog.add([Item(f"{i}", text) for i in range(n)], codes(n, 0))
            revision, saved = catalog.state()
        drafted.save_derived("trie", revision, Trie.build(saved, SIZES).arrays())
    folder = open_folder(path)
    with Catalog.open(folder.file("catalog.sqlite")) as catalog:
        catalog.remove([f"{i}" for i in range(0, n, 2)])
        catalog.add([Item(f"new-{i}") for i in range(9)], codes(9, 1))
        catalog.add([Item("new-3", "again"), Item("1")], codes(2, 2), replace=True)

def state(path):
    # everything that a search could see
    folder = open_folder(path)
    with Catalog.open(folder.file("catalog.sqlite")) as catalog:
        view = open_view(folder, catalog)
        assert view.revision == catalog.revision
        stored = folder.newest("trie")
        return (
            view.revision, view.trie.codes.tolist(), view.trie.owner.tolist(),
            list(catalog.items()),
        ), (stored.revision, catalog.changes(1) is not None)
"""

EVERY_STEP = (
    WORLD
    + """
EVENTS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "shutil.rmtree"}
ELSEWHERE = (sys.prefix, sys.base_prefix, os.environ["PYTHONPATH"])
os.fsync = lambda handle: None  # a killed process loses nothing that it wrote

def dies(path, step):
    # whether compacting was killed, before its step-th change of the disk or statement of SQL
    child = os.fork()
    if not child:
        left = step
        def count(*_):
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        def hook(event, arguments):
            if event in EVENTS and not str(arguments[0]).startswith(ELSEWHERE):
                count()
        from trieline.catalog import database
        configure = database._configure
        def watched(writer):
            configure(writer)
            writer.set_trace_callback(count)
        database._configure = watched
        sys.addaudithook(hook)
        compact_index(path)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])

path, seen = Path(sys.argv[1]), []
make(path, 40, "text")
expected, _ = state(path)
for step in range(10_000):
    killed = dies(path, step)
    now, (stored, logged) = state(path)
    assert now == expected
    assert verify_index(path) == ([], [])
    seen.append([stored, logged])
    if not killed:
        break
print(json.dumps(seen))
"""
)


def test_killed_before_any_step_of_compacting(tmp_path: Path) -> None:
    """First the trie is the new one, then the log is dropped: never the other way round."""
    seen = [tuple(one) for one in json.loads(run(EVERY_STEP, tmp_path / "i.tl"))]
    assert len(seen) > 20
    assert seen == sorted(seen, key=[(1, True), (4, True), (4, False)].index)
    assert set(seen) == {(1, True), (4, True), (4, False)}


AT_ANY_TIME = (
    WORLD
    + """
path, luck = Path(sys.argv[1]), random.Random(0)
make(path, 4000, "text " * 100)
expected, _ = state(path)
for round in range(8):
    pid = os.fork()
    if not pid:
        while True:
            compact_index(path)
    time.sleep(luck.uniform(0.005, 0.15))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert state(path)[0] == expected
    assert verify_index(path) == ([], [])
done = compact_index(path)
assert state(path) == (expected, (4, False))
assert done.after <= done.before
"""
)


def test_killed_at_any_time_of_compacting(tmp_path: Path) -> None:
    run(AT_ANY_TIME, tmp_path / "i.tl")


KILLED_CHANGES = (
    WORLD
    + """
path, luck = Path(sys.argv[1]), random.Random(1)
make(path, 50, "text")

def change():
    # ever the same in turns: whoever comes back can tell how far it came
    folder = open_folder(path)
    with Catalog.open(folder.file("catalog.sqlite")) as catalog:
        while True:
            revision = catalog.revision
            if revision % 7 == 0:
                catalog.close()
                compact_index(path)
                catalog = Catalog.open(folder.file("catalog.sqlite"))
            if f"x{revision}" not in catalog:
                catalog.add([Item(f"x{revision}")], codes(1, revision))
            if revision % 3 == 0:
                catalog.remove([f"x{revision}"])

revisions = []
for round in range(12):
    pid = os.fork()
    if not pid:
        change()
    time.sleep(luck.uniform(0.02, 0.15))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert verify_index(path) == ([], [])
    revisions.append(state(path)[0][0])
assert revisions == sorted(revisions) and revisions[-1] > 10, revisions
"""
)


def test_killed_between_changes_and_compacting(tmp_path: Path) -> None:
    run(KILLED_CHANGES, tmp_path / "i.tl")
