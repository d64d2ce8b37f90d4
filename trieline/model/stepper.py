"""A batch of queries being spelled, prefix by prefix: what every search over docids drives.

A *slot* is a prefix whose keys and values are kept. ``begin`` gives each query the slot of its
empty prefix; ``extend`` makes new ones by adding a code to old ones, in any order and at any mix of
levels. Nothing is copied or reordered when a search narrows: a prefix finds its past through the
table of its ancestors, and prefixes that nobody extends any more are simply not asked for again.

A prefix may extend one of the same call (its slot is known beforehand: slots are counted), so that
a forced tail is scored in one pass: list it parents first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trieline.model.readers import Asked
from trieline.model.t5 import Block
from trieline.types import Floats

if TYPE_CHECKING:
    from trieline.model.seq2seq import Speller

__all__ = ["Ancestors", "Prefixes", "Spells", "Stepper", "TorchStepper"]

Ints = NDArray[np.int64]


class Prefixes(NamedTuple):
    """Prefixes that a stepper has read; row i of ``states`` is what slot ``slots[i]`` knows."""

    slots: Ints  # [n], consecutive
    states: Tensor  # [n, width], on the stepper's device


class Stepper(Protocol):
    """Spells a batch of queries. Single use: ``begin`` first, once."""

    @property
    def used(self) -> int:
        """How many slots there are: the number of the next one."""

    def begin(self, asked: Asked) -> Prefixes:
        """Read the queries; the empty prefix of query b is row b, slot b."""

    def extend(
        self, parents: Ints, codes: Ints, levels: Ints, queries: Ints, *, keep: bool = True
    ) -> Prefixes:
        """Prefix i is slot ``parents[i]`` of query ``queries[i]`` and the code ``codes[i]`` of
        level ``levels[i]`` (from 0). Its state scores the codes of the level after.

        Without ``keep`` nobody may extend these any more: their slots are given away again."""

    def logits(self, states: Tensor, level: int) -> Floats:
        """states [n, width] of prefixes with ``level`` codes -> [n, V] of the next one."""

    def totals(self, states: Tensor) -> Floats:
        """[n]: log of the summed exponentials over the codes of all levels."""


class Spells(Protocol):
    """What a search is given: something that spells docids of these sizes, batch after batch."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Codes of each level."""

    @property
    def device(self) -> torch.device:
        """Where queries must be."""

    def stepper(self) -> Stepper:
        """For one batch of queries."""


class Ancestors:
    """Who came before: of every slot, the slots of its shorter prefixes and itself, by position."""

    def __init__(self, levels: int) -> None:
        self.used = 0
        self._table = np.zeros((64, levels), np.int64)

    def add(self, parents: Ints, at: Ints, keep: bool = True) -> Ints:
        """[n, L] for new slots with these positions. Parents (-1: none) are older, or shorter ones
        of the same call. What is not kept leaves its slots free again."""
        first, end = self.used, self.used + len(parents)
        while end > len(self._table):
            self._table = np.concatenate([self._table, np.zeros_like(self._table)])
        table = self._table
        for position in np.unique(at):  # shorter ones first
            here = np.flatnonzero(at == position)
            slots = first + here
            if position:
                table[slots] = table[parents[here]]
            if position < table.shape[1]:
                table[slots, position] = slots
        self.used = end if keep else first
        return table[first:end]


