"""The alphabet of the docids: an embedding and an output row for every code of every level.

Codes of different levels never share a row, and no id is reserved: code 0 of level 0 is a code
like any other. (Joint vocabularies in released code make some docids unreachable because a code
collides with the end or padding token.) Only the rows of the level at hand are ever projected.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

__all__ = ["Alphabet"]


class Alphabet(nn.Module):
    """Embeddings in, logits out, level by level."""

    offsets: Tensor

    def __init__(self, sizes: Sequence[int], width: int) -> None:
        super().__init__()
        self.sizes = tuple(int(size) for size in sizes)
        self.width = width
        total = sum(self.sizes)
        offsets = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        self.register_buffer("offsets", torch.from_numpy(offsets), persistent=False)
        self.bounds = [int(o) for o in offsets]
        self.embedding = nn.Parameter(torch.randn(total, width))
        self.output = nn.Parameter(torch.randn(total, width) * width**-0.5)
        self.start = nn.Parameter(torch.randn(width))

    def embed(self, codes: Tensor, level: int) -> Tensor:
        """codes [...] of one level -> [..., width]"""
        return nn.functional.embedding(codes + self.bounds[level], self.embedding)

    def embed_all(self, codes: Tensor) -> Tensor:
        """codes [..., l <= L] -> [..., l, width]"""
        return nn.functional.embedding(codes + self.offsets[: codes.shape[-1]], self.embedding)

    def logits(self, hidden: Tensor, level: int) -> Tensor:
        """hidden [..., width] -> [..., V of this level]"""
        low, high = self.bounds[level], self.bounds[level + 1]
        return nn.functional.linear(hidden, self.output[low:high])

    def joint_logits(self, hidden: Tensor) -> Tensor:
        """hidden [..., width] -> [..., all codes of all levels]: parity with joint vocabularies."""
        return nn.functional.linear(hidden, self.output)

    def start_from_codebooks(self, codebooks: Sequence[NDArray[np.float32]], seed: int) -> None:
        """Begin where the geometry is: codes near in the codebook get near embeddings.

        Codebooks [V, D] are rotated into the model's width along their common principal axes and
        scaled to the size of a random start. A level without geometry (all zero) stays random.
        """
        real = [book for book in codebooks if np.abs(book).max() > 0]
        if not real:
            return
        stacked = np.concatenate(real).astype(np.float64)
        _, axes = np.linalg.eigh(stacked.T @ stacked)  # ascending
        axes = axes[:, ::-1][:, : self.width]
        rng = np.random.default_rng(seed)
        for level, book in enumerate(codebooks):
            if not np.abs(book).max() > 0:
                continue
            turned = np.zeros((len(book), self.width))
            turned[:, : axes.shape[1]] = book @ axes
            # Spread over all directions, so that no coordinate of the model starts empty.
            spin = np.linalg.qr(np.random.default_rng(seed).standard_normal((self.width,) * 2))[0]
            turned = turned @ spin
            turned /= turned.std() + 1e-12
            turned += 0.1 * rng.standard_normal(turned.shape)
            low, high = self.bounds[level], self.bounds[level + 1]
            with torch.no_grad():
                rows = torch.from_numpy(turned).to(self.embedding)
                self.embedding[low:high] = rows
                self.output[low:high] = rows * self.width**-0.5
