"""From a corpus to an index folder: encode the items, give them docids, train, save.

The corpus is streamed several times and never held as a whole: once for its vectors, once for
pseudo queries, once into the catalog.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from trieline.catalog import Catalog
from trieline.config import Recipe, apply, load_recipe, to_mapping
from trieline.data import Dataset, MemoryDataset, open_dataset
from trieline.encode import Encoder, open_encoder
from trieline.errors import DataError, IndexFolderError, SettingsError
from trieline.ids import Docids, Judged, codebooks_of, open_docids, resolve
from trieline.ids.assign import reconstruct
from trieline.index import Trie
from trieline.lessons import Lessons, gather, judged_items, prepare_lessons
from trieline.model import Speller, build_speller
from trieline.model.bridge import Bridge, fit_bridge
from trieline.store import draft
from trieline.store.manifest import only_ours, read_manifest
from trieline.train import Report, train
from trieline.types import Codes, Floats, Item
from trieline.watch import Watch, silent

__all__ = [
    "Corpus",
    "build_index",
    "dataset_of",
    "encode_corpus",
    "give_docids",
    "recipe_of",
    "write_index",
]

_BLOCK = 65_536  # items encoded at a time


class Corpus(NamedTuple):
    """Items as docids are made of them."""

    ids: list[str]
    vectors: Floats  # [N, D]
    modalities: list[str]


def build_index(
    corpus: str | Path | Dataset | Iterable[Item],
    recipe: str | Path | Recipe,
    path: Path,
    *,
    settings: Sequence[str] = (),
    cache: Path | None = None,
    device: str = "cpu",
    watch: Watch = silent,
) -> Report:
    """Build an index at ``path``. With a ``cache``, an interrupted build goes on where it was."""
    _check_target(path)
    recipe = recipe_of(recipe, settings)
    _check_bridge(recipe)
    dataset = dataset_of(corpus)
    encoder = open_encoder(recipe.encode, cache, device=device)
    items = encode_corpus(dataset, encoder, recipe, watch)
    numbers = {name: number for number, name in enumerate(items.ids)}
    gathered = gather(dataset, numbers, items.vectors, recipe, encoder, watch)
    judged = judged_items(gathered, items.vectors, numbers, recipe)
    docids, codes = give_docids(items, judged, recipe, watch)
    trie = Trie.build(codes, docids.sizes)
    speller = build_speller(
        recipe.model, trie.sizes, encoder.dim, codebooks_of(docids), seed=recipe.train.seed
    )
    lessons = prepare_lessons(gathered, numbers, codes, trie, recipe, docids)
    folder = None if cache is None else cache / "trainings" / _key(recipe, encoder, docids, lessons)
    report = train(
        speller,
        lessons.questions,
        lessons.pairs,
        codes,
        recipe.train,
        item_vectors=items.vectors if recipe.model.query == "embedding" else None,
        trie=trie,
        validate=lessons.exam,
        folder=folder,
        key=lessons.digest,
        device=device,
        watch=watch,
    )
    write_index(
        path,
        recipe=recipe,
        docids=docids,
        encoder=encoder,
        speller=speller,
        bridge=_bridge(speller, lessons, docids, codes, recipe, watch),
        items=dataset.items(),
        codes=codes,
        notes={"dataset": dataset.name, "training": _plain(report)},
        watch=watch,
    )
    if folder is not None:  # the index has the weights now
        with suppress(OSError):
            shutil.rmtree(folder)
    return report


def write_index(
    path: Path,
    *,
    recipe: Recipe,
    docids: Docids,
    encoder: Encoder,
    speller: Speller,
    items: Iterable[Item],
    codes: Codes,
    notes: dict[str, Any],
    bridge: Bridge | None = None,
    watch: Watch = silent,
) -> None:
    """Save all parts of an index at once: afterwards the folder holds all of it, or what it held.

    ``codes.owner`` counts the items from 0.
    """
    fingerprints = {
        "encoder": encoder.fingerprint,
        "docids": docids.fingerprint,
        "model": speller.fingerprint(),
    }
    if bridge is not None:
        fingerprints["bridge"] = bridge.fingerprint
    with draft(path, recipe=to_mapping(recipe)) as drafted:
        drafted.fingerprints.update(fingerprints)
        drafted.notes.update({**notes, "dim": encoder.dim})
        weights = {name: t.detach().cpu().numpy() for name, t in speller.state_dict().items()}
        drafted.save_arrays("model.safetensors", weights)
        drafted.save_arrays("docids.safetensors", docids.arrays())
        if bridge is not None:
            drafted.save_arrays("bridge.safetensors", bridge._asdict())
        file = drafted.folder / "catalog.sqlite"
        with Catalog.create(file, speller.sizes, fingerprints) as catalog:
            catalog.add(_counted(items, watch), codes)
            revision, saved = catalog.state()
        drafted.save_derived("trie", revision, Trie.build(saved, speller.sizes).arrays())


def _check_target(path: Path) -> None:
    """What saving would refuse in the end is refused before the work."""
    if not path.exists() or (path.is_dir() and only_ours(path)):
        return
    try:
        read_manifest(path)
    except IndexFolderError as error:
        raise IndexFolderError(
            f"{path} will not be overwritten. Give another path. ({error})"
        ) from None


def _check_bridge(recipe: Recipe) -> None:
    words = recipe.ids.scheme in ("residual", "pro")
    if recipe.model.bridge and not (words and recipe.model.query == "history"):
        raise SettingsError(
            "model.bridge = true places histories among codebooks: expected model.query='history' "
            f"and ids.scheme='residual' or 'pro', got '{recipe.model.query}' and "
            f"'{recipe.ids.scheme}'. Set model.bridge=false."
        )


def recipe_of(recipe: str | Path | Recipe, settings: Sequence[str]) -> Recipe:
    """A recipe by whatever names it, changed."""
    if isinstance(recipe, Recipe):
        return apply(recipe, settings) if settings else recipe
    return load_recipe(recipe, settings)


def dataset_of(corpus: str | Path | Dataset | Iterable[Item]) -> Dataset:
    """A dataset by whatever names it."""
    if isinstance(corpus, str | Path):
        return open_dataset(corpus)
    if isinstance(corpus, Dataset):
        return corpus
    return MemoryDataset(corpus)


def encode_corpus(dataset: Dataset, encoder: Encoder, recipe: Recipe, watch: Watch) -> Corpus:
    """The vectors of all items."""
    ids: list[str] = []
    modalities: list[str] = []
    blocks: list[Floats] = []
    source = dataset.items()
    while block := list(islice(source, _BLOCK)):
        ids += [item.id for item in block]
        modalities += [item.modality for item in block]
        blocks.append(encoder.encode([_worded(item, recipe) for item in block], watch))
    if not ids:
        raise DataError(f"{dataset.name}: the corpus is empty. Give at least one item.")
    if len(set(ids)) < len(ids):
        twice = next(name for name, count in Counter(ids).items() if count > 1)
        raise DataError(f"{dataset.name}: item '{twice}' is given twice; ids must be unique.")
    return Corpus(ids, np.concatenate(blocks), modalities)


def _worded(item: Item, recipe: Recipe) -> Item:
    """Where histories are asked, an item that nobody described stands for its id.

    Real interaction data have such items, and what surrounds them in histories can find them.
    """
    if recipe.model.query == "history" and not (item.text.strip() or item.title.strip()):
        return item._replace(text=item.id)
    return item


def give_docids(
    items: Corpus, judged: Judged | None, recipe: Recipe, watch: Watch
) -> tuple[Docids, Codes]:
    """Learn docids and assign them, collisions settled."""
    settings = recipe.ids
    kinds = tuple(sorted(set(items.modalities))) if settings.modality else ()
    labels = items.modalities if settings.modality else None
    docids = open_docids(settings, recipe.train.seed, kinds)
    docids.fit(items.vectors, labels=labels, judged=judged, watch=watch)
    assigned = docids.assign(items.vectors, labels=labels)
    codes = resolve(assigned, settings, vectors=items.vectors, docids=docids)
    return docids, codes


def _bridge(
    speller: Speller, lessons: Lessons, docids: Docids, codes: Codes, recipe: Recipe, watch: Watch
) -> Bridge | None:
    """How guides get vectors of histories, where the recipe asks for it."""
    if not recipe.model.bridge:
        return None
    first = np.zeros((int(codes.owner.max()) + 1, codes.codes.shape[1]), np.uint16)
    first[codes.owner[::-1]] = codes.codes[::-1]
    query, item, _ = lessons.pairs
    return fit_bridge(
        speller,
        lessons.questions,
        query,
        item,
        reconstruct(first, codebooks_of(docids)),
        ridge=recipe.model.bridge_ridge,
        seed=recipe.train.seed,
        watch=watch,
    )


def _key(recipe: Recipe, encoder: Encoder, docids: Docids, lessons: Lessons) -> str:
    facts = [to_mapping(recipe), encoder.fingerprint, docids.fingerprint, lessons.digest]
    return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:16]


def _plain(report: Report) -> dict[str, Any]:
    return {
        name: value
        for name, value in report._asdict().items()
        if isinstance(value, int | float | str | bool | None)
    }


def _counted(items: Iterable[Item], watch: Watch) -> Iterator[Item]:
    with watch("saving items", None) as task:
        for item in items:
            yield item
            task.advance()
