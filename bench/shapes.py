"""The shapes that engines are compared in: T5-small models with random weights, clustered docids.

Costs do not depend on what a model has learnt, but they do on how docids share prefixes: so docids
are residual codes of clustered vectors, and are kept in the cache once they are made (a million
take minutes). The speller and transformers' T5 have the same weights.

    PRO   a modality and 16 levels of 512, 1024 and 2048 codes, one soft token, beam 50
    PAG   8 levels of 2048 codes, 16 text tokens through T5's encoder, beam 100
    GRDR  3 levels of 128 codes, 16 text tokens, beam 100
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from trieline.config import cache_folder
from trieline.index import Trie
from trieline.model import Asked, Speller
from trieline.model.checkpoint import load_t5, t5_shape
from trieline.model.heads import Alphabet
from trieline.model.readers import TokenReader, VectorReader
from trieline.model.t5 import Stack
from trieline.types import Codes, Floats

__all__ = ["GRDR", "PAG", "PRO", "PRO_LEVELS", "Shape", "World", "clustered", "residual_codes"]

PRO_LEVELS = (512,) * 4 + (1024,) * 8 + (2048,) * 4
DIM = 64  # of query vectors
TOKENS = 16  # of a query, where it is text


class Shape(NamedTuple):
    """One of the shapes above."""

    name: str
    levels: tuple[int, ...]  # residual codes
    modality: bool  # a level of 4 codes before them, of which items have three
    words: int  # of text before the codes in the vocabulary; 0: queries are vectors
    beam: int

    @property
    def sizes(self) -> tuple[int, ...]:
        return (4, *self.levels) if self.modality else self.levels

    @property
    def offsets(self) -> list[int]:
        """The token at which each level begins."""
        return [int(offset) for offset in self.words + np.cumsum([0, *self.sizes[:-1]])]


PRO = Shape("PRO", PRO_LEVELS, True, 0, 50)
PAG = Shape("PAG", (2048,) * 8, False, 32128, 100)
GRDR = Shape("GRDR", (128,) * 3, False, 32128, 100)


class World:
    """A model in a shape, as a speller and as transformers' T5, and the docids of some items."""

    def __init__(self, shape: Shape, items: int, seed: int = 0) -> None:
        self.shape = shape
        self.codes = docids(shape, items, seed)
        owner = np.random.default_rng(seed).permutation(items).astype(np.uint32)
        self.trie = Trie.build(Codes(self.codes, owner), shape.sizes)
        self.t5 = _t5(shape, seed)
        self.speller = _speller(shape, self.t5)

    def with_items(self, items: int, seed: int = 0) -> Trie:
        """The trie of another corpus for the same model."""
        owner = np.random.default_rng(seed).permutation(items).astype(np.uint32)
        return Trie.build(Codes(docids(self.shape, items, seed), owner), self.shape.sizes)

    def ask(self, queries: int, seed: int = 0) -> Asked:
        """Random questions."""
        made = torch.Generator().manual_seed(seed)
        if not self.shape.words:
            return Asked(vector=torch.randn(queries, DIM, generator=made))
        tokens = torch.randint(2, self.shape.words, (queries, TOKENS), generator=made)
        return Asked(tokens=tokens, token_mask=torch.ones_like(tokens, dtype=torch.bool))


def docids(shape: Shape, items: int, seed: int) -> NDArray[np.uint16]:
    """uint16[items, L], made once."""
    codes = residual_codes(items, shape.levels, seed)
    if not shape.modality:
        return codes
    rng = np.random.default_rng(seed)
    first = rng.choice(3, (items, 1), p=(0.6, 0.3, 0.1)).astype(np.uint16)
    return np.concatenate([first, codes], axis=1)


def clustered(rows: int, width: int, rng: np.random.Generator) -> Floats:
    """float32[rows, width]: clusters of clusters, the large ones much larger than the small."""
    top = rng.standard_normal((200, width), np.float32)
    sub = 0.6 * rng.standard_normal((4000, width), np.float32)
    weight = 1 / np.arange(1, 201) ** 0.7
    cluster = rng.choice(200, rows, p=weight / weight.sum())
    noise = 0.45 * rng.standard_normal((rows, width), np.float32)
    vectors: Floats = top[cluster] + sub[cluster * 20 + rng.integers(0, 20, rows)]
    return vectors + noise


def residual_codes(
    rows: int, sizes: Sequence[int] = PRO_LEVELS, seed: int = 0, width: int = 32
) -> NDArray[np.uint16]:
    """uint16[rows, L]: greedy codes over codebooks of sampled residuals, shrunk to fit; kept."""
    name = "-".join(map(str, (rows, width, seed, *sizes)))
    kept = cache_folder() / "bench" / f"codes-{name}.npy"
    if kept.exists():
        found: NDArray[np.uint16] = np.load(kept)
        return found
    rng = np.random.default_rng(seed)
    left = clustered(rows, width, rng)
    codes = np.empty((rows, len(sizes)), np.uint16)
    for level in track(range(len(sizes)), "making codes", console=Console(stderr=True)):
        book = left[rng.choice(rows, sizes[level], replace=rows < sizes[level])]
        book = book * (0.7 if level else 1.0)
        half = (book**2).sum(axis=1) / 2
        for start in range(0, rows, 4096):
            block = left[start : start + 4096]
            best = (block @ book.T - half).argmax(axis=1)
            codes[start : start + 4096, level] = best
            block -= book[best]
    _save(kept, codes)
    return codes


def _save(path: Path, codes: NDArray[np.uint16]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part.npy")
    np.save(part, codes)
    part.replace(path)


def _t5(shape: Shape, seed: int) -> Any:
    """transformers' T5-small; its first level's last code starts the decoder, and no item has it.

    So every token is a code of some level or a word, and a softmax over the vocabulary is the same
    in both engines where there are no words.
    """
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(seed)
    config = T5Config(
        vocab_size=shape.words + sum(shape.sizes),
        d_model=512,
        d_kv=64,
        d_ff=2048,
        num_layers=6,
        num_decoder_layers=6,
        num_heads=8,
        dropout_rate=0.0,
        decoder_start_token_id=shape.sizes[0] - 1 if shape.modality else 0,
        pad_token_id=0,
        eos_token_id=None,
    )
    model = T5ForConditionalGeneration(config).eval()
    with torch.no_grad():
        model.lm_head.weight *= 3  # some prefixes are much better than others, as when trained
    return model


def _speller(shape: Shape, t5: Any) -> Speller:
    """Ours, with its weights."""
    sizes = t5_shape(t5.config)
    reader: VectorReader | TokenReader
    if shape.words:
        reader = TokenReader(t5.get_encoder(), sizes.width, train_model=False)
        with torch.no_grad():  # its states as they are
            reader.project.weight.copy_(torch.eye(sizes.width))
            reader.project.bias.zero_()
    else:
        reader = VectorReader(DIM, 1, sizes._replace(layers=0))
    speller = Speller(Alphabet(shape.sizes, sizes.width), reader, Stack(sizes, cross=True)).eval()
    load_t5(speller, t5, shape.offsets)
    return speller
