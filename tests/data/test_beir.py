"""BEIR folders, right and wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from trieline.data.beir import BeirFolder, is_beir, read_judgements
from trieline.data.dataset import Dataset
from trieline.errors import DataError, DimensionError, FormatError
from trieline.types import Item, Qrel, Query

HEADER = "query-id\tcorpus-id\tscore\n"
CORPUS = [
    {"_id": "d1", "title": "One", "text": "first"},
    {"_id": "d2", "title": "", "text": "second", "metadata": {"url": "u", "year": 1}, "year": 2},
    {"_id": "日本/3", "title": "三", "text": ""},
]
QUERIES = [
    {"_id": "q1", "text": "who?", "metadata": {}},
    {"_id": "q2", "text": "what?", "metadata": {"url": "x"}},
    {"_id": "ü 3", "text": "où ?"},
]


@pytest.fixture(params=["", ".gz"])
def folder(put, tmp_path: Path, request) -> Path:
    end = request.param
    put(f"set/corpus.jsonl{end}", CORPUS)
    put(f"set/queries.jsonl{end}", QUERIES)
    put(f"set/qrels/test.tsv{end}", f"{HEADER}q2\td1\t2\nq2\t日本/3\t0\n")
    put(f"set/qrels/train.tsv{end}", f"{HEADER}ü 3\td2\t1\nq1\td1\t1\n")
    put(f"set/qrels/extra.tsv{end}", f"{HEADER}q1\td9\t-1\n")
    return tmp_path / "set"


def test_items(folder: Path):
    assert list(BeirFolder(folder).items()) == [
        Item("d1", text="first", title="One"),
        Item("d2", text="second", metadata={"url": "u", "year": 2}),
        Item("日本/3", title="三"),
    ]


def test_queries_are_those_judged_in_the_split_in_file_order(folder: Path):
    dataset = BeirFolder(folder)
    assert isinstance(dataset, Dataset)
    assert is_beir(folder)
    assert dataset.name == "set"
    assert dataset.splits() == ("train", "test", "extra")
    assert list(dataset.queries("train")) == [Query("q1", "who?"), Query("ü 3", "où ?")]
    assert list(dataset.queries("test")) == [Query("q2", "what?", metadata={"url": "x"})]


def test_qrels(folder: Path):
    dataset = BeirFolder(folder)
    assert list(dataset.qrels("test")) == [Qrel("q2", "d1", 2), Qrel("q2", "日本/3", 0)]
    assert list(dataset.qrels("extra")) == [Qrel("q1", "d9", -1)]  # an unknown item passes
    assert list(dataset.qrels("test")) == list(dataset.qrels("test"))


def test_every_call_reads_again(folder: Path):
    dataset = BeirFolder(folder)
    assert list(dataset.items()) == list(dataset.items())
    assert len(list(dataset.queries("train"))) == len(list(dataset.queries("train"))) == 2


def test_queries_and_qrels_may_stand_elsewhere(folder: Path, put):
    queries = put("de/queries.jsonl", [{"_id": "q1", "text": "wer?"}])
    put("de/test.tsv", f"{HEADER}q1\td1\t1\n")
    german = BeirFolder(folder, queries=queries, qrels=queries.parent)
    assert german.splits() == ("test",)
    assert list(german.queries("test")) == [Query("q1", "wer?")]
    assert len(list(german.items())) == 3


def test_a_folder_without_queries_has_items_only(put, tmp_path: Path):
    put("corpus.jsonl", CORPUS)
    dataset = BeirFolder(tmp_path)
    assert dataset.splits() == ()
    with pytest.raises(DataError, match="it has items only"):
        list(dataset.queries("test"))


def test_windows_files_read_the_same(put, tmp_path: Path):
    text = "\r\n\r\n".join(json.dumps(record, ensure_ascii=False) for record in CORPUS)
    put("corpus.jsonl", b"\xef\xbb\xbf" + text.encode())
    put("queries.jsonl", QUERIES)
    put("qrels/test.tsv", b"\xef\xbb\xbfquery-id\tcorpus-id\tscore\r\nq1\td1\t1\r\n\r\n")
    dataset = BeirFolder(tmp_path)
    assert [item.id for item in dataset.items()] == ["d1", "d2", "日本/3"]
    assert list(dataset.qrels("test")) == [Qrel("q1", "d1", 1)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"_id": "d2", "text": "x"', r"expected one JSON object per line, got .*truncated"),
        ("plain text", r"expected one JSON object per line"),
        ('["d2", "x"]', r"This is a JSON array"),
        ('"d2"', r"expected one JSON object per line"),
        ('{"text": "x"}', r"expected a non-empty string or a whole number in '_id', got nothing"),
        ('{"_id": "", "text": "x"}', r"in '_id', got str ''"),
        ('{"_id": 1.5, "text": "x"}', r"in '_id', got float 1.5"),
        ('{"_id": true, "text": "x"}', r"in '_id', got bool True"),
        ('{"_id": "d1", "text": "x"}', r"expected a new id, got 'd1' again, first on line 1"),
        ('{"_id": "d2", "text": ["x"]}', r"expected a string in 'text', got list"),
        ('{"_id": "d2", "text": "x", "title": 3}', r"expected a string in 'title', got int 3"),
        ('{"_id": "d2", "text": "x", "image": {}}', r"expected a string in 'image', got dict"),
        ('{"_id": "d2", "embedding": "1 2"}', r"expected a list of numbers in 'embedding'"),
        ('{"_id": "d2", "embedding": [[1], [2]]}', r"expected a list of numbers in 'embedding'"),
        ('{"_id": "d2", "embedding": []}', r"expected a list of numbers in 'embedding'"),
        ('{"_id": "d2", "embedding": [1, null]}', r"the embedding of 'd2' has NaN"),
        ('{"_id": "d2"}', r"got none in 'd2' \(1 of 2 items are empty\)"),
    ],
)
def test_bad_items_are_named_by_line(put, tmp_path: Path, line: str, message: str):
    put("corpus.jsonl", f'{{"_id": "d1", "text": "x"}}\n\n{line}\n')
    with pytest.raises(DataError, match=r"corpus\.jsonl line 3: .*" + message):
        list(BeirFolder(tmp_path).items())


def test_whole_numbers_are_ids(put, tmp_path: Path):
    put("corpus.jsonl", [{"_id": 17, "text": "x"}])
    assert next(BeirFolder(tmp_path).items()).id == "17"


def test_items_may_bring_embeddings_and_images(put, tmp_path: Path):
    records = [
        {"_id": "a", "embedding": [1, 2.5], "modality": "audio"},
        {"_id": "b", "image": "pictures/b.png", "text": "b"},
        {"_id": "c", "image": "https://example.org/c.png", "embedding": None, "image2": None},
    ]
    put("corpus.jsonl", records)
    a, b, c = BeirFolder(tmp_path).items()
    assert a.embedding is not None and a.embedding.dtype == np.float32
    assert a.embedding.tolist() == [1.0, 2.5] and a.modality == "audio"
    assert b.image == str(tmp_path / "pictures/b.png") and b.modality == "text"
    assert c.image == "https://example.org/c.png" and c.metadata == {"image2": None}


def test_an_infinite_embedding_is_refused(put, tmp_path: Path):
    put("corpus.jsonl", '{"_id": "a", "embedding": [1, 1e39]}\n')
    with pytest.raises(DimensionError, match="line 1: the embedding of 'a' has NaN or infinite"):
        list(BeirFolder(tmp_path).items())


def test_a_metadata_that_is_no_object_is_kept_as_it_is(put, tmp_path: Path):
    put("corpus.jsonl", [{"_id": "a", "text": "x", "metadata": "m"}])
    assert next(BeirFolder(tmp_path).items()).metadata == {"metadata": "m"}
    put("corpus.jsonl", [{"_id": "a", "text": "x", "metadata": None}])
    assert next(BeirFolder(tmp_path).items()).metadata is None


def test_keep_empty(put, tmp_path: Path):
    put("corpus.jsonl", [{"_id": "a", "text": None}, {"_id": "b", "text": "x"}])
    with pytest.raises(DataError, match="keep_empty=True"):
        list(BeirFolder(tmp_path).items())
    assert [item.id for item in BeirFolder(tmp_path, keep_empty=True).items()] == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q1\td1", "got 2 columns"),
        ("q1 d1 1", "got 1 column:"),
        ("q1\t0\td1\t1", "got 4 columns.*looks like TREC qrels"),
        ("q1\td1\thigh", "the score a whole number"),
        ("q1\td1\t0.5", "the score a whole number"),
        ("\td1\t1", "expected query-id<TAB>corpus-id<TAB>score"),
        ("q1\t\t1", "expected query-id<TAB>corpus-id<TAB>score"),
        ("q9\td1\t1", "expected a query of .*queries.jsonl, got the unknown 'q9' .1 unknown"),
    ],
)
@pytest.mark.parametrize("ask", ["queries", "qrels"])
def test_bad_judgements_are_named_by_line(put, tmp_path: Path, line: str, message: str, ask: str):
    put("corpus.jsonl", CORPUS)
    put("queries.jsonl", QUERIES)
    put("qrels/test.tsv", f"{HEADER}q1\td1\t1\n{line}\n")
    with pytest.raises(FormatError, match=r"test\.tsv line 3: .*" + message):
        list(getattr(BeirFolder(tmp_path), ask)("test"))


def test_judgements_without_a_header_lose_nothing(put):
    path = put("test.tsv", "q1\td1\t1\nq2\td2\t1.0\n")
    assert [qrel for _, qrel in read_judgements(path)] == [Qrel("q1", "d1", 1), Qrel("q2", "d2", 1)]


def test_duplicate_queries_are_refused(put, tmp_path: Path):
    put("corpus.jsonl", CORPUS)
    put("queries.jsonl", [*QUERIES, QUERIES[0]])
    put("qrels/test.tsv", f"{HEADER}q1\td1\t1\n")
    with pytest.raises(FormatError, match=r"queries\.jsonl line 4: .*'q1' again, first on line 1"):
        list(BeirFolder(tmp_path).queries("test"))


def test_missing_parts(put, tmp_path: Path):
    with pytest.raises(DataError, match=r"no corpus\.jsonl"):
        BeirFolder(tmp_path)
    put("corpus.jsonl", CORPUS)
    put("qrels/train.tsv", f"{HEADER}q1\td1\t1\n")
    with pytest.raises(DataError, match=r"has qrels but no queries\.jsonl"):
        list(BeirFolder(tmp_path).qrels("train"))
    with pytest.raises(DataError, match=r"no split 'dev'. It has: train. Cut one .*hold_out"):
        list(BeirFolder(tmp_path).queries("dev"))
