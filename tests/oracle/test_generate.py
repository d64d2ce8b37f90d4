"""Our beam search against transformers' generate on the same weights: the same ranking."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import (
    LogitsProcessor,
    LogitsProcessorList,
    PrefixConstrainedLogitsProcessor,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers.modeling_outputs import BaseModelOutput

from trieline.decode import beam_search
from trieline.index import Trie
from trieline.model import Asked, Speller
from trieline.model.checkpoint import load_t5, t5_shape
from trieline.model.heads import Alphabet
from trieline.model.readers import VectorReader
from trieline.model.t5 import Stack
from trieline.types import Codes

SIZES = (12, 9, 14, 6)
OFFSETS = tuple(int(o) for o in np.cumsum([1, *SIZES[:-1]]))  # token 0 starts the decoder
VOCABULARY = 1 + sum(SIZES)
BEAM = 12


class Renormalise(LogitsProcessor):
    """Generate's scores as a softmax over this level's codes, or over the codes of all levels.

    (Its vocabulary has one more token, the start, which is never a code.)
    """

    def __init__(self, normalise: str) -> None:
        self.normalise = normalise

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        level = input_ids.shape[1] - 1
        low, high = OFFSETS[level], OFFSETS[level] + SIZES[level]
        if self.normalise == "vocab":
            low, high = 1, VOCABULARY
        out = torch.full_like(scores, -torch.inf)
        out[:, low:high] = scores[:, low:high].log_softmax(-1)
        return out


@pytest.mark.parametrize("normalise", ["vocab", "level"])
def test_same_ranking_as_generate(normalise: str) -> None:
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=VOCABULARY,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=3,  # generate sizes its cache by the encoder
        num_decoder_layers=3,
        num_heads=4,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=None,
    )
    model = T5ForConditionalGeneration(config).eval()
    model.lm_head.weight.data *= 3
    speller = _speller(model)
    rng = np.random.default_rng(1)
    table = np.stack([rng.integers(0, size, 400) for size in SIZES], 1).astype(np.uint16)
    trie = Trie.build(Codes(table, np.arange(400, dtype=np.uint32)), SIZES)
    asked = Asked(vector=torch.randn(6, 10))

    found = beam_search(speller, asked, trie, beam=BEAM, k=BEAM, normalise=normalise)
    theirs, scores = _generate(model, speller, asked, table, normalise)
    for b in range(6):
        leaves = list(dict.fromkeys(found[b].leaves.tolist()))[:BEAM]
        ours = [trie.docid(leaf) for leaf in leaves]
        assert ours == theirs[b][: len(ours)]
        first = [found[b].scores[found[b].leaves.tolist().index(leaf)] for leaf in leaves]
        np.testing.assert_allclose(first, scores[b][: len(first)], atol=1e-4)


def _speller(model: T5ForConditionalGeneration) -> Speller:
    shape = t5_shape(model.config)
    reader = VectorReader(10, 3, shape._replace(layers=0))
    speller = Speller(Alphabet(SIZES, shape.width), reader, Stack(shape, cross=True)).eval()
    load_t5(speller, model, OFFSETS)
    return speller


def _generate(
    model: T5ForConditionalGeneration,
    speller: Speller,
    asked: Asked,
    table: np.ndarray,
    normalise: str,
) -> tuple[list[list[tuple[int, ...]]], np.ndarray]:
    legal: dict[tuple[int, ...], set[int]] = {}
    for row in (table.astype(int) + np.array(OFFSETS)).tolist():
        for level in range(len(SIZES)):
            legal.setdefault(tuple(row[:level]), set()).add(row[level])
    memory = speller.read(asked)
    with torch.no_grad():
        out = model.generate(
            encoder_outputs=BaseModelOutput(memory.states),
            attention_mask=memory.mask.long(),
            num_beams=BEAM,
            num_return_sequences=BEAM,
            min_new_tokens=len(SIZES),
            max_new_tokens=len(SIZES),
            do_sample=False,
            length_penalty=0.0,
            logits_processor=LogitsProcessorList(
                [  # in this order: generate would apply its own prefix_allowed_tokens_fn first
                    Renormalise(normalise),
                    PrefixConstrainedLogitsProcessor(
                        lambda _, ids: sorted(legal[tuple(ids[1:].tolist())]), BEAM
                    ),
                ]
            ),
            return_dict_in_generate=True,
            output_scores=True,
        )
    sequences = out.sequences[:, 1:].view(6, BEAM, len(SIZES)) - torch.tensor(OFFSETS)
    ranked = [[tuple(docid) for docid in query] for query in sequences.tolist()]
    return ranked, out.sequences_scores.view(6, BEAM).numpy()
