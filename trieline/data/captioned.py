"""Pictures or clips with captions, asked in either direction.

    text-to-image   the pictures are the items, each caption is a query: its picture answers
    image-to-text   the captions are the items, each picture is a query: its captions answer

and the same with ``video``. A caption is called ``PICTURE#n``, counted from 0. The trap: the usual
test ranks the pictures of the test split only. ``corpus="test"`` gives these, and without it every
split's are items: a harder question, whose figures are lower than published ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from trieline.data.checks import check_items
from trieline.data.dataset import require_split
from trieline.data.features import Features, open_features
from trieline.data.lines import Source
from trieline.data.splits import in_order
from trieline.errors import FormatError, SettingsError
from trieline.types import Floats, Item, Qrel, Query

__all__ = ["Captioned", "CaptionedDataset", "Captions", "Medium", "group_captions"]

K = TypeVar("K")

Medium = Literal["image", "video"]


class Captioned(NamedTuple):
    """A picture or a clip with what people said of it."""

    id: str
    captions: tuple[str, ...]
    split: str = "train"
    image: str | None = None  # path of a picture


class Captions(NamedTuple):
    """What the reader of a format gives."""

    name: str
    medium: Medium
    source: Source
    read: Callable[[], Iterator[tuple[int, Captioned]]]  # (number in the source, thing)


class CaptionedDataset:
    """See the module."""

    def __init__(
        self,
        captions: Captions,
        *,
        direction: str = "",
        corpus: str | None = None,
        features: str | Path | None = None,
        mask: str | Path | None = None,
        keep_empty: bool = False,
    ) -> None:
        """``direction``: by default from text to the other. ``corpus``: items of this split only.

        ``features`` (see ``features``) become the embeddings of the pictures or clips.
        ``keep_empty`` leaves empty captions out and lets things pass of which nothing is known.
        """
        self.name = captions.name
        self._captions, self._corpus, self._keep_empty = captions, corpus, keep_empty
        ways = (f"text-to-{captions.medium}", f"{captions.medium}-to-text")
        if (direction or ways[0]) not in ways:
            raise SettingsError(f"direction {direction!r}: expected {ways[0]!r} or {ways[1]!r}.")
        self._by_text = (direction or ways[0]) == ways[0]
        self._splits: tuple[str, ...] | None = None
        self._features: Features | None = None
        if features is not None:
            self._features = open_features(features, self._count, mask)
        elif mask is not None:
            raise SettingsError("mask= says which frames are there: it goes with features=.")
        if corpus is not None:
            require_split(self.name, corpus, self.splits())

    def items(self) -> Iterator[Item]:
        """The pictures or clips, or the captions; of all splits, or of that of ``corpus``."""
        return check_items(self._items, self._captions.source, self._keep_empty)

    def splits(self) -> tuple[str, ...]:
        """Those that the file, or the lists beside it, tell; everything is train where none do."""
        if self._splits is None:
            self._splits = in_order({thing.split for _, _, thing in self._things()})
        return self._splits

    def queries(self, split: str) -> Iterator[Query]:
        """The captions of ``split``, or its pictures or clips."""
        require_split(self.name, split, self.splits())
        medium = self._captions.medium
        for number, row, thing in self._things():
            if thing.split != split:
                continue
            if self._by_text:
                for name, text in self._worded(number, thing):
                    yield Query(name, text)
            else:
                vector = self._vector(row, thing)
                yield Query(thing.id, image=thing.image, embedding=vector, modality=medium)

    def qrels(self, split: str) -> Iterator[Qrel]:
        """A caption and its picture, or a picture and each of its captions."""
        require_split(self.name, split, self.splits())
        for number, _, thing in self._things():
            if thing.split == split:
                for name, _ in self._worded(number, thing):
                    pair = (name, thing.id) if self._by_text else (thing.id, name)
                    yield Qrel(*pair, 1)

    def _items(self) -> Iterator[tuple[int, Item]]:
        for number, row, thing in self._things():
            if self._corpus not in (None, thing.split):
                continue
            known = {"split": thing.split}
            if self._by_text:
                item = Item(thing.id, image=thing.image, metadata=known)
                vector, medium = self._vector(row, thing), self._captions.medium
                yield number, item._replace(embedding=vector, modality=medium)
            else:
                for name, text in self._worded(number, thing):
                    yield number, Item(name, text=text, metadata=known)

    def _worded(self, number: int, thing: Captioned) -> Iterator[tuple[str, str]]:
        """(id, text) of each caption."""
        for place, caption in enumerate(thing.captions):
            if text := caption.strip():
                yield f"{thing.id}#{place}", text
            elif not self._keep_empty:
                raise self._captions.source.error(
                    number,
                    "captions with words",
                    f"an empty one of {thing.id!r}",
                    "Remove it, or read with keep_empty=True, which leaves it out.",
                )

    def _things(self) -> Iterator[tuple[int, int, Captioned]]:
        """(number in the source, row, thing)."""
        for row, (number, thing) in enumerate(self._captions.read()):
            yield number, row, thing

    def _vector(self, row: int, thing: Captioned) -> Floats | None:
        return None if self._features is None else self._features.vector(row, thing.id)

    def _count(self) -> int:
        return sum(1 for _ in self._captions.read())


def group_captions(
    path: Path, key: str, ids: Iterable[K], said: Iterable[tuple[K, str]]
) -> dict[K, tuple[str, ...]]:
    """Each id with its captions in the order of the file; ``key`` is what the file calls an id."""
    found: dict[K, list[str]] = {id_: [] for id_ in ids}
    for number, (id_, caption) in enumerate(said, 1):
        if id_ not in found:
            raise FormatError(
                path,
                None,
                "captions of what it lists",
                f"the unknown {key} {id_!r} in caption {number}",
            )
        found[id_].append(caption)
    return {id_: tuple(captions) for id_, captions in found.items()}
