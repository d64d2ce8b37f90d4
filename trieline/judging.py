"""Docids judged before anything is trained on them: of an index, or of a corpus and a recipe.

For a corpus the vectors are made once and docids learnt for each candidate list of sizes, which
takes minutes where training takes hours. What the figures are is told in ``diagnose.judge``.

Queries are the dataset's own where it has any in the split and their vectors can be had; elsewhere
crops of the items, which are answered by the item that they were cut from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trieline.asking import Asker
from trieline.build import dataset_of, encode_corpus, give_docids, recipe_of
from trieline.catalog import Catalog
from trieline.config import Recipe, apply
from trieline.data import (
    Dataset,
    MemoryDataset,
    open_dataset,
    open_embeddings,
    with_embeddings,
)
from trieline.diagnose import judge
from trieline.encode import open_encoder
from trieline.errors import SettingsError
from trieline.ids import Docids, codebooks_of, stats
from trieline.index import Trie
from trieline.lessons import gather, judged_items
from trieline.retaining import numbered, relevant_items
from trieline.train import pseudo_queries, source_of
from trieline.types import Codes, Floats, Item, Qrel, Query
from trieline.watch import Watch, silent

__all__ = ["Encodes", "Opened", "judge_codes", "judge_corpus", "with_vectors"]

Ints = NDArray[np.int64]


class Opened(Protocol):
    """What this needs of a ``Retriever``."""

    recipe: Recipe
    catalog: Catalog
    docids: Docids
    _asker: Asker


class Encodes(Protocol):
    """An encoder, or what lets threads use one in turn."""

    def encode(self, things: Sequence[Item] | Sequence[Query], watch: Watch) -> Floats: ...


class _Asked(NamedTuple):
    """Queries by their vectors."""

    vectors: Floats  # [Q, D]
    relevant: list[Ints]
    kind: str  # the split, or "pseudo"


class _Sample(NamedTuple):
    """Items whose vectors are known, and those of them whose neighbours are looked at."""

    numbers: Ints  # [n] ascending item numbers
    vectors: Floats  # [n, D]
    probes: Ints  # places in ``numbers``


_NOBODY = _Asked(np.zeros((0, 0), np.float32), [], "")


def judge_codes(
    self: Opened,
    queries: Sequence[Query] = (),
    qrels: Iterable[Qrel] = (),
    *,
    asked: str = "queries",
    items: Iterable[Item] | None = None,
    beam: int = 20,
    near: int = 10,
    sample: int = 2000,
    limit: int = 200,
    seed: int = 0,
    watch: Watch = silent,
) -> judge.Judgement:
    """How good the docids of an index are by themselves.

    Its vectors are not kept, so ``sample`` items are encoded again, and neighbours are those among
    them; where users brought the vectors, ``items`` must bring them again, or figures that need
    them are left out. Without queries, ``limit`` crops of items ask. ``asked`` names the queries in
    the report.
    """
    codes, listed, numbers = numbered(self.catalog, items)
    known = None
    if items is not None or self.recipe.encode.kind != "precomputed":
        chosen = _some(len(listed), sample, seed)
        vectors = self._asker.encode([listed[n] for n in chosen], watch)
        known = _Sample(chosen, vectors, np.arange(len(chosen)))
    if queries and self.recipe.model.query != "history":
        judged = relevant_items(queries, qrels, numbers)
        vectors = self._asker.encode(judged.queries, watch)
        found = _Asked(vectors, judged.relevant, asked)
    else:
        found = _crops(listed, numbers, self._asker, self.recipe, limit, seed, watch)
    return _judged(self.recipe, self.docids, codes, known, found, beam, near)


def judge_corpus(
    corpus: str | Path | Dataset | Iterable[Item],
    recipe: str | Path | Recipe = "genius",
    sizes: Sequence[Sequence[int]] = (),
    *,
    settings: Sequence[str] = (),
    split: str = "dev",
    beam: int = 20,
    near: int = 10,
    sample: int = 2000,
    limit: int = 200,
    cache: Path | None = None,
    device: str = "cpu",
    watch: Watch = silent,
) -> list[judge.Judgement]:
    """How good the docids would be that a recipe gives a corpus; one judgement for each of
    ``sizes``, or one for the recipe's own.

    Neighbours are those among all items, looked at for ``sample`` of them.
    """
    recipe, dataset = recipe_of(recipe, settings), dataset_of(corpus)
    if sizes and recipe.ids.scheme == "atomic":
        raise SettingsError(
            "atomic docids have one level, as large as the corpus: no sizes to try."
        )
    tried = [apply(recipe, [f"ids.sizes={list(own)}"]) for own in sizes] or [recipe]
    encoder = open_encoder(recipe.encode, cache, device=device)
    items = encode_corpus(dataset, encoder, recipe, watch)
    numbers = {name: number for number, name in enumerate(items.ids)}
    seed = recipe.train.seed
    probes = _some(len(items.ids), sample, seed)
    known = _Sample(np.arange(len(items.ids)), items.vectors, probes)
    asked = _asked(dataset, numbers, encoder, recipe, split, limit, watch)
    judged = None
    if recipe.ids.scheme == "pro":  # its docids learn from training queries
        gathered = gather(dataset, numbers, items.vectors, recipe, encoder, watch)
        judged = judged_items(gathered, items.vectors, numbers, recipe)
    told = []
    for candidate in tried:
        docids, codes = give_docids(items, judged, candidate, watch)
        told.append(_judged(candidate, docids, codes, known, asked, beam, near))
    return told


def with_vectors(corpus: str | None, items: Path, queries: Path | None = None) -> Dataset:
    """A corpus whose items, and queries where given, bring the vectors of files; without a corpus
    the items are what the file of vectors names."""
    vectors = open_embeddings(items)
    asked = None if queries is None else open_embeddings(queries, width=vectors.width)
    if corpus is None:
        return MemoryDataset(
            (Item(name, embedding=vectors[name]) for name in vectors), name=str(items)
        )
    return with_embeddings(open_dataset(corpus, keep_empty=True), vectors, asked)


def _judged(
    recipe: Recipe,
    docids: Docids,
    codes: Codes,
    known: _Sample | None,
    asked: _Asked,
    beam: int,
    near: int,
) -> judge.Judgement:
    books, nothing = codebooks_of(docids), [None] * len(docids.sizes)
    of_items = _of_items(codes, docids, known, near, recipe.train.seed) or (nothing,) * 3
    of_queries: Sequence[Sequence[float | None]] = nothing, nothing
    answered = bool(asked.relevant) and any(book.any() for book in books)
    if answered:
        trie = Trie.build(codes, docids.sizes)
        of_queries = judge.oracle_survival(
            trie, books, docids.project(asked.vectors), asked.relevant, beam
        )
    columns = zip(*of_items, *of_queries, strict=True)
    return judge.Judgement(
        sizes=docids.sizes,
        schedule=judge.schedule_of(recipe.ids.sizes),
        stats=stats(codes, docids.sizes),
        levels=tuple(judge.LevelJudgement(*row) for row in columns),
        near=near,
        looked_at=0 if known is None else len(known.probes),
        queries=len(asked.relevant) if answered else 0,
        asked=asked.kind,
        beam=beam,
    )


def _of_items(
    codes: Codes, docids: Docids, known: _Sample | None, near: int, seed: int
) -> tuple[Sequence[float | None], ...] | None:
    """(error left, hit rate, by chance) of each level."""
    if known is None:
        return None
    books, own, count = codebooks_of(docids), _renumbered(codes, known.numbers), len(known.numbers)
    others = judge.nearest_items(known.vectors, known.probes, near)
    drawn = _strangers(known.probes, count, others.shape[1], seed)
    return (
        judge.error_left(docids.project(known.vectors), own, books) or [None] * len(books),
        judge.hit_rates(own, known.probes, others, count),
        judge.hit_rates(own, known.probes, drawn, count),
    )


def _asked(
    dataset: Dataset,
    numbers: dict[str, int],
    encoder: Encodes,
    recipe: Recipe,
    split: str,
    limit: int,
    watch: Watch,
) -> _Asked:
    """Real queries where there are any that have vectors."""
    if split in dataset.splits() and recipe.model.query != "history":
        queries = [query for _, query in zip(range(limit), dataset.queries(split), strict=False)]
        if recipe.encode.kind == "precomputed" and any(q.embedding is None for q in queries):
            return _NOBODY
        judged = relevant_items(queries, dataset.qrels(split), numbers)
        return _Asked(encoder.encode(judged.queries, watch), judged.relevant, split)
    return _crops(dataset.items(), numbers, encoder, recipe, limit, recipe.train.seed, watch)


def _crops(
    items: Iterable[Item],
    numbers: dict[str, int],
    encoder: Encodes,
    recipe: Recipe,
    limit: int,
    seed: int,
    watch: Watch,
) -> _Asked:
    """A crop, or else the title, of some items; nothing where nobody brings their vectors."""
    if recipe.encode.kind == "precomputed":
        return _NOBODY
    chosen = set(_some(len(numbers), limit, seed).tolist())
    some: Iterator[Item] = (item for item in items if numbers.get(item.id) in chosen)
    last = {source_of(q.id): q for q in pseudo_queries(some, titles=True, crops=1, seed=seed)}
    asked = [query for query in last.values() if query.text.strip()]
    if not asked:
        return _NOBODY
    relevant = [np.array([numbers[source_of(query.id)]]) for query in asked]
    return _Asked(encoder.encode(asked, watch), relevant, "pseudo")


def _some(count: int, most: int, seed: int) -> Ints:
    """Numbers below ``count``, ascending."""
    if count <= most:
        return np.arange(count)
    chosen: Ints = np.random.default_rng(seed).choice(count, most, replace=False)
    return np.sort(chosen)


def _strangers(probes: Ints, items: int, k: int, seed: int) -> Ints:
    """int64[n, k]: items drawn at random for each probe, never itself."""
    drawn = np.random.default_rng(seed).integers(0, max(items - 1, 1), (len(probes), k))
    strangers: Ints = drawn + (drawn >= probes[:, None])
    return strangers


def _renumbered(codes: Codes, numbers: Ints) -> Codes:
    """The rows of some items, which are numbered by their place from now on."""
    own = np.isin(codes.owner, numbers)
    owner = np.searchsorted(numbers, codes.owner[own])
    return Codes(codes.codes[own], owner.astype(np.uint32))
