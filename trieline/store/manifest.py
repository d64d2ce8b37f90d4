"""What an index folder says of itself, and why a folder is refused.

Trap: other programs also keep a ``manifest.json``; ours is known by its ``kind``.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from trieline.errors import IndexFolderError
from trieline.store.disk import FileRecord, seal

__all__ = ["LEFTOVER", "REBUILD", "Manifest", "only_ours", "read_manifest"]

_KIND = "trieline index"
_FORMAT = 1
_BUILD = "Build an index with 'trieline build'."
REBUILD = "Restore the folder from a copy, or build it again with 'trieline build'."
LEFTOVER = re.compile(r"g\d{6}|tmp-[0-9a-f]{8}|\.manifest\.json\.[0-9a-f]{8}\.tmp")


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What an index folder says of itself."""

    kind: str = _KIND
    format: int = _FORMAT
    trieline: str  # the version that wrote it
    created: str
    generation: int
    recipe: dict[str, Any] = {}
    fingerprints: dict[str, str] = {}
    files: dict[str, FileRecord] = {}
    live: tuple[str, ...] = ()
    notes: dict[str, Any] = {}

    @property
    def folder(self) -> str:
        """The name of the generation's folder."""
        return f"g{self.generation:06d}"


def read_manifest(path: Path) -> Manifest:
    """The manifest of the index at ``path``, or an IndexFolderError that says what is wrong."""
    file = path / "manifest.json"
    try:
        tree = msgspec.json.decode(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise IndexFolderError(_why_none(path)) from None
    except OSError as error:
        raise IndexFolderError(f"cannot read {file}: {error.strerror}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(file, str(error)) from None
    if not isinstance(tree, dict) or tree.get("kind") != _KIND:
        raise IndexFolderError(
            f'{file} belongs to another program: it has no "kind": "{_KIND}". '
            "Give the path of an index made by 'trieline build'."
        )
    form = tree.get("format")
    if isinstance(form, int) and form > _FORMAT:
        raise IndexFolderError(
            f"{path} has format {form}, written by trieline {tree.get('trieline')}; this trieline "
            f"reads format {_FORMAT}. Upgrade it with: pip install -U trieline"
        )
    return _checked(tree, file)


def only_ours(path: Path) -> bool:
    """Whether a folder holds nothing but what a build that did not finish leaves behind."""
    names = [entry.name for entry in path.iterdir()]
    return all(name == "lock" or LEFTOVER.fullmatch(name) for name in names)


def _checked(tree: dict[str, Any], file: Path) -> Manifest:
    if tree.get("seal") != seal(tree):
        raise _damaged(file, "its seal does not fit its contents; was it edited?")
    try:
        manifest = msgspec.convert(tree, Manifest)
    except msgspec.ValidationError as error:
        raise _damaged(file, str(error)) from None
    for name in (*manifest.files, *manifest.live):
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise _damaged(file, f"it names a file outside the index, {name}")
    return manifest


def _damaged(file: Path, why: str) -> IndexFolderError:
    return IndexFolderError(
        f"{file} is damaged: {why}. Restore the folder from a copy, or delete it and build the "
        "index again with 'trieline build'."
    )


def _why_none(path: Path) -> str:
    if not path.exists():
        return f"no index at {path}: there is no such folder. {_BUILD}"
    if not path.is_dir():
        return f"no index at {path}: expected a folder, got a file. {_BUILD}"
    if not any(path.iterdir()):
        return f"no index at {path}: the folder is empty. {_BUILD}"
    if only_ours(path):
        return f"half-written index at {path}: its build did not finish. {_BUILD}"
    return f"{path} is not a trieline index: it has no manifest.json. {_BUILD}"
