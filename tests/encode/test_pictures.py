"""Pictures from files and from zip files."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from trieline.encode.pictures import open_picture, picture_bytes, picture_key
from trieline.errors import DataError, MissingExtra


def save(path: Path, shape: tuple[int, ...], **settings: object) -> np.ndarray:
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    Image.fromarray(pixels).save(path, **settings)
    return pixels


def test_rgb_whatever_it_was(tmp_path: Path) -> None:
    colour = save(tmp_path / "a.png", (5, 4, 3))
    assert np.array_equal(np.asarray(open_picture(str(tmp_path / "a.png"))), colour)
    grey = save(tmp_path / "b.png", (5, 4))
    assert np.array_equal(np.asarray(open_picture(str(tmp_path / "b.png")))[..., 1], grey)
    save(tmp_path / "c.png", (5, 4, 4))  # with transparency
    assert open_picture(str(tmp_path / "c.png")).mode == "RGB"


def test_lying_pictures_are_put_upright(tmp_path: Path) -> None:
    from PIL import Image

    note = Image.Exif()
    note[0x0112] = 6  # lies on its left side
    pixels = save(tmp_path / "a.png", (2, 3, 3), exif=note)
    upright = np.asarray(open_picture(str(tmp_path / "a.png")))
    assert np.array_equal(upright, np.rot90(pixels, -1))


def test_members_of_a_zip_file(tmp_path: Path) -> None:
    save(tmp_path / "a.png", (5, 4, 3))
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as packed:
        packed.write(tmp_path / "a.png", "inner/a.png")
    inside = str(tmp_path / "all.zip" / "inner" / "a.png")
    assert picture_bytes(inside) == (tmp_path / "a.png").read_bytes()
    assert picture_key(inside) == picture_key(str(tmp_path / "a.png"))
    save(tmp_path / "a.png", (3, 9, 3))
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as packed:
        packed.write(tmp_path / "a.png", "inner/a.png")
    os.utime(tmp_path / "all.zip", ns=(5, 5))
    assert open_picture(inside).size == (9, 3), "a file that was written anew is read anew"
    with pytest.raises(DataError, match="all.zip has no member 'b.png'"):
        open_picture(str(tmp_path / "all.zip" / "b.png"))
    with pytest.raises(DataError, match="a.png is not a zip file, so there is no"):
        open_picture(str(tmp_path / "a.png" / "b.png"))


def test_without_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtra, match=r"need pillow.*pip install 'trieline\[image\]'"):
        open_picture(str(tmp_path / "a.png"))
