"""Sets up ``.venv`` in the checkout, from nothing but a Python and pip.

``make demo`` and ``make test`` call it first. It says what it will download and how long that
takes, installs torch first (so that nothing else pulls in another build of it) and then trieline
itself; a stamp in ``.venv``, written last, lets the next run skip all that.

The trap: this file also runs on the old Python of whoever has no newer one, to tell them so; the
standard library only, and no newer syntax.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

__all__ = ["main"]

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_TORCH = "torch==2.13.0"
EXTRAS = {"demo": "", "test": "[all,dev]"}  # in rising order: the later holds the earlier

# Megabytes, measured on Linux x86-64 with Python 3.11: downloaded wheels, and .venv afterwards.
TORCH_DOWNLOAD = 190
DOWNLOAD = {"demo": 210, "test": 370}
ON_DISK = {"demo": 1600, "test": 2120}
CUDA_DOWNLOAD = 3000

CHOICE = """\
To choose the build of torch, stop here (Ctrl-C) and name the index that has the builds you want,
for the CPU or for your version of CUDA; PyTorch's "Get Started" page lists them:
  make {level} TORCH_PIP='--index-url URL'"""


class SetupError(Exception):
    """Set-up cannot go on; the message says what to do."""


def main() -> int:
    """Make ``.venv`` ready for what is asked, or say why not. The process's exit status."""
    parser = argparse.ArgumentParser(description="Set up .venv in this checkout.")
    parser.add_argument("level", choices=sorted(EXTRAS), help="what it is for")
    level = parser.parse_args().level
    chosen = (os.environ.get("TORCH") or DEFAULT_TORCH, os.environ.get("TORCH_PIP", ""))
    try:
        check_python()
        set_up(ROOT, level, chosen)
    except SetupError as error:
        print(f"\nset-up stopped: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nset-up stopped. Run it again to go on from here.", file=sys.stderr)
        return 130
    return 0


def check_python() -> None:
    """The Python that runs this must be one that trieline runs on."""
    if sys.version_info < (3, 11):  # noqa: UP036  an old one is told here
        raise SetupError(
            f"this is Python {platform.python_version()} ({sys.executable}), and trieline needs "
            "3.11 or newer. If you have a newer one, name it: make demo PYTHON=python3.12"
        )


def set_up(root: Path, level: str, torch: tuple[str, str]) -> None:
    """``.venv`` in ``root``, with everything that ``level`` needs."""
    venv = root / ".venv"
    python = venv / "bin" / "python"
    stamp = venv / "trieline-setup.json"
    wanted = fingerprint(root)
    check_place(stamp, root)
    if is_ready(stamp, wanted, level, torch):
        print("Nothing to download: .venv is ready.")
        return
    check_space(root, level)
    make_venv(venv, python)
    earlier = str(read_stamp(stamp).get("level"))
    stamp.unlink(missing_ok=True)
    replace = is_chosen(torch)
    has_torch = ask(python, "import torch.version as v; print(v.__version__)")
    size, build = (0, has_torch) if has_torch and not replace else torch_build(python, torch)
    announce(level, earlier, (size, build), is_own=replace)
    start = time.monotonic()
    if replace and has_torch:  # pip takes any build of the version for the one that is asked for
        pip(python, "uninstall", "--yes", "torch")
    if replace or not has_torch:
        pip(python, "install", *shlex.split(torch[1]), torch[0])
    pip(python, "install", "--editable", f"{root}{EXTRAS[level]}")
    done = {"packages": wanted, "level": level, "torch": list(torch), "root": str(root)}
    write_stamp(stamp, done)
    print(f"\nSet-up took {time.monotonic() - start:.0f} s. The next run downloads nothing.")


def fingerprint(root: Path) -> str:
    """Changes when what must be installed changes, and not with a linter's settings."""
    import tomllib  # here, since an old Python must still get to check_python

    tables = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    needs = {key: tables[key] for key in ("build-system", "project")}
    return hashlib.sha256(json.dumps(needs, sort_keys=True).encode()).hexdigest()


def is_chosen(torch: tuple[str, str]) -> bool:
    """Whether the user asks for a torch of their own."""
    return torch != (DEFAULT_TORCH, "")


def is_ready(stamp: Path, wanted: str, level: str, torch: tuple[str, str]) -> bool:
    """Whether an earlier run left all that is needed now."""
    done = read_stamp(stamp)
    levels = list(EXTRAS)
    return (
        done.get("packages") == wanted
        and done.get("level") in levels[levels.index(level) :]
        and (not is_chosen(torch) or done.get("torch") == list(torch))
    )


