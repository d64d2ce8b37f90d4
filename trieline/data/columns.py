"""Which column of a table holds the id, the text, the title ...

``find_columns`` looks at the first records and goes by the names that people use; a choice of the
user goes first. The trap: not every record of a JSON Lines file has every key, so the first
hundred are looked at together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from trieline.data.lines import Source
from trieline.errors import SettingsError

__all__ = ["ITEM_NAMES", "PEEK", "QUERY_NAMES", "Columns", "Names", "find_columns", "known_ids"]

PEEK = 100  # records whose keys are looked at

Names = Mapping[str, tuple[str, ...]]
"""Role -> the column names that can hold it, best first, lower case."""

_EXTRAS: Names = {
    "image": ("image", "image_path"),
    "embedding": ("embedding", "vector", "embeddings"),
    "modality": ("modality",),
}
ITEM_NAMES: Names = {
    "id": ("_id", "id", "item_id", "doc_id", "docid", "docno", "corpus_id", "corpus-id", "pid"),
    "text": ("text", "contents", "content", "body", "passage", "abstract", "description"),
    "title": ("title", "name", "headline"),
    **_EXTRAS,
}
QUERY_NAMES: Names = {
    "id": ("_id", "id", "query_id", "query-id", "qid"),
    "text": ("text", "query", "question", "title"),
    "history": ("history",),
    **_EXTRAS,
}


_CONTENT = {"text", "title", "image", "embedding", "history"}


class Columns(NamedTuple):
    """The column of each role. A column that a record lacks is simply empty there."""

    id: str = "_id"
    text: str = "text"
    title: str = "title"
    image: str = "image"
    embedding: str = "embedding"
    modality: str = "modality"
    history: str = "history"


def find_columns(
    keys: Iterable[str],
    names: Names,
    chosen: Mapping[str, str] | None,
    source: Source,
    content: bool = True,
) -> Columns:
    """The columns of a file whose first records have ``keys``.

    ``content``: refuse a file in which nothing but the id would be found.
    """
    found = list(dict.fromkeys(keys))
    chosen = dict(chosen or {})
    if wrong := [role for role in chosen if role not in names]:
        raise SettingsError(
            f"columns: unknown role {wrong[0]!r}. The roles are: {', '.join(names)}."
        )
    for role, column in chosen.items():
        if column not in found:
            raise source.error(None, f"a column {column!r} for {role}", _listed(found))
    for role, candidates in names.items():
        if role not in chosen:
            best = _first(found, candidates, taken=chosen.values())
            if best is not None:
                chosen[role] = best
    if "id" not in chosen:
        raise source.error(
            None,
            f"an id column ({', '.join(names['id'])})",
            _listed(found),
            "Rename one, or name it with columns={'id': ...}.",
        )
    if content and not _CONTENT & set(chosen):
        raise source.error(
            None,
            f"a column with content ({', '.join(names['text'])}, ...)",
            _listed(found),
            "Rename one, or name it with columns={'text': ...}.",
        )
    return Columns(**chosen)


def known_ids(names: Names, chosen: Mapping[str, str] | None) -> set[str]:
    """Names, in lower case, that make the first line of a table a header."""
    return {*names["id"], *(column.lower() for column in (chosen or {}).values())}


def _first(found: list[str], candidates: tuple[str, ...], taken: Iterable[str]) -> str | None:
    by_name: dict[str, str] = {}
    for key in found:
        if key not in taken:
            by_name.setdefault(key.lower(), key)
    return next((by_name[name] for name in candidates if name in by_name), None)


def _listed(found: list[str]) -> str:
    return f"the columns {', '.join(found)}" if found else "no columns"
