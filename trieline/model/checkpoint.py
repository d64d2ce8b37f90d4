"""Start a speller from a T5 checkpoint, as transformers stores it.

The trap: T5 1.0 scales the decoder's output by width ** -0.5 before the head and T5 1.1 does not
(``scale_decoder_outputs``; transformers 5 reports tied embeddings for both). Here the scale goes
into the output rows, so that logits are equal either way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trieline.errors import SettingsError
from trieline.model.seq2seq import Speller
from trieline.model.t5 import Shape, Stack

__all__ = ["load_t5", "t5_shape"]


def load_t5(
    speller: Speller, checkpoint: str | Path | Any, offsets: Sequence[int] | None = None
) -> None:
    """Copy a T5's layers into the speller's decoder, and its encoder where the reader has one.

    ``checkpoint`` is a folder, a hub name or a loaded model. ``offsets`` says at which token id
    each level's codes begin when the checkpoint's vocabulary already holds docids; without it only
    the layers are taken, and the alphabet stays as it was.
    """
    model = _open(checkpoint)
    config, state = model.config, model.state_dict()
    _check(t5_shape(config), speller.decoder, "decoder")
    _copy_stack(speller.decoder, state, "decoder")
    encoder = getattr(speller.reader, "encoder", None)
    if isinstance(encoder, Stack):
        layers = int(config.num_layers)
        _check(t5_shape(config)._replace(layers=layers), encoder, "encoder")
        _copy_stack(encoder, state, "encoder")
    if offsets is not None:
        _copy_alphabet(speller, state, config, offsets)


def t5_shape(config: Any) -> Shape:
    """The decoder's sizes as a T5 configuration tells them."""
    return Shape(
        width=int(config.d_model),
        heads=int(config.num_heads),
        head_width=int(config.d_kv),
        feed_forward=int(config.d_ff),
        layers=int(config.num_decoder_layers),
        gated=bool(config.is_gated_act),
        dropout=float(config.dropout_rate),
        buckets=int(config.relative_attention_num_buckets),
        reach=int(config.relative_attention_max_distance),
    )


def _open(checkpoint: str | Path | Any) -> Any:
    if not isinstance(checkpoint, str | Path):
        return checkpoint
    from transformers import T5ForConditionalGeneration

    try:
        return T5ForConditionalGeneration.from_pretrained(str(checkpoint))
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"model.checkpoint = {str(checkpoint)!r}: not a T5 checkpoint that can be read "
            f"({error}). Give a folder saved by transformers, or a hub name that can be reached."
        ) from None


def _check(theirs: Shape, stack: Stack, name: str) -> None:
    ours = stack.shape
    for field in ("width", "heads", "head_width", "feed_forward", "layers", "gated", "buckets"):
        if getattr(ours, field) != getattr(theirs, field):
            raise SettingsError(
                f"the checkpoint's {name} has {field} = {getattr(theirs, field)}, the model "
                f"{getattr(ours, field)}. Set model.{field} to match, or choose another checkpoint."
            )


def _copy_stack(stack: Stack, state: Mapping[str, Tensor], side: str) -> None:
    forward = 2 if stack.cross else 1
    for index, block in enumerate(stack.layers()):
        layer = f"{side}.block.{index}.layer"
        _put(block.self_norm.weight, state[f"{layer}.0.layer_norm.weight"])
        for name in "qkvo":
            weight = getattr(block.self_attention, name).weight
            _put(weight, state[f"{layer}.0.SelfAttention.{name}.weight"])
        if block.cross_attention is not None and block.cross_norm is not None:
            _put(block.cross_norm.weight, state[f"{layer}.1.layer_norm.weight"])
            for name in "qkvo":
                weight = getattr(block.cross_attention, name).weight
                _put(weight, state[f"{layer}.1.EncDecAttention.{name}.weight"])
        _put(block.forward_norm.weight, state[f"{layer}.{forward}.layer_norm.weight"])
        dense, ours = f"{layer}.{forward}.DenseReluDense", block.feed_forward
        if ours.gate is None:
            _put(ours.up.weight, state[f"{dense}.wi.weight"])
        else:
            _put(ours.gate.weight, state[f"{dense}.wi_0.weight"])
            _put(ours.up.weight, state[f"{dense}.wi_1.weight"])
        _put(ours.down.weight, state[f"{dense}.wo.weight"])
    bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    _put(stack.bias.table.weight, state[bias])
    _put(stack.norm.weight, state[f"{side}.final_layer_norm.weight"])


def _copy_alphabet(
    speller: Speller, state: Mapping[str, Tensor], config: Any, offsets: Sequence[int]
) -> None:
    alphabet, table = speller.alphabet, state["shared.weight"]
    scale = int(config.d_model) ** -0.5 if config.scale_decoder_outputs else 1.0
    head = state["lm_head.weight"] * scale
    if len(offsets) != len(alphabet.sizes):
        raise SettingsError(
            f"{len(offsets)} offsets for {len(alphabet.sizes)} levels: one for each is needed."
        )
    for level, (offset, size) in enumerate(zip(offsets, alphabet.sizes, strict=True)):
        low = alphabet.bounds[level]
        if offset + size > len(table):
            raise SettingsError(
                f"level {level} would end at token {offset + size}, but the checkpoint's "
                f"vocabulary has {len(table)} tokens."
            )
        _put(alphabet.embedding[low : low + size], table[offset : offset + size])
        _put(alphabet.output[low : low + size], head[offset : offset + size])
    _put(alphabet.start, table[int(config.decoder_start_token_id)])


def _put(ours: Tensor, theirs: Tensor) -> None:
    with torch.no_grad():
        ours.copy_(theirs)
