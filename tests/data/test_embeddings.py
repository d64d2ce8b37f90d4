"""Precomputed embeddings from .npy, safetensors and Parquet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file, save_file

from trieline.data import embeddings, open_dataset, open_embeddings, with_embeddings
from trieline.data.embeddings import Embeddings
from trieline.data.vectors import map_safetensors
from trieline.errors import DataError, DimensionError, FormatError

IDS = ["a", "日本", "c d"]
VECTORS = np.arange(12, dtype=np.float32).reshape(3, 4) / 8


def save_npy(folder: Path, vectors: np.ndarray, ids: list[str]) -> Path:
    np.save(folder / "v.npy", vectors)
    (folder / "v.ids.txt").write_text("".join(f"{id_}\n" for id_ in ids), encoding="utf-8")
    return folder / "v.npy"


def save_safetensors(folder: Path, vectors: np.ndarray, ids: list[str]) -> Path:
    save_file({"items": np.ascontiguousarray(vectors)}, folder / "v.safetensors")
    (folder / "v.ids.txt").write_text("".join(f"{id_}\n" for id_ in ids), encoding="utf-8")
    return folder / "v.safetensors"


def save_parquet(folder: Path, vectors: np.ndarray, ids: list[str]) -> Path:
    rows = vectors.tolist()
    kind = pa.list_(pa.from_numpy_dtype(vectors.dtype))
    # A table cannot have columns of two lengths: here a wrong count cannot happen.
    pq.write_table(pa.table({"id": ids, "embedding": pa.array(rows, kind)}), folder / "v.parquet")
    return folder / "v.parquet"


SAVERS = [save_npy, save_safetensors, save_parquet]
Save = Callable[[Path, np.ndarray, list[str]], Path]


@pytest.mark.parametrize("save", SAVERS)
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_vectors_are_found_by_id(tmp_path: Path, save: Save, kind: type):
    found = open_embeddings(save(tmp_path, VECTORS.astype(kind), IDS), width=4)
    assert (len(found), found.width, list(found)) == (3, 4, IDS)
    assert "日本" in found and "x" not in found
    rows = found.rows(["c d", "a", "c d"])
    assert rows.dtype == np.float32 and np.array_equal(rows, VECTORS[[2, 0, 2]])
    assert np.array_equal(found["日本"], VECTORS[1])
    assert found.rows([]).shape == (0, 4)


@pytest.mark.parametrize("save", [save_npy, save_safetensors])
def test_vectors_stay_on_disk(tmp_path: Path, save: Save):
    assert isinstance(open_embeddings(save(tmp_path, VECTORS, IDS)).vectors, np.memmap)


@pytest.mark.parametrize("save", SAVERS)
def test_duplicate_ids(tmp_path: Path, save: Save):
    with pytest.raises(DataError, match="id 'a' stands twice, in rows 1 and 3"):
        open_embeddings(save(tmp_path, VECTORS, ["a", "b", "a"]))


@pytest.mark.parametrize("save", SAVERS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_first_id_with_a_bad_value_is_named(
    tmp_path: Path, save: Save, bad: float, monkeypatch
):
    monkeypatch.setattr(embeddings, "_BLOCK", 8)  # two rows at a time
    vectors = np.ones((7, 4), dtype=np.float32)
    vectors[4, 2] = vectors[6, 0] = bad
    with pytest.raises(DimensionError, match=r"the embedding of 'e' \(row 5\) has NaN or infinite"):
        open_embeddings(save(tmp_path, vectors, list("abcdefg")))


def test_what_float32_cannot_hold_counts_as_infinite(tmp_path: Path):
    with pytest.raises(DimensionError, match="'b'"):
        open_embeddings(save_npy(tmp_path, np.array([[1.0], [1e300]]), ["a", "b"]))


@pytest.mark.parametrize("save", [save_npy, save_safetensors])
@pytest.mark.parametrize("ids", [["a", "b"], ["a", "b", "c", "d"]])
def test_counts_must_agree(tmp_path: Path, save: Save, ids: list[str]):
    with pytest.raises(DataError, match=f"3 vectors but {len(ids)} ids"):
        open_embeddings(save(tmp_path, VECTORS, ids))


@pytest.mark.parametrize("save", SAVERS)
def test_the_width_may_be_demanded(tmp_path: Path, save: Save):
    with pytest.raises(DimensionError, match="the embeddings have 4 values each, expected 384"):
        open_embeddings(save(tmp_path, VECTORS, IDS), width=384)


def test_unknown_ids_are_counted(tmp_path: Path):
    found = open_embeddings(save_npy(tmp_path, VECTORS, IDS))
    with pytest.raises(DataError, match=r"no embedding of 'x' \(2 of 3 ids asked for"):
        found.rows(["x", "a", "y"])


@pytest.mark.parametrize(
    "array", [np.ones(3), np.ones((3, 1, 2)), np.ones((3, 2), dtype=int), np.ones((3, 0))]
)
def test_only_tables_of_floats(tmp_path: Path, array: np.ndarray):
    with pytest.raises(DimensionError, match="expected a table of floating-point numbers"):
        open_embeddings(save_npy(tmp_path, array, IDS))


def test_ids_by_hand_and_by_neighbour(put, tmp_path: Path):
    np.save(tmp_path / "v.npy", VECTORS)
    with pytest.raises(FormatError, match=r"its ids in v.ids.txt, v.txt, ids.txt beside it"):
        open_embeddings(tmp_path / "v.npy")
    put("ids.txt.gz", "x\ny\nz\n")
    assert list(open_embeddings(tmp_path / "v.npy")) == ["x", "y", "z"]
    put("v.txt", b"\xef\xbb\xbfa\r\nb\r\nc\r\n\r\n\r\n")
    assert list(open_embeddings(tmp_path / "v.npy")) == ["a", "b", "c"]
    put("other.txt", "1\n2\n3")
    assert list(open_embeddings(tmp_path / "v.npy", tmp_path / "other.txt")) == ["1", "2", "3"]


def test_an_empty_line_among_the_ids_is_refused(put, tmp_path: Path):
    np.save(tmp_path / "v.npy", VECTORS)
    put("ids.txt", "a\n\nb\n")
    with pytest.raises(FormatError, match=r"ids.txt line 2: expected an id on every line"):
        open_embeddings(tmp_path / "v.npy")


def test_several_tensors_need_a_name(tmp_path: Path):
    path = tmp_path / "v.safetensors"
    save_file({"items": VECTORS, "queries": VECTORS[:2] + 1}, path)
    (tmp_path / "ids.txt").write_text("a\nb\n")
    with pytest.raises(FormatError, match="expected one tensor, got the tensors items, queries"):
        open_embeddings(path)
    with pytest.raises(FormatError, match="expected a tensor 'x'"):
        open_embeddings(path, tensor="x")
    assert open_embeddings(path, tensor="queries")["b"].tolist() == (VECTORS[1] + 1).tolist()


def test_the_map_is_what_the_library_loads(tmp_path: Path):
    rng = np.random.default_rng(0)
    tensors = {
        "one": rng.normal(size=(5, 3)).astype(np.float32),
        "two": rng.normal(size=(2, 7)),
        "three": rng.normal(size=(9, 2)).astype(np.float16),
        "none": np.zeros((0, 4), dtype=np.float32),
    }
    save_file(tensors, tmp_path / "v.safetensors", metadata={"from": "a test"})
    for name, tensor in load_file(tmp_path / "v.safetensors").items():
        mapped = map_safetensors(tmp_path / "v.safetensors", name)
        assert mapped.dtype == tensor.dtype and np.array_equal(mapped, tensor)


def test_tensors_that_are_no_floats(tmp_path: Path):
    save_file({"codes": np.ones((3, 4), dtype=np.int64)}, tmp_path / "v.safetensors")
    with pytest.raises(FormatError, match="numbers of type F16, F32, F64, got I64"):
        open_embeddings(tmp_path / "v.safetensors")


def test_parquet_columns_may_be_named(tmp_path: Path):
    path = tmp_path / "v.parquet"
    pq.write_table(pa.table({"asin": ["a"], "mini": [[1.0, 2.0]], "text": ["x"]}), path)
    with pytest.raises(FormatError, match="expected an id column"):
        open_embeddings(path)
    with pytest.raises(FormatError, match="a column of embeddings, got the columns asin, mini"):
        open_embeddings(path, id_column="asin")
    found = open_embeddings(path, id_column="asin", column="mini")
    assert found["a"].tolist() == [1.0, 2.0]
    with pytest.raises(FormatError, match=r"a list of floating-point numbers, got 'x' in row 1"):
        open_embeddings(path, id_column="asin", column="text")


def test_parquet_rows_must_be_whole(tmp_path: Path):
    path = tmp_path / "v.parquet"
    pq.write_table(pa.table({"id": ["a", "b"], "embedding": [[1.0, 2.0], [1.0]]}), path)
    with pytest.raises(DimensionError, match="row 2: the embedding of 'b' has 1 values"):
        open_embeddings(path)
    pq.write_table(pa.table({"id": ["a", "b"], "embedding": [[1.0, 2.0], None]}), path)
    with pytest.raises(FormatError, match="got None in row 2"):
        open_embeddings(path)


def test_damaged_and_foreign_files(put, tmp_path: Path):
    put("ids.txt", "a\n")
    with pytest.raises(FormatError, match=r"an \.npy file with an array of numbers"):
        open_embeddings(put("a.npy", b"nothing of the kind"))
    with pytest.raises(FormatError, match=r"an \.npy file with an array of numbers"):
        open_embeddings(put("b.npy", b""))
    np.save(tmp_path / "c.npy", VECTORS)
    cut = put("c.npy", (tmp_path / "c.npy").read_bytes()[:-8])
    with pytest.raises(FormatError, match=r"an \.npy file with an array of numbers"):
        open_embeddings(cut)
    np.save(tmp_path / "d.npy", np.array([{"a": 1}]), allow_pickle=True)
    with pytest.raises(FormatError, match=r"an \.npy file with an array of numbers"):
        open_embeddings(tmp_path / "d.npy")
    np.savez(tmp_path / "e.npz", VECTORS)
    with pytest.raises(FormatError, match=r"expected one array, got an \.npz archive"):
        open_embeddings((tmp_path / "e.npz").rename(tmp_path / "e.npy"))
    save_file({"v": VECTORS}, tmp_path / "f.safetensors")
    cut = put("f.safetensors", (tmp_path / "f.safetensors").read_bytes()[:-8])
    with pytest.raises(FormatError, match="expected a safetensors file, got a damaged one"):
        open_embeddings(cut)
    for name in ("none.npy", "none.safetensors", "none.parquet"):
        with pytest.raises(DataError, match="no file at"):
            open_embeddings(tmp_path / name)
    with pytest.raises(DataError, match=r"use \.npy, \.safetensors or \.parquet"):
        open_embeddings(tmp_path / "a.pkl")


# --- a dataset with vectors


@pytest.fixture
def folder(put, tmp_path: Path) -> Path:
    put("corpus.jsonl", [{"_id": "a", "text": "x"}, {"_id": "b", "text": ""}])
    put("queries.jsonl", [{"_id": "q", "text": "?"}])
    put("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq\ta\t1\n")
    return tmp_path


def test_items_and_queries_get_their_vectors(folder: Path):
    items = Embeddings(["b", "a"], VECTORS[:2], "items")
    queries = Embeddings(["q"], VECTORS[2:], "queries")
    dataset = with_embeddings(open_dataset(folder, keep_empty=True), items, queries)
    assert dataset.name == folder.name and dataset.splits() == ("test",)
    assert [item.embedding.tolist() for item in dataset.items()] == VECTORS[[1, 0]].tolist()
    assert [query.embedding.tolist() for query in dataset.queries("test")] == [VECTORS[2].tolist()]
    assert len(list(dataset.qrels("test"))) == 1
    bare = with_embeddings(open_dataset(folder, keep_empty=True), items)
    assert [query.embedding for query in bare.queries("test")] == [None]


def test_every_item_needs_a_vector(folder: Path):
    dataset = with_embeddings(
        open_dataset(folder, keep_empty=True), Embeddings(["a"], VECTORS[:1], "items")
    )
    with pytest.raises(DataError, match="items has no embedding of 'b'"):
        list(dataset.items())


def test_items_and_queries_need_one_width(folder: Path):
    items, queries = (Embeddings(["x"], np.ones((1, n)), f"{n}") for n in (2, 3))
    with pytest.raises(DimensionError, match="2 has 2 values an item, 3 3 a query"):
        with_embeddings(open_dataset(folder, keep_empty=True), items, queries)
