"""Small worlds to search in: a peaked random model, random docids, random codebooks."""

from __future__ import annotations

import numpy as np
import torch

from trieline.config import ModelSettings
from trieline.index import Trie
from trieline.model import Asked, Speller, build_speller
from trieline.types import Codes, Floats

SIZES = (5, 4, 6)
DIM = 8
SMALL = ModelSettings(
    width=16, heads=2, head_width=8, feed_forward=24, decoder_layers=2, soft_tokens=3
)
Docid = tuple[int, ...]


def speller(seed: int = 1) -> Speller:
    model = build_speller(SMALL, SIZES, dim=DIM, seed=seed)
    with torch.no_grad():
        model.alphabet.output *= 4  # prefixes differ
    return model


def books(seed: int = 2, sizes: tuple[int, ...] = SIZES) -> list[Floats]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((size, DIM)).astype(np.float32) * 0.4 for size in sizes]


def corpus(rows: int, items: int | None = None, seed: int = 0) -> Codes:
    """Random docids; with fewer items than rows some items have several of them."""
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, rows) for size in SIZES], 1).astype(np.uint16)
    codes[::7] = codes[0]  # a docid of many items
    owner = np.arange(rows) if items is None else rng.integers(0, items, rows)
    return Codes(codes, owner.astype(np.uint32))


def asked(queries: int, seed: int = 5) -> Asked:
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(queries, DIM, generator=generator)
    return Asked(vector=torch.nn.functional.normalize(vectors, dim=1))


def one_of(questions: Asked, at: int) -> Asked:
    assert questions.vector is not None
    return Asked(vector=questions.vector[at : at + 1])


def vectors_of(questions: Asked) -> Floats:
    assert questions.vector is not None
    return questions.vector.numpy()


def rows_of(trie: Trie) -> list[tuple[Docid, int]]:
    """(docid, item) of every row of a trie, in its order."""
    docids = [tuple(int(c) for c in row) for row in trie.codes]
    return list(zip(docids, trie.owner.tolist(), strict=True))


def docids_of(trie: Trie) -> list[Docid]:
    return sorted({docid for docid, _ in rows_of(trie)})
