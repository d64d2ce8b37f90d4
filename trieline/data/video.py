"""Captions of video clips: MSR-VTT's document, and MSVD's with its lists.

    MSRVTT_data.json, train_val_videodatainfo.json
                        {"videos": [{"video_id", "split"}], "sentences": [{"video_id", "caption"}]}
    captions_msvd.json  {CLIP: [caption, ...]}, and train_list.txt, val_list.txt, test_list.txt

The clips themselves are not read: bring features (``features=``, one vector or one a frame), or
a table of vectors by id. The trap: MSR-VTT is reported on several splits; the much used 1k-A test
has one caption a clip, and a list of its own, which goes into ``splits=``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from trieline.data.captioned import Captioned, Captions, group_captions
from trieline.data.flickr import read_lists
from trieline.data.jsonl import read_document, read_mapping
from trieline.data.lines import Source, find_file
from trieline.data.splits import split_name
from trieline.errors import DataError

__all__ = ["msrvtt_document", "msvd_document", "msvd_lists"]

_LISTS = {"train": "train_list.txt", "dev": "val_list.txt", "test": "test_list.txt"}


class _Video(msgspec.Struct):
    video_id: str
    split: str = "train"


class _Sentence(msgspec.Struct):
    video_id: str
    caption: str


class _Document(msgspec.Struct):
    videos: list[_Video]
    sentences: list[_Sentence]


def msrvtt_document(path: Path, splits: Mapping[str, Path] | None = None) -> Captions:
    """A document of MSR-VTT. ``splits``: lists of clips, one for each split, in place of its own;
    clips that are on none are left out.
    """

    def read() -> Iterator[tuple[int, Captioned]]:
        document = read_document(path, _Document)
        ids = [video.video_id for video in document.videos]
        said = group_captions(
            path, "video_id", ids, ((own.video_id, own.caption) for own in document.sentences)
        )
        own = {video.video_id: split_name(video.split) for video in document.videos}
        split_of = own if splits is None else _listed(splits, said, path)
        for number, video in enumerate(document.videos, 1):
            if split := split_of.get(video.video_id):
                yield number, Captioned(video.video_id, said[video.video_id], split)

    return Captions(path.stem, "video", Source(path, "video"), read)


def msvd_document(path: Path, splits: Mapping[str, Path] | None = None) -> Captions:
    """A document of MSVD; lists of its clips stand beside it or are given, else all is train."""
    files = msvd_lists(path.parent) if splits is None else dict(splits)

    def read() -> Iterator[tuple[int, Captioned]]:
        document = read_mapping(path, list[str])
        split_of = _listed(files, document, path) if files else dict.fromkeys(document, "train")
        for number, (clip, captions) in enumerate(document.items(), 1):
            if split := split_of.get(clip):
                yield number, Captioned(clip, tuple(captions), split)

    return Captions(path.stem, "video", Source(path, "video"), read)


def msvd_lists(folder: Path) -> dict[str, Path]:
    """The lists of clips in a folder, by split."""
    found = {split: find_file(folder, name) for split, name in _LISTS.items()}
    return {split: path for split, path in found.items() if path is not None}


def _listed(
    files: Mapping[str, Path], known: Mapping[str, object], captions: Path
) -> dict[str, str]:
    """Clip -> split; every clip of a list must have captions."""
    found = read_lists(files)
    if unknown := next((clip for clip in found if clip not in known), None):
        raise DataError(
            f"{captions} has no captions of {unknown!r}, which {files[found[unknown]]} lists. "
            "Use lists that belong to it."
        )
    return found
