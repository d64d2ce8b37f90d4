"""Pictures and captions in lines: Flickr8k and Flickr30k as they are published, and JSON Lines.

    results_20130124.token, Flickr8k.token.txt   PICTURE.jpg#0<TAB>caption
    captions.txt, captions.csv                   a header line image,caption; then CSV
    captions.jsonl                               {"image": ..., "split": ..., "captions": [...]}

The lines of a picture stand together. Which split a picture belongs to is told by lists beside the
file, one picture a line (``Flickr_8k.devImages.txt``, ``test.txt``); without any, all is train.
The trap: the lists of Flickr30k name pictures without their ending.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

import msgspec

from trieline.data.captioned import Captioned, Captions
from trieline.data.jsonl import read_records
from trieline.data.lines import Source, read_lines, short
from trieline.data.splits import split_name
from trieline.errors import FormatError

__all__ = ["flickr_lines", "json_lines", "read_lists"]

_FOLDERS = ("Images", "images", "Flicker8k_Dataset", "flickr30k-images", "flickr30k_images")
_LIST = re.compile(
    r"(?:.*[._-])?(train|dev|val|valid|validation|test)(?:[._-]?(?:images|list|ids))?\.txt", re.I
)
_Line = tuple[int, str, str]  # number, picture, caption


class _Record(msgspec.Struct):
    image: str
    captions: list[str]
    split: str = "train"


def flickr_lines(
    path: Path, images: Path | None = None, splits: Mapping[str, Path] | None = None
) -> Captions:
    """The captions of a token or a CSV file. ``splits``: split -> list of pictures."""
    folder = images or _images_of(path.parent)
    _, first = next(read_lines(path), (0, ""))
    lines = _token_lines if re.match(r"[^\t]+#\d+\t", first) else _csv_lines
    split_of = _split_of(_lists_beside(path) if splits is None else dict(splits))

    def read() -> Iterator[tuple[int, Captioned]]:
        for picture, group in groupby(lines(path), key=lambda line: line[1]):
            together = list(group)
            said = tuple(caption for _, _, caption in together)
            if split := split_of(picture):
                yield together[0][0], Captioned(picture, said, split, str(folder / picture))

    return Captions(path.resolve().parent.name, "image", Source(path), read)


def json_lines(path: Path, images: Path | None = None) -> Captions:
    """The captions of a JSON Lines file, one picture a line; other keys are passed over."""
    folder = images or _images_of(path.parent)

    def read() -> Iterator[tuple[int, Captioned]]:
        for number, record in read_records(path, _Record):
            picture = str(folder / record.image)
            split = split_name(record.split)
            yield number, Captioned(record.image, tuple(record.captions), split, picture)

    return Captions(path.resolve().parent.name, "image", Source(path), read)


def read_lists(files: Mapping[str, Path]) -> dict[str, str]:
    """Name of a picture or clip -> its split, from a list for each split."""
    found: dict[str, str] = {}
    for split, path in files.items():
        for number, line in read_lines(path):
            name = line.strip()
            if found.setdefault(name, split_name(split)) != split_name(split):
                raise FormatError(
                    path, number, "names of no other split", f"{name!r} of {found[name]!r}"
                )
    return found


def _split_of(files: Mapping[str, Path]) -> Callable[[str], str]:
    """The split of a picture; "" where there are lists and none has it."""
    if not files:
        return lambda picture: "train"
    known = read_lists(files)
    return lambda picture: known.get(picture) or known.get(Path(picture).stem, "")


def _lists_beside(path: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for beside in sorted(path.parent.iterdir()):
        named = _LIST.fullmatch(beside.name)
        if named and beside != path:
            split = split_name(named[1])
            if split in found:
                raise FormatError(
                    beside,
                    None,
                    f"one list of {split}",
                    f"another one in {found[split].name}",
                    "Say which with splits={'train': ..., ...}.",
                )
            found[split] = beside
    return found


def _images_of(folder: Path) -> Path:
    """Where the pictures are: a folder of a usual name, a single zip file, or beside the captions.

    They need not be there: who brings features does not need them.
    """
    known = next((folder / name for name in _FOLDERS if (folder / name).is_dir()), None)
    zips = sorted(folder.glob("*.zip"))
    return known or (zips[0] if len(zips) == 1 else folder)


def _token_lines(path: Path) -> Iterator[_Line]:
    for number, text in read_lines(path):
        name, tab, caption = text.partition("\t")
        picture, mark, place = name.rpartition("#")
        if not tab or not mark or not picture or not place.strip().isdecimal():
            wanted = "PICTURE#number<TAB>caption"
            raise FormatError(path, number, wanted, short(text, 60))
        yield number, picture, caption


def _csv_lines(path: Path) -> Iterator[_Line]:
    """A caption in quotation marks may hold commas, but no line break."""
    for place, (number, text) in enumerate(read_lines(path)):
        try:
            fields = next(csv.reader([text], strict=True))
        except csv.Error as error:
            raise FormatError(
                path, number, "image,caption", f"{short(text, 60)} ({error})"
            ) from None
        if len(fields) != 2 or not fields[0]:
            fix = "Put captions with commas into quotation marks." if len(fields) > 2 else ""
            raise FormatError(path, number, "image,caption", short(text, 60), fix)
        if place == 0 and fields[0].strip().lower() in ("image", "image_name", "filename"):
            continue
        yield number, fields[0], fields[1]
