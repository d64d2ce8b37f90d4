"""Pictures and captions in one JSON document: COCO's annotations, and Karpathy's splits.

    annotations/captions_val2017.json   {"images": [{"id", "file_name"}],
                                         "annotations": [{"image_id", "caption"}]}
    dataset_coco.json                   {"images": [{"filename", "split", "sentences": [{"raw"}]}]}

A document is read as a whole: a million captions take some 200 MB. COCO's own files tell the split
by their names; the results that everybody reports are on Karpathy's. The traps: ``restval`` is
trained on, and counts as train; COCO's annotations stand in no order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import msgspec

from trieline.data.captioned import Captioned, Captions, group_captions
from trieline.data.jsonl import read_document
from trieline.data.lines import Source
from trieline.data.splits import split_name
from trieline.errors import DataError

__all__ = ["coco_document", "karpathy_document"]

_NAME = re.compile(r"captions_(?P<part>(?P<split>[a-z]+)\d*)\.json")


class _Image(msgspec.Struct):
    id: int | str
    file_name: str


class _Annotation(msgspec.Struct):
    image_id: int | str
    caption: str


class _Coco(msgspec.Struct):
    images: list[_Image]
    annotations: list[_Annotation]


class _Sentence(msgspec.Struct):
    raw: str


class _Split(msgspec.Struct):
    filename: str
    split: str
    sentences: list[_Sentence]
    filepath: str = ""  # the folder, in COCO's file only


class _Karpathy(msgspec.Struct):
    images: list[_Split]


def coco_document(paths: Sequence[Path], images: Path | None = None) -> Captions:
    """COCO's annotation files, one a split; a picture's captions keep the order of the file."""
    if twice := _twice(paths):
        raise DataError(
            f"{twice[0]} and {twice[1]} are of the same split. Name the file that you mean."
        )
    root = paths[0].parent.parent if paths[0].parent.name == "annotations" else paths[0].parent
    source = Source(paths[0] if len(paths) == 1 else paths[0].parent, "image")

    def read() -> Iterator[tuple[int, Captioned]]:
        every = chain.from_iterable(_read_coco(path, images or root) for path in paths)
        yield from enumerate(every, 1)

    return Captions(root.resolve().name, "image", source, read)


def karpathy_document(path: Path, images: Path | None = None) -> Captions:
    """A file of Karpathy's splits, of COCO, Flickr8k or Flickr30k."""

    def read() -> Iterator[tuple[int, Captioned]]:
        for number, found in enumerate(read_document(path, _Karpathy).images, 1):
            said = tuple(sentence.raw for sentence in found.sentences)
            place = (images or path.parent) / found.filepath / found.filename
            yield number, Captioned(found.filename, said, split_name(found.split), str(place))

    return Captions(path.stem.removeprefix("dataset_"), "image", Source(path, "image"), read)


def _read_coco(path: Path, root: Path) -> Iterator[Captioned]:
    named = _NAME.fullmatch(path.name)
    split = split_name(named["split"]) if named else "train"
    folder = root / named["part"] if named and (root / named["part"]).is_dir() else root
    document = read_document(path, _Coco)
    ids = [image.id for image in document.images]
    said = group_captions(
        path, "image_id", ids, ((note.image_id, note.caption) for note in document.annotations)
    )
    for image in document.images:
        place = str(folder / image.file_name)
        yield Captioned(image.file_name, said[image.id], split, place)


def _twice(paths: Sequence[Path]) -> tuple[str, str] | None:
    first: dict[str, str] = {}
    for path in paths:
        named = _NAME.fullmatch(path.name)
        split = split_name(named["split"]) if named else path.name
        if split in first:
            return first[split], path.name
        first[split] = path.name
    return None
