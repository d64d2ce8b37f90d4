"""Set-up: says what it does, does nothing twice, and leaves no sign of success when it fails."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PLAIN = ("torch==2.13.0", "")
STAMP = "trieline-setup.json"

# Stands for .venv/bin/python: notes what it is asked to do; a file `broken` makes pip fail.
FAKE_PYTHON = """#!/bin/sh
here=$(dirname "$0")
echo "$*" >> "$here/calls"
case "$*" in
  *version_info*) echo True ;;
  *torch.version*) cat "$here/torch" 2>/dev/null || exit 1 ;;
  *pip.__version__*) echo 24.0 ;;
  *--dry-run*) cat "$here/report" 2>/dev/null || exit 1 ;;
  *"pip install"*) [ ! -e "$here/broken" ] ;;
esac
"""


@pytest.fixture
def install() -> ModuleType:
    spec = importlib.util.spec_from_file_location("install", ROOT / "tools" / "install.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with a pyproject.toml and a .venv whose Python only pretends."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(FAKE_PYTHON, encoding="utf-8")
    python.chmod(0o755)
    return tmp_path


def pip_calls(checkout: Path) -> list[str]:
    """What pip was told to change since the last time that this was asked."""
    calls = checkout / ".venv" / "bin" / "calls"
    lines = calls.read_text(encoding="utf-8").splitlines() if calls.exists() else []
    calls.unlink(missing_ok=True)
    return [c[7:] for c in lines if c.startswith("-m pip") and "--dry-run" not in c]


def test_the_second_run_does_nothing(
    install: ModuleType, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install.set_up(checkout, "test", PLAIN)
    everything = f"install --editable {checkout}[all,dev]"
    assert pip_calls(checkout) == ["install torch==2.13.0", everything]
    assert "To be downloaded:" in capsys.readouterr().out
    for level in ("test", "demo"):  # what the tests need holds what the demo needs
        install.set_up(checkout, level, PLAIN)
        assert pip_calls(checkout) == []
        assert capsys.readouterr().out == "Nothing to download: .venv is ready.\n"


def test_tests_need_more_than_the_demo(
    install: ModuleType, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install.set_up(checkout, "demo", PLAIN)
    assert pip_calls(checkout)[-1] == f"install --editable {checkout}"
    capsys.readouterr()
    install.set_up(checkout, "test", PLAIN)
    assert pip_calls(checkout)[-1] == f"install --editable {checkout}[all,dev]"
    assert "extras and checks need: about 160 MB\n" in capsys.readouterr().out


def test_a_new_requirement_is_installed_and_a_lint_rule_is_not(
    install: ModuleType, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = checkout / "pyproject.toml"
    install.set_up(checkout, "demo", PLAIN)
    pip_calls(checkout)
    text = project.read_text(encoding="utf-8")
    project.write_text(text.replace("line-length = 100", "line-length = 99"), encoding="utf-8")
    install.set_up(checkout, "demo", PLAIN)
    assert pip_calls(checkout) == []
    project.write_text(text.replace('"rich>=13.9"', '"rich>=14"'), encoding="utf-8")
    install.set_up(checkout, "demo", PLAIN)
    assert pip_calls(checkout)[-1] == f"install --editable {checkout}"
    assert "only what has changed" in capsys.readouterr().out


def test_a_failure_leaves_no_stamp(install: ModuleType, checkout: Path) -> None:
    install.set_up(checkout, "demo", PLAIN)
    (checkout / ".venv" / "bin" / "broken").touch()
    with pytest.raises(install.SetupError, match="pip could not finish"):
        install.set_up(checkout, "test", PLAIN)
    assert not (checkout / ".venv" / STAMP).exists()
    (checkout / ".venv" / "bin" / "broken").unlink()
    pip_calls(checkout)
    install.set_up(checkout, "demo", PLAIN)
    assert pip_calls(checkout)


def test_a_damaged_stamp_is_no_stamp(install: ModuleType, checkout: Path) -> None:
    (checkout / ".venv" / STAMP).write_text("{", encoding="utf-8")
    install.set_up(checkout, "demo", PLAIN)
    assert pip_calls(checkout)
    assert json.loads((checkout / ".venv" / STAMP).read_text("utf-8"))["level"] == "demo"


def test_a_torch_that_is_there_is_kept(
    install: ModuleType, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / ".venv" / "bin" / "torch").write_text("2.14.0+cu130", encoding="utf-8")
    install.set_up(checkout, "demo", PLAIN)
    assert pip_calls(checkout) == [f"install --editable {checkout}"]
    assert "torch: nothing, 2.14.0+cu130 is kept" in capsys.readouterr().out


def test_a_torch_of_ones_choice_replaces_it_once(install: ModuleType, checkout: Path) -> None:
    (checkout / ".venv" / "bin" / "torch").write_text("2.13.0+cpu", encoding="utf-8")
    mine = ("torch", "--index-url file:///wheels")
    install.set_up(checkout, "demo", mine)
    assert pip_calls(checkout)[:2] == [
        "uninstall --yes torch",
        "install --index-url file:///wheels torch",
    ]
    for torch in (mine, PLAIN):  # saying it again, or nothing, changes nothing
        install.set_up(checkout, "demo", torch)
        assert pip_calls(checkout) == []


def test_the_build_of_torch_is_told(
    install: ModuleType, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")  # elsewhere no build has CUDA
    python = checkout / ".venv" / "bin" / "python"

    def told(needs: list[str]) -> tuple[int, str]:
        metadata = {"version": "2.13.0", "requires_dist": needs}
        report = json.dumps({"install": [{"metadata": metadata}]})
        (python.parent / "report").write_text(report, encoding="utf-8")
        answer: tuple[int, str] = install.torch_build(python, PLAIN)
        return answer

    assert told(["sympy"]) == (190, "2.13.0 for the CPU")
    assert told(["sympy", "nvidia-cudnn-cu13; platform_system == 'Linux'"])[1] == "2.13.0 with CUDA"
    (python.parent / "report").unlink()
    assert "if it is for the CPU" in install.torch_build(python, PLAIN)[1]


def test_a_venv_that_does_not_work(install: ModuleType, checkout: Path) -> None:
    python = checkout / ".venv" / "bin" / "python"
    python.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    with pytest.raises(install.SetupError, match="no working Python 3.11 or newer. Remove it"):
        install.set_up(checkout, "demo", PLAIN)


def test_a_checkout_that_was_moved(install: ModuleType, checkout: Path) -> None:
    install.set_up(checkout, "demo", PLAIN)
    shutil.copytree(checkout, checkout / "copy")
    with pytest.raises(install.SetupError, match=f"was made in {checkout} and moved"):
        install.set_up(checkout / "copy", "demo", PLAIN)


def test_no_venv_module(
    install: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a Debian whose Python comes in pieces."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    monkeypatch.setattr(install, "find_spec", lambda name: None)
    package = rf"python3\.{sys.version_info[1]}-venv"
    with pytest.raises(install.SetupError, match=package):
        install.set_up(tmp_path, "demo", PLAIN)
    assert not (tmp_path / ".venv").exists()


def test_an_old_python(install: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 1))
    with pytest.raises(install.SetupError, match=r"needs 3\.11 or newer.*PYTHON="):
        install.check_python()


def test_a_full_disk(install: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    usage = shutil.disk_usage(tmp_path)._replace(free=10_000_000)
    monkeypatch.setattr(install.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(install.SetupError, match="has 10 MB free"):
        install.set_up(tmp_path, "demo", PLAIN)
    assert not (tmp_path / ".venv").exists()


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    return subprocess.run(
        ["make", *arguments], cwd=ROOT, capture_output=True, text=True, check=False, env=clean
    )


def test_make_says_when_there_is_no_python() -> None:
    done = make("demo", "PYTHON=python9")
    assert done.returncode != 0
    assert "no 'python9' here: install Python 3.11 or newer" in done.stderr


def test_every_target_is_explained() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", text, re.MULTILINE)) - {"python"}
    shown = make("help").stdout
    assert [t for t in sorted(targets) if f"make {t}" not in shown] == []
