"""The text of an item and of a query, as an encoder reads it.

An item is its title, a new line, its text (BERT-like tokenizers read the new line as a space, as
the published results on the BEIR sets do); a title with which the text begins anyway is not said
twice. A query is its text. The trap: JSON lets half a surrogate pair through, which no
tokenizer takes; it becomes a question mark.
"""

from __future__ import annotations

from collections.abc import Sequence

from trieline.errors import DataError
from trieline.types import Item, Query

__all__ = ["WORDING", "item_text", "query_text", "texts_of"]

WORDING = "title-newline-text"
"""The name of the rule. It is part of every fingerprint: another rule makes other vectors."""


def texts_of(things: Sequence[Item] | Sequence[Query]) -> list[str]:
    """The text of each thing."""
    return [item_text(t) if isinstance(t, Item) else query_text(t) for t in things]


def item_text(item: Item) -> str:
    """Title and text of an item."""
    title, text = item.title.strip(), item.text.strip()
    if not title and not text:
        raise DataError(
            f"item {item.id!r} has neither text nor title, so there is nothing to encode. "
            "Give it text, leave it out, or bring its vector (encode.kind = 'precomputed')."
        )
    if not title or _begins_with(text, title):
        return _whole(text)
    return _whole(f"{title}\n{text}" if text else title)


def query_text(query: Query) -> str:
    """The text of a query."""
    text = query.text.strip()
    if not text:
        raise DataError(
            f"query {query.id!r} has no text, so there is nothing to encode. "
            "Give it text, leave it out, or bring its vector (encode.kind = 'precomputed')."
        )
    return _whole(text)


def _begins_with(text: str, title: str) -> bool:
    """Whether the text begins with the title as whole words."""
    rest = text[len(title) :]
    return text.startswith(title) and not (rest[:1].isalnum() and title[-1].isalnum())


def _whole(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text
