"""CLIP and SigLIP against transformers called directly, one thing at a time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from tiny_clip import save_pictures, save_tiny

from trieline.config import EncodeSettings
from trieline.encode import open_encoder
from trieline.encode.clip import Clip, open_clip
from trieline.errors import DataError, SettingsError
from trieline.types import Floats, Item, Query

TEXTS = ["cat", "the red dog runs under the tree", "a bird", "fish swims", "to the sea " * 9]


@pytest.fixture(scope="module", params=["clip", "siglip"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return save_pictures(tmp_path_factory.mktemp("pictures"))


class Direct:
    """The library, as its own documentation calls it."""

    def __init__(self, folder: Path) -> None:
        import transformers

        self.model: Any = transformers.AutoModel.from_pretrained(folder).eval()
        self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
        siglip = self.model.config.model_type == "siglip"
        self.padding: Any = "max_length" if siglip else False
        kind = (
            transformers.SiglipImageProcessorPil if siglip else transformers.CLIPImageProcessorPil
        )
        self.processor: Any = kind.from_pretrained(folder)

    def text(self, text: str) -> Floats:
        import torch

        given = self.tokenizer(
            [text], padding=self.padding, truncation=True, max_length=12, return_tensors="pt"
        )
        with torch.inference_mode():
            return self.model.get_text_features(given["input_ids"]).pooler_output[0].numpy()

    def picture(self, path: str) -> Floats:
        import torch
        from PIL import Image

        pixels = self.processor(images=Image.open(path).convert("RGB"), return_tensors="pt")
        with torch.inference_mode():
            return self.model.get_image_features(pixels["pixel_values"]).pooler_output[0].numpy()


def unit(vector: Floats) -> Floats:
    return vector / np.linalg.norm(vector)


@pytest.fixture(scope="module")
def direct(folder: Path) -> Direct:
    return Direct(folder)


def test_texts_pictures_and_both(folder: Path, direct: Direct, pictures: list[str]) -> None:
    encoder = open_encoder(EncodeSettings(kind="clip", model=str(folder), batch=4))
    things = [
        *(Item(f"t{n}", text=text) for n, text in enumerate(TEXTS)),
        *(Item(f"p{n}", image=path, modality="image") for n, path in enumerate(pictures)),
        *(
            Item(f"b{n}", text=text, image=path, modality="image,text")
            for n, (text, path) in enumerate(zip(TEXTS, pictures, strict=False))
        ),
    ]
    expected = [
        *(direct.text(text) for text in TEXTS),
        *(direct.picture(path) for path in pictures),
        *(direct.text(t) + direct.picture(p) for t, p in zip(TEXTS, pictures, strict=False)),
    ]
    found = encoder.encode(things)
    assert found.dtype == np.float32
    assert found.shape == (len(things), encoder.dim)
    for thing, vector, theirs in zip(things, found, expected, strict=True):
        np.testing.assert_allclose(vector, unit(theirs), atol=2e-6, err_msg=thing.id)
    spread = found @ found.T - np.eye(len(found))
    assert spread.max() < 0.999, "different things have different vectors"


def test_a_vector_does_not_depend_on_its_batch(folder: Path, pictures: list[str]) -> None:
    encoder = open_clip(Clip(str(folder), batch=5))
    things = [
        Query(f"q{n}", text=TEXTS[n % 5] if n % 3 else "", image=pictures[n] if n % 2 < 1 else None)
        for n in range(6)
        if n not in (3,)
    ]
    together = encoder.encode(things)
    for thing, vector in zip(things, together, strict=True):
        np.testing.assert_allclose(encoder.encode([thing])[0], vector, atol=1e-6)
    np.testing.assert_allclose(encoder.encode(things[::-1])[::-1], together, atol=1e-6)


def test_cached_by_text_and_by_content_of_the_picture(folder: Path, tmp_path: Path) -> None:
    settings = EncodeSettings(kind="clip", model=str(folder))
    many = save_pictures(tmp_path / "many", 40)
    things = [Item(str(n), text=f"cat {'dog ' * n}", image=path) for n, path in enumerate(many)]
    plain = open_encoder(settings)
    kept = open_encoder(settings, tmp_path / "cache")
    assert kept.fingerprint == plain.fingerprint
    np.testing.assert_allclose(kept.encode(things), plain.encode(things), atol=1e-6)
    moved = [Path(path).rename(tmp_path / f"moved-{n}.png") for n, path in enumerate(many)]

    class Fails(Clip):
        @property
        def model(self) -> Any:  # type: ignore[override]
            raise AssertionError("all of it is in the cache")

    again = open_clip(Fails(str(folder)), tmp_path / "cache")
    gone = [i._replace(image=str(path)) for i, path in zip(things, moved, strict=True)]
    assert np.array_equal(again.encode(gone), kept.encode(gone))


def test_fingerprints_tell_models_apart(folder: Path, tmp_path: Path) -> None:
    own = open_clip(Clip(str(folder))).fingerprint
    assert own == open_clip(Clip(str(folder), batch=7)).fingerprint
    assert "tokens=12" in own, "the model reads no more, whatever encode.max_tokens says"
    assert own != open_clip(Clip(str(folder), max_tokens=5)).fingerprint
    assert own != open_clip(Clip(str(folder), precision="bf16")).fingerprint
    other = save_tiny(tmp_path, "clip" if own.startswith("siglip") else "siglip")
    assert own != open_clip(Clip(str(other))).fingerprint


def test_bf16_keeps_the_directions(folder: Path, pictures: list[str]) -> None:
    things = [Item("t", text=TEXTS[1]), Item("p", image=pictures[0])]
    full = open_clip(Clip(str(folder))).encode(things)
    half = open_clip(Clip(str(folder), precision="bf16")).encode(things)
    assert ((full * half).sum(axis=1) > 0.99).all()
    assert not np.array_equal(full, half)


def test_what_cannot_be_read(folder: Path, tmp_path: Path, tiny_bert: Path) -> None:
    encoder = open_clip(Clip(str(folder)))
    with pytest.raises(DataError, match=r"item 'x' has nothing to encode \(1 of 2\): .*or a pic"):
        encoder.encode([Item("a", text="cat"), Item("x")])
    with pytest.raises(DataError, match="cannot read the picture /no.png"):
        encoder.encode([Item("a", image="/no.png")])
    (tmp_path / "bad.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match="bad.png cannot be read as a picture"):
        encoder.encode([Item("a", image=str(tmp_path / "bad.png"))])
    with pytest.raises(DataError, match="lies elsewhere"):
        encoder.encode([Item("a", image="https://x.org/a.png")])
    with pytest.raises(SettingsError, match="type 'bert': encode.kind = 'clip' reads clip and sig"):
        Clip(str(tiny_bert))
    with pytest.raises(SettingsError, match="at least 3 tokens a text"):
        Clip(str(folder), max_tokens=2)
    assert encoder.encode([]).shape == (0, encoder.dim)


def test_a_folder_that_lacks_its_processor(folder: Path, tmp_path: Path) -> None:
    import shutil

    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    for name in ("preprocessor_config.json", "processor_config.json"):
        (broken / name).unlink(missing_ok=True)
    with pytest.raises(SettingsError, match="cannot be loaded as a .* with its tokenizer and its"):
        open_clip(Clip(str(broken))).encode([Item("a", text="cat")])
