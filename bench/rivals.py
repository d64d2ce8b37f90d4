"""What people use otherwise: transformers' generate with a prefix function, as it comes.

The prefix function looks legal next tokens up in a dictionary of prefixes, which is how GENRE, DSI
and most released code of the field do it. Variants: fp32, fp32 with matrix products at "medium"
precision, bf16, and int8 by torch's dynamic quantisation.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from shapes import World

from trieline.model import Asked

__all__ = ["Dictionaries", "Generated", "Rival", "Variant", "step_dictionaries"]

Variant = Literal["fp32", "medium", "bf16", "int8"]
Dictionaries = dict[int, Any]


class Generated(NamedTuple):
    """The first docids of each query, and their scores."""

    docids: list[list[tuple[int, ...]]]
    scores: NDArray[np.float32]


class Rival:
    """transformers over the same weights, for the first ``k`` docids."""

    def __init__(self, world: World, variant: Variant, k: int = 10) -> None:
        self.world, self.variant, self.k = world, variant, k
        self.model = _variant(world.t5, variant)
        self.legal = _legal(world)

    @torch.inference_mode()
    def __call__(self, asked: Asked) -> Generated:
        shape, model = self.world.shape, self.model
        with _precision(self.variant):
            out = model.generate(
                **self._question(asked),
                num_beams=shape.beam,
                num_return_sequences=self.k,
                min_new_tokens=len(shape.sizes),
                max_new_tokens=len(shape.sizes),
                do_sample=False,
                length_penalty=0.0,
                prefix_allowed_tokens_fn=self.allowed,
                return_dict_in_generate=True,
                output_scores=True,
            )
        tokens = out.sequences[:, 1:].cpu().view(-1, self.k, len(shape.sizes))
        codes = tokens - torch.tensor(shape.offsets)
        docids = [[tuple(docid) for docid in query] for query in codes.tolist()]
        return Generated(docids, out.sequences_scores.view(-1, self.k).float().cpu().numpy())

    def allowed(self, _: int, ids: torch.Tensor) -> list[int]:
        """The tokens that may follow."""
        return self.legal[tuple(ids[1:].tolist())]

    def _question(self, asked: Asked) -> dict[str, Any]:
        from transformers.modeling_outputs import BaseModelOutput

        if asked.tokens is not None and asked.token_mask is not None:
            return {"input_ids": asked.tokens, "attention_mask": asked.token_mask.long()}
        memory = self.world.speller.read(asked)
        states = memory.states.to(next(self.model.parameters()).dtype)
        return {
            "encoder_outputs": BaseModelOutput(states),
            "attention_mask": memory.mask.long(),
        }


def _variant(model: Any, variant: Variant) -> Any:
    match variant:
        case "bf16":
            return copy.deepcopy(model).to(torch.bfloat16)
        case "int8":
            with warnings.catch_warnings():  # torch advises another package; this is what it has
                warnings.simplefilter("ignore")
                return torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, torch.qint8)
        case _:
            return model


@contextmanager
def _precision(variant: Variant) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium" if variant == "medium" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _legal(world: World) -> dict[tuple[int, ...], list[int]]:
    """Prefix -> the tokens that may follow."""
    tokens = (world.codes.astype(int) + np.array(world.shape.offsets)).tolist()
    found: dict[tuple[int, ...], set[int]] = {}
    for docid in tokens:
        for level, token in enumerate(docid):
            found.setdefault(tuple(docid[:level]), set()).add(token)
    return {prefix: sorted(after) for prefix, after in found.items()}


# --- a trie of nested dictionaries --------------------------------------------------------------


def step_dictionaries(
    nodes: list[Dictionaries], table: NDArray[np.float32], bounds: list[int], width: int
) -> list[list[tuple[float, int, int]]]:
    """Gather the children of every beam's node, keep the best of each query: one step."""
    kept = []
    for low, high in pairwise(bounds):
        found = [
            (score, beam, code)
            for beam in range(low, high)
            for code, score in zip(
                nodes[beam], table[beam, list(nodes[beam])].tolist(), strict=True
            )
        ]
        found.sort(key=itemgetter(0), reverse=True)
        kept.append(found[:width])
    return kept
