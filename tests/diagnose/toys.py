"""Tiny spellers and corpora of random docids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from trieline.config import ModelSettings
from trieline.decode import Expansion, Found, Guide, beam_search
from trieline.diagnose.rescue import Search
from trieline.index import Trie
from trieline.model import Asked, Speller, build_speller
from trieline.types import Codes

SIZES = (5, 4, 6)
DIM = 8
_SMALL = ModelSettings(
    width=16, heads=2, head_width=8, feed_forward=24, decoder_layers=2, soft_tokens=3
)


def speller(sizes: tuple[int, ...] = SIZES, seed: int = 1) -> Speller:
    model = build_speller(_SMALL, sizes, dim=DIM, seed=seed)
    with torch.no_grad():
        model.alphabet.output *= 4  # a peaked model: prefixes differ
    return model


def corpus(rows: int, sizes: tuple[int, ...] = SIZES, seed: int = 0) -> Codes:
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, rows) for size in sizes], 1).astype(np.uint16)
    return Codes(codes, np.arange(rows, dtype=np.uint32))


def asked(queries: int, seed: int = 5) -> Asked:
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(queries, DIM, generator=generator)
    return Asked(vector=torch.nn.functional.normalize(vectors, dim=1))


def one(questions: Asked, place: int = 0) -> Asked:
    assert questions.vector is not None
    return Asked(vector=questions.vector[place : place + 1])


def docids(codes: Codes) -> list[tuple[int, ...]]:
    return sorted({tuple(int(c) for c in row) for row in codes.codes})


def searching(
    model: Speller, question: Asked, trie: Trie, own: Sequence[Guide] = (), **more: Any
) -> Search:
    """A search of one question, as explanations ask for it; changes change nothing."""
    assert question.vector is not None
    vectors = question.vector.numpy()

    def search(
        observe: Callable[[Expansion], None],
        *,
        beam: int,
        changes: Sequence[str] = (),
        guides: Sequence[Guide] = (),
    ) -> Found:
        seen = {"guides": [*own, *guides], "vectors": vectors, "observe": observe, **more}
        return beam_search(model, question, trie, beam=beam, k=beam, **seen)[0]

    return search
