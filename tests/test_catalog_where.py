"""Filters: what SQLite accepts against a plain Python filter, and predicates that make no sense."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trieline.catalog import Catalog, Condition, Where
from trieline.errors import SettingsError
from trieline.types import Codes, Item

ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
ITEMS = [
    Item("a", title="Sockets", metadata={"section": "net", "year": 2009, "tags": ["cli", "io"]}),
    Item("b", title="Zip", metadata={"section": "data", "year": 2010, "tags": []}),
    Item("c", metadata={"section": "net", "year": 2020.5, "tags": "cli", "lang": "de"}),
    Item("d", modality="image", metadata={"year": "2015", "lang": "fr", "ok": True, "x.y": 1}),
    Item("e", modality="", metadata={"year": None, "ok": False, "tags": [1, None, "CLI"]}),
    Item("12"),
]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.create(tmp_path / "catalog.sqlite", [2]) as made:
        fill(made, ITEMS)
        yield made


def fill(catalog: Catalog, items: list[Item]) -> None:
    rows = np.zeros((len(items), 1), np.uint16)
    catalog.add(items, Codes(rows, np.arange(len(items), dtype=np.uint32)))


def found(catalog: Catalog, where: Any) -> str:
    return " ".join(catalog.ids(catalog.matching(where)))


# --- the oracle --------------------------------------------------------------------------------


def is_number(value: object) -> bool:
    return isinstance(value, int | float)


def equal(value: object, wanted: object) -> bool:
    kinds = [(isinstance(v, str), is_number(v), v is None) for v in (value, wanted)]
    return kinds[0] == kinds[1] and any(kinds[0]) and value == wanted


def accepts(condition: Condition, item: Item) -> bool:
    own = {"id": item.id, "title": item.title, "modality": item.modality}
    value = {**(item.metadata or {}), **own}.get(condition.key)
    wanted: Any = condition.value
    match condition.operator:
        case "=":
            return equal(value, wanted)
        case "!=":
            return not equal(value, wanted)
        case "in":
            return any(equal(value, one) for one in wanted)
        case "contains":
            if isinstance(value, list):
                return any(equal(one, wanted) for one in value)
            return isinstance(value, str) and isinstance(wanted, str) and wanted in value
        case order:
            if isinstance(value, str) != isinstance(wanted, str):
                return False
            return isinstance(value, str | int | float) and ORDERS[order](value, wanted)


texts = st.text("aé✓'\"\\$.[%_\n", max_size=2) | st.sampled_from(["1", "null", "[]", "text"])
numbers = st.integers(-3, 3) | st.sampled_from([0.5, -0.5, 1.0, 2**60, 1e300, 0.1])
scalars = st.none() | st.booleans() | numbers | texts
keys = st.sampled_from(["k", "é k", "x.y", "$", "[0]", "id", "title", "modality", "#-1", "a'b"])
values = scalars | st.lists(scalars, max_size=3) | st.dictionaries(keys, scalars, max_size=1)
metadata = st.none() | st.dictionaries(keys | st.sampled_from(['q"', "b\\"]), values, max_size=4)
OWN = ("id", "title", "modality")


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    key = draw(keys)
    kind = texts if key in OWN else scalars
    name = draw(st.sampled_from(["=", "!=", "in", "contains", *ORDERS]))
    if name == "in":
        return Condition(key, name, tuple(draw(st.lists(kind, max_size=3))))
    return Condition(
        key, name, draw(texts | numbers if name in ORDERS and key not in OWN else kind)
    )


items = st.lists(
    st.builds(Item, id=texts.filter(bool), title=texts, modality=texts, metadata=metadata),
    max_size=8,
    unique_by=lambda item: item.id,
)


@given(items, st.lists(conditions(), max_size=3))
@settings(max_examples=300, deadline=None)
def test_sqlite_accepts_what_a_plain_filter_does(
    tmp_path_factory: pytest.TempPathFactory, items: list[Item], asked: list[Condition]
) -> None:
    with Catalog.create(tmp_path_factory.mktemp("c") / "c", [2]) as catalog:
        fill(catalog, items)
        numbers = catalog.matching(Where(tuple(asked)))
    expected = [n for n, item in enumerate(items) if all(accepts(one, item) for one in asked)]
    assert numbers.dtype == np.uint32
    assert numbers.tolist() == expected


@given(st.lists(conditions(), max_size=4))
def test_a_mapping_says_the_same(asked: list[Condition]) -> None:
    by_key: dict[str, dict[str, Any]] = {}
    for key, name, value in asked:
        by_key.setdefault(key, {})[name] = list(value) if isinstance(value, tuple) else value
    told = {(key, name) for key, own in by_key.items() for name in own}
    assert {(key, name) for key, name, _ in Where.of(by_key).conditions} == told


# --- by example --------------------------------------------------------------------------------

EXAMPLES: dict[str, tuple[dict[str, Any], tuple[str, ...], str]] = {
    "equal": ({"section": "net"}, ("section=net",), "a c"),
    "two": ({"section": "net", "year": {">=": 2010}}, ("section=net", "year >= 2010"), "c"),
    "range": ({"year": {">=": 2009, "<": 2020}}, ("year>=2009", "year<2020"), "a b"),
    "text is no number": ({"year": "2015"}, ('year="2015"',), "d"),
    "number is no text": ({"year": 2015}, ("year=2015",), ""),
    "list": ({"lang": ["de", "fr"]}, ("lang in de, fr",), "c d"),
    "JSON list": ({"year": {"in": [2009, "2015"]}}, ('year in [2009, "2015"]',), "a d"),
    "empty list": ({"lang": []}, ("lang in []",), ""),
    "not": ({"section": {"!=": "net"}}, ("section!=net",), "b d e 12"),
    "contains": ({"tags": {"contains": "cli"}}, ("tags contains cli",), "a c"),
    "contains number": ({"tags": {"contains": 1}}, ("tags contains 1",), "e"),
    "contains null": ({"tags": {"contains": None}}, ("tags contains null",), "e"),
    "part of a title": ({"title": {"contains": "ock"}}, ("title contains ock",), "a"),
    "modality": ({"modality": "image"}, ("modality==image",), "d"),
    "usual modality": ({"modality": "text"}, ("modality=text",), "a b c 12"),
    "id": ({"id": "12"}, ("id=12",), "12"),
    "ids": ({"id": ("12", "a", "z")}, ("id in 12,a,z",), "a 12"),
    "none": ({"lang": None}, ("lang=null",), "a b e 12"),
    "some": ({"year": {"!=": None}}, ("year != null",), "a b c d"),
    "true": ({"ok": True}, ("ok=true",), "d"),
    "dotted": ({"x.y": 1}, ('"x.y"=1',), "d"),
    "all": ({}, (), "a b c d e 12"),
}


@pytest.mark.parametrize("case", EXAMPLES)
def test_by_example(catalog: Catalog, case: str) -> None:
    mapping, written, ids = EXAMPLES[case]
    assert found(catalog, mapping) == ids
    assert found(catalog, Where.parse(*written)) == ids


def test_one_key_twice_can_be_written(catalog: Catalog) -> None:
    assert found(catalog, Where.parse("tags contains cli", "tags contains io")) == "a"


def test_equal_predicates_have_equal_hashes() -> None:
    one, other = Where.parse("a=1", "b in x,y"), Where.of({"a": 1, "b": ["x", "y"]})
    assert one == other
    assert hash(one) == hash(other)


def test_nothing_that_is_given_becomes_sql(catalog: Catalog) -> None:
    for nasty in ("'; DROP TABLE items; --", "x') OR ('1'='1", "?", "%", "$.section"):
        assert found(catalog, {nasty: nasty}) == ""
        assert found(catalog, {"section": nasty}) == ""
        assert found(catalog, {"title": {"contains": nasty}}) == ""
        assert nasty not in Where.of({nasty: {"contains": nasty}}).sql()[0].replace("?", "", 99)
    assert len(catalog) == len(ITEMS)


def test_many_values(catalog: Catalog) -> None:
    assert found(catalog, {"id": [f"n{i}" for i in range(50_000)] + ["b"]}) == "b"


SENSELESS: dict[str, tuple[Any, str]] = {
    "operator": ({"a": {"like": "x"}}, "operator 'like'. Expected one of = != <"),
    "no condition": ({"a": {}}, "'a' has no condition"),
    "key": ({7: "x"}, "the key 7 is no name"),
    "empty key": ({"": "x"}, "the key '' is no name"),
    "quote": ({'a"': "x"}, "has a quote"),
    "backslash": ({"a\\": "x"}, "a backslash"),
    "control": ({"a\n": "x"}, "a control character"),
    "surrogate": ({"\ud800": "x"}, "not valid text"),
    "surrogate value": ({"a": "\ud800"}, "not valid text"),
    "NUL": ({"a": "x\0"}, "a NUL"),
    "list in operator": ({"a": {"=": [1]}}, r"compared with \[1\] of type list"),
    "in what": ({"a": {"in": "de"}}, "expected a list"),
    "nan": ({"a": float("nan")}, "a finite number"),
    "huge": ({"a": 2**63}, "compared with"),
    "type": ({"a": b"x"}, "of type bytes"),
    "own": ({"id": 5}, "'id' is a text, got 5"),
    "own none": ({"title": None}, "'title' is a text"),
    "order none": ({"a": {"<": None}}, "expected a number or a text"),
    "order true": ({"a": {">=": True}}, "expected a number or a text"),
    "too many": ({f"k{n}": 1 for n in range(101)}, "at most 100"),
}


@pytest.mark.parametrize("case", SENSELESS)
def test_a_senseless_predicate_is_refused(case: str) -> None:
    where, message = SENSELESS[case]
    with pytest.raises(SettingsError, match=message):
        Where.of(where)


@pytest.mark.parametrize(
    "text", ["", "section", "=net", "a b = c", "tags contain cli", '"a=1', "in x", "year between 1"]
)
def test_text_that_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="not understood. Expected e.g. 'section=net'"):
        Where.parse(text)
