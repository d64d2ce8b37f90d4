"""What is in an index folder, and whether it is whole: without loading model or encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trieline.catalog import Catalog
from trieline.errors import IndexFolderError
from trieline.evaluate.table import Column, Table
from trieline.ids import Stats, stats
from trieline.index import Trie
from trieline.living import View, replayed, store_view, stored_view
from trieline.store import IndexFolder, open_folder
from trieline.store.derived import derived_problems

__all__ = ["IndexFacts", "index_facts", "verify_index"]


class IndexFacts(NamedTuple):
    """An index in figures."""

    path: str
    recipe: str
    items: int
    files: dict[str, int]  # bytes on disk
    trie_bytes: int  # in memory
    docid_bytes: int  # the codes alone
    changes: int  # since the trie was stored: replayed at every opening
    codes: Stats
    notes: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {**self._asdict(), "codes": self.codes.to_json()}

    def tables(self) -> list[Table]:
        """For people: bytes, then codes."""
        rows: list[tuple[str | int | float, ...]] = [
            ("docids", self.docid_bytes, self.docid_bytes / max(self.items, 1)),
            ("trie in memory", self.trie_bytes, self.trie_bytes / max(self.items, 1)),
            *((name, size, size / max(self.items, 1)) for name, size in self.files.items()),
        ]
        columns = (Column("what"), Column("bytes", ",d"), Column("an item", ",.1f"))
        since = f", {self.changes:,} changes since it was compacted" if self.changes else ""
        title = f"{self.path}: {self.items:,} items, recipe {self.recipe}{since}"
        return [Table(columns, tuple(rows), title), *self.codes.tables()]


def index_facts(path: Path) -> IndexFacts:
    """The figures of the index at ``path``."""
    folder = open_folder(path)
    with Catalog.open(folder.file("catalog.sqlite"), read_only=True) as catalog:
        (revision, codes), items = catalog.state(), len(catalog)
        stored = folder.newest("trie")
        trie = Trie.build(codes, catalog.sizes)
        return IndexFacts(
            path=str(path),
            recipe=str(folder.manifest.recipe.get("name", "")),
            items=items,
            files=folder.sizes(),
            trie_bytes=trie.nbytes,
            docid_bytes=codes.codes.nbytes,
            changes=0 if stored is None else revision - stored.revision,
            codes=stats(codes, catalog.sizes),
            notes=dict(folder.manifest.notes),
        )


def verify_index(path: Path, *, repair: bool = False) -> tuple[list[str], list[str]]:
    """Every problem that is there (or left), in words, and the derived sets made again."""
    try:
        folder = open_folder(path)
        problems, trie_is_good = _problems(folder)
        if trie_is_good or not repair:
            return problems, []
        with Catalog.open(folder.file("catalog.sqlite")) as catalog, folder.writing() as writer:
            revision, codes = catalog.state()
            view = View(revision, Trie.build(codes, catalog.sizes))
            store_view(view, folder, catalog, writer, shrink=False)
        return _problems(folder)[0], ["trie"]
    except IndexFolderError as error:  # so damaged that it cannot be opened
        return [str(error)], []


def _problems(folder: IndexFolder) -> tuple[list[str], bool]:
    """In words, and whether the stored trie is as it should be."""
    with Catalog.open(folder.file("catalog.sqlite"), read_only=True) as catalog:
        problems = [*folder.verify(), *catalog.verify()]
        good = not derived_problems(folder.folder)
        if good and not _fits(folder, catalog):
            problems.append(f"{folder.path}: the stored trie does not lead to the catalog as it is")
            good = False
    return problems, good


def _fits(folder: IndexFolder, catalog: Catalog) -> bool:
    """Whether the stored trie and the changes since give what the catalog gives."""
    stored = stored_view(folder, catalog)
    try:
        view = None if stored is None else replayed(stored, catalog)
        whole = Trie.build(catalog.codes(), catalog.sizes)
    except IndexFolderError:  # the catalog's own problems are told already
        return False
    if view is None:
        return False
    same_codes = np.array_equal(view.trie.codes, whole.codes)
    return same_codes and np.array_equal(view.trie.owner, whole.owner)
