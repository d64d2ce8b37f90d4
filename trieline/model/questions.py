"""Questions: where queries wait until a batch of them is read.

One class for each reader (see ``readers``): dense vectors, texts, histories of items. Training and
search ask both in the same way: how many there are, and ``batch(rows)``.

The trap: a history is cut on the left, so that the latest items stay; a text on the right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray

from trieline.config import ModelSettings
from trieline.errors import DataError, DimensionError, SettingsError
from trieline.model.readers import Asked, text_model_path
from trieline.types import Floats, Query

__all__ = ["HistoryQuestions", "Questions", "TextQuestions", "VectorQuestions", "load_tokenizer"]

Rows = NDArray[np.int64]


class Questions(Protocol):
    """Queries by row number."""

    def __len__(self) -> int:
        """How many there are."""

    def batch(self, rows: Rows) -> Asked:
        """These queries, in this order; a row may come twice."""


class VectorQuestions:
    """Queries as dense vectors, [Q, D]; memory-mapped ones stay on disk."""

    def __init__(self, vectors: Floats) -> None:
        if vectors.ndim != 2:
            raise DimensionError(
                f"query vectors come as one table [Q, D], got shape {vectors.shape}."
            )
        self.vectors = vectors

    def __len__(self) -> int:
        return len(self.vectors)

    def batch(self, rows: Rows) -> Asked:
        picked = np.asarray(self.vectors[rows], dtype=np.float32)
        return Asked(vector=torch.from_numpy(picked))  # [B, D]


class TextQuestions:
    """Queries as texts; each batch is padded to its own longest text only."""

    def __init__(self, texts: Sequence[str], tokenizer: Any, max_tokens: int) -> None:
        self.texts, self.tokenizer = texts, tokenizer
        # Beyond its limit a model has no position embeddings. (No limit reads as a huge number.)
        self.max_tokens = min(max_tokens, int(tokenizer.model_max_length))

    @classmethod
    def of(
        cls, queries: Sequence[Query], settings: ModelSettings, tokenizer: Any | None = None
    ) -> Self:
        """As the model's settings read them. Who asks often keeps the tokenizer and passes it."""
        texts = [query.text for query in queries]
        return cls(texts, tokenizer or load_tokenizer(settings.text_model), settings.max_tokens)

    def __len__(self) -> int:
        return len(self.texts)

    def batch(self, rows: Rows) -> Asked:
        read = self.tokenizer(
            [self.texts[row] for row in rows.tolist()],
            padding=True,
            truncation=True,
            max_length=self.max_tokens,
            return_tensors="pt",
        )
        mask = read["attention_mask"].bool()
        silent = ~mask.any(1)
        if silent.any():  # attention over nothing is not a number
            row = int(rows[int(silent.nonzero()[0])])
            raise DataError(
                f"question {row} ({self.texts[row]!r}) has no tokens for this text model. "
                "Leave empty queries out, or give them a text."
            )
        return Asked(tokens=read["input_ids"], token_mask=mask)  # [B, S]


class HistoryQuestions:
    """Queries as past items, oldest first; each item is read as its docid."""

    def __init__(
        self, histories: Sequence[Rows], codes: NDArray[np.uint16], max_history: int
    ) -> None:
        """``codes`` [N, L] holds one docid of every item; histories hold rows of it."""
        if max_history < 1:
            raise SettingsError(f"model.max_history = {max_history}: must be at least 1.")
        for question, history in enumerate(histories):
            if not len(history):
                raise DataError(
                    f"question {question} has an empty history: give at least one past item."
                )
            if history.min() < 0 or history.max() >= len(codes):
                raise DataError(
                    f"question {question} has past items {int(history.min())} to "
                    f"{int(history.max())}, but docids are there for items 0 to {len(codes) - 1}."
                )
        self.histories, self.codes, self.max_history = histories, codes, max_history

    def __len__(self) -> int:
        return len(self.histories)

    def batch(self, rows: Rows) -> Asked:
        recent = [self.histories[row][-self.max_history :] for row in rows.tolist()]
        longest = max(map(len, recent), default=0)
        items = np.zeros((len(recent), longest), np.int64)
        mask = np.zeros((len(recent), longest), np.bool_)
        for place, history in enumerate(recent):
            items[place, : len(history)] = history
            mask[place, : len(history)] = True
        codes = torch.from_numpy(self.codes[items].astype(np.int64))  # [B, H, L]
        return Asked(history=codes, history_mask=torch.from_numpy(mask))


def load_tokenizer(name: str) -> Any:
    """The tokenizer that belongs to a text model (see ``readers.load_text_model``)."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(text_model_path(name))
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"model.text_model = {name!r}: no tokenizer here ({error}). "
            "Give 'minilm', a local folder, or a hub name that can be reached."
        ) from None
