"""Models small enough to be made in a test."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

WORDS = "the a of to cat dog bird fish sits runs flies swims on under over mat tree sea river red"


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random BERT of width 32 in the layout of sentence-transformers."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("tiny-bert")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *WORDS.split()]
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    BertTokenizerFast(vocab=str(folder / "vocab.txt"), model_max_length=64).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.5,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        BertModel(config).save_pretrained(folder)
    kinds = (("0", "", "Transformer"), ("1", "1_Pooling", "Pooling"), ("2", "2_Norm", "Normalize"))
    modules = [
        {"idx": n, "name": name, "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (name, path, kind) in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling), encoding="utf-8")
    return folder


@pytest.fixture
def tiny_static(tmp_path: Path) -> Path:
    """Random token vectors of width 8 in model2vec's layout."""
    folder = tmp_path / "tiny-static"
    save_static(folder, with_weights=False)
    return folder


def save_static(
    folder: Path,
    *,
    with_weights: bool,
    vectors: str = "model.safetensors",
    tokenizer: str = "tokenizer.json",
    name: str = "embeddings",
) -> None:
    from safetensors.numpy import save_file
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    vocabulary = {word: n for n, word in enumerate(["[UNK]", *WORDS.split()])}
    made = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = Whitespace()
    made.enable_truncation(3)  # what a file says about these is not ours to follow
    made.enable_padding()
    for file in (folder / vectors, folder / tokenizer):
        file.parent.mkdir(parents=True, exist_ok=True)
    made.save(str(folder / tokenizer))
    rng = np.random.default_rng(0)
    tensors = {name: rng.normal(size=(len(vocabulary), 8)).astype(np.float16)}
    if with_weights:
        tensors[name] = tensors[name][:5]
        tensors["weights"] = rng.uniform(0.1, 1, size=len(vocabulary)).astype(np.float32)
        tensors["mapping"] = rng.integers(0, 5, size=len(vocabulary))
    save_file(tensors, folder / vectors)
