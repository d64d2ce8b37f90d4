"""The T5 transformer: the layers that read a query and spell a docid.

Raffel et al. 2020, as in T5 1.0 (ReLU) and 1.1 (gated GELU). Written out here, not taken from
transformers, because the search drives it level by level over many beams of one query: beams share
the cross-attention, and only the level's own codes are projected. ``tests/oracle`` holds it to
transformers' logits.

The traps of T5: attention scores are not divided by the square root of the head width; norms have
no mean and no bias; the position bias lives in the first layer and serves all of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trieline.model.dropout import Dropout

__all__ = [
    "Attention",
    "Block",
    "Cache",
    "FeedForward",
    "Memory",
    "RMSNorm",
    "RelativeBias",
    "Shape",
    "Stack",
]


class Shape(NamedTuple):
    """The sizes of a stack of layers."""

    width: int = 512
    heads: int = 8
    head_width: int = 64
    feed_forward: int = 2048
    layers: int = 6
    gated: bool = False
    dropout: float = 0.1
    buckets: int = 32
    reach: int = 128  # distances beyond this share the last bucket


class Memory(NamedTuple):
    """What the decoder attends to: the query, read."""

    states: Tensor  # [B, S, width]
    mask: Tensor  # [B, S] bool, True where there is something


class Cache:
    """Keys and values of what each beam has spelled so far, one pair a layer: [rows, H, t, d]."""

    def __init__(self, layers: int) -> None:
        self.keys: list[Tensor | None] = [None] * layers
        self.values: list[Tensor | None] = [None] * layers

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Keep the newest position, give back all of them."""
        old_key, old_value = self.keys[layer], self.values[layer]
        if old_key is not None and old_value is not None:
            key, value = torch.cat([old_key, key], 2), torch.cat([old_value, value], 2)
        self.keys[layer], self.values[layer] = key, value
        return key, value

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes the old row ``rows[i]``: beams follow their parents."""
        self.keys = [k if k is None else k.index_select(0, rows) for k in self.keys]
        self.values = [v if v is None else v.index_select(0, rows) for v in self.values]


class RMSNorm(nn.Module):
    """T5's layer norm: scale by the root mean square, in fp32 whatever comes in."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * (x.float() * scale).to(x.dtype)


