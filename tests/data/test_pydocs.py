from __future__ import annotations

import re
import sys

import pytest

from trieline.data import pydocs
from trieline.data.dataset import Dataset
from trieline.data.pydocs import PythonDocs
from trieline.data.stdlib_source import Entry
from trieline.errors import DataError


@pytest.fixture(scope="module")
def loaded() -> frozenset[str]:
    """Modules that were there before the documentation was read."""
    return frozenset(sys.modules)


@pytest.fixture(scope="module")
def docs(loaded: frozenset[str]) -> PythonDocs:
    return PythonDocs()


def plain(text: str) -> str:
    return " ".join(["", *re.findall(r"\w+", text.lower()), ""])


def test_it_is_a_dataset_of_several_thousand_items(docs: PythonDocs) -> None:
    assert isinstance(docs, Dataset)
    assert docs.name == "python-docs"
    items = list(docs.items())
    assert 4000 < len(items) < 9000
    assert len({item.id for item in items}) == len(items)
    assert all(item.text and item.title.startswith(item.id) for item in items)
    assert max(len(item.text.split()) for item in items) <= 64


def test_what_people_look_for_is_there(docs: PythonDocs) -> None:
    items = {item.id: item for item in docs.items()}
    for name in (
        "asyncio.sleep collections.abc.Mapping concurrent.futures.ThreadPoolExecutor csv "
        "csv.reader datetime.datetime.strptime decimal.Decimal io.StringIO itertools.product "
        "json.dumps len os.listdir os.path.join pathlib.Path.glob random.randint str.split "
        "statistics.median"
    ).split():
        assert name in items
    assert items["random.randint"].title == "random.randint(a, b)"
    assert items["json.dumps"].title.endswith(", ...)")
    assert items["pathlib.Path.glob"].metadata == {"kind": "method", "module": "pathlib"}
    assert not [name for name in items if re.match(r"(idlelib|test|antigravity|this)\b", name)]


def test_nothing_with_side_effects_is_imported(docs: PythonDocs, loaded: frozenset[str]) -> None:
    assert list(docs.items())
    new = sys.modules.keys() - loaded
    assert not {"antigravity", "this", "idlelib", "turtle", "tkinter"} & new


def test_splits_are_disjoint_and_judged(docs: PythonDocs) -> None:
    items = {item.id for item in docs.items()}
    sizes = {}
    seen: set[str] = set()
    for split in docs.splits():
        queries = list(docs.queries(split))
        qrels = list(docs.qrels(split))
        assert [query.id for query in queries] == [qrel.query_id for qrel in qrels]
        assert all(qrel.item_id in items and qrel.relevance == 1 for qrel in qrels)
        assert not seen & {query.id for query in queries}
        seen |= {query.id for query in queries}
        sizes[split] = len(queries)
    total = sum(sizes.values())
    assert total > 3000
    assert sizes["train"] / total == pytest.approx(0.8, abs=0.02)
    assert sizes["dev"] / total == pytest.approx(0.1, abs=0.02)


def test_no_item_holds_the_query_that_asks_for_it(docs: PythonDocs) -> None:
    items = {item.id: item for item in docs.items()}
    for split in docs.splits():
        for query in docs.queries(split):
            item = items[query.id]
            assert plain(query.text) not in plain(f"{item.title} {item.text}")


def test_queries_are_sentences_that_ask_for_one_thing(docs: PythonDocs) -> None:
    queries = [query.text for split in docs.splits() for query in docs.queries(split)]
    assert len({plain(text) for text in queries}) == len(queries)
    assert all(3 <= len(text.split()) <= 30 for text in queries)
    assert not [text for text in queries if "``" in text or "->" in text]


def test_an_unknown_split(docs: PythonDocs) -> None:
    with pytest.raises(DataError, match="no split 'validation'.*train, dev, test"):
        list(docs.queries("validation"))


def entry(name: str, doc: str, kind: str = "function", signature: str = "") -> Entry:
    return Entry(name, name.partition(".")[0], kind, signature, doc)  # type: ignore[arg-type]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> PythonDocs:
    sources = [
        entry("zoo", "Keep wild animals.\n\nFor a while.", "module"),
        entry("zoo.feed", "Give food to an animal.\n\nNot too much.", signature="(animalName)"),
        entry("zoo.pet", "Touch an animal softly.\n\nIt says: touch an animal softly!"),
        entry("zoo.Lion.roar", "Make a loud noise.", "method"),
        entry("zoo.Tiger.roar", "Make a loud noise.", "method"),
        entry("zoo.call", "Make some small noise."),
        entry("zoo.shout", "Make some small noise."),
        entry("zoo.nap", "Sleep."),
        entry("zoo.stare", "Internal function."),
        entry("zoo.close", "Close it.\n\nNobody can enter any more."),
    ]
    monkeypatch.setattr(pydocs, "read_sources", lambda: iter(sources))
    monkeypatch.setattr(pydocs, "read_compiled", lambda known: iter([]))
    monkeypatch.setattr(pydocs, "_LEAST", 1)
    return PythonDocs()


def test_what_becomes_an_item_and_what_a_query(tiny: PythonDocs) -> None:
    items = {item.id: item for item in tiny.items()}
    queries = {query.id: query.text for split in tiny.splits() for query in tiny.queries(split)}
    # One of two lions' roars; no nap, no stare.
    assert list(items) == sorted(
        ["zoo", "zoo.Lion.roar", "zoo.call", "zoo.close", "zoo.feed", "zoo.pet", "zoo.shout"]
    )
    assert queries == {"zoo.feed": "Give food to an animal", "zoo.Lion.roar": "Make a loud noise"}
    assert items["zoo.feed"].text == "Not too much. zoo feed animal name, zoo: Keep wild animals"
    assert items["zoo.feed"].title == "zoo.feed(animalName)"
    assert items["zoo.call"].text.startswith("Make some small noise.")
    assert items["zoo"].text == "Keep wild animals. For a while. zoo"


def test_splits_do_not_depend_on_the_other_items(
    tiny: PythonDocs, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {split: [q.id for q in tiny.queries(split)] for split in tiny.splits()}
    more = [entry("zoo.feed", "Give food to an animal."), entry("a.b", "Something new here.")]
    monkeypatch.setattr(pydocs, "read_sources", lambda: iter(more))
    after = {split: [q.id for q in PythonDocs().queries(split)] for split in tiny.splits()}
    home = {name: split for split, names in before.items() for name in names}["zoo.feed"]
    assert "zoo.feed" in after[home]


def test_a_python_without_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pydocs, "read_sources", lambda: iter([]))
    with pytest.raises(DataError, match="its source is not installed"):
        list(PythonDocs().items())
