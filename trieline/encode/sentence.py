"""A sentence-transformers model, loaded and run on token ids: ids in, one unit vector a text out.

The traps: the libraries draw progress bars and log while they load; a fast tokenizer cannot be used
by two threads at once ("Already borrowed"); and a processor without bfloat16 units (they came with
AVX512-BF16 and AMX) runs bf16 slower than fp32.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trieline.encode.onednn import use_onednn
from trieline.errors import SettingsError
from trieline.types import Floats

__all__ = ["SentenceModel", "quietly", "usable_device"]


class SentenceModel:
    """The model of a folder, on a device, in a precision."""

    def __init__(self, folder: Path, *, device: str, bf16: bool, max_tokens: int) -> None:
        self._device = usable_device(device)
        self._model = _load(folder, self._device)
        self._max_tokens = max_tokens
        self._one_at_a_time = threading.Lock()
        longest = _longest(self._model)
        if max_tokens > longest:
            raise SettingsError(
                f"encode.max_tokens = {max_tokens}, but the model in {folder} reads at most "
                f"{longest} tokens. Set encode.max_tokens to {longest} or less."
            )
        if bf16:
            self._model.to(torch.bfloat16)
        elif self._device.type == "cpu":
            use_onednn(self._model)

    @property
    def dim(self) -> int:
        """D, the length of a vector."""
        model = self._model  # sentence-transformers renamed the method in its version 5.4
        width = getattr(model, "get_embedding_dimension", None) or (
            model.get_sentence_embedding_dimension
        )
        return int(width())

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text, cut at ``max_tokens``."""
        if getattr(self._model[0], "do_lower_case", False):
            texts = [text.lower() for text in texts]
        with self._one_at_a_time:
            found = self._model.tokenizer(
                list(texts),
                truncation=True,
                max_length=self._max_tokens,
                return_attention_mask=False,
            )
        ids: list[list[int]] = found["input_ids"]
        return ids

    def vectors(self, ids: NDArray[np.int64]) -> Floats:
        """ids [B, T] -> float32[B, D], each of unit length."""
        x = torch.from_numpy(ids).to(self._device)
        with torch.inference_mode():
            states = self._model({"input_ids": x, "attention_mask": torch.ones_like(x)})
            y = torch.nn.functional.normalize(states["sentence_embedding"].float()[:, : self.dim])
        found: Floats = y.cpu().numpy()
        return found


def usable_device(name: str) -> torch.device:
    """The device of a name, tried out."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise SettingsError(
            f"device {name!r} cannot be used here: {reason}. Give 'cpu', or a device that this "
            "installation of torch can use, such as 'cuda'."
        ) from None
    return device


def _load(folder: Path, device: torch.device) -> Any:
    from sentence_transformers import SentenceTransformer

    try:
        # Weights that a file lacks would be drawn at random: not from the user's generator.
        with quietly(), torch.random.fork_rng(devices=[]):
            model: Any = SentenceTransformer(
                str(folder), device=str(device), local_files_only=True
            ).eval()
    except Exception as error:  # whatever the libraries raise, it is about this folder
        raise SettingsError(
            f"{folder} cannot be loaded as a sentence-transformers model: "
            f"{type(error).__name__}: {error}. Save or fetch the model again."
        ) from error
    if getattr(model[0], "auto_model", None) is None:
        raise SettingsError(
            f"{folder} holds no transformer but {type(model[0]).__name__}. "
            "Token vectors without one are read with encode.kind = 'static'."
        )
    return model


def _longest(model: Any) -> int:
    """The most tokens that positions and tokenizer allow."""
    config = model[0].auto_model.config
    limits = [getattr(config, "max_position_embeddings", None), model.tokenizer.model_max_length]
    known = [int(limit) for limit in limits if limit and 0 < limit < 1e9]  # 1e30 means unknown
    return min(known, default=1 << 30)


@contextmanager
def quietly() -> Iterator[None]:
    """No progress bars and no advice from transformers while this lasts."""
    from transformers.utils import logging as library

    logging: Any = library
    bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