class RelativeBias(nn.Module):
    """What attention adds for the distance between two positions: near ones exactly, far ones
    in buckets that grow like a logarithm."""

    def __init__(self, shape: Shape, bidirectional: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(shape.buckets, shape.heads)
        self.bidirectional = bidirectional
        self.buckets, self.reach = shape.buckets, shape.reach

    def forward(self, length: int) -> Tensor:
        """[1, H, length, length]: row = who looks, column = where."""
        at = torch.arange(length, device=self.table.weight.device)
        bias: Tensor = self.table(self._bucket(at[None, :] - at[:, None]))
        return bias.permute(2, 0, 1).unsqueeze(0)

    def _bucket(self, distance: Tensor) -> Tensor:
        buckets, offset = self.buckets, torch.zeros_like(distance)
        if self.bidirectional:
            buckets //= 2
            offset = (distance > 0).long() * buckets
            distance = distance.abs()
        else:
            distance = (-distance).clamp_min(0)
        exact = buckets // 2
        ratio = torch.log(distance.clamp_min(1).float() / exact) / math.log(self.reach / exact)
        far = exact + (ratio * (buckets - exact)).long()
        return offset + torch.where(distance < exact, distance, far.clamp_max(buckets - 1))


class Attention(nn.Module):
    """Multi-head attention without scaling and without biases."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        inner = shape.heads * shape.head_width
        self.heads, self.dropout = shape.heads, shape.dropout
        self.q = nn.Linear(shape.width, inner, bias=False)
        self.k = nn.Linear(shape.width, inner, bias=False)
        self.v = nn.Linear(shape.width, inner, bias=False)
        self.o = nn.Linear(inner, shape.width, bias=False)

    def split(self, x: Tensor) -> Tensor:
        """[B, T, H*d] -> [B, H, T, d]"""
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def keys_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.split(self.k(x)), self.split(self.v(x))

    def forward(self, x: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
        """x [B, T, width] looks at key, value [B, H, S, d]; bias broadcasts to [B, H, T, S].

        Something must be visible to every query: no bias hides all of S.
        """
        if key.shape[2] == 1:
            # A softmax over one thing is 1, so the value is the answer. (And attention dropout
            # would not thin the only soft token but drop it.)
            out = value.expand(-1, -1, x.shape[1], -1)
        else:
            query = self.split(self.q(x))
            out = F.scaled_dot_product_attention(
                query,
                key,
                value,
                attn_mask=None if bias is None else bias.to(query.dtype),
                dropout_p=self.dropout if self.training else 0.0,
                scale=1.0,
            )
        projected: Tensor = self.o(out.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1))
        return projected


class FeedForward(nn.Module):
    """Two linear maps with a ReLU between them, or T5 1.1's gated GELU."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate = nn.Linear(shape.width, shape.feed_forward, bias=False) if shape.gated else None
        self.up = nn.Linear(shape.width, shape.feed_forward, bias=False)
        self.down = nn.Linear(shape.feed_forward, shape.width, bias=False)
        self.dropout = Dropout(shape.dropout)

    def forward(self, x: Tensor) -> Tensor:
        if self.gate is None:
            hidden = F.relu(self.up(x))
        else:
            hidden = F.gelu(self.gate(x), approximate="tanh") * self.up(x)
        out: Tensor = self.down(self.dropout(hidden))
        return out


class Block(nn.Module):
    """One layer: look at what was spelled, look at the query (decoder only), think."""

    def __init__(self, shape: Shape, cross: bool) -> None:
        super().__init__()
        self.self_norm = RMSNorm(shape.width)
        self.self_attention = Attention(shape)
        self.cross_norm = RMSNorm(shape.width) if cross else None
        self.cross_attention = Attention(shape) if cross else None
        self.forward_norm = RMSNorm(shape.width)
        self.feed_forward = FeedForward(shape)
        self.dropout = Dropout(shape.dropout)

    def look_around(self, x: Tensor, bias: Tensor) -> Tensor:
        """Self-attention over a whole sequence: x [B, T, width]."""
        normed = self.self_norm(x)
        seen = self.self_attention(normed, *self.self_attention.keys_values(normed), bias)
        out: Tensor = x + self.dropout(seen)
        return out

    def look_back(self, x: Tensor, bias: Tensor, cache: Cache, layer: int) -> Tensor:
        """Self-attention of one new position a row: x [rows, 1, width]."""
        normed = self.self_norm(x)
        key, value = cache.append(layer, *self.self_attention.keys_values(normed))
        return x + cast(Tensor, self.self_attention(normed, key, value, bias))

    def read_query(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of the query's states."""
        assert self.cross_attention is not None
        return self.cross_attention.keys_values(states)

    def look_at_query(self, x: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
        """Cross-attention: x [B, T or W, width], every row of a query sees the same memory."""
        assert self.cross_norm is not None and self.cross_attention is not None
        seen = self.cross_attention(self.cross_norm(x), key, value, bias)
        out: Tensor = x + self.dropout(seen)
        return out

    def think(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.dropout(self.feed_forward(self.forward_norm(x)))
        return out


class Stack(nn.Module):
    """An encoder (``cross=False``) or a decoder."""

    def __init__(self, shape: Shape, cross: bool) -> None:
        super().__init__()
        self.shape, self.cross = shape, cross
        self.blocks = nn.ModuleList(Block(shape, cross) for _ in range(shape.layers))
        self.bias = RelativeBias(shape, bidirectional=not cross)
        self.norm = RMSNorm(shape.width)
        self.dropout = Dropout(shape.dropout)

    def layers(self) -> list[Block]:
        return cast("list[Block]", list(self.blocks))

    def encode(self, x: Tensor, mask: Tensor) -> Tensor:
        """x [B, S, width], mask [B, S] -> [B, S, width]"""
        bias = self.bias(x.shape[1]) + _blind(mask, x)
        x = self.dropout(x)
        for block in self.layers():
            x = block.think(block.look_around(x, bias))
        out: Tensor = self.dropout(self.norm(x))
        return out

    def project(self, memory: Memory) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of the memory for every layer, once a query."""
        return [block.read_query(memory.states) for block in self.layers()]

    def decode(self, x: Tensor, memory: Memory) -> Tensor:
        """All positions at once (teacher forcing): x [B, T, width]."""
        length = x.shape[1]
        future = torch.full((length, length), float("-inf"), device=x.device).triu(1)
        bias, blind = self.bias(length) + future, _blind(memory.mask, x)
        x = self.dropout(x)
        for block, (key, value) in zip(self.layers(), self.project(memory), strict=True):
            x = block.look_around(x, bias)
            x = block.think(block.look_at_query(x, key, value, blind))
        out: Tensor = self.dropout(self.norm(x))
        return out

    def step(
        self,
        x: Tensor,
        projected: list[tuple[Tensor, Tensor]],
        mask: Tensor,
        cache: Cache,
        level: int,
    ) -> Tensor:
        """One new position of every beam: x [B, W, width]; the cache has B*W rows."""
        queries, beams, width = x.shape
        bias = self.bias(level + 1)[:, :, level:, :]
        blind = _blind(mask, x)
        for layer, (block, (key, value)) in enumerate(zip(self.layers(), projected, strict=True)):
            rows = x.reshape(queries * beams, 1, width)
            x = block.look_back(rows, bias, cache, layer).view(queries, beams, width)
            x = block.think(block.look_at_query(x, key, value, blind))
        out: Tensor = self.norm(x)
        return out


def _blind(mask: Tensor, like: Tensor) -> Tensor:
    """[B, S] bool -> [B, 1, 1, S] of 0 and -inf."""
    zero = torch.zeros(mask.shape, dtype=torch.float32, device=like.device)
    return zero.masked_fill(~mask, float("-inf"))[:, None, None, :]
