"""Looking after an index from the command line, and what errors look like there."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "retriever"))
from terminal import call, said, told
from workshop import dataset, save_words, small_recipe

from trieline import cli
from trieline.retriever import Retriever

ASKED = "red kettle boils water"


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_words(tmp_path_factory.mktemp("words"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, words: Path) -> Path:
    """One index, built once. Nobody writes to it."""
    path = tmp_path_factory.mktemp("built") / "tools.tl"
    Retriever.build(dataset(), small_recipe(words), path=path).close()
    return path


@pytest.fixture
def index(built: Path, tmp_path: Path) -> Path:
    """A copy of the index to do with as one likes."""
    path = tmp_path / "my.tl"
    shutil.copytree(built, path)
    return path


# --- stats, verify, recipes --------------------------------------------------------------------


def test_stats(index: Path) -> None:
    text = said("stats", index)
    for word in (
        "42 items",
        "small",
        "catalog.sqlite",
        "model.safetensors",
        "entropy",
        "collisions",
    ):
        assert word in text
    answer = told("stats", index)
    assert answer["items"] == 42
    assert answer["docid_bytes"] == 42 * 6
    assert answer["codes"]["items"] == 42
    assert len(answer["codes"]["levels"]) == 3
    assert answer["notes"]["dataset"] == "tools"


def test_verify_of_a_whole_index(index: Path) -> None:
    assert "everything is as it was written" in said("verify", index)
    assert told("verify", index) == {"problems": [], "repaired": []}
    assert told("verify", index, "--repair") == {"problems": [], "repaired": []}


@pytest.mark.parametrize("damage", ["cut", "altered", "gone", "pointer"])
def test_a_damaged_trie_is_found_and_repaired(index: Path, damage: str) -> None:
    folder = next(index.rglob("derived"))
    files = sorted(folder.rglob("*.npy"))
    match damage:
        case "cut":
            files[0].write_bytes(files[0].read_bytes()[:-1])
        case "altered":
            content = files[-1].read_bytes()
            files[-1].write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        case "gone":
            shutil.rmtree(folder)
        case "pointer":
            (folder / "trie.json").write_text("{}", encoding="utf-8")
    result = call("verify", index)
    assert result.exit_code == 1
    assert "problem: " in result.stdout
    result = call("verify", index, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["problems"]
    assert "made again: trie" in said("verify", index, "--repair")
    assert told("verify", index) == {"problems": [], "repaired": []}


@pytest.mark.parametrize("name", ["model.safetensors", "docids.safetensors"])
def test_what_cannot_be_repaired(index: Path, name: str) -> None:
    file = next(index.rglob(name))
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    for extra in ((), ("--repair",)):
        result = call("verify", index, "--json", *extra)
        assert result.exit_code == 1
        (problem,) = json.loads(result.stdout)["problems"]
        assert name in problem
        assert call("verify", index, *extra).exit_code == 1


def test_a_damaged_catalog(index: Path) -> None:
    file = next(index.rglob("catalog.sqlite"))
    content = bytearray(file.read_bytes())
    content[4096 * 2 : 4096 * 3] = b"\xff" * 4096
    file.write_bytes(bytes(content))
    result = call("verify", index, "--json")
    assert result.exit_code == 1
    assert "catalog.sqlite" in json.loads(result.stdout)["problems"][0]


def test_recipes() -> None:
    text = said("recipes")
    answer = told("recipes")
    assert {"genius", "tiger", "dsi", "atomic", "demo"} <= set(answer)
    for name, recipe in answer.items():
        assert name in text
        assert recipe["about"] in text
        assert recipe["decode"]["beam"] >= 1


# --- errors ------------------------------------------------------------------------------------


def run_main(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["trieline", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return int(stopped.value.code or 0)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["search", "nowhere.tl", "x"], "IndexFolderError: no index at nowhere.tl"),
        (["stats", "nowhere.tl"], "IndexFolderError: no index at nowhere.tl"),
        (["build", "nowhere", "-o", "a.tl"], "DataError: cannot open 'nowhere'"),
        (["build", "x", "-o", "a.tl", "--recipe", "geniuss"], "SettingsError: no recipe named"),
        (["build", "x", "-o", "a.tl", "--set", "decode.baem=3"], "SettingsError: recipe genius:"),
        (["build", "x", "-o", "a.tl", "--set", "decode"], "SettingsError: --set 'decode'"),
    ],
)
def test_a_foreseen_error_is_one_line(
    arguments: list[str],
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRIELINE_CACHE", str(tmp_path / "cache"))
    assert run_main(monkeypatch, *arguments) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(why)
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_a_command_that_goes_well_ends_with_status_0(
    index: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(monkeypatch, "search", index, ASKED, "--json") == 0
    assert len(json.loads(capsys.readouterr().out)[0]["hits"]) == 10


def test_an_interrupted_command_says_that_it_can_go_on(
    index: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Retriever, "build", interrupted)
    assert run_main(monkeypatch, "build", "corpus", "-o", "my.tl") == 130
    assert "goes on where this one stopped" in capsys.readouterr().err


def test_wrong_arguments_are_told_with_status_2(
    index: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(monkeypatch, "search", index, "x", "-k", "0") == 2
    assert run_main(monkeypatch, "serach") == 2
    assert "Traceback" not in capsys.readouterr().err
