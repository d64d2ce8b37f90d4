"""Queries that are read as words, and histories that ask what comes next."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from workshop import NEW, dataset, save_bert, small_recipe, write_sequences

from trieline.data import open_dataset
from trieline.errors import DataError
from trieline.evaluate import score
from trieline.retriever import Retriever
from trieline.types import Query


@pytest.fixture(scope="module")
def sequences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sequences(tmp_path_factory.mktemp("sequences"))


def test_histories_ask_what_comes_next(sequences: Path, words: Path, tmp_path: Path) -> None:
    recipe = small_recipe(
        words,
        "model.query=history",
        "model.encoder_layers=1",
        "train.interpolate=0.0",
        "ids.collisions=extra",
        "ids.extra=16",
        "model.width=32",
        "model.dropout=0",
        "train.min_steps=200",
        "train.max_steps=200",
        "train.evaluate_every=2000",
    )
    path = tmp_path / "a.tl"
    with Retriever.build(sequences, recipe, path=path) as built:
        asked = open_dataset(sequences)
        run = built.run(asked.queries("test"), 5)
        assert score(run, asked.qrels("test"), ["R@5"]).means["R@5"] > 0.4, "0.1 is chance"
        past = Query("q", history=("red-kettle", "green-kettle", "blue-kettle"))
        (hits,) = built.search(past, 5)
        assert len(hits) == 5
        batch = [Query("a", history=("golden-rake",)), past]
        assert [h.item_id for h in built.search(batch, 5)[1]] == [h.item_id for h in hits]
        assert built.explain(past, "black-kettle", beam=50).docids[0].lost_at is None
        lost = built.explain(past, "golden-rake", 1, beam=1)
        assert lost.docids[0].lost_at is not None
        assert lost.score is not None, "of the whole docid, though no guide has a vector"
        assert lost.rescue.settings == (), "nor has geometry anything to compare with"
    with Retriever.load(path) as loaded:
        assert loaded.search(past, 5) == [hits]
        gone = past._replace(history=("teapot", *past.history))
        assert loaded.search(gone, 5) == [hits], "unknown past items are passed over"
        for nothing in ("red kettle", Query("n", history=("teapot",))):
            with pytest.raises(DataError, match="past items is in the index"):
                loaded.search(nothing)
        loaded.add([NEW])
        (hits,) = loaded.search(Query("n", history=(NEW.id,)), 5)
        assert len(hits) == 5


def test_words_are_read_by_a_text_model(words: Path, tmp_path: Path) -> None:
    bert = save_bert(tmp_path / "bert")
    recipe = small_recipe(
        words,
        "model.query=tokens",
        f'model.text_model="{bert}"',
        "model.max_tokens=12",
        "train.interpolate=0.0",
        "ids.scheme=tree",
        "ids.sizes=[4, 4]",
        "ids.extra=32",
    )
    path = tmp_path / "a.tl"
    asked = [query.text for query in dataset().queries("test")][:6]
    with Retriever.build(dataset(), recipe, path=path) as built:
        answers = built.search(asked, 5)
        assert {len(hits) for hits in answers} == {5}
        alone = [built.search(text, 5)[0] for text in asked]
        for one, other in zip(alone, answers, strict=True):
            assert [hit.item_id for hit in one] == [hit.item_id for hit in other]
        assert len(built.search("red kettle " * 100, 5)[0]) == 5, "too long a query is cut"
    with Retriever.load(path) as loaded:
        assert loaded.search(asked, 5) == answers
