"""Beam search over a trie: many queries together, only what exists, ties always the same way.

The trap in released code: a beam padded with fillers at -1e9, which overwrite good hypotheses where
fewer docids exist than beams. Here the children of all live prefixes are gathered first and the
best are taken of those, so that nothing illegal is ever a candidate and a beam holds as many
hypotheses as exist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trieline.decode.guides import Guide, Score
from trieline.errors import IndexMismatch, SettingsError
from trieline.index import Trie
from trieline.model.readers import Asked
from trieline.model.seq2seq import Speller, Spelling
from trieline.types import Floats, Step

__all__ = ["Expansion", "Found", "Normalise", "beam_search"]

Normalise = Literal["level", "legal", "raw", "vocab"]
Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]


class Found(NamedTuple):
    """The answers to one query, best first."""

    items: NDArray[np.uint32]  # [k] item numbers
    scores: Floats  # [k]
    leaves: Ints  # [k] the trie's leaf of each item's docid
    traces: tuple[tuple[Step, ...], ...]  # [k], empty unless asked for


class Expansion(NamedTuple):
    """Everything that one level of the search saw, for those who ask why."""

    level: int
    query: Ints  # [C] of each candidate, ascending
    parents: Ints  # [C] live beam that it extends
    codes: Ints  # [C]
    nodes: Ints  # [C]
    step: Doubles  # [C] the model's score
    carry: Doubles  # [C] sum of the guides' carried votes
    look: Doubles  # [C] sum of the guides' looks ahead
    select: Doubles  # [C] what ranks
    kept: Ints  # [n] candidates that live on: by query, best first
    votes: tuple[tuple[str, Score], ...] = ()  # each guide's name and vote


class _Beams(NamedTuple):
    """All live prefixes, by query, best first."""

    query: Ints  # [n]
    slot: Ints  # [n] place within the query's beam
    node: Ints  # [n]
    carried: Doubles  # [n]


@torch.inference_mode()
def beam_search(
    speller: Speller,
    asked: Asked,
    trie: Trie,
    *,
    beam: int = 50,
    k: int = 10,
    normalise: Normalise = "level",
    guides: Sequence[Guide] = (),
    vectors: Floats | None = None,
    trace: bool = False,
    observe: Callable[[Expansion], None] | None = None,
) -> list[Found]:
    """The best ``k`` items of every query. ``vectors`` [B, D] are what guides compare with.

    The beam is never narrower than ``k``, so that k items come back wherever the trie has them.
    """
    _check(speller, trie, beam, k, guides, vectors)
    width = max(beam, k)
    spelling = speller.begin(asked)
    count = len(spelling.mask)
    zeros = np.zeros(count, np.int64)
    live = _Beams(np.arange(count), zeros, zeros, np.zeros(count))
    states = [guide.start(vectors, trie) for guide in guides if vectors is not None]
    codes: Tensor | None = None
    history: list[tuple[Ints, Ints, Doubles, Ints]] = []
    for level in range(trie.depth):
        hidden = speller.step(spelling, codes, level)
        candidates = _expand(speller, trie, hidden, level, live, normalise, guides, states)
        kept = _best(candidates.select, candidates.query, count, width)
        kept = kept[np.isfinite(candidates.select[kept])]  # what a guide forbids does not exist
        candidates = candidates._replace(kept=kept)
        if observe is not None:
            observe(candidates)
        last = level == trie.depth - 1
        parents, chosen = candidates.parents[kept], candidates.codes[kept]
        states = [
            guide.follow(state, level, parents, chosen)
            for guide, state in zip(guides, states, strict=True)
        ]
        live, codes = _advance(candidates, live, spelling, hidden.shape[1], last)
        if trace:
            history.append((parents, chosen, live.carried, live.slot))
        if not len(kept):
            break
    return [_collect(trie, live, query, k, history) for query in range(count)]


def _check(
    speller: Speller,
    trie: Trie,
    beam: int,
    k: int,
    guides: Sequence[Guide],
    vectors: Floats | None,
) -> None:
    if tuple(trie.sizes) != speller.sizes:
        raise IndexMismatch(
            f"this index spells {_spell(trie.sizes)}, the model {_spell(speller.sizes)}. "
            "Rebuild with 'trieline build', or load the model trained for it."
        )
    if beam < 1 or k < 1:
        raise SettingsError(f"beam = {beam}, k = {k}: both must be at least 1.")
    if guides and vectors is None:
        raise SettingsError("guides compare with query vectors: pass vectors=.")


def _spell(sizes: Sequence[int]) -> str:
    if len(set(sizes)) == 1:
        return f"{len(sizes)} levels of {sizes[0]} codes"
    return f"{len(sizes)} levels of {'/'.join(map(str, sizes))} codes"


def _expand(
    speller: Speller,
    trie: Trie,
    hidden: Tensor,
    level: int,
    live: _Beams,
    normalise: Normalise,
    guides: Sequence[Guide],
    states: Sequence[Any],
) -> Expansion:
    """All children of all live prefixes, scored."""
    parents, codes, nodes = trie.expand(level, live.node)
    rows = live.query * hidden.shape[1] + live.slot
    step = _step_scores(speller, hidden, level, rows, parents, codes, normalise)
    carry, look = np.zeros(len(codes)), np.zeros(len(codes))
    votes = [
        (guide.name, guide.score(state, level, parents, codes, nodes))
        for guide, state in zip(guides, states, strict=True)
    ]
    for _, vote in votes:
        carry += 0.0 if vote.carry is None else vote.carry
        look += 0.0 if vote.look is None else vote.look
    select = live.carried[parents] + step + carry + look
    query = live.query[parents]
    nobody = np.empty(0, np.int64)
    return Expansion(
        level, query, parents, codes, nodes, step, carry, look, select, nobody, tuple(votes)
    )


def _step_scores(
    speller: Speller,
    hidden: Tensor,
    level: int,
    rows: Ints,
    parents: Ints,
    codes: Ints,
    normalise: Normalise,
) -> Doubles:
    """The model's score of each candidate: float64 [C]."""
    flat = hidden.reshape(-1, hidden.shape[-1])[torch.from_numpy(rows).to(hidden.device)]
    logits = speller.alphabet.logits(flat, level).float()  # [n, V]
    at = torch.from_numpy(parents).to(hidden.device), torch.from_numpy(codes).to(hidden.device)
    if normalise == "level":
        logits = logits.log_softmax(-1)
    elif normalise == "vocab":
        joint = speller.alphabet.joint_logits(flat).float()
        logits = logits - joint.logsumexp(-1, keepdim=True)
    scores: Doubles = logits[at].double().cpu().numpy()
    if normalise == "legal" and len(scores):
        starts = np.flatnonzero(np.r_[True, parents[1:] != parents[:-1]])
        total = np.logaddexp.reduceat(scores, starts)
        scores = scores - np.repeat(total, np.diff(np.r_[starts, len(scores)]))
    return scores


