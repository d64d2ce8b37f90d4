"""Captioned pictures and clips in a folder or a file: which of the known formats it is.

    open_captions("flickr30k/")                                    captions ask for pictures
    open_captions("dataset_coco.json", images="coco/", direction="image-to-text", corpus="test")
    open_captions("MSRVTT_data.json", features="frames.npy", mask="frames-mask.npy")

See ``flickr``, ``coco`` and ``video`` for the formats, ``captioned`` for the two directions and
``features`` for vectors of pictures, clips and frames. The trap: a folder often holds several
captioned files; then the one that is meant has to be named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from trieline.data.captioned import CaptionedDataset, Captions
from trieline.data.coco import coco_document, karpathy_document
from trieline.data.flickr import flickr_lines, json_lines
from trieline.data.video import msrvtt_document, msvd_document, msvd_lists
from trieline.errors import DataError, SettingsError

__all__ = ["is_captions", "open_captions"]

_Splits = Mapping[str, Path] | None
_Open = Callable[[Path, Path | None, _Splits], Captions]

_FORMATS: tuple[tuple[str, re.Pattern[str], _Open], ...] = (  # the first that fits is meant
    ("JSON Lines", re.compile(r"captions\.jsonl"), lambda p, i, s: json_lines(p, i)),
    ("COCO", re.compile(r"captions_[a-z]+\d{4}\.json"), lambda p, i, s: coco_document([p], i)),
    ("Karpathy", re.compile(r"dataset(_\w+)?\.json"), lambda p, i, s: karpathy_document(p, i)),
    (
        "MSR-VTT",
        re.compile(r".*videodatainfo.*\.json|MSRVTT_(data|v2)\.json", re.I),
        lambda p, i, s: msrvtt_document(p, s),
    ),
    ("MSVD", re.compile(r"captions_\w+\.json"), lambda p, i, s: msvd_document(p, s)),
    (
        "Flickr",
        re.compile(r"captions\.(txt|csv)|(?!.*lemma).*\.token(\.txt)?", re.I),
        lambda p, i, s: flickr_lines(p, i, s),
    ),
)


def open_captions(
    source: str | Path,
    *,
    direction: str = "",
    images: str | Path | None = None,
    splits: Mapping[str, str | Path] | None = None,
    corpus: str | None = None,
    features: str | Path | None = None,
    mask: str | Path | None = None,
    keep_empty: bool = False,
) -> CaptionedDataset:
    """The captioned pictures or clips of a folder or a file.

    ``images``: the folder (or zip file) of the pictures. ``splits``: split -> a list of names, for
    formats whose splits are lists. The rest is explained at ``CaptionedDataset``.
    """
    path = Path(source).expanduser()
    lists = None if splits is None else {split: Path(file) for split, file in splits.items()}
    captions = _captions(path, None if images is None else Path(images), lists)
    return CaptionedDataset(
        captions,
        direction=direction,
        corpus=corpus,
        features=features,
        mask=mask,
        keep_empty=keep_empty,
    )


def is_captions(path: Path) -> bool:
    """Whether ``open_captions`` knows what a folder or a file is, by names alone."""
    return bool(_known(path) or _coco_files(path))


def _captions(path: Path, images: Path | None, splits: _Splits) -> Captions:
    if coco := _coco_files(path):
        if splits is not None:
            raise SettingsError("splits=: COCO's files tell the split by their names.")
        return coco_document(coco, images or path)
    known = _known(path)
    if not known:
        raise DataError(
            f"{path} holds no captions of a known format ({', '.join(n for n, _, _ in _FORMATS)})."
            " See trieline.data.captions."
        )
    if len(known) > 1:
        names = ", ".join(file.name for file, _ in known)
        raise DataError(f"{path} holds several files of captions: {names}. Name the one you mean.")
    file, opened = known[0]
    return opened(file, images, splits)


def _known(path: Path) -> list[tuple[Path, _Open]]:
    files: Sequence[Path] = [path] if path.is_file() else []
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file())
    found = [(file, opened) for file in files if (opened := _format(file, path.is_dir()))]
    return found


def _format(file: Path, among_others: bool) -> _Open | None:
    for name, pattern, opened in _FORMATS:
        if pattern.fullmatch(file.name):
            if name == "MSVD" and among_others and not msvd_lists(file.parent):
                return None  # too common a name to be sure
            return opened
    return None


def _coco_files(path: Path) -> list[Path]:
    """The annotation files of a folder in COCO's layout."""
    return sorted(path.glob("annotations/captions_*.json")) if path.is_dir() else []