def read_stamp(stamp: Path) -> dict[str, object]:
    """What ``write_stamp`` wrote; nothing when it is missing or damaged."""
    try:
        done = json.loads(stamp.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return done if isinstance(done, dict) else {}


def write_stamp(stamp: Path, done: Mapping[str, object]) -> None:
    """Whole or not at all."""
    fresh = stamp.with_suffix(".new")
    fresh.write_text(json.dumps(done), encoding="utf-8")
    fresh.replace(stamp)


def check_place(stamp: Path, root: Path) -> None:
    """A venv names its own place in every script, and the checkout's, so it cannot be moved."""
    place = read_stamp(stamp).get("root", str(root))
    if place != str(root):
        raise SetupError(f".venv was made in {place} and moved here. Remove it and try again.")


def check_space(root: Path, level: str) -> None:
    """Better to hear of a full disk now than after ten minutes."""
    free = shutil.disk_usage(root).free // 1_000_000
    if not (root / ".venv").exists() and free < ON_DISK[level]:
        raise SetupError(
            f"{root} has {free} MB free, and .venv takes about {ON_DISK[level]} MB. Make room."
        )


def make_venv(venv: Path, python: Path) -> None:
    """Create ``.venv``, or check that the one that is there can be used."""
    if not python.exists():
        missing = [name for name in ("venv", "ensurepip") if find_spec(name) is None]
        done = missing or subprocess.run([sys.executable, "-m", "venv", str(venv)], check=False)
        if missing or done.returncode:  # type: ignore[union-attr]
            shutil.rmtree(venv, ignore_errors=True)  # half made
            major, minor = sys.version_info[:2]
            raise SetupError(
                f"'{sys.executable} -m venv' does not work here. On Debian and Ubuntu install the "
                f"package python{major}.{minor}-venv; elsewhere, a Python that includes venv."
            )
    version = ask(python, "import sys; print(sys.version_info >= (3, 11))")
    if version != "True":
        raise SetupError(
            f"{venv} is there, but has no working Python 3.11 or newer. Remove it and try again."
        )
    if not ask(python, "import pip; print(pip.__version__)"):
        call(python, "-m", "ensurepip")


def announce(level: str, earlier: str, torch: tuple[int, str], is_own: bool) -> None:
    """What will be downloaded, before it is. ``earlier`` is the level that is there already."""
    size, build = torch
    rest = DOWNLOAD[level] - DOWNLOAD.get(earlier, 0)
    what = "what trieline needs" if level == "demo" else "what trieline, its extras and checks need"
    print(f"Setting up .venv for 'make {level}'. To be downloaded:")
    print(f"  torch: {f'about {size} MB, {build}' if size else f'nothing, {build} is kept'}")
    if rest > 0:
        weights = "" if earlier in DOWNLOAD else ", of which 85 MB are an encoder's weights"
        print(f"  {what}: about {rest} MB{weights}")
    else:
        print(f"  {what}: only what has changed")
    total = size + max(rest, 0)
    print(f"In all about {total} MB; {ON_DISK[level]} MB on disk with the CPU build of torch.")
    print(f"Time: about {max(1, total * 8 // 3000)} min to fetch over 50 Mbit/s, 2 min to install.")
    if size and not is_own:
        print(CHOICE.format(level=level))
    print(flush=True)


def torch_build(python: Path, torch: tuple[str, str]) -> tuple[int, str]:
    """Size of the torch that pip would take, and which build it is."""
    command = [str(python), "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps"]
    command += ["--ignore-installed", "--report", "-", *shlex.split(torch[1]), torch[0]]
    try:  # an index without separate metadata sends the whole package: do not wait for that
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=15)
        metadata = json.loads(done.stdout)["install"][0]["metadata"]
    except (subprocess.SubprocessError, ValueError, LookupError):
        return CUDA_DOWNLOAD, f"if it comes with CUDA; {TORCH_DOWNLOAD} MB if it is for the CPU"
    needs = metadata.get("requires_dist", [])
    if sys.platform == "linux" and any("nvidia" in n or "cuda" in n for n in needs):
        return CUDA_DOWNLOAD, f"{metadata['version']} with CUDA"
    return TORCH_DOWNLOAD, f"{metadata['version']} for the CPU"


def pip(python: Path, *arguments: str) -> None:
    """Run the venv's pip."""
    if call(python, "-m", "pip", *arguments):
        raise SetupError(
            "pip could not finish (its message is above). Run the same command again when that is "
            "mended: it goes on from what is already there."
        )


def call(python: Path, *arguments: str) -> int:
    """Run the venv's Python for the user to see."""
    quiet = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return subprocess.run([str(python), *arguments], check=False, env=quiet).returncode


def ask(python: Path, code: str) -> str:
    """What the venv's Python prints, or nothing when it fails."""
    try:
        done = subprocess.run(
            [str(python), "-c", code], check=False, capture_output=True, text=True
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


if __name__ == "__main__":
    sys.exit(main())
