from __future__ import annotations

import pytest

from trieline.encode.wording import item_text, query_text, texts_of
from trieline.errors import DataError
from trieline.types import Item, Query


@pytest.mark.parametrize(
    ("title", "text", "expected"),
    [
        ("Cats", "They purr.", "Cats\nThey purr."),
        ("", "They purr.", "They purr."),
        ("Cats", "", "Cats"),
        ("  Cats ", "\tThey purr.\n", "Cats\nThey purr."),
        ("Cats", "Cats purr.", "Cats purr."),  # said once
        ("Cats", "Cats", "Cats"),
        ("Cat", "Cats purr.", "Cat\nCats purr."),  # another word
        ("Cats.", "Cats.They purr.", "Cats.They purr."),
        ("What?", "What? That.", "What? That."),
        ("cats", "Cats purr.", "cats\nCats purr."),
    ],
)
def test_an_item_is_its_title_and_its_text(title: str, text: str, expected: str) -> None:
    assert item_text(Item("i", text=text, title=title)) == expected


def test_a_query_is_its_text() -> None:
    assert query_text(Query("q", text=" which animal purrs? ")) == "which animal purrs?"


@pytest.mark.parametrize("blank", ["", "  ", "\n\t"])
def test_nothing_to_encode_names_the_thing(blank: str) -> None:
    with pytest.raises(DataError, match="item 'i7' has neither text nor title"):
        texts_of([Item("i6", text="x"), Item("i7", text=blank, title=blank)])
    with pytest.raises(DataError, match="query 'q7' has no text"):
        texts_of([Query("q6", text="x"), Query("q7", text=blank)])


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    assert query_text(Query("q", text="smile \ud83d here")) == "smile ? here"
    assert item_text(Item("i", text="smile \U0001f600")) == "smile \U0001f600"
