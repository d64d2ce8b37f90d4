"""Item and query tables: JSON Lines, TSV, Parquet."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trieline.data import parquet
from trieline.data.files import TableFiles, read_items, read_queries
from trieline.errors import DataError, DimensionError, FormatError, MissingExtra, SettingsError
from trieline.types import Item, Qrel, Query


def save(path: Path, **columns) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


# --- JSON Lines


@pytest.mark.parametrize("end", ["", ".gz"])
def test_jsonl_columns_are_found_by_name(put, end: str):
    path = put(f"a.jsonl{end}", [{"ID": 1, "contents": "c", "Title": "t", "lang": "en"}])
    assert list(read_items(path)) == [Item("1", text="c", title="t", metadata={"lang": "en"})]


def test_jsonl_columns_may_be_chosen(put):
    path = put("a.jsonl", [{"asin": "B1", "id": 5, "description": "d", "text": "other"}])
    chosen = {"id": "asin", "text": "description"}
    assert list(read_items(path, chosen)) == [
        Item("B1", text="d", metadata={"id": 5, "text": "other"})
    ]


def test_a_title_that_comes_late_is_found(put):
    path = put("a.jsonl", [{"id": "a", "text": "x"}, {"id": "b", "name": "n"}])
    assert [item.title for item in read_items(path)] == ["", "n"]


def test_jsonl_that_is_one_array(put):
    path = put("a.jsonl", '[{"id": "a", "text": "x"}]')
    with pytest.raises(FormatError, match=r"line 1: .*JSON array; turn it into lines"):
        list(read_items(path))


def test_columns_that_are_not_there(put):
    path = put("a.jsonl", [{"key": "a", "text": "x"}])
    with pytest.raises(FormatError, match=r"expected an id column .* got the columns key, text"):
        list(read_items(path))
    with pytest.raises(FormatError, match=r"expected a column 'kex' for id, got the columns key"):
        list(read_items(path, {"id": "kex"}))
    with pytest.raises(SettingsError, match=r"unknown role 'body'. The roles are: id, text"):
        list(read_items(path, {"body": "text"}))
    bare = put("b.jsonl", [{"id": "a", "words": "x"}])
    with pytest.raises(FormatError, match=r"a column with content .*got the columns id, words"):
        list(read_items(bare))
    assert [item.id for item in read_items(bare, keep_empty=True)] == ["a"]


def test_jsonl_faults_are_named_by_line(put):
    path = put("a.jsonl", '{"id": "a", "text": "x"}\n\n{"id": "a", "text": "y"}\n')
    with pytest.raises(FormatError, match=r"a\.jsonl line 3: expected a new id"):
        list(read_items(path))
    wide = put("b.jsonl", [{"id": "a", "vector": [1, 2]}, {"id": "b", "vector": [1, 2, 3]}])
    with pytest.raises(DimensionError, match=r"line 2: .*'b' has 3 values, that of 'a' has 2"):
        list(read_items(wide))


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.tsv"])
def test_a_file_without_items(put, name: str):
    with pytest.raises(DataError, match="has no items"):
        list(read_items(put(name, "\n\n")))


# --- TSV


@pytest.mark.parametrize("end", ["", ".gz"])
def test_tsv_with_a_header(put, end: str):
    path = put(f"a.tsv{end}", 'id\ttext\tyear\r\na\t"quoted\t1999\r\n\r\nb\tü\t\r\n')
    assert list(read_items(path)) == [
        Item("a", text='"quoted', metadata={"year": "1999"}),
        Item("b", text="ü", metadata={"year": ""}),
    ]


def test_tsv_without_a_header(put):
    two = put("two.tsv", "\ufeff7\tseven\n8\teight\n")
    assert list(read_items(two)) == [Item("7", text="seven"), Item("8", text="eight")]
    three = put("three.tsv", "7\tT\tseven\n")
    assert list(read_items(three)) == [Item("7", text="seven", title="T")]
    four = put("four.tsv", "7\thttp\tT\tseven\n")
    with pytest.raises(FormatError, match=r"line 1: expected a header line, .*got 4 columns"):
        list(read_items(four))
    named = read_items(four, header=("id", "url", "title", "text"))
    assert list(named) == [Item("7", text="seven", title="T", metadata={"url": "http"})]


def test_a_chosen_column_makes_a_header(put):
    path = put("a.tsv", "asin\tdescription\nB1\td\n")
    assert list(read_items(path, {"id": "asin"})) == [Item("B1", text="d")]


def test_tsv_faults_are_named_by_line(put):
    with pytest.raises(FormatError, match=r"line 4: expected 2 columns \(id, text\).*got 3: "):
        list(read_items(put("a.tsv", "id\ttext\na\tx\n\nb\ty\tz\n")))
    with pytest.raises(FormatError, match="line 1: expected different column names"):
        list(read_items(put("b.tsv", "id\ttext\ttext\na\tx\ty\n")))
    with pytest.raises(FormatError, match="line 2: expected a non-empty string"):
        list(read_items(put("c.tsv", "id\ttext\n\tx\n")))
    with pytest.raises(FormatError, match="expected a table of texts, got a column 'embedding'"):
        list(read_items(put("d.tsv", "id\ttext\tembedding\na\tx\t1 2\n")))


# --- Parquet


def test_parquet(tmp_path: Path):
    path = save(
        tmp_path / "a.parquet",
        id=[1, 2],
        text=["x", None],
        title=["t", "u"],
        embedding=pa.array([[1, 2], [3, 4]], pa.list_(pa.float16(), 2)),
        day=[datetime.date(2020, 1, 2), None],
        tags=[["a", "b"], []],
        weights=[[0.5, 1.0], None],
        __index_level_0__=[7, 8],
    )
    first, second = read_items(path)
    assert first.embedding is not None and first.embedding.dtype == np.float32
    assert first.embedding.tolist() == [1.0, 2.0]
    assert first.metadata == {"day": "2020-01-02", "tags": ["a", "b"], "weights": [0.5, 1.0]}
    assert first[:3] == ("1", "x", "t")
    assert second.text == "" and second.metadata == {"day": None, "tags": [], "weights": None}


def test_parquet_spans_batches_and_row_groups(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(parquet, "_BATCH", 7)
    vectors = np.arange(200, dtype=np.float32).reshape(100, 2)
    table = pa.table({"id": [f"i{n}" for n in range(100)], "embedding": vectors.tolist()})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=30)
    items = list(read_items(tmp_path / "a.parquet"))
    assert [item.id for item in items] == [f"i{n}" for n in range(100)]
    assert np.array_equal([item.embedding for item in items], vectors)


def test_a_large_row_group_streams_in_little_memory(tmp_path: Path):
    vectors = np.random.default_rng(0).normal(size=(30_000 * 128)).astype(np.float32)  # 15 MB
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors), 128)
    path = save(tmp_path / "a.parquet", id=[str(n) for n in range(30_000)], embedding=column)
    del vectors, column
    before, peak = pa.total_allocated_bytes(), 0
    for _ in read_items(path):
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert 0 < peak < 6_000_000


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.list_(pa.float32(), 2)])
def test_vectors_of_keeps_rows_apart_from_nulls(kind: pa.DataType):
    column = pa.array([None, [1, 2], None, [3, 4], [5, 6], None], kind)
    for part in (column, column.slice(1), column.slice(2, 3), column.slice(0, 0)):
        rows = parquet.vectors_of(part)
        assert [None if row is None else row.tolist() for row in rows] == part.to_pylist()


def test_parquet_faults_are_named_by_row(tmp_path: Path):
    twice = save(tmp_path / "a.parquet", id=["a", "b", "a"], text=["x", "y", "z"])
    with pytest.raises(FormatError, match=r"'a' again, first on row 1 in row 3"):
        list(read_items(twice))
    empty = save(tmp_path / "b.parquet", id=["a", "b"], text=["x", None])
    with pytest.raises(FormatError, match=r"1 of 2 items are empty\) in row 2"):
        list(read_items(empty))
    nan = save(tmp_path / "c.parquet", id=["a"], embedding=[[1.0, float("nan")]])
    with pytest.raises(DimensionError, match=r"row 1: the embedding of 'a' has NaN"):
        list(read_items(nan))
    ragged = save(tmp_path / "d.parquet", id=["a", "b"], embedding=[[1.0], [1.0, 2.0]])
    with pytest.raises(DimensionError, match=r"row 2: the embedding of 'b' has 2 values"):
        list(read_items(ragged))
    none = save(tmp_path / "e.parquet", id=["a", None], text=["x", "y"])
    with pytest.raises(FormatError, match=r"got nothing in row 2"):
        list(read_items(none))


def test_damaged_parquet(put, tmp_path: Path):
    with pytest.raises(FormatError, match="expected a Parquet file"):
        list(read_items(put("a.parquet", "no parquet")))
    with pytest.raises(DataError, match="no file at"):
        list(read_items(tmp_path / "none.parquet"))
    numbers = np.random.default_rng(0).integers(0, 1 << 60, 5000).astype(str).tolist()
    path = save(tmp_path / "b.parquet", id=numbers, text=numbers)
    data = bytearray(path.read_bytes())
    data[1000:2000] = b"\xff" * 1000
    path.write_bytes(bytes(data))
    with pytest.raises(FormatError, match="expected readable Parquet data"):
        list(read_items(path))


def test_without_pyarrow(put, monkeypatch):
    def refuse(name: str):
        raise ImportError(name)

    monkeypatch.setattr(parquet, "import_module", refuse)
    with pytest.raises(MissingExtra, match=r"Parquet files need pyarrow. .*trieline\[parquet\]"):
        list(read_items(put("a.parquet", b"")))


# --- queries, datasets


def test_query_files(put, tmp_path: Path):
    lines = put("q.jsonl", [{"query_id": 1, "question": "why?", "source": "s"}])
    assert list(read_queries(lines)) == [Query("1", "why?", metadata={"source": "s"})]
    table = put("q.tsv", "12\twhy not?\n13\twho?\n")
    assert list(read_queries(table)) == [Query("12", "why not?"), Query("13", "who?")]
    path = save(tmp_path / "q.parquet", qid=["a"], history=[["i1", "i2"]])
    assert list(read_queries(path)) == [Query("a", history=("i1", "i2"))]
    bad = put("h.jsonl", [{"qid": "a", "text": "x", "history": "i1"}])
    with pytest.raises(FormatError, match="line 1: expected a list of item ids in 'history'"):
        list(read_queries(bad))
    again = put("r.tsv", "12\tx\n12\ty\n")
    with pytest.raises(FormatError, match="line 2: expected a new id"):
        list(read_queries(again))


def test_items_only(put):
    dataset = TableFiles(put("shop.items.jsonl", [{"id": "a", "text": "x"}]))
    assert dataset.name == "shop" and dataset.splits() == ()
    assert list(dataset.items()) == list(dataset.items()) == [Item("a", text="x")]
    with pytest.raises(DataError, match="no split 'test': it has items only"):
        list(dataset.queries("test"))


@pytest.mark.parametrize(
    "qrels", ["q1 0 a 1\nq1 0 b 0\n", "query-id\tcorpus-id\tscore\nq1\ta\t1\nq1\tb\t0\n"]
)
def test_items_queries_and_qrels_in_files_of_their_own(put, qrels: str):
    dataset = TableFiles(
        put("items.jsonl", [{"id": "a", "text": "x"}]),
        queries={"test": put("q.tsv", "q0\tnot judged\nq1\tasked\n")},
        qrels={"test": put("qrels.txt", qrels)},
    )
    assert dataset.splits() == ("test",)
    assert list(dataset.queries("test")) == [Query("q1", "asked")]
    assert list(dataset.qrels("test")) == [Qrel("q1", "a", 1), Qrel("q1", "b", 0)]


def test_judgements_of_unknown_queries(put):
    dataset = TableFiles(
        put("items.jsonl", [{"id": "a", "text": "x"}]),
        queries={"test": put("q.tsv", "q1\tasked\n")},
        qrels={"test": put("qrels.txt", "q1 0 a 1\n\nq2 0 a 1\n")},
    )
    for ask in (dataset.queries, dataset.qrels):
        with pytest.raises(FormatError, match=r"qrels\.txt line 3: .*got the unknown 'q2'"):
            list(ask("test"))


def test_a_split_needs_both_files(put):
    with pytest.raises(SettingsError, match="split 'dev' has only one of queries and qrels"):
        TableFiles("items.jsonl", queries={"test": "q", "dev": "q"}, qrels={"test": "r"})


def test_unknown_endings(tmp_path: Path):
    with pytest.raises(DataError, match=r"Expected a name in .jsonl, .jsonl.gz, .tsv"):
        list(read_items(tmp_path / "a.csv"))