class TorchStepper:
    """The plain one: any device, the speller's own layers. ``model.packed`` is held to it."""

    def __init__(self, speller: Speller) -> None:
        self.speller, self.device = speller, speller.device
        self._caches = [_Arena() for _ in speller.decoder.layers()]
        self._ancestors = Ancestors(len(speller.sizes))

    @property
    def used(self) -> int:
        return self._ancestors.used

    @torch.inference_mode()
    def begin(self, asked: Asked) -> Prefixes:
        memory = self.speller.read(asked.to(self.device))
        self._projected = self.speller.decoder.project(memory)
        hidden = torch.zeros(memory.mask.shape, device=self.device)
        self._blind = hidden.masked_fill(~memory.mask, float("-inf"))[:, None, None, :]
        count = len(memory.mask)
        queries = np.arange(count)
        start = self.speller.alphabet.start.expand(count, -1)
        return self._read(start, np.full(count, -1), np.zeros(count, np.int64), queries, True)

    @torch.inference_mode()
    def extend(
        self, parents: Ints, codes: Ints, levels: Ints, queries: Ints, *, keep: bool = True
    ) -> Prefixes:
        alphabet = self.speller.alphabet
        rows = codes + np.asarray(alphabet.bounds)[levels]
        embedded = alphabet.embedding[torch.from_numpy(rows).to(self.device)]
        return self._read(embedded, parents, levels + 1, queries, keep)

    @torch.inference_mode()
    def logits(self, states: Tensor, level: int) -> Floats:
        scores: Floats = self.speller.alphabet.logits(states, level).float().cpu().numpy()
        return scores

    @torch.inference_mode()
    def totals(self, states: Tensor) -> Floats:
        joint = self.speller.alphabet.joint_logits(states).float()
        total: Floats = joint.logsumexp(-1).cpu().numpy()
        return total

    def _read(self, x: Tensor, parents: Ints, at: Ints, queries: Ints, keep: bool) -> Prefixes:
        """x [n, width] at positions ``at`` [n] through all layers."""
        slots = np.arange(self.used, self.used + len(parents))
        ancestors = self._ancestors.add(parents, at, keep)
        seen = torch.from_numpy(ancestors[:, : int(at.max(initial=0)) + 1])
        seen = seen.to(self.device)  # [n, T] slots of the prefixes on the way, itself the last
        positions = torch.from_numpy(at).to(self.device)
        bias = self._bias(positions, seen.shape[1], x.dtype)
        who = torch.from_numpy(queries).to(self.device)
        x = x[:, None]
        decoder = self.speller.decoder
        for layer, block in enumerate(decoder.layers()):
            x = self._look_back(block, layer, x, seen, bias)
            key, value = self._projected[layer]
            x = block.look_at_query(x, key[who], value[who], self._blind[who])
            x = block.think(x)
        for arena in self._caches:
            arena.used = self.used
        return Prefixes(slots, decoder.norm(x)[:, 0])

    def _bias(self, positions: Tensor, length: int, dtype: torch.dtype) -> Tensor:
        """[n, H, 1, T]: what attention adds for the distance, and nothing after the prefix."""
        table: Tensor = self.speller.decoder.bias(length)[0]  # [H, T, T]
        bias = table[:, positions].permute(1, 0, 2)  # [n, H, T]
        later = torch.arange(length, device=self.device)[None, :] > positions[:, None]
        return bias.masked_fill(later[:, None, :], float("-inf"))[:, :, None].to(dtype)

    def _look_back(self, block: Block, layer: int, x: Tensor, seen: Tensor, bias: Tensor) -> Tensor:
        normed = block.self_norm(x)
        key, value = block.self_attention.keys_values(normed)  # [n, H, 1, d]
        arena = self._caches[layer]
        arena.append(key[:, :, 0], value[:, :, 0])
        keys = arena.keys[seen].transpose(1, 2)  # [n, H, T, d]
        values = arena.values[seen].transpose(1, 2)
        out: Tensor = x + block.self_attention(normed, keys, values, bias)
        return out


class _Arena:
    """Keys and values of every slot of a layer, [slots, H, d]; grows by doubling."""

    def __init__(self) -> None:
        self.used = 0
        self.keys = self.values = torch.zeros(0)

    def append(self, key: Tensor, value: Tensor) -> None:
        needed = self.used + len(key)
        if needed > len(self.keys):
            self.keys, self.values = (
                _grown(old, new, self.used, max(needed, 2 * self.used))
                for old, new in ((self.keys, key), (self.values, value))
            )
        self.keys[self.used : needed] = key
        self.values[self.used : needed] = value
        self.used = needed


def _grown(old: Tensor, like: Tensor, used: int, size: int) -> Tensor:
    grown = like.new_empty(size, *like.shape[1:])
    if used:
        grown[:used] = old[:used]
    return grown
