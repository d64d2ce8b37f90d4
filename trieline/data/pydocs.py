"""The corpus that everybody has: the documentation of the running Python's standard library.

"Search Python by what it does": an item is a module, class, function or method; the first sentence
of its docstring is the query that should find it (known item), and the rest of the docstring, the
signature, the words of the names and the module's summary are the item's text.
Trap: an item that is asked for does not hold the asking sentence. Sentences said of several things
ask for none of them, and a module's is left in, since its members' texts hold it too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple

from trieline.data.dataset import require_split
from trieline.data.docstrings import first_sentence, words
from trieline.data.stdlib_compiled import read_compiled
from trieline.data.stdlib_source import Entry, read_sources
from trieline.errors import DataError
from trieline.types import Item, Qrel, Query

__all__ = ["PythonDocs"]

_TEXT_WORDS = 64  # items and queries together: 137 s of one core through MiniLM
_SUMMARY_WORDS = 16
_TITLE_LETTERS = 100
_QUERY_WORDS = range(3, 31)
_LEAST = 3000  # items; fewer means that there is no source to read
_DEFAULT = re.compile(r"=[^,)]*")
_CODE = re.compile(r"=|->|^see\b", re.IGNORECASE)
_PLAIN = re.compile(r"\w+")
_LETTERS = re.compile(r"[^\W\d_]{2,}")


class _Page(NamedTuple):
    """What is shown and asked of one thing."""

    item: Item
    query: str  # empty where nothing asks for it


class PythonDocs:
    """The standard library of the Python that runs this: several thousand items, no download.

    The splits are cut by a hash of the item's id, so they are the same on every run, and an item
    keeps its split from one version of Python to the next.
    """

    name = "python-docs"

    def items(self) -> Iterator[Item]:
        """Modules, classes, functions and methods; the id is what one would import."""
        for page in self._pages:
            yield page.item

    def splits(self) -> tuple[str, ...]:
        """Eight in ten queries are for training."""
        return ("train", "dev", "test")

    def queries(self, split: str) -> Iterator[Query]:
        """First sentences; a query has the id of the item that it asks for."""
        require_split(self.name, split, self.splits())
        for page in self._pages:
            if page.query and _split(page.item.id) == split:
                yield Query(page.item.id, page.query)

    def qrels(self, split: str) -> Iterator[Qrel]:
        """One relevant item a query."""
        for query in self.queries(split):
            yield Qrel(query.id, query.id, 1)

    @cached_property
    def _pages(self) -> list[_Page]:
        return _read_pages()


def _read_pages() -> list[_Page]:
    entries = _distinct()
    if len(entries) < _LEAST:
        raise DataError(
            f"only {len(entries)} documented things were found in this Python's standard library, "
            f"expected at least {_LEAST}: its source is not installed. "
            "Use another Python, or a corpus of your own."
        )
    said = {entry.name: first_sentence(entry.doc) for entry in entries}
    summaries = {e.name: said[e.name][0] for e in entries if e.kind == "module"}
    askers = Counter(_normal(sentence) for sentence, _ in said.values())
    return [
        _page(entry, *said[entry.name], askers, _summary(entry.module, summaries))
        for entry in entries
    ]


def _distinct() -> list[Entry]:
    """Entries with something to say, each name once, and each docstring once a name.

    ``IPv6Address.is_private`` says what ``IPv4Address.is_private`` says; nobody could tell which
    of the two is asked for.
    """
    sources = list(read_sources())
    entries = [*sources, *read_compiled({entry.name for entry in sources})]
    kept: dict[str, Entry] = {}
    seen: set[tuple[str, str]] = set()
    # The shorter name is the better known: bytes.lower, not bytearray.lower.
    for entry in sorted(entries, key=lambda e: (e.name.count("."), len(e.name), e.name)):
        key = (entry.name.rpartition(".")[2], _normal(entry.doc))
        if entry.name not in kept and key not in seen and _worth(entry.doc):
            kept[entry.name] = entry
            seen.add(key)
    return sorted(kept.values(), key=lambda entry: entry.name)


def _worth(doc: str) -> bool:
    sentence, rest = first_sentence(doc)
    return len(_LETTERS.findall(f"{sentence} {rest}")) >= 3 and not sentence.startswith("Internal")


def _page(entry: Entry, sentence: str, rest: str, askers: Counter[str], summary: str) -> _Page:
    title, about = _title(entry), {"kind": entry.kind, "module": entry.module}
    item = Item(entry.name, _text(entry, rest, summary), title, metadata=about)
    asked = _normal(sentence)
    repeated = asked in _normal(f"{title} {item.text}")  # some docstrings repeat themselves
    if entry.kind != "module" and _is_question(sentence) and askers[asked] == 1 and not repeated:
        return _Page(item, sentence)
    return _Page(item._replace(text=_text(entry, f"{sentence}. {rest}", summary)), "")


def _is_question(sentence: str) -> bool:
    """Whether somebody might ask like that: some words, not a page of them, and no code."""
    counted = (len(sentence.split()), len(_LETTERS.findall(sentence)))
    return all(n in _QUERY_WORDS for n in counted) and not _CODE.search(sentence)


def _text(entry: Entry, said: str, summary: str) -> str:
    """What is said, then the words of the names, then what the module is for."""
    parameters = _DEFAULT.sub("", entry.signature)
    context = " ".join(dict.fromkeys(words(f"{entry.name} {parameters}")))
    if summary and entry.kind != "module":
        context += f", {entry.module}: {_cut(summary, _SUMMARY_WORDS)}"
    context = _cut(context, _TEXT_WORDS // 2)
    return f"{_cut(said, _TEXT_WORDS - len(context.split()))} {context}".strip()


def _cut(text: str, n: int) -> str:
    return " ".join(text.split()[:n])


def _summary(module: str, summaries: Mapping[str, str]) -> str:
    """The module's, or its package's where it says nothing itself."""
    while module not in summaries and "." in module:
        module = module.rpartition(".")[0]
    return summaries.get(module, "")


def _title(entry: Entry) -> str:
    """``json.dump(obj, fp, *, skipkeys=False, ...)``."""
    signature = entry.signature
    if len(signature) > _TITLE_LETTERS:
        signature = signature[: signature.rfind(",", 0, _TITLE_LETTERS) + 1] + " ...)"
    return entry.name + signature


def _split(item: str) -> str:
    share = int.from_bytes(blake2b(item.encode(), digest_size=4).digest(), "big") / 2**32
    return "train" if share < 0.8 else "dev" if share < 0.9 else "test"


def _normal(text: str) -> str:
    """Words only, with a blank at both ends, so that ``in`` compares whole words."""
    return " ".join(["", *_PLAIN.findall(text.lower()), ""])
