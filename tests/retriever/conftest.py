from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from targets import Targets
from workshop import dataset, save_words, small_recipe

from trieline.retriever import Retriever


@pytest.fixture(scope="session")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A static model that knows the words of the small world."""
    return save_words(tmp_path_factory.mktemp("words"))


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, words: Path) -> Path:
    """One index of the small world, built once. Nobody writes to it."""
    path = tmp_path_factory.mktemp("built") / "tools.tl"
    Retriever.build(dataset(), small_recipe(words), path=path).close()
    return path


@pytest.fixture
def retriever(built: Path, tmp_path: Path) -> Iterator[Retriever]:
    """A copy of that index, opened, to do with as one likes."""
    path = tmp_path / "copy.tl"
    shutil.copytree(built, path)
    with Retriever.load(path) as opened:
        yield opened


@pytest.fixture
def targets(built: Path, tmp_path: Path) -> Targets:
    """A place where nothing is, and one where an index is."""
    shutil.copytree(built, tmp_path / "old.tl")
    return Targets(tmp_path / "fresh.tl", tmp_path / "old.tl")
