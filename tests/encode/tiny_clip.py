"""A random CLIP and a random SigLIP, each with its tokenizer and its processor, and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

WORDS = "the a of to cat dog bird fish sits runs flies swims on under over mat tree sea river red"
SIDE = 16


def save_tiny(folder: Path, kind: str) -> Path:
    """A model of width 16 (CLIP) or 24 (SigLIP) in the layout of transformers."""
    import torch
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _clip_tokenizer() if kind == "clip" else _siglip_tokenizer()
    tokenizer.save_pretrained(folder)
    tower = {
        "hidden_size": 24,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    text = {
        **tower,
        "vocab_size": len(tokenizer),
        "max_position_embeddings": 12,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.bos_token_id,
    }
    vision = {**tower, "image_size": SIDE, "patch_size": 8}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if kind == "clip":
            config: Any = transformers.CLIPConfig(
                text_config=text, vision_config=vision, projection_dim=16
            )
            model: Any = transformers.CLIPModel(config)
            processor: Any = transformers.CLIPImageProcessorPil(
                size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE}
            )
        else:
            model = transformers.SiglipModel(
                transformers.SiglipConfig(text_config=text, vision_config=vision)
            )
            processor = transformers.SiglipImageProcessorPil(size={"height": SIDE, "width": SIDE})
        for parameter in model.parameters():  # far from the usual tiny start, so that all counts
            if parameter.ndim > 1:
                torch.nn.init.normal_(parameter, std=0.3)
        model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def save_pictures(folder: Path, count: int = 6) -> list[str]:
    """Noise of different shapes."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    paths = [folder / f"{n}.png" for n in range(count)]
    for n, path in enumerate(paths):
        shape = (20 + 3 * n % 17, 40 - 2 * n % 13, 3)
        Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(path)
    return [str(path) for path in paths]


def _clip_tokenizer() -> Any:
    from transformers import CLIPTokenizer

    letters = sorted(set(WORDS.replace(" ", "")) | set("xyz.?"))
    tokens = [*letters, *(f"{letter}</w>" for letter in letters)]
    vocabulary = {token: n for n, token in enumerate([*tokens, "<|startoftext|>", "<|endoftext|>"])}
    return CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=12)


def _siglip_tokenizer() -> Any:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    names = ["<pad>", "</s>", "<unk>", *WORDS.split()]
    made = Tokenizer(WordLevel({word: n for n, word in enumerate(names)}, unk_token="<unk>"))
    made.pre_tokenizer = Whitespace()
    made.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=12,
    )
