from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trieline.data.docstrings import first_sentence, words

SENTENCES = {
    "Do it.  Then rest.\n\nAnd more.": ("Do it", "Then rest. And more."),
    "One line without an end": ("One line without an end", ""),
    "Over two\nlines.": ("Over two lines", ""),
    "Use e.g. this.\n": ("Use e.g. this", ""),
    "Files, dirs etc. Are found.": ("Files, dirs etc. Are found", ""),
    "Print bytes. path_or_fd may be open.": ("Print bytes", "path_or_fd may be open."),
    "Make a set from:\n - one\n - two": ("Make a set from", "- one - two"),
    "Serialize ``obj`` to :class:`str`.": ("Serialize obj to str", ""),
    "Return *x* raised to **y**.": ("Return x raised to y", ""),
    "Title\n=====\n\nText.": ("Title", "Text."),
    "Add one.\n\n>>> f(1)\n2\n\nNever fails.": ("Add one", "Never fails."),
    "S.find(sub[, start[, end]]) -> int\n\nReturn the lowest index.": (
        "Return the lowest index",
        "",
    ),
    "D.clear() -> None.  Remove all items.": ("Remove all items", ""),
    "D.keys() -> a view on D's keys": ("a view on D's keys", ""),
    "D.get(k) -> D[k] if k in D, else d.  d is None.": ("D[k] if k in D, else d", ""),
    "abs(x) -- the absolute value\nof a number. Never negative.": (
        "the absolute value of a number",
        "Never negative.",
    ),
    "sort(a) -- sort it. Stable.": ("sort it", "Stable."),
    "range(x) --> an object\n    of numbers\n\nIt is lazy.": ("It is lazy", ""),
    "f(a,\n  b) -> int\n\nAdd both.": ("Add both", ""),
    "j(ump) lineno\nSet the next line.": ("Set the next line", ""),
    "Return (a // b, a % b).": ("Return (a // b, a % b)", ""),
    "map(f) works. It is lazy.": ("map(f) works", "It is lazy."),
    "f(never closed": ("f(never closed", ""),
    "": ("", ""),
    ">>> 1\n1": ("", ""),
}


@pytest.mark.parametrize("doc", SENTENCES)
def test_first_sentence_and_rest(doc: str) -> None:
    assert first_sentence(doc) == SENTENCES[doc]


@given(st.text(alphabet="ab .:\n([])->`*'=@", max_size=80))
def test_any_text_is_read(doc: str) -> None:
    first, rest = first_sentence(doc)
    assert "\n" not in first + rest
    assert set("ab") & set(first + rest) <= set(doc)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("json.JSONDecoder.raw_decode", "json json decoder raw decode"),
        ("HTTPServer.do_GET2", "http server do get 2"),
        ("_", ""),
    ],
)
def test_words_of_a_name(name: str, expected: str) -> None:
    assert words(name) == expected.split()
