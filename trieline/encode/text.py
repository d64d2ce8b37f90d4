"""Vectors of texts by a sentence-transformers model: MiniLM from its package, a folder, a hub name.

Texts with the same number of tokens go through the model together and none is ever padded, so that
a text's vector does not depend on what is encoded beside it: the bits were the same wherever this
was measured. What is longer than ``max_tokens`` is cut there. The traps: ``bf16`` pays only on
processors that have it in hardware; and on a busy machine two threads in one process are far slower
than one (they wait for each other), so there run processes with OMP_NUM_THREADS=1 side by side.

MiniLM at 256 tokens a text, on one and two idle cores of an AMD EPYC with AVX512-BF16, in texts/s:
sentence-transformers as it comes 15 and 27, fp32 here 30 and 50 (the same vectors to 2e-7), bf16 45
and 80 (cosine to fp32 at least 0.9999).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trieline.encode.weights import locate, model_digest, prompts
from trieline.encode.wording import WORDING, texts_of
from trieline.errors import DimensionError, SettingsError
from trieline.types import Floats, Item, Query
from trieline.watch import Watch, silent

if TYPE_CHECKING:
    from trieline.encode import Precision
    from trieline.encode.sentence import SentenceModel

__all__ = ["TextEncoder", "equal_lengths"]

_BLOCK = 4096  # texts whose token ids are held at once
_MOST_TOKENS = 4096  # in one pass on a CPU: with 8,192 the feed-forward states leave its cache


class TextEncoder:
    """See the module. The model is loaded when its first vector, or its width, is asked for."""

    def __init__(
        self,
        model: str = "minilm",
        *,
        max_tokens: int = 256,
        batch: int = 32,
        device: str = "cpu",
        precision: Precision = "fp32",
    ) -> None:
        if max_tokens < 3 or batch < 1:  # two tokens mark the beginning and the end
            raise SettingsError(
                f"encode.max_tokens = {max_tokens} and encode.batch = {batch}: expected at least "
                "3 tokens a text and at least 1 text a batch."
            )
        if precision not in ("fp32", "bf16"):
            raise SettingsError(f"precision {precision!r}: expected 'fp32' or 'bf16'.")
        self._folder = locate(model)
        self._prompts = prompts(self._folder)
        self._max_tokens, self._batch = max_tokens, batch
        self._device, self._precision = device, precision
        self.fingerprint = (
            f"text model={model_digest(self._folder)[:32]} tokens={max_tokens} "
            f"precision={precision} wording={WORDING} norm=l2"
        )

    @property
    def dim(self) -> int:
        """D, the length of a vector."""
        return self._model.dim

    def encode(self, things: Sequence[Item] | Sequence[Query], watch: Watch = silent) -> Floats:
        """float32[N, D], each vector of unit length."""
        return self.encode_texts(self.texts(things), watch)

    def texts(self, things: Sequence[Item] | Sequence[Query]) -> list[str]:
        """What is encoded for each thing, with the prompt that the model wants before it."""
        texts = texts_of(things)
        item, query = self._prompts
        if not item and not query:
            return texts
        pairs = zip(things, texts, strict=True)
        return [(item if isinstance(t, Item) else query) + text for t, text in pairs]

    def encode_texts(self, texts: Sequence[str], watch: Watch = silent) -> Floats:
        """float32[N, D] of plain texts, prompts included by the caller."""
        vectors = np.empty((len(texts), self.dim), dtype=np.float32)
        most_tokens = _MOST_TOKENS if self._device == "cpu" else self._batch * self._max_tokens
        with watch("encoding texts", len(texts)) as task:
            for start in range(0, len(texts), _BLOCK):
                ids = self._model.tokens(texts[start : start + _BLOCK])
                lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
                for rows in equal_lengths(lengths, self._batch, most_tokens):
                    together = np.array([ids[row] for row in rows], dtype=np.int64)
                    vectors[start + rows] = self._model.vectors(together)
                    task.advance(len(rows))
        _refuse_non_finite(vectors, texts)
        return vectors

    @cached_property
    def _model(self) -> SentenceModel:
        from trieline.encode.sentence import SentenceModel  # imports torch: seconds

        return SentenceModel(
            self._folder,
            device=self._device,
            bf16=self._precision == "bf16",
            max_tokens=self._max_tokens,
        )


def equal_lengths(
    lengths: NDArray[np.int64], most_texts: int, most_tokens: int
) -> Iterator[NDArray[np.int64]]:
    """Row numbers in batches of one length each, longest first, so that the largest comes first."""
    order = np.argsort(-lengths, kind="stable")
    cuts = np.flatnonzero(np.diff(lengths[order])) + 1
    for group in np.split(order, cuts):
        if not len(group):
            continue
        size = max(1, min(most_texts, most_tokens // max(1, int(lengths[group[0]]))))
        for start in range(0, len(group), size):
            yield group[start : start + size]


def _refuse_non_finite(vectors: Floats, texts: Sequence[str]) -> None:
    good = np.isfinite(vectors).all(axis=1)
    if not good.all():
        text = texts[int(np.argmin(good))]
        raise DimensionError(
            f"the model gave NaN or infinite values for the text {text[:60]!r}. "
            "Try precision 'fp32', or fetch the model again: its weights may be damaged."
        )
