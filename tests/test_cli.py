"""Every command, as a person or a program would call it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "retriever"))
from terminal import call, file_of, said, told
from workshop import ITEMS, NEW, changes, dataset, save_words, small_recipe, write_beir

from trieline import __version__
from trieline.data import read_run, write_run
from trieline.errors import TrielineError
from trieline.retriever import Retriever
from trieline.types import Hit

COMMANDS = (
    "build", "search", "eval", "explain", "add", "remove", "compact", "stats", "verify", "recipes",
    "demo",
)  # fmt: skip
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


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_beir(tmp_path_factory.mktemp("corpora") / "tools")


@pytest.fixture
def index(built: Path, tmp_path: Path) -> Path:
    """A copy of the index to do with as one likes."""
    path = tmp_path / "my.tl"
    shutil.copytree(built, path)
    return path


# --- help --------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command: str) -> None:
    text = said(command, "--help")
    assert "Example" in text
    assert f"trieline {command}" in text
    assert "--json" in text


def test_the_list_of_commands() -> None:
    text = said("--help")
    for command in COMMANDS:
        assert command in text
    assert said("--version").strip() == f"trieline {__version__}"


# --- build -------------------------------------------------------------------------------------


def test_build(corpus: Path, words: Path, tmp_path: Path) -> None:
    settings = [part for change in changes(words) for part in ("--set", change)]
    path, cache = tmp_path / "new.tl", tmp_path / "cache"
    text = said("build", corpus, "-o", path, "--cache", cache, *settings)
    assert f"{path}: 42 items." in text
    assert f"trieline search {path}" in text
    assert cache.exists()
    with Retriever.load(path) as retriever:
        assert len(retriever.search(ASKED, 3)[0]) == 3


def test_build_for_programs(corpus: Path, words: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text('extends = "genius"\n[train]\nseed = 3\n', encoding="utf-8")
    settings = [part for change in changes(words) for part in ("--set", change)]
    path = tmp_path / "new.tl"
    cache = ("--cache", tmp_path / "cache")
    answer = told("build", corpus, "--out", path, "--recipe", recipe, *cache, *settings)
    assert answer["index"] == str(path)
    assert answer["items"] == 42
    assert answer["dataset"] == "tools"
    assert answer["training"]["steps"] == 60


def test_the_cache_comes_from_the_environment(
    corpus: Path, words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIELINE_CACHE", str(tmp_path / "mine"))
    settings = [part for change in changes(words) for part in ("--set", change)]
    said("build", corpus, "-o", tmp_path / "new.tl", *settings)
    assert list((tmp_path / "mine").iterdir())


# --- search ------------------------------------------------------------------------------------


def test_search(index: Path) -> None:
    with Retriever.load(index) as retriever:
        (hits,) = retriever.search(ASKED, 4)
    text = said("search", index, ASKED, "-k", 4)
    assert ASKED in text
    for hit in hits:
        assert hit.item_id in text
        assert hit.title in text
        assert "-".join(map(str, hit.docid)) in text
        assert f"{hit.score:.2f}" in text


def test_search_for_programs(index: Path) -> None:
    first, second = told("search", index, ASKED, "green rake", "-k", 3, "--beam", 30, "--trace")
    assert (first["query"], second["query"]) == (ASKED, "green rake")
    assert [hit["rank"] for hit in first["hits"]] == [1, 2, 3]
    for hit in first["hits"] + second["hits"]:
        assert set(hit) == {"item_id", "score", "docid", "rank", "title", "trace"}
        assert [step["code"] for step in hit["trace"]] == hit["docid"]


def test_search_reads_stdin(index: Path) -> None:
    asked = told("search", index, "-k", 2, stdin=f"{ASKED}\n\n  \ngreen rake\n")
    assert [answer["query"] for answer in asked] == [ASKED, "green rake"]
    assert asked == told("search", index, ASKED, "green rake", "-k", 2)
    assert told("search", index, stdin="") == []


def test_search_shows_the_path(index: Path) -> None:
    text = said("search", index, ASKED, "-k", 1, "--trace")
    with Retriever.load(index) as retriever:
        (hits,) = retriever.search(ASKED, 1, trace=True)
    (step, *_) = hits[0].trace
    assert f"{step.code} ({step.score:.2f}, #{step.rank})" in text


def test_search_among_some(index: Path, tmp_path: Path) -> None:
    file = tmp_path / "some.txt"
    file.write_text("blue-lamp\n\ngolden-rake\n", encoding="utf-8")
    (answer,) = told("search", index, ASKED, "--only", file)
    assert {hit["item_id"] for hit in answer["hits"]} == {"blue-lamp", "golden-rake"}
    missing = call("search", index, ASKED, "--only", tmp_path / "none.txt")
    assert missing.exit_code == 2
    assert "none.txt" in missing.output


def test_search_where(index: Path, tmp_path: Path) -> None:
    def found(*where: object) -> set[str]:
        (answer,) = told("search", index, ASKED, "-k", 50, *where)
        return {hit["item_id"] for hit in answer["hits"]}

    reds = {item.id for item in ITEMS if item.id.startswith("red")}
    assert found("--where", "colour=red") == reds
    assert found("--where", "colour in red,blue", "--where", "id=red-lamp") == {"red-lamp"}
    file = tmp_path / "some.txt"
    file.write_text("blue-lamp\nred-rake\n", encoding="utf-8")
    assert found("--where", "colour!=blue", "--only", file) == {"red-rake"}
    with pytest.raises(TrielineError, match="where 'colour red': not understood"):
        call("search", index, ASKED, "--where", "colour red")


def test_ids_with_blanks_can_be_listed(index: Path, tmp_path: Path) -> None:
    items = [{"id": "a spade", "text": NEW.text}, {"id": "second spade", "text": NEW.text}]
    said("add", index, file_of(tmp_path / "new.jsonl", items))
    (tmp_path / "some.txt").write_text("a spade\n", encoding="utf-8")
    (answer,) = told("search", index, ASKED, "--only", tmp_path / "some.txt")
    assert [hit["item_id"] for hit in answer["hits"]] == ["a spade"]
    assert told("remove", index, "-", stdin="a spade\n\nsecond spade\n")["removed"] == 2


@pytest.mark.parametrize("query", ["kettle [red] [/bold] list[int]", "[", "[/]", "tea \\[x]"])
def test_brackets_in_a_query_are_plain_text(index: Path, query: str) -> None:
    assert query in said("search", index, f"red {query}", "-k", 1)


def test_brackets_in_an_item_are_plain_text(index: Path, tmp_path: Path) -> None:
    item = {"id": "odd[/]", "title": "list[int] [red]", "text": NEW.text}
    said("add", index, file_of(tmp_path / "new.jsonl", [item]))
    (tmp_path / "some.txt").write_text("odd[/]\n", encoding="utf-8")
    text = said("search", index, ASKED, "--only", tmp_path / "some.txt")
    assert "odd[/]  list[int] [red]" in text


def test_search_that_finds_nothing(index: Path) -> None:
    said("remove", index, *(item.id for item in ITEMS))
    assert "nothing found" in said("search", index, ASKED)


# --- eval --------------------------------------------------------------------------------------


def test_eval(index: Path, corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "my.run"
    text = said("eval", index, corpus, "--split", "test", "-k", 20, "--run", run)
    for name in ("Success@1", "R@10", "nDCG@10", "RR@10", "my.tl", "14 queries"):
        assert name in text
    with Retriever.load(index) as retriever:
        expected = retriever.run(dataset().queries("test"), 20)
    written = read_run(run)
    assert {q: [h.item_id for h in hits] for q, hits in written.items()} == {
        q: [h.item_id for h in hits] for q, hits in expected.items()
    }


def test_eval_against_a_run(index: Path, corpus: Path, tmp_path: Path) -> None:
    worst = {q.id: [Hit("golden-lamp", 1.0, rank=1)] for q in dataset().queries("test")}
    write_run(tmp_path / "worst.run.gz", worst)
    against = ("--against", tmp_path / "worst.run.gz")
    text = said("eval", index, corpus, *against)
    assert "a = my.tl, b = worst.run.gz, paired" in text
    for column in ("a - b", "low", "high", "p (Holm)", "wins"):
        assert column in text
    answer = told("eval", index, corpus, *against, "--measure", "R@10", "--measure", "RR@5")
    assert answer["queries"] == 14
    assert set(answer["means"]) == {"my.tl", "worst.run.gz"}
    assert set(answer["means"]["my.tl"]) == {"R@10", "RR@5"}
    assert [pair["measure"] for pair in answer["compared"]] == ["R@10", "RR@5"]


def test_eval_against_itself(index: Path, corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "my.tl"  # the name of the index
    other = tmp_path / "runs"
    other.mkdir()
    said("eval", index, corpus, "--run", other / run.name)
    answer = told("eval", index, corpus, "--against", other / run.name)
    assert len(answer["means"]) == 2
    first, second = answer["means"].values()
    assert first == second


def test_eval_of_an_unknown_split_or_measure(index: Path, corpus: Path) -> None:
    with pytest.raises(TrielineError, match="no split 'tset'"):
        call("eval", index, corpus, "--split", "tset")
    with pytest.raises(TrielineError, match="Nonsense"):
        call("eval", index, corpus, "--measure", "Nonsense")


# --- explain -----------------------------------------------------------------------------------


def test_explain(index: Path) -> None:
    with Retriever.load(index) as retriever:
        found = retriever.search(ASKED, 1)[0][0]
        lost = retriever.explain(ASKED, "golden-lamp", beam=1)
    assert "found at rank 1" in said("explain", index, ASKED, found.item_id)
    assert said("explain", index, ASKED, "golden-lamp", "--beam", 1).strip() == lost.text()
    answer = told("explain", index, ASKED, "golden-lamp", "--beam", 1)
    assert answer["docids"][0]["lost_at"] == lost.docids[0].lost_at
    assert told("explain", index, ASKED, "golden-lamp", "--beam", 1, "-k", 3)["beam"] == 3


def test_explain_draws_a_picture(index: Path, tmp_path: Path) -> None:
    picture, only = tmp_path / "why.svg", tmp_path / "only.txt"
    only.write_text("golden-lamp\nred-kettle\n", encoding="utf-8")
    shown = said("explain", index, ASKED, "blue-rake", "--picture", picture, "--only", only)
    assert "the filter excludes it" in shown
    assert picture.read_text("utf-8").startswith("<?xml")
    with pytest.raises(TrielineError, match="expected a file that ends in .svg or .png"):
        call("explain", index, ASKED, "golden-lamp", "--picture", tmp_path / "why.gif")


# --- add and remove ----------------------------------------------------------------------------


def test_add_and_remove(index: Path, tmp_path: Path) -> None:
    items = [{"id": NEW.id, "title": NEW.title, "text": NEW.text}]
    file = file_of(tmp_path / "new.jsonl", items)
    assert f"added 1; {index} now holds 43 items." in said("add", index, file)
    with pytest.raises(TrielineError, match="'silver-spade' is in the catalog already"):
        call("add", index, file)
    (answer,) = told("search", index, NEW.text, "-k", 43)
    assert NEW.id in [hit["item_id"] for hit in answer["hits"]]
    assert told("remove", index, NEW.id, "red-kettle") == {"removed": 2, "items": 41}
    assert told("remove", index, "-", stdin="red-lamp\nred-rake\n") == {"removed": 2, "items": 39}
    assert "removed 1;" in said("remove", index, "blue-lamp")
    assert told("add", index, file) == {"added": 1, "items": 39}
    assert said("verify", index)


def test_add_in_place_of_others(index: Path, tmp_path: Path) -> None:
    items = [{"id": "red-kettle", "title": "Copper kettle", "text": "A copper kettle."}]
    file = file_of(tmp_path / "new.jsonl", items)
    assert told("add", index, file, "--replace") == {"added": 1, "items": 42}
    answer = said("search", index, ASKED, "-k", 42)
    assert "Copper kettle" in answer
    assert "Red kettle" not in answer


def test_compact(index: Path) -> None:
    said("remove", index, "red-kettle")
    said("remove", index, "blue-lamp")
    assert "2 changes since it was compacted" in said("stats", index)
    before = told("search", index, ASKED, "-k", 50)
    done = told("compact", index)
    assert done["changes"] == 2
    assert done["after"] <= done["before"]
    assert told("search", index, ASKED, "-k", 50) == before
    assert told("stats", index)["changes"] == 0
    assert f"{index}: 0 changes folded in" in said("compact", index)
    assert said("verify", index)
