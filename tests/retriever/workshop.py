"""A small world to build indexes of: painted tools, and words whose vectors are drawn at random."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from trieline.config import Recipe, apply
from trieline.data import MemoryDataset
from trieline.types import Item, Qrel, Query

COLOURS = ("red", "green", "blue", "black", "white", "golden")
DOES = {
    "kettle": "boils water for tea",
    "whisk": "beats eggs and cream",
    "hammer": "drives nails into wood",
    "rake": "gathers fallen leaves",
    "ladder": "reaches a high roof",
    "brush": "paints walls and fences",
    "lamp": "lights a dark room",
}
ITEMS = tuple(
    Item(
        f"{colour}-{thing}",
        text=f"A {colour} {thing} {does}. Its maker painted it {colour} all over.",
        title=f"{colour.title()} {thing}",
        metadata={"colour": colour},
    )
    for colour in COLOURS
    for thing, does in DOES.items()
)
NEW = Item("silver-spade", text="A silver spade digs deep holes in heavy soil.", title="Spade")

WORDS = sorted(
    {w for i in (*ITEMS, NEW) for w in re.findall(r"\w+|[^\w\s]", f"{i.title} {i.text}".lower())}
)

SMALL = (
    "ids.sizes=[8, 8, 8]",
    "model.width=16",
    "model.heads=2",
    "model.head_width=8",
    "model.feed_forward=32",
    "model.decoder_layers=1",
    "model.soft_tokens=2",
    "train.batch=64",
    "train.lr=0.01",
    "train.precision=fp32",
    "train.measure=RR@10",
    "train.max_steps=60",
    "train.min_steps=60",
    "train.evaluate_every=20",
    "train.crops=1",
    "decode.beam=20",
    "decode.batch=8",
)
"""Changes to a recipe that make it small enough for a test."""


def save_words(folder: Path) -> Path:
    """A static model of 16 random numbers a word, in model2vec's layout."""
    from safetensors.numpy import save_file
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import Whitespace

    folder.mkdir(parents=True, exist_ok=True)
    made = Tokenizer(
        WordLevel({word: n for n, word in enumerate(["[UNK]", *WORDS])}, unk_token="[UNK]")
    )
    made.normalizer, made.pre_tokenizer = Lowercase(), Whitespace()
    made.save(str(folder / "tokenizer.json"))
    table = np.random.default_rng(0).normal(size=(len(WORDS) + 1, 16)).astype(np.float32)
    save_file({"embeddings": table}, folder / "model.safetensors")
    return folder


def changes(words: Path, *more: str) -> list[str]:
    """``--set`` values for a fast build with the static model at ``words``."""
    return ["encode.kind=static", f'encode.model="{words}"', *SMALL, *more]


def small_recipe(words: Path, *more: str) -> Recipe:
    return apply(Recipe(name="small"), changes(words, *more))


def precomputed_recipe(*more: str) -> Recipe:
    return apply(Recipe(name="small"), ["encode.kind=precomputed", *SMALL, *more])


def dataset() -> MemoryDataset:
    """The tools; what they do as training queries, shorter words for dev and test."""
    queries = {
        "train": [Query(f"train-{i.id}", _asks(i)) for i in ITEMS],
        "dev": [Query(f"dev-{i.id}", f"{_asks(i)} please") for i in ITEMS[::4]],
        "test": [Query(f"test-{i.id}", f"{i.title} that {_asks(i)}") for i in ITEMS[::3]],
    }
    qrels = {
        split: [Qrel(q.id, q.id.partition("-")[2], 1) for q in own]
        for split, own in queries.items()
    }
    return MemoryDataset(ITEMS, queries, qrels, name="tools")


def _asks(item: Item) -> str:
    colour, thing = item.id.split("-")
    return f"{colour} {DOES[thing]}"


def write_beir(folder: Path) -> Path:
    """The same dataset as a BEIR folder."""
    import json

    source = dataset()
    (folder / "qrels").mkdir(parents=True)
    items = [{"_id": i.id, "title": i.title, "text": i.text} for i in source.items()]
    asked = [{"_id": q.id, "text": q.text} for s in source.splits() for q in source.queries(s)]
    for name, rows in (("corpus", items), ("queries", asked)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    for split in source.splits():
        rows = [f"{q.query_id}\t{q.item_id}\t{q.relevance}" for q in source.qrels(split)]
        text = "\n".join(["query-id\tcorpus-id\tscore", *rows]) + "\n"
        (folder / "qrels" / f"{split}.tsv").write_text(text, encoding="utf-8")
    return folder


def write_sequences(folder: Path) -> Path:
    """Everybody takes the tools of one kind, colour after colour."""
    import json

    rows = [{"item_id": i.id, "title": i.title, "text": i.text} for i in ITEMS]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "items.jsonl").write_text(lines, encoding="utf-8")
    turns, things = len(COLOURS), len(DOES)
    taken = [
        [ITEMS[thing + things * ((turn + start) % turns)].id for turn in range(5)]
        for thing in range(things)
        for start in range(turns)
    ]
    text = "".join(f"u{n} {' '.join(ids)}\n" for n, ids in enumerate(taken))
    (folder / "sequences.txt").write_text(text, encoding="utf-8")
    return folder


def vector_items(count: int = 30, dim: int = 8, seed: int = 0) -> list[Item]:
    """Items that bring their own vectors."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(count, dim)).astype(np.float32)
    return [Item(f"v{n}", title=f"Vector {n}", embedding=vectors[n]) for n in range(count)]


def vector_queries(items: list[Item], split: str = "train") -> tuple[list[Query], list[Qrel]]:
    queries = [Query(f"{split}-{item.id}", embedding=item.embedding) for item in items]
    return queries, [Qrel(q.id, q.id.partition("-")[2], 1) for q in queries]


class Interrupted(Exception):
    """Somebody pulled the plug."""


def stop_in(what: str, step: int) -> Callable[..., object]:
    """A watch that fails at a step of one kind of work."""

    class Fuse:
        def __init__(self, left: float) -> None:
            self.left = left

        def advance(self, n: int = 1, note: str = "") -> None:
            self.left -= n
            if self.left <= 0:
                raise Interrupted

    @contextmanager
    def watch(name: str, total: int | None) -> Iterator[Fuse]:
        yield Fuse(step if name == what else float("inf"))

    return watch


def tree_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its content."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def save_bert(folder: Path) -> Path:
    """A random BERT of width 16 that knows the words."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder.mkdir(parents=True)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    BertTokenizerFast(vocab=str(folder / "vocab.txt"), model_max_length=32).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        initializer_range=0.5,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        BertModel(config).save_pretrained(folder)
    return folder
