"""From a folder of captioned pictures to an index, by an encoder of texts and pictures."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "encode"))
from tiny_clip import WORDS, save_pictures, save_tiny
from workshop import COLOURS, DOES, SMALL

from trieline.config import EncodeSettings, Recipe, apply
from trieline.data import MemoryDataset, open_captions, open_dataset
from trieline.encode import open_encoder
from trieline.encode.contrast import Contrast
from trieline.encode.projection import Pairs, Shape, learn_projection, save_projection
from trieline.errors import IndexMismatch
from trieline.retriever import Retriever
from trieline.types import Item, Qrel, Query

COUNT = 24


@pytest.fixture
def captioned(tmp_path: Path) -> Path:
    """Pictures with two captions each, in Flickr's layout."""
    folder = tmp_path / "flickr"
    names = [Path(path).name for path in save_pictures(folder / "Images", COUNT)]
    words = WORDS.split()
    rows = [
        f"{name}#{n}\t{words[row % 19]} {words[(row + 7 + n) % 19]} {words[row // 5]}\n"
        for row, name in enumerate(names)
        for n in range(2)
    ]
    (folder / "results.token").write_text("".join(rows), encoding="utf-8")
    return folder


def test_captions_find_pictures_and_the_index_knows_its_encoder(
    captioned: Path, tmp_path: Path
) -> None:
    clip = save_tiny(tmp_path / "clip", "clip")
    settings = [
        "encode.kind=clip",
        f'encode.model="{clip}"',
        "ids.modality=true",
        *SMALL,
        "train.max_steps=30",
        "train.min_steps=30",
    ]
    recipe = apply(Recipe(name="pictures"), settings)
    dataset = open_dataset(captioned)
    path, cache = tmp_path / "a.tl", tmp_path / "cache"
    with Retriever.build(dataset, recipe, path=path, cache=cache) as built:
        by_text = built.search("the red dog", COUNT)[0]
        assert {hit.item_id for hit in by_text} == {item.id for item in dataset.items()}
        picture = next(open_captions(captioned, direction="image-to-text").queries("train"))
        both = Query("b", text="the red dog", image=picture.image)
        together = built.search([picture, both], 3)
        alone = [built.search(query, 3)[0] for query in (picture, both)]
        for one, other in zip(together, alone, strict=True):
            assert [hit.item_id for hit in one] == [hit.item_id for hit in other]
            # Products of a model this small round by the size of the batch (see clip_model).
            assert [hit.score for hit in one] == pytest.approx([hit.score for hit in other])
        assert picture.image is not None
        built.add([Item("again", image=picture.image, modality="image")])
        twins = [h for h in built.search(picture, COUNT + 1)[0] if h.item_id in ("again", "0.png")]
        assert twins[0].docid == twins[1].docid, "the same picture has the same docid"
    with Retriever.load(path, cache=cache) as loaded:
        (added,) = loaded.catalog.get([loaded.catalog.find("again")])
        assert added.image == picture.image
    weights = load_file(clip / "model.safetensors")
    weights["logit_scale"] = np.ones_like(
        weights["logit_scale"]
    )  # no vector changes, but who would know
    save_file(weights, clip / "model.safetensors", {"format": "pt"})
    with pytest.raises(IndexMismatch, match="encoder"):
        Retriever.load(path, cache=cache)


def test_words_find_features_through_a_projection(words: Path, tmp_path: Path) -> None:
    """Items bring what an image model saw, queries are words, and two maps bring them together."""
    rng = np.random.default_rng(0)
    text = open_encoder(EncodeSettings(kind="static", model=str(words)))
    colour = {name: 3 * rng.normal(size=20) for name in COLOURS}
    shape = {name: 3 * rng.normal(size=20) for name in DOES}
    seen = [
        Item(f"{c}-{s}", embedding=(colour[c] + shape[s]).astype(np.float32), modality="image")
        for c in COLOURS
        for s in DOES
    ]
    asked = [Query(f"q-{item.id}", item.id.replace("-", " ")) for item in seen]
    features = np.stack([item.embedding for item in seen if item.embedding is not None])
    pairs = Pairs(text.encode(asked), features, np.arange(len(seen)))
    maps, _ = learn_projection(pairs, Shape(dim=8, dropout=0.0), Contrast(epochs=60, lr=1e-2))
    file = tmp_path / "maps.safetensors"
    save_projection(file, maps, texts=text.fingerprint)
    settings = ["kind=projection", f'model="{words}"', f'projection="{file}"', 'image_model=""']
    changes = [*(f"encode.{change}" for change in settings), *SMALL, "decode.omega=10.0"]
    dataset = MemoryDataset(
        seen, {"train": asked}, {"train": [Qrel(q.id, q.id[2:], 1) for q in asked]}, name="seen"
    )
    path = tmp_path / "a.tl"
    with Retriever.build(dataset, apply(Recipe(name="p"), changes), path=path) as built:
        found = [[h.item_id for h in hits] for hits in built.search([q.text for q in asked], 5)]
        right = [item.id in ids for item, ids in zip(seen, found, strict=True)]
        assert np.mean(right) > 0.6, "5 of 42 is chance"
        built.add([Item("twin", embedding=seen[0].embedding, modality="image")])
        by_picture = built.search(Query("p", embedding=seen[0].embedding), 3)[0]
        assert {"twin", seen[0].id} <= {hit.item_id for hit in by_picture}
    save_projection(file, maps, texts=text.fingerprint, pictures="another")
    with pytest.raises(IndexMismatch, match="encoder"):
        Retriever.load(path)
