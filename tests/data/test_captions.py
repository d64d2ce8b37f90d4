"""Captioned pictures and clips: every format says the same, in both directions."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trieline.data import open_captions, open_dataset
from trieline.data.captioned import CaptionedDataset
from trieline.data.dataset import Dataset
from trieline.errors import DataError, DimensionError, FormatError, SettingsError
from trieline.types import Item, Qrel, Query

WORLD = {  # picture: (split, captions)
    "b.jpg": ("train", ["a dog, running", 'a "dog"']),
    "a.jpg": ("dev", ["two cats"]),
    "c.jpg": ("test", ["red car", "a car # in the street", "the car"]),
}
World = dict[str, tuple[str, list[str]]]


def write_token(folder: Path, world: World) -> Path:
    lines = [f"{p}#{n}\t{c}\n" for p, (_, said) in world.items() for n, c in enumerate(said)]
    (folder / "results_20130124.token").write_text("".join(lines), encoding="utf-8")
    return write_lists(folder, world, "Flickr_8k.{}Images.txt")


def write_csv(folder: Path, world: World) -> Path:
    text = io.StringIO()
    rows = [("image", "caption"), *((p, c) for p, (_, said) in world.items() for c in said)]
    csv.writer(text, lineterminator="\n").writerows(rows)
    (folder / "captions.txt").write_text(text.getvalue(), encoding="utf-8")
    return write_lists(folder, world, "{}.txt", ending=False)


def write_lists(folder: Path, world: World, name: str, ending: bool = True) -> Path:
    for split, word in (("train", "train"), ("dev", "val"), ("test", "test")):
        own = [p if ending else Path(p).stem for p, (s, _) in world.items() if s == split]
        (folder / name.format(word)).write_text("\n".join(own) + "\n", encoding="utf-8")
    return folder


def write_jsonl(folder: Path, world: World) -> Path:
    rows = [{"image": p, "split": s, "captions": c, "more": 1} for p, (s, c) in world.items()]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "captions.jsonl").write_text(text, encoding="utf-8")
    return folder


def write_coco(folder: Path, world: World) -> Path:
    (folder / "annotations").mkdir()
    for split, word in (("train", "train"), ("dev", "val"), ("test", "test")):
        own = {p: said for p, (s, said) in world.items() if s == split}
        ids = {picture: number for number, picture in enumerate(own, 100)}
        notes = [{"image_id": ids[p], "caption": c, "id": 1} for p in own for c in own[p]]
        notes.sort(key=lambda note: -note["image_id"])  # in no order of the pictures
        text = {
            "info": {},
            "images": [{"id": ids[p], "file_name": p, "height": 3} for p in own],
            "annotations": notes,
        }
        path = folder / "annotations" / f"captions_{word}2017.json"
        path.write_text(json.dumps(text), encoding="utf-8")
    return folder


def write_karpathy(folder: Path, world: World) -> Path:
    images = [
        {
            "filename": picture,
            "split": {"train": "restval", "dev": "val"}.get(split, split),
            "sentences": [{"raw": caption, "tokens": caption.split()} for caption in said],
        }
        for picture, (split, said) in world.items()
    ]
    text = json.dumps({"dataset": "toy", "images": images})
    (folder / "dataset_toy.json").write_text(text, encoding="utf-8")
    return folder


def write_msrvtt(folder: Path, world: World) -> Path:
    word = {"dev": "validate"}
    sentences = [{"video_id": p, "caption": c} for p, (_, said) in world.items() for c in said]
    videos = [{"video_id": p, "split": word.get(s, s)} for p, (s, _) in world.items()]
    text = json.dumps({"videos": videos, "sentences": sentences})
    (folder / "train_val_videodatainfo.json").write_text(text, encoding="utf-8")
    return folder


def write_msvd(folder: Path, world: World) -> Path:
    text = json.dumps({clip: said for clip, (_, said) in world.items()})
    (folder / "captions_msvd.json").write_text(text, encoding="utf-8")
    return write_lists(folder, world, "{}_list.txt")


PICTURES = (write_token, write_csv, write_jsonl, write_coco, write_karpathy)
CLIPS = (write_msrvtt, write_msvd)


@pytest.mark.parametrize("write", [*PICTURES, *CLIPS])
def test_captions_ask_for_pictures(write, tmp_path: Path):
    dataset = open_dataset(write(tmp_path, WORLD)) if write in PICTURES else None
    dataset = dataset or open_captions(write(tmp_path, WORLD), keep_empty=True)
    assert isinstance(dataset, CaptionedDataset)
    assert isinstance(dataset, Dataset)
    assert dataset.splits() == ("train", "dev", "test")
    medium = "image" if write in PICTURES else "video"
    assert {(i.id, i.text, i.modality, i.metadata["split"]) for i in dataset.items()} == {
        (picture, "", medium, split) for picture, (split, _) in WORLD.items()
    }
    if medium == "image":
        assert {item.image for item in dataset.items()} == {str(tmp_path / p) for p in WORLD}
    assert list(dataset.queries("train")) == [
        Query("b.jpg#0", "a dog, running"),
        Query("b.jpg#1", 'a "dog"'),
    ]
    assert list(dataset.qrels("test")) == [Qrel(f"c.jpg#{n}", "c.jpg", 1) for n in range(3)]


@pytest.mark.parametrize("write", [*PICTURES, *CLIPS])
def test_pictures_ask_for_captions(write, tmp_path: Path):
    medium = "image" if write in PICTURES else "video"
    dataset = open_captions(
        write(tmp_path, WORLD), direction=f"{medium}-to-text", corpus="test", keep_empty=True
    )
    assert list(dataset.items()) == [
        Item(f"c.jpg#{n}", text=text, metadata={"split": "test"})
        for n, text in enumerate(WORLD["c.jpg"][1])
    ]
    path = str(tmp_path / "a.jpg") if medium == "image" else None
    assert list(dataset.queries("dev")) == [Query("a.jpg", image=path, modality=medium)]
    assert list(dataset.qrels("dev")) == [Qrel("a.jpg", "a.jpg#0", 1)]


words = st.text("abc ,;\"'#\u00e9\u2028", min_size=1, max_size=12).filter(str.strip)
worlds = st.dictionaries(
    st.sampled_from([f"p{n}.jpg" for n in range(9)]),
    st.tuples(st.sampled_from(["train", "dev", "test"]), st.lists(words, min_size=1, max_size=4)),
    min_size=1,
)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(world=worlds)
def test_every_format_tells_the_same(world: World, tmp_path_factory: pytest.TempPathFactory):
    """The oracle is the dictionary itself."""
    for write in (*PICTURES, *CLIPS):
        folder = write(tmp_path_factory.mktemp("world"), world)
        dataset = open_captions(folder, keep_empty=True)
        assert sorted(item.id for item in dataset.items()) == sorted(world)
        asked = {q.id: q.text for split in dataset.splits() for q in dataset.queries(split)}
        assert asked == {
            f"{p}#{n}": c.strip() for p, (_, said) in world.items() for n, c in enumerate(said)
        }
        for split in dataset.splits():
            own = {p for p, (s, _) in world.items() if s == split}
            assert {qrel.item_id for qrel in dataset.qrels(split)} == own


def test_where_pictures_lie(tmp_path: Path):
    write_token(tmp_path, WORLD)
    (tmp_path / "pictures.zip").touch()

    def first() -> str | None:
        return next(open_captions(tmp_path).items()).image

    assert first() == str(tmp_path / "pictures.zip" / "b.jpg")
    (tmp_path / "Images").mkdir()
    assert first() == str(tmp_path / "Images" / "b.jpg")
    other = open_captions(tmp_path / "results_20130124.token", images="/else")
    assert next(other.items()).image == "/else/b.jpg"


def test_coco_and_karpathy_name_folders(tmp_path: Path):
    write_coco(tmp_path, WORLD)
    (tmp_path / "val2017").mkdir()
    images = {item.id: item.image for item in open_captions(tmp_path).items()}
    assert images["a.jpg"] == str(tmp_path / "val2017" / "a.jpg")
    assert images["b.jpg"] == str(tmp_path / "b.jpg")
    one = open_captions(tmp_path / "annotations" / "captions_test2017.json")
    assert [item.image for item in one.items()] == [str(tmp_path / "c.jpg")]
    image = {"filename": "x.jpg", "filepath": "val2014", "split": "val", "sentences": []}
    path = tmp_path / "dataset_coco.json"
    path.write_text(json.dumps({"images": [image]}), encoding="utf-8")
    found = next(open_captions(path, images="/coco").items())
    assert found.image == "/coco/val2014/x.jpg"


def test_without_lists_all_is_train_and_who_is_on_none_is_left_out(tmp_path: Path, put):
    put("captions.txt", "image,caption\na.jpg,one\nb.jpg,two\n")
    assert open_captions(tmp_path).splits() == ("train",)
    given = put("mine.txt", "b.jpg\n")
    dataset = open_captions(tmp_path, splits={"test": given})
    assert dataset.splits() == ("test",)
    assert [item.id for item in dataset.items()] == ["b.jpg"]


def test_features_become_embeddings(tmp_path: Path):
    write_jsonl(tmp_path, WORLD)
    features = np.arange(6, dtype=np.float16).reshape(3, 2)
    np.save(tmp_path / "features.npy", features)
    dataset = open_captions(tmp_path, features=tmp_path / "features.npy", corpus="test")
    (item,) = dataset.items()
    assert item.embedding is not None
    assert item.embedding.tolist() == [4, 5], "the row is the picture's place in the file"
    asked = open_captions(
        tmp_path, features=tmp_path / "features.npy", direction="image-to-text"
    ).queries("dev")
    assert [query.embedding.tolist() for query in asked] == [[2, 3]]
    np.save(tmp_path / "features.npy", features[:2])
    with pytest.raises(DimensionError, match=r"expected 3 rows.*got shape \[2, 2\]"):
        open_captions(tmp_path, features=tmp_path / "features.npy")


def test_clips_are_pooled_from_their_frames(tmp_path: Path):
    write_msvd(tmp_path, WORLD)
    frames = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
    mask = np.array([[1, 1, 1, 1], [1, 0, 0, 0], [1, 1, 0, 0]])
    np.save(tmp_path / "frames.npy", frames)
    np.save(tmp_path / "mask.npy", mask)
    dataset = open_captions(tmp_path, features=tmp_path / "frames.npy", mask=tmp_path / "mask.npy")
    for item, some, there in zip(dataset.items(), frames, mask, strict=True):
        slow = sum(f * m for f, m in zip(some, there, strict=True)) / there.sum()
        np.testing.assert_allclose(item.embedding, slow, rtol=1e-5)


def test_splits_of_a_list_take_the_place_of_msrvtts_own(tmp_path: Path, put):
    path = write_msrvtt(tmp_path, WORLD) / "train_val_videodatainfo.json"
    given = put("1ka.txt", "c.jpg\n")
    dataset = open_captions(path, splits={"test": given}, keep_empty=True)
    assert [item.id for item in dataset.items()] == ["c.jpg"]
    put("1ka.txt", "c.jpg\nz.jpg\n")
    with pytest.raises(DataError, match=r"no captions of 'z.jpg', which .*1ka.txt lists"):
        list(dataset.items())


def test_empty_captions(tmp_path: Path, put):
    path = put(
        "captions.jsonl", [{"image": "a", "captions": ["x"]}, {"image": "b", "captions": [" "]}]
    )
    with pytest.raises(FormatError, match=r"line 2: expected captions with words, .*'b'"):
        list(open_captions(path.parent).queries("train"))
    kept = open_captions(path.parent, keep_empty=True)
    assert [query.id for query in kept.queries("train")] == ["a#0"]
    assert [qrel.query_id for qrel in kept.qrels("train")] == ["a#0"]
    assert len(list(kept.items())) == 2


def test_clips_without_features_are_empty(tmp_path: Path):
    with pytest.raises(DataError, match=r"3 of 3 items are empty"):
        list(open_dataset(write_msvd(tmp_path, WORLD)).items())


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.token", "a.jpg#0\tone\na.jpg two\n", r"line 2: expected PICTURE#number<TAB>caption"),
        ("captions.csv", "image,caption\na,b,c\n", r"line 2: .*'a,b,c'. Put captions with commas"),
        ("captions.csv", 'image,caption\na,"b\n', r"line 2: expected image,caption"),
        ("x.token", "a#0\tx\nb#0\ty\na#1\tz\n", r"line 3: .*'a' again, first on line 1"),
        ("captions.jsonl", '{"image": "a"}\n', r"line 1: .*required field `captions`"),
        ("dataset_x.json", '{"images":\n [{]}', r"line 2: expected JSON, got something else"),
        (
            "dataset_x.json",
            '{"images": [{"filename": 1}]}',
            r"Expected `str`.*images\[0\].filename",
        ),
        (
            "captions_val2017.json",
            '{"images": [], "annotations": [{"image_id": 3, "caption": ""}]}',
            "the unknown image_id 3 in caption 1",
        ),
        (
            "MSRVTT_data.json",
            '{"videos": [], "sentences": [{"video_id": "v", "caption": "x"}]}',
            "the unknown video_id 'v' in caption 1",
        ),
        ("captions_x.json", '{"clip": "x"}', r"an object of name: value.*Expected `array`"),
    ],
)
def test_a_broken_file_is_told_where(put, name: str, text: str, said: str):
    with pytest.raises(FormatError, match=said):
        list(open_captions(put(name, text)).items())


def test_what_cannot_be_meant(tmp_path: Path, put):
    with pytest.raises(DataError, match="holds no captions of a known format"):
        open_captions(tmp_path)
    write_jsonl(tmp_path, WORLD)
    with pytest.raises(SettingsError, match="expected 'text-to-image' or 'image-to-text'"):
        open_captions(tmp_path, direction="text-to-video")
    with pytest.raises(DataError, match="has no split 'val'. It has: train, dev, test"):
        open_captions(tmp_path, corpus="val")
    with pytest.raises(SettingsError, match="goes with features="):
        open_captions(tmp_path, mask="x.npy")
    write_karpathy(tmp_path, WORLD)
    with pytest.raises(DataError, match=r"captions.jsonl, dataset_toy.json. Name the one"):
        open_captions(tmp_path)
    write_coco(tmp_path, WORLD)
    with pytest.raises(SettingsError, match="COCO's files tell the split"):
        open_captions(tmp_path, splits={"test": "x"})
    put("annotations/captions_val2014.json", "{}")
    with pytest.raises(DataError, match="captions_val2014.json and captions_val2017.json are of"):
        open_captions(tmp_path)


def test_lists_must_be_clear(put, tmp_path: Path):
    put("captions.txt", "image,caption\na.jpg,one\n")
    put("train.txt", "a.jpg\n")
    put("test.txt", "a.jpg\n")
    with pytest.raises(FormatError, match="test.txt line 1|train.txt line 1"):
        open_captions(tmp_path)
    put("old_train.txt", "a.jpg\n")
    with pytest.raises(FormatError, match="one list of train, got another one in old_train.txt"):
        open_captions(tmp_path)


def test_a_folder_of_clips_needs_its_lists_to_be_recognised(put, tmp_path: Path):
    put("captions_extra.json", "{}")
    with pytest.raises(DataError, match="cannot open"):
        open_dataset(tmp_path)
