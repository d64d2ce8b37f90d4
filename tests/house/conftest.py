"""A small world for the documents and examples to run in: what a reader would have at hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

THINGS = {
    "kettle": (
        "boils water",
        "A kettle heats water quickly on the stove and whistles when it boils.",
    ),
    "sieve": ("drains pasta", "A sieve holds back pasta or rice while the water runs through."),
    "whisk": ("beats eggs", "A whisk folds air into cream and beats eggs until they are stiff."),
    "ladle": ("serves soup", "A ladle is a deep spoon with a long handle to serve soup and stew."),
    "grater": ("shreds cheese", "A grater has sharp holes that shred cheese, carrots and nutmeg."),
    "peeler": ("skins potatoes", "A peeler takes the thin skin off potatoes, apples and carrots."),
    "mortar": ("grinds spices", "A mortar and its pestle crush spices and herbs to a powder."),
    "oven": (
        "bakes bread",
        "An oven surrounds bread and cakes with dry heat until they are baked.",
    ),
    "fridge": ("keeps milk cold", "A fridge keeps milk, butter and leftovers cold and fresh."),
    "scale": ("weighs flour", "A kitchen scale weighs flour and sugar to the gram."),
    "timer": ("counts minutes", "A timer counts down the minutes and rings when the cake is done."),
    "corkscrew": (
        "opens wine",
        "A corkscrew turns into the cork and pulls it out of a wine bottle.",
    ),
    "hammer": ("drives nails", "A hammer drives nails into wood and pulls crooked ones out again."),
    "saw": ("cuts planks", "A saw has a toothed blade that cuts planks and branches."),
    "level": ("shows what is straight", "A spirit level shows whether a shelf hangs straight."),
    "drill": ("makes holes", "A drill turns a bit and makes round holes in walls and wood."),
    "wrench": ("tightens bolts", "A wrench grips bolts and nuts to tighten or loosen them."),
    "ladder": ("reaches the roof", "A ladder leans on the wall so that one can reach the roof."),
    "rake": ("gathers leaves", "A rake gathers fallen leaves and levels the soil of a bed."),
    "spade": ("digs holes", "A spade digs holes in the garden and turns the heavy earth."),
    "hose": ("waters the lawn", "A hose carries water from the tap to the lawn and the flowers."),
    "shears": ("trim hedges", "Shears trim hedges and cut roses with two long blades."),
    "barrow": ("moves earth", "A barrow moves earth and stones on a single wheel."),
    "scarecrow": ("frightens birds", "A scarecrow frightens birds away from seeds and cherries."),
}


def _write_lines(path: Path, rows: list[dict[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def playground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a document: ``corpus/`` is a BEIR folder, ``items.jsonl`` a file."""
    items = [{"_id": t, "title": t.title(), "text": text} for t, (_, text) in THINGS.items()]
    asks = {
        "train": [(f"train-{t}", f"tool that {what}", t) for t, (what, _) in THINGS.items()],
        "dev": [
            (f"dev-{t}", f"which thing {what}", t) for t, (what, _) in list(THINGS.items())[::3]
        ],
        "test": [(f"test-{t}", f"what {what}", t) for t, (what, _) in list(THINGS.items())[::2]],
    }
    corpus = tmp_path / "corpus"
    _write_lines(corpus / "corpus.jsonl", items)
    _write_lines(tmp_path / "items.jsonl", items)
    queries = [{"_id": q, "text": text} for rows in asks.values() for q, text, _ in rows]
    _write_lines(corpus / "queries.jsonl", queries)
    (corpus / "qrels").mkdir()
    for split, rows in asks.items():
        lines = ["query-id\tcorpus-id\tscore", *(f"{q}\t{item}\t1" for q, _, item in rows)]
        (corpus / "qrels" / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    return tmp_path
