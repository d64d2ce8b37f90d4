"""Pools of M-BEIR, right and wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from trieline.data import open_dataset
from trieline.data.dataset import Dataset
from trieline.data.mbeir import MbeirPool, is_mbeir, read_mbeir_judgements, read_prompts
from trieline.errors import DataError, FormatError, SettingsError
from trieline.types import Item, Qrel, Query

POOL = [
    {"did": "9:1", "txt": None, "img_path": "img/a.jpg", "modality": "image", "src_content": None},
    {"did": "9:2", "txt": "a dog", "img_path": None, "modality": "text", "src_content": "page 7"},
    {"did": "9:3", "txt": "a red one", "img_path": "img/b.jpg", "modality": "image,text"},
]
ASKED = [
    {
        "qid": "9:10",
        "query_txt": " dog on grass ",
        "query_img_path": None,
        "query_modality": "text",
        "query_src_content": None,
        "pos_cand_list": ["9:1"],
        "neg_cand_list": [],
        "task_id": 0,
    },
    {
        "qid": "9:11",
        "query_txt": "the same in red",
        "query_img_path": "img/q.jpg",
        "query_modality": "image,text",
        "pos_cand_list": ["9:3", "9:99"],
        "neg_cand_list": ["9:1"],
        "task_id": 8,
    },
    {
        "qid": "9:12",
        "query_img_path": "img/r.jpg",
        "query_modality": "image",
        "pos_cand_list": ["9:2"],
        "task_id": 3,
    },
]
QRELS = "9:10 0 9:1 1 0\n9:11 0 9:3 2 8\n9:11 0 9:99 1 8\n9:12 0 9:2 1 3\n"
PROMPTS = (
    "query_modality\tcand_modality\tdataset_name\tdataset_id\tprompt_1\tprompt_2\n"
    "text\timage\tcoco\t9\tFind a picture.\tShow it.\n"
    "image,text\timage,text\tcoco\t9\tFind such a page.\t\n"
    "image\ttext\tcoco\t9\tFind its caption.\n"
)


@pytest.fixture
def folder(put, tmp_path: Path) -> Path:
    put("mb/cand_pool/local/mbeir_toy_cand_pool.jsonl", POOL)
    put("mb/query/test/mbeir_toy_test.jsonl", ASKED)
    put("mb/qrels/test/mbeir_toy_test_qrels.txt", QRELS)
    put("mb/query/val/mbeir_toy_val.jsonl.gz", ASKED[:1])
    put("mb/query/train/mbeir_toy_train.jsonl", ASKED)
    put("mb/query/train/mbeir_toys_train.jsonl", [])
    return tmp_path / "mb"


def pool(folder: Path, **settings) -> MbeirPool:
    return MbeirPool(folder / "cand_pool/local/mbeir_toy_cand_pool.jsonl", **settings)


def test_items_of_every_modality(folder: Path):
    assert list(pool(folder).items()) == [
        Item("9:1", image=str(folder / "img/a.jpg"), modality="image"),
        Item("9:2", text="a dog", metadata={"src_content": "page 7"}),
        Item("9:3", text="a red one", image=str(folder / "img/b.jpg"), modality="image,text"),
    ]


def test_queries_keep_task_and_negatives(folder: Path):
    dataset = pool(folder)
    assert isinstance(dataset, Dataset)
    assert dataset.name == "mbeir_toy"
    assert list(dataset.queries("test")) == [
        Query("9:10", "dog on grass", metadata={"task_id": 0}),
        Query(
            "9:11",
            "the same in red",
            image=str(folder / "img/q.jpg"),
            modality="image,text",
            metadata={"task_id": 8, "negatives": ["9:1"]},
        ),
        Query("9:12", image=str(folder / "img/r.jpg"), modality="image", metadata={"task_id": 3}),
    ]


def test_five_columns_judge(folder: Path):
    assert list(pool(folder).qrels("test")) == [
        Qrel("9:10", "9:1", 1),
        Qrel("9:11", "9:3", 2),
        Qrel("9:11", "9:99", 1),  # not in the pool: let through
        Qrel("9:12", "9:2", 1),
    ]


def test_positives_judge_where_there_are_no_qrels(folder: Path):
    dataset = pool(folder)
    assert dataset.splits() == ("train", "dev", "test")
    assert list(dataset.qrels("dev")) == [Qrel("9:10", "9:1", 1)]
    assert [qrel.item_id for qrel in dataset.qrels("train")] == ["9:1", "9:3", "9:99", "9:2"]


def test_only_one_task(folder: Path):
    dataset = pool(folder, task=8)
    for split in ("train", "test"):
        assert [query.id for query in dataset.queries(split)] == ["9:11"]
        assert {qrel.query_id for qrel in dataset.qrels(split)} == {"9:11"}
    assert list(dataset.queries("dev")) == []


def test_a_pool_of_a_task_and_a_split_finds_its_own(folder: Path, put):
    path = put("mb/cand_pool/local/mbeir_toy_task3_test_cand_pool.jsonl", POOL)
    dataset = open_dataset(path)
    assert isinstance(dataset, MbeirPool)
    assert dataset.splits() == ("test",)
    assert [query.id for query in dataset.queries("test")] == ["9:12"]
    put("mb/query/test/mbeir_toy_task3_test.jsonl", [{**ASKED[2], "qid": "9:77"}])
    put("mb/qrels/test/mbeir_toy_task3_test_qrels.txt", "9:77 0 9:2 1 3\n")
    assert [query.id for query in open_dataset(path).queries("test")] == ["9:77"]


def test_a_pool_alone_has_items_only(put, tmp_path: Path):
    path = put("mbeir_lone_task0_val_cand_pool.jsonl.gz", POOL)
    assert is_mbeir(path)
    dataset = open_dataset(path)
    assert next(dataset.items()).image == str(tmp_path / "img/a.jpg")
    assert dataset.splits() == ()
    with pytest.raises(DataError, match="items only"):
        list(dataset.queries("test"))


def test_files_may_be_named(folder: Path, put):
    path = put("other.jsonl", POOL)
    asked = put("asked.jsonl", ASKED)
    dataset = MbeirPool(path, queries={"test": asked}, root="/pictures")
    assert next(dataset.items()).image == "/pictures/img/a.jpg"
    assert len(list(dataset.queries("test"))) == 3
    with pytest.raises(SettingsError, match="split 'dev' has qrels but no queries"):
        MbeirPool(path, queries={}, qrels={"dev": asked})


def test_instructions_go_before_the_text(folder: Path, put):
    prompts = read_prompts(put("mb/instructions/query_instructions.tsv", PROMPTS))
    texts = [query.text for query in pool(folder, prompts=prompts).queries("test")]
    assert texts == [
        "Find a picture. dog on grass",
        "Find such a page. the same in red",
        "Find its caption.",
    ]
    second = pool(folder, prompts=prompts, prompt=2, task=0)
    assert [query.text for query in second.queries("test")] == ["Show it. dog on grass"]
    with pytest.raises(FormatError, match=r"line 2: .*2 instructions, got 1 for set 9, image,text"):
        list(pool(folder, prompts=prompts, prompt=2).queries("test"))
    with pytest.raises(SettingsError, match="counted from 1"):
        pool(folder, prompt=0)
    with pytest.raises(FormatError, match="line 2: .*at least one prompt"):
        read_prompts(put("bad.tsv", "a\tb\ntext\timage\tcoco\t9\n"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"did": 3, "modality": "text"}, r"line 2: .*Expected `str`, got `int` - at `\$.did`"),
        ({"modality": "text"}, r"line 2: expected an object with did, .*required field `did`"),
        ({"did": "a", "modality": "sound"}, r"line 2: .*Invalid enum value 'sound'"),
        ({"did": "a", "modality": "image"}, r"line 2: expected image in .*'image', got none"),
        ({"did": "a", "modality": "image,text", "img_path": "x"}, "line 2: expected text in"),
        ({"did": "9:1", "modality": "text", "txt": "x"}, "line 2: .*'9:1' again, first on line 1"),
    ],
)
def test_a_wrong_candidate(put, line: dict[str, object], said: str):
    path = put("mbeir_x_cand_pool.jsonl", [POOL[0], line])
    with pytest.raises(FormatError, match=said):
        list(open_dataset(path).items())


def test_wrong_queries_and_judgements(folder: Path, put):
    put("mb/query/test/mbeir_toy_test.jsonl", [ASKED[0], {**ASKED[1], "query_txt": None}])
    with pytest.raises(FormatError, match=r"_test\.jsonl line 2: expected text in"):
        list(pool(folder).queries("test"))
    put("mb/query/test/mbeir_toy_test.jsonl", ASKED[:1])
    with pytest.raises(FormatError, match=r"_qrels\.txt line 2: .*the unknown '9:11'"):
        list(pool(folder).qrels("test"))
    four = put("four.txt", "9:10 0 9:1 1\n")
    with pytest.raises(FormatError, match="line 1: expected 'qid 0 did relevance task_id', got 4"):
        list(read_mbeir_judgements(four))
    with pytest.raises(FormatError, match=r"line 1: .*4th and 5th column\), got '1 zero'"):
        list(read_mbeir_judgements(put("task.txt", "9:10 0 9:1 1 zero\n")))


def test_empty_candidates_pass_when_asked_to(put):
    path = put("mbeir_x_cand_pool.jsonl", [{"did": "a", "modality": "text", "txt": ""}])
    assert len(list(MbeirPool(path, keep_empty=True).items())) == 1
