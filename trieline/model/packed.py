"""A speller packed for a CPU: the same scores as ``TorchStepper`` gives, several times faster.

What is saved, in the order of what it brings: weights packed for oneDNN in fp32, bf16 or int8,
with the norms folded in and queries, keys and values in one product; keys and values appended to
an arena and never reordered; with a single soft token, cross-attention is a softmax over one thing
and so one added vector a layer; whatever is between the products happens in one pass over a row.

The trap: only fp32 gives the speller's own scores. bf16 and int8 round, and rank near ties anew.
"""

from __future__ import annotations

import copy
from types import ModuleType
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from trieline.errors import SettingsError
from trieline.model.linear import Linear, Precision, Rows, elements, make_linear, narrowed, works
from trieline.model.readers import Asked
from trieline.model.seq2seq import Speller
from trieline.model.stepper import Ancestors, Ints, Prefixes, Spells
from trieline.model.t5 import Attention, Block, Memory
from trieline.types import Floats

__all__ = ["PackedSpeller", "PackedStepper", "pack", "quickest"]

_NOTHING = np.empty((0, 0), np.float32)
_FIRST = 64  # slots that an arena begins with


class _Layer(NamedTuple):
    """The products of a layer."""

    look_back: Linear  # [3A, D]: queries, keys and values of self-attention
    say_back: Linear  # [D, A]
    ask: Linear  # [A, D]: queries of cross-attention
    say_query: Linear  # [D, A]
    gate: Linear | None  # [F, D], T5 1.1 only
    up: Linear  # [F, D]
    down: Linear  # [D, F]


def pack(speller: Speller, precision: Precision = "fp32") -> PackedSpeller:
    """The speller for searches on this CPU. Its weights are copied: training on is not seen."""
    if speller.device.type != "cpu":
        raise SettingsError(
            f"the model is on {speller.device}: packed weights are for a CPU. On other devices "
            "choose precision fp32 or bf16 and search with the speller itself."
        )
    if not works(precision):
        raise SettingsError(
            f"this torch ({torch.__version__}) on this CPU cannot multiply packed {precision} "
            "weights. Load with another precision: fp32 always works."
        )
    return PackedSpeller(speller, precision)


def quickest(speller: Speller, precision: Precision = "fp32") -> Spells:
    """The speller packed where that can be done, else in its precision as it is.

    Other devices compute int8 in bf16.
    """
    if speller.device.type == "cpu" and works(precision):
        return pack(speller, precision)
    if precision == "fp32":
        return speller
    rounded = copy.deepcopy(speller).to(torch.bfloat16)
    return rounded.eval()


class PackedSpeller:
    """Weights, shared by all searches and threads."""

    def __init__(self, speller: Speller, precision: Precision) -> None:
        """For ``pack``."""
        self.speller, self.precision = speller, precision
        self.device = torch.device("cpu")
        self.sizes = speller.sizes
        decoder, alphabet = speller.decoder, speller.alphabet
        self.heads, self.levels = decoder.shape.heads, len(speller.sizes)
        self.inner = decoder.shape.heads * decoder.shape.head_width
        with torch.inference_mode():
            self.layers = [_packed_layer(block, precision) for block in decoder.layers()]
            norm = decoder.norm.weight
            bounds = list(zip(alphabet.bounds, alphabet.bounds[1:], strict=False))
            self.spelled = [
                make_linear(alphabet.output[low:high] * norm, precision) for low, high in bounds
            ]
            self.embedding = alphabet.embedding.detach().float().numpy().copy()
            self.start = alphabet.start.detach().float().numpy().copy()
            bias = decoder.bias(self.levels)[0].permute(1, 2, 0)  # [T, T, H]
            self.bias = bias.float().contiguous().numpy().copy()

    def stepper(self) -> PackedStepper:
        """For one batch of queries."""
        return PackedStepper(self)


