"""Pseudo queries say something that their item says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trieline.train.pseudo import pseudo_queries, source_of
from trieline.types import Item, Query

TEXT = (
    "A whisk beats air into cream and egg whites until they stand. Use it for sauces, too. "
    "It hangs best on a hook beside the stove, e.g. under the shelf where the bowls are kept dry "
    "and where children cannot reach the heavier tools that hang above it."
)
WHISK = Item("whisk#1", TEXT, "Whisk")


def ask(*items: Item, titles: bool = True, crops: int = 2, seed: int = 0) -> list[Query]:
    return list(pseudo_queries(items, titles=titles, crops=crops, seed=seed))


def texts(*items: Item, crops: int = 4, seed: int = 0) -> list[str]:
    return [query.text for query in ask(*items, titles=False, crops=crops, seed=seed)]


def test_ids_say_where_a_query_comes_from() -> None:
    queries = ask(WHISK)
    assert [q.id for q in queries] == ["whisk#1#title", "whisk#1#crop1", "whisk#1#crop2"]
    assert {source_of(q.id) for q in queries} == {"whisk#1"}
    assert queries[0].text == "Whisk"


def test_titles_and_crops_can_be_left_out() -> None:
    assert [q.id for q in ask(WHISK, crops=0)] == ["whisk#1#title"]
    assert [q.id for q in ask(WHISK, titles=False, crops=1)] == ["whisk#1#crop1"]


def test_the_same_seed_gives_the_same_crops_in_any_order() -> None:
    other = Item("spoon", "A spoon stirs soup and tea. It also tastes what the pot says.")
    assert ask(WHISK, other)[-2:] == ask(other, WHISK, titles=False)[:2]
    assert texts(WHISK) == texts(WHISK)
    assert texts(WHISK, seed=1) != texts(WHISK)


def test_items_with_the_same_text_are_asked_for_in_different_ways() -> None:
    assert texts(WHISK) != texts(WHISK._replace(id="whisk#2"))


def test_items_are_read_one_by_one() -> None:
    taken = []

    def endless() -> object:
        while True:
            taken.append(1)
            yield WHISK

    stream = pseudo_queries(endless(), titles=True, crops=2, seed=0)  # type: ignore[arg-type]
    assert [next(stream).text for _ in range(4)][3] == "Whisk"
    assert len(taken) == 2


def test_crops_are_as_short_as_queries() -> None:
    crops = texts(WHISK, crops=30)
    assert len(crops) > 10
    assert all(4 <= len(crop.split()) <= 16 for crop in crops)
    assert "Use it for sauces, too" in crops  # a short sentence stays whole
    assert not any(". " in crop.replace("e.g. ", "") for crop in crops)  # within one sentence
    assert any("e.g. under" in crop for crop in crops)  # no sentence ends there


@pytest.mark.parametrize("text", ["", "  \n ", "..."])
def test_nothing_is_made_of_nothing(text: str) -> None:
    assert ask(Item("x", text)) == []


def test_no_query_twice() -> None:
    same = Item("x", "It beats the cream. It beats the cream.\nit beats the cream!", "Whisk")
    assert [q.text.casefold() for q in ask(same, crops=9)] == ["whisk", "it beats the cream"]
    assert texts(Item("y", "Stirs soup.")) == ["Stirs soup"]
    assert ask(Item("y", "Stirs soup.", "stirs soup")) == [Query("y#title", "stirs soup")]


def test_commands_are_cropped_only_where_there_is_nothing_else() -> None:
    code = "--all 10 | 2>&1 {{x}} $HOME/.rc -l 5 && -1"
    assert texts(Item("x", f"{code}\nList all the files of a folder.\n{code}"), crops=9) == [
        "List all the files of a folder"
    ]
    assert texts(Item("x", code))


def test_scripts_without_spaces() -> None:
    crops = texts(
        Item("x", "机器学习是人工智能的一个分支。它研究如何让计算机从数据中学习。"), crops=9
    )
    assert crops
    assert all(4 <= len(crop) <= 32 and " " not in crop for crop in crops)


def test_a_space_lost_between_sentences() -> None:
    crops = texts(Item("x", "It beats all the cream.Then it rests on a hook."), crops=9)
    assert sorted(crops) == ["It beats all the cream", "Then it rests on a hook"]


@given(st.text(max_size=300), st.text(max_size=20), st.integers(0, 5))
def test_any_text_will_do(text: str, title: str, crops: int) -> None:
    queries = ask(Item("x", text, title), crops=crops)
    said = [q.text.casefold() for q in queries]
    assert all(said)
    assert len(said) == len(set(said))
    assert len(queries) <= crops + 1
    heard = "".join(text.split())
    cropped = [q for q in queries if "#crop" in q.id]
    assert all("".join(q.text.split()) in heard for q in cropped)
