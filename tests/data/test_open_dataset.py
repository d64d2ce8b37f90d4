"""Which reader opens what, and what is said when none does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import trieline.data
from trieline.data import open_dataset
from trieline.data.beir import BeirFolder
from trieline.data.captioned import CaptionedDataset
from trieline.data.files import TableFiles
from trieline.data.sequences import SequenceFolder
from trieline.errors import DataError


def test_folders_and_files_find_their_reader(put, tmp_path: Path):
    put("beir/corpus.jsonl.gz", [{"_id": "a", "text": "x"}])
    put("shop/items.jsonl", [{"_id": "a", "text": "x"}])
    put("shop/sequences.txt", "u a a a\n")
    table = put("Items.TSV", "a\tx\n")
    assert isinstance(open_dataset(tmp_path / "beir"), BeirFolder)
    assert isinstance(open_dataset(str(tmp_path / "shop")), SequenceFolder)
    assert isinstance(open_dataset(table), TableFiles)
    for source in (tmp_path / "beir", tmp_path / "shop", table):
        assert [item.id for item in open_dataset(source).items()] == ["a"]


def test_a_table_and_a_known_folder_go_before_captions(put, tmp_path: Path):
    put("both/corpus.jsonl", [{"_id": "a", "text": "x"}])
    put("both/captions.txt", "image,caption\na.jpg,x\n")
    assert isinstance(open_dataset(tmp_path / "both"), BeirFolder)
    table = put("captions.jsonl", [{"_id": "a", "text": "x"}])
    assert isinstance(open_dataset(table), TableFiles), "as it always was; its folder is captions"
    assert isinstance(open_dataset(tmp_path), CaptionedDataset)


def test_python_docs_is_a_name():
    from trieline.data.pydocs import PythonDocs

    assert isinstance(open_dataset("python-docs"), PythonDocs)


def test_keep_empty_is_passed_on(put, tmp_path: Path):
    put("beir/corpus.jsonl", [{"_id": "a", "text": ""}])
    table = put("items.jsonl", [{"_id": "a", "text": ""}])
    for source in (tmp_path / "beir", table):
        with pytest.raises(DataError, match=r"1 of 1 items are empty"):
            list(open_dataset(source).items())
        assert len(list(open_dataset(source, keep_empty=True).items())) == 1


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("none", "there is no such file or folder"),
        ("a.csv", "a file with the ending '.csv' is not known"),
        ("full", "the folder holds f0, f1, f2, f3, f4, f5, f6, f7 and 2 more"),
        ("empty", "the folder is empty"),
    ],
)
def test_what_was_found_and_what_is_accepted(put, tmp_path: Path, source: str, found: str):
    put("a.csv", "a,b\n")
    for number in range(10):
        put(f"full/f{number}", "")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError) as caught:
        open_dataset(tmp_path / source)
    message = str(caught.value)
    assert found in message
    accepted_ones = (
        "BEIR",
        "sequences.txt",
        ".jsonl",
        ".tsv",
        ".parquet",
        "COCO",
        "M-BEIR",
        "irds:",
    )
    for accepted in accepted_ones:
        assert accepted in message


def test_the_room_opens_without_heavy_imports():
    code = (
        "import sys, trieline.data, trieline.data.files, trieline.data.irds; "
        "heavy = {'torch', 'transformers', 'pyarrow', 'safetensors', 'ir_datasets', 'ir_measures'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(trieline.data.__file__).parents[2],
    )
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there():
    for name in trieline.data.__all__:
        assert hasattr(trieline.data, name)