def _packed_layer(block: Block, precision: Precision) -> _Layer:
    def pack_linear(weight: Tensor, norm: Tensor | None = None) -> Linear:
        return make_linear(weight if norm is None else weight * norm, precision)

    back, across, think = block.self_attention, block.cross_attention, block.feed_forward
    assert across is not None and block.cross_norm is not None
    gate = None if think.gate is None else pack_linear(think.gate.weight, block.forward_norm.weight)
    return _Layer(
        look_back=pack_linear(
            torch.cat([back.q.weight, back.k.weight, back.v.weight]), block.self_norm.weight
        ),
        say_back=pack_linear(back.o.weight),
        ask=pack_linear(across.q.weight, block.cross_norm.weight),
        say_query=pack_linear(across.o.weight),
        gate=gate,
        up=pack_linear(think.up.weight, block.forward_norm.weight),
        down=pack_linear(think.down.weight),
    )


class _Way(NamedTuple):
    """Where new rows come from."""

    ancestors: Ints  # [n, L]
    at: Ints  # [n] positions
    first: int  # slot of the first of them
    keep: bool


class PackedStepper:
    """Spells one batch of queries; see ``Stepper``."""

    def __init__(self, model: PackedSpeller) -> None:
        self.model = model
        self.work = torch.float32 if model.precision == "fp32" else torch.bfloat16
        self._ancestors = Ancestors(model.levels)
        shape = (_FIRST, 2 * model.inner)
        self._arenas = [torch.empty(shape, dtype=self.work) for _ in model.layers]

    @property
    def used(self) -> int:
        return self._ancestors.used

    @torch.inference_mode()
    def begin(self, asked: Asked) -> Prefixes:
        memory = self.model.speller.read(asked)
        blocks = self.model.speller.decoder.layers()
        across = [block.cross_attention for block in blocks]
        count, length, _ = memory.states.shape
        if length == 1:  # a softmax over one thing is 1: what is said is the same for every row
            self._said = [_said_of_one(attention, memory) for attention in across]
            self._memory: list[Floats] = []
        else:
            self._said = []
            self._lengths, seen = _packed_memory(memory)
            self._memory = [_keys_values(attention, seen) for attention in across]
        queries = np.arange(count)
        start = np.repeat(self.model.start[None], count, 0)
        return self._read(start, np.full(count, -1), np.zeros(count, np.int64), queries, True)

    @torch.inference_mode()
    def extend(
        self, parents: Ints, codes: Ints, levels: Ints, queries: Ints, *, keep: bool = True
    ) -> Prefixes:
        rows = codes + np.asarray(self.model.speller.alphabet.bounds)[levels]
        return self._read(self.model.embedding[rows], parents, levels + 1, queries, keep)

    @torch.inference_mode()
    def logits(self, states: Tensor, level: int) -> Floats:
        return self._spelled(self.model.spelled[level], states)

    @torch.inference_mode()
    def totals(self, states: Tensor) -> Floats:
        # Level by level: a product with all codes at once would not stay in the caches.
        parts = [
            torch.from_numpy(self._spelled(head, states)).logsumexp(-1)
            for head in self.model.spelled
        ]
        total: Floats = torch.stack(parts).logsumexp(0).numpy()
        return total

    def _spelled(self, head: Linear, states: Tensor) -> Floats:
        rows = self._ready(states, np.ones(len(states), np.float32))
        values, scales = head(rows)
        wide = values.float()
        if self.model.precision == "int8":
            wide *= torch.from_numpy(scales)[:, None]
        scores: Floats = wide.numpy()
        return scores

    def _read(self, h: Floats, parents: Ints, at: Ints, queries: Ints, keep: bool) -> Prefixes:
        """h fp32 [n, D], embedded codes at positions ``at`` [n], through all layers."""
        slots = np.arange(self.used, self.used + len(parents))
        way = _Way(self._ancestors.add(parents, at, keep), at, int(slots[0]), keep)
        delta = Rows(torch.empty((0, 0), dtype=self.work), np.ones(len(h), np.float32))
        for number, layer in enumerate(self.model.layers):
            qkv = layer.look_back(self._norm(h, delta, _NOTHING, queries))
            delta = layer.say_back(self._look_back(number, qkv, way))
            extra = _NOTHING
            if self._said:
                extra = self._said[number]
            else:
                asks = layer.ask(self._norm(h, delta, _NOTHING, queries))
                delta = layer.say_query(self._look(asks, self._memory[number], queries))
            delta = layer.down(self._think(layer, self._norm(h, delta, extra, queries)))
        states = torch.empty(h.shape, dtype=self.work)
        kernels = _kernels()
        kernels.add_norm(
            h, elements(delta.values), delta.scales, _NOTHING, queries, elements(states)
        )
        return Prefixes(slots, states)

    def _norm(self, h: Floats, delta: Rows, extra: Floats, queries: Ints) -> Rows:
        """h += delta + extra, in place; h normalised, as the next product wants it."""
        kernels, given = _kernels(), elements(delta.values)
        scales = np.ones(len(h), np.float32)
        if self.model.precision == "int8":
            narrow = torch.empty(h.shape, dtype=torch.uint8)
            kernels.add_norm_narrow(h, given, delta.scales, extra, queries, narrow.numpy(), scales)
            return Rows(narrow, scales)
        out = torch.empty(h.shape, dtype=self.work)
        kernels.add_norm(h, given, delta.scales, extra, queries, elements(out))
        return Rows(out, scales)

    def _look_back(self, layer: int, qkv: Rows, way: _Way) -> Rows:
        out = torch.empty((len(way.at), self.model.inner), dtype=self.work)
        values = elements(qkv.values)
        arena = elements(self._room(layer))
        _kernels().attend(
            values,
            qkv.scales,
            arena,
            way.first,
            way.ancestors,
            way.at,
            self.model.bias,
            elements(out),
        )
        if way.keep:
            _kernels().keep(values, qkv.scales, arena, way.first)
        return self._ready(out, np.ones(len(way.at), np.float32))

    def _look(self, asks: Rows, memory: Floats, queries: Ints) -> Rows:
        out = torch.empty(asks.values.shape, dtype=self.work)
        _kernels().look(
            elements(asks.values),
            asks.scales,
            memory,
            self._lengths,
            queries,
            self.model.heads,
            elements(out),
        )
        return self._ready(out, np.ones(len(queries), np.float32))

    def _think(self, layer: _Layer, x: Rows) -> Rows:
        if layer.gate is None:
            return self._ready(*layer.up(x, relu=True))
        gate, up = layer.gate(x), layer.up(x)
        scale = torch.from_numpy(x.scales)[:, None]
        opened = F.gelu(gate.values.float() * scale, approximate="tanh") * (up.values * scale)
        return self._ready(opened.to(self.work), np.ones(len(x.scales), np.float32))

    def _ready(self, values: Tensor, scales: Floats) -> Rows:
        """Rows as the products want them."""
        rows = Rows(values, scales)
        return narrowed(rows) if self.model.precision == "int8" else rows

    def _room(self, layer: int) -> Tensor:
        """The arena of a layer, large enough for all slots; it grows by doubling."""
        arena = self._arenas[layer]
        if self.used > len(arena):
            grown = arena.new_empty((max(self.used, 2 * len(arena)), arena.shape[1]))
            grown[: len(arena)] = arena
            self._arenas[layer] = arena = grown
        return arena


def _kernels() -> ModuleType:
    """Imported when first needed: numba takes half a second."""
    from trieline.model import kernels

    return kernels


def _said_of_one(attention: Attention | None, memory: Memory) -> Floats:
    """What cross-attention adds when there is one thing to look at: [B, D]."""
    assert attention is not None
    said: Floats = attention.o(attention.v(memory.states[:, 0])).float().numpy()
    return said


def _packed_memory(memory: Memory) -> tuple[Ints, Tensor]:
    """How many states of each query can be seen [B], and the states, those first [B, S, D]."""
    order = (~memory.mask).long().argsort(dim=1, stable=True)
    states = memory.states.gather(1, order[..., None].expand_as(memory.states))
    return memory.mask.sum(1).numpy(), states


def _keys_values(attention: Attention | None, states: Tensor) -> Floats:
    """[B, S, 2A]"""
    assert attention is not None
    both = torch.cat([attention.k(states), attention.v(states)], -1)
    return np.ascontiguousarray(both.float().numpy())
