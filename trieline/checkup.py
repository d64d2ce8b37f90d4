"""What is in an index folder, and whether it is whole: without loading model or encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from trieline.catalog import Catalog
from trieline.evaluate.table import Column, Table
from trieline.ids import Stats, stats
from trieline.index import Trie
from trieline.store import open_folder

__all__ = ["IndexFacts", "index_facts", "verify_index"]


class IndexFacts(NamedTuple):
    """An index in figures."""

    path: str
    recipe: str
    items: int
    files: dict[str, int]  # bytes on disk
    trie_bytes: int  # in memory
    docid_bytes: int  # the codes alone
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
        title = f"{self.path}: {self.items:,} items, recipe {self.recipe}"
        return [Table(columns, tuple(rows), title), *self.codes.tables()]


def index_facts(path: Path) -> IndexFacts:
    """The figures of the index at ``path``."""
    folder = open_folder(path)
    with Catalog.open(folder.file("catalog.sqlite"), read_only=True) as catalog:
        codes, items = catalog.codes(), len(catalog)
        trie = Trie.build(codes, catalog.sizes)
        return IndexFacts(
            path=str(path),
            recipe=str(folder.manifest.recipe.get("name", "")),
            items=items,
            files=folder.sizes(),
            trie_bytes=trie.nbytes,
            docid_bytes=codes.codes.nbytes,
            codes=stats(codes, catalog.sizes),
            notes=dict(folder.manifest.notes),
        )


def verify_index(path: Path, *, repair: bool = False) -> tuple[list[str], list[str]]:
    """Every problem in words, and the derived sets that were made again."""
    folder = open_folder(path)
    problems, repaired = folder.verify(), []
    with Catalog.open(folder.file("catalog.sqlite"), read_only=not repair) as catalog:
        problems += catalog.verify()
        revision, codes = catalog.state()
        if folder.derived("trie", revision) is None:
            problems.append(f"{path}: the stored trie is not that of the catalog's present state")
        if repair and problems:
            with folder.writing() as writer:
                arrays = Trie.build(codes, catalog.sizes).arrays()
                writer.replace_derived("trie", revision, arrays)
            repaired.append("trie")
    return problems, repaired