def _best(select: Doubles, query: Ints, count: int, width: int) -> Ints:
    """The best ``width`` candidates of each query, best first; ties go to the earlier candidate."""
    bounds = np.searchsorted(query, np.arange(count + 1))
    kept = [low + _top(select[low:high], width) for low, high in pairwise(bounds)]
    return np.concatenate(kept) if kept else np.empty(0, np.int64)


def _top(scores: Doubles, width: int) -> Ints:
    if len(scores) <= width:
        return np.argsort(-scores, kind="stable")
    cut = np.partition(scores, len(scores) - width)[len(scores) - width]
    above = np.flatnonzero(scores > cut)
    tied = np.flatnonzero(scores == cut)[: width - len(above)]
    chosen = np.sort(np.concatenate([above, tied]))
    return chosen[np.argsort(-scores[chosen], kind="stable")]


def _advance(
    candidates: Expansion, live: _Beams, spelling: Spelling, old_width: int, last: bool
) -> tuple[_Beams, Tensor | None]:
    """The beams of the next level; caches follow their parents, short beams are padded."""
    kept = candidates.kept
    query, parents = candidates.query[kept], candidates.parents[kept]
    score = candidates.select[kept] - (0.0 if last else candidates.look[kept])
    first = np.searchsorted(query, query)  # the query's first beam
    slot = np.arange(len(kept)) - first
    beams = _Beams(query, slot, candidates.nodes[kept], score)
    if last or not len(kept):
        return beams, None
    count, width = len(spelling.mask), int(slot.max()) + 1
    rows = np.repeat(np.arange(count) * old_width, width)  # padding repeats the query's first row
    rows[query * width + slot] = live.query[parents] * old_width + live.slot[parents]
    codes = np.zeros(count * width, np.int64)
    codes[query * width + slot] = candidates.codes[kept]
    device = spelling.mask.device
    spelling.cache.reorder(torch.from_numpy(rows).to(device))
    return beams, torch.from_numpy(codes).view(count, width).to(device)


def _collect(
    trie: Trie,
    live: _Beams,
    query: int,
    k: int,
    history: Sequence[tuple[Ints, Ints, Doubles, Ints]],
) -> Found:
    """Complete docids to items: shared docids give all their items, an item counts once."""
    low, high = np.searchsorted(live.query, [query, query + 1])
    items, leaf = trie.items(live.node[low:high])
    order = np.lexsort((items, -live.carried[low:high][leaf]))
    _, first = np.unique(items[order], return_index=True)
    best = order[np.sort(first)][:k]
    beams = low + leaf[best]
    traces = tuple(_backtrack(history, int(beam)) for beam in beams) if history else ()
    scores = live.carried[beams].astype(np.float32)
    return Found(items[best].astype(np.uint32), scores, live.node[beams], traces)


def _backtrack(history: Sequence[tuple[Ints, Ints, Doubles, Ints]], beam: int) -> tuple[Step, ...]:
    steps: list[Step] = []
    for parents, codes, carried, slot in reversed(history):
        steps.append(Step(int(codes[beam]), float(carried[beam]), int(slot[beam]) + 1))
        beam = int(parents[beam])
    return tuple(reversed(steps))
