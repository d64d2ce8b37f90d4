"""Pictures from files: opened as RGB, turned upright, known by their content.

A picture may lie in a zip file: ``images.zip/cat.jpg`` names a member, so that a corpus of many
small files needs no unpacking. The trap: a phone stores a picture lying on its side and says so in
a note (EXIF), which few programs read; the note is followed here.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from trieline.errors import DataError, MissingExtra
from trieline.types import Item, Query

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = [
    "has_picture",
    "has_words",
    "open_picture",
    "picture_bytes",
    "picture_key",
    "pictures_of",
]


def open_picture(path: str) -> Image:
    """A picture as RGB; of an animation, the first frame."""
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise MissingExtra("pictures", "pillow", "image") from None
    content = picture_bytes(path)
    try:
        with Image.open(io.BytesIO(content)) as opened:
            upright: Image.Image = ImageOps.exif_transpose(opened).convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(
            f"{path} cannot be read as a picture ({error}). Copy it again, or leave it out."
        ) from None
    return upright


def picture_bytes(path: str) -> bytes:
    """The content of a picture's file, or of a member of a zip file."""
    if "://" in path:
        raise DataError(f"the picture {path} lies elsewhere. Fetch it and give its path here.")
    try:
        return Path(path).read_bytes()
    except NotADirectoryError:
        return _member(path)
    except OSError as error:
        raise DataError(f"cannot read the picture {path}: {error.strerror}.") from None


def picture_key(path: str) -> bytes:
    """What a picture is remembered by: a checksum of its content, wherever it lies."""
    return hashlib.sha256(picture_bytes(path)).digest()


def pictures_of(things: Sequence[Item] | Sequence[Query]) -> list[str]:
    """The path of each thing's picture."""
    found: list[str] = []
    for thing in things:
        if thing.image is None:
            kind = "item" if isinstance(thing, Item) else "query"
            raise DataError(
                f"{kind} {thing.id!r} has no picture, so there is nothing to encode. "
                "Give it an image, or leave it out."
            )
        found.append(thing.image)
    return found


def has_words(thing: Item | Query) -> bool:
    """Whether there is a text to encode."""
    return bool(thing.text.strip() or (isinstance(thing, Item) and thing.title.strip()))


def has_picture(thing: Item | Query) -> bool:
    """Whether there is a picture to encode."""
    return bool(thing.image)


def _member(path: str) -> bytes:
    """``FOLDER/FILE.zip/MEMBER``."""
    file = next(above for above in Path(path).parents if above.exists())
    name = Path(path).relative_to(file).as_posix()
    try:
        return _opened(file, file.stat().st_mtime_ns).read(name)
    except KeyError:
        raise DataError(f"{file} has no member {name!r}. Check the name of the picture.") from None
    except (zipfile.BadZipFile, OSError) as error:
        raise DataError(f"{file} is not a zip file, so there is no {path} ({error}).") from None


@lru_cache(maxsize=1)
def _opened(file: Path, changed: int) -> zipfile.ZipFile:
    """Kept open: to read the table of 7,000 members for each took as long as the network."""
    return zipfile.ZipFile(file)
