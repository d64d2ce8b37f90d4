"""Our T5 layers against transformers' T5 on the same weights: equal logits."""

from __future__ import annotations

import pytest
import torch
from transformers import T5Config, T5ForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutput

from trieline.config import ModelSettings
from trieline.errors import SettingsError
from trieline.model import Asked, Speller, build_speller
from trieline.model.checkpoint import load_t5

SIZES = (7, 11, 5)
OFFSETS = (3, 10, 21)  # where each level's codes begin in the checkpoint's vocabulary


def t5(tied: bool = True, gated: bool = False) -> T5ForConditionalGeneration:
    torch.manual_seed(3)
    config = T5Config(
        vocab_size=32,
        d_model=24,
        d_kv=8,
        d_ff=40,
        num_layers=2,
        num_decoder_layers=2,
        num_heads=3,
        feed_forward_proj="gated-gelu" if gated else "relu",
        tie_word_embeddings=tied,
        decoder_start_token_id=0,
        pad_token_id=0,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=10,
    )
    model = T5ForConditionalGeneration(config).eval()
    for parameter in model.parameters():  # nothing left at a start value that hides a mistake
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


def ours(model: T5ForConditionalGeneration, gated: bool = False) -> Speller:
    from trieline.model.checkpoint import t5_shape
    from trieline.model.heads import Alphabet
    from trieline.model.readers import VectorReader
    from trieline.model.t5 import Stack

    shape = t5_shape(model.config)
    reader = VectorReader(6, 4, shape)
    speller = Speller(Alphabet(SIZES, shape.width), reader, Stack(shape, cross=True)).eval()
    load_t5(speller, model, OFFSETS)
    return speller


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("gated", [True, False])
def test_logits_equal_transformers(tied: bool, gated: bool) -> None:
    model = t5(tied, gated)
    speller = ours(model, gated)
    asked = Asked(vector=torch.randn(5, 6))
    codes = torch.stack([torch.randint(0, size, (5,)) for size in SIZES], 1)
    tokens = codes + torch.tensor(OFFSETS)
    with torch.no_grad():
        memory = speller.read(asked)
        decoder_input = torch.cat([torch.zeros(5, 1, dtype=torch.long), tokens[:, :-1]], 1)
        theirs = model(
            encoder_outputs=BaseModelOutput(memory.states), decoder_input_ids=decoder_input
        ).logits
        for level, logits in enumerate(speller(asked, codes)):
            low = OFFSETS[level]
            torch.testing.assert_close(
                logits, theirs[:, level, low : low + SIZES[level]], atol=1e-5, rtol=1e-5
            )


def test_encoder_equals_transformers() -> None:
    model = t5()
    speller = ours(model)
    x = torch.randn(2, 12, 24)  # longer than the exact buckets reach
    mask = torch.ones(2, 12, dtype=torch.bool)
    mask[1, 7:] = False
    with torch.no_grad():
        theirs = model.encoder(inputs_embeds=x, attention_mask=mask.long()).last_hidden_state
        mine = speller.reader.encoder.encode(x, mask)
    torch.testing.assert_close(mine[0], theirs[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(mine[1, :7], theirs[1, :7], atol=1e-5, rtol=1e-5)


def test_checkpoint_folder_loads_and_a_wrong_size_is_refused(tmp_path) -> None:
    t5().save_pretrained(tmp_path)
    settings = ModelSettings(
        width=24, heads=3, head_width=8, feed_forward=40, decoder_layers=2, dropout=0.0
    )
    speller = build_speller(settings, SIZES, dim=6)
    with pytest.raises(SettingsError, match="buckets"):
        load_t5(speller, tmp_path)
    with pytest.raises(SettingsError, match="not a T5 checkpoint"):
        load_t5(speller, tmp_path / "nowhere")
