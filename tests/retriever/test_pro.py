"""PRO from corpus to answer: docids that learn from queries, votes on what has no vector."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from targets import rewrite
from workshop import ITEMS, NEW, changes, dataset, write_sequences

from trieline.config import Recipe, apply, load_recipe
from trieline.errors import IndexMismatch, SettingsError
from trieline.evaluate import score
from trieline.ids import Judged, ProIds
from trieline.retriever import Retriever
from trieline.train import pseudo_queries
from trieline.types import Floats, Query

ASKED = ["red kettle boils water", "golden ladder", "black lamp lights"]
PAST = Query("q", history=("red-kettle", "green-kettle", "blue-kettle"))
TRAINED = (
    "model.width=32",
    "model.dropout=0",
    "model.encoder_layers=1",
    "train.interpolate=0.0",
    "train.min_steps=200",
    "train.max_steps=200",
    "train.evaluate_every=2000",
    "ids.extra=16",
)


def pro(words: Path, *more: str) -> Recipe:
    return apply(load_recipe("pro"), changes(words, "ids.sizes=[4, 8, 8]", *more))


def tiger(words: Path, *more: str) -> Recipe:
    return apply(load_recipe("pro-tiger"), changes(words, *TRAINED, "model.soft_tokens=4", *more))


@pytest.fixture
def learnt(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Floats, Judged]]:
    """What docids are given to learn from."""
    given: list[tuple[Floats, Judged]] = []
    fit = ProIds.fit

    def listening(self: ProIds, items: Floats, **side: Any) -> ProIds:
        given.append((items, side["judged"]))
        return fit(self, items, **side)

    monkeypatch.setattr(ProIds, "fit", listening)
    return given


@pytest.mark.parametrize("more", [(), ("ids.pro.project=true", "ids.pro.codebooks=ema")], ids=str)
def test_from_a_corpus_to_answers(more: tuple[str, ...], words: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.tl"
    with Retriever.build(dataset(), pro(words, *more), path=path) as built:
        asked = dataset()
        run = built.run(asked.queries("test"), 5)
        assert score(run, asked.qrels("test"), ["R@5"]).means["R@5"] > 0.6
        answers = built.search(ASKED, 5)
        alone = [built.search(text, 5)[0] for text in ASKED]
        assert [[h.item_id for h in hits] for hits in alone] == [
            [h.item_id for h in hits] for hits in answers
        ]
    with Retriever.load(path) as loaded:
        assert loaded.search(ASKED, 5) == answers
        loaded.add([NEW])
        (hits,) = loaded.search(NEW.text, 5)
        assert NEW.id in [hit.item_id for hit in hits]


def test_votes_compare_queries_where_the_codebooks_are(words: Path, tmp_path: Path) -> None:
    """Whatever the beam: omega * (2 q.x - |x|^2) of the projected query, and so in exact search."""
    recipe = pro(words, "ids.pro.project=true", "ids.pro.rq=1.0", "decode.beam=500")
    with Retriever.build(dataset(), recipe, path=tmp_path / "a.tl") as built:
        queries = [Query(str(n), text) for n, text in enumerate(ASKED)]
        raw = built.encoder.encode(queries)
        placed = built.docids.project(raw)
        assert np.abs(placed - raw / np.linalg.norm(raw, axis=1, keepdims=True)).max() > 1e-3
        voted = built.search(ASKED, 50)
        certain = built.search(ASKED, 50, exact=True)
        built.recipe = apply(recipe, ["decode.omega=0.0"])
        silent = built.search(ASKED, 50)
        for query, own, exact, without in zip(placed, voted, certain, silent, strict=True):
            before = {hit.item_id: hit.score for hit in without}
            assert len(own) == len(ITEMS)
            for hit in own:
                codes = np.array([hit.docid], np.uint16)
                books = built.docids.codebooks
                near = sum(book[codes[0, level]] for level, book in enumerate(books))
                vote = float(2 * query @ near - near @ near)
                assert hit.score == pytest.approx(before[hit.item_id] + 10 * vote, abs=1e-3)
            scores = {hit.item_id: hit.score for hit in exact}
            assert scores == pytest.approx({hit.item_id: hit.score for hit in own}, abs=1e-3)


def test_docids_learn_from_training_queries_and_no_others(
    words: Path, tmp_path: Path, learnt: list[tuple[Floats, Judged]]
) -> None:
    Retriever.build(dataset(), pro(words), path=tmp_path / "a.tl").close()
    ((items, judged),) = learnt
    with Retriever.load(tmp_path / "a.tl") as opened:
        encode = opened.encoder.encode
    asked = dataset()
    known = {query.tobytes() for query in judged.queries}
    train = list(asked.queries("train"))
    assert {row.tobytes() for row in encode(train)} <= known
    made = list(pseudo_queries(asked.items(), titles=True, crops=1, seed=0))
    assert len(judged.queries) == len(train) + len(made), "dev queries left out"
    assert not {row.tobytes() for row in encode(list(asked.queries("test")))} & known
    place = {item.id: row for row, item in enumerate(ITEMS)}
    pairs = {(judged.queries[q].tobytes(), int(i)) for q, i in zip(*judged[1:], strict=True)}
    for query, vector in zip(train, encode(train), strict=True):
        assert (vector.tobytes(), place[query.id.removeprefix("train-")]) in pairs
    assert len(items) == len(ITEMS)


# --- histories ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bridged(tmp_path_factory: pytest.TempPathFactory, words: Path) -> Path:
    folder = tmp_path_factory.mktemp("bridged")
    recipe = tiger(words, "ids.sizes=[4, 6, 8]", "decode.beam=500")
    Retriever.build(write_sequences(folder), recipe, path=folder / "a.tl").close()
    return folder / "a.tl"


@pytest.fixture
def histories(bridged: Path) -> Iterator[Retriever]:
    with Retriever.load(bridged) as opened:
        yield opened


def test_codebooks_vote_on_where_a_history_leads(histories: Retriever) -> None:
    voted = {hit.item_id: hit.score for hit in histories.search(PAST, 50)[0]}
    recipe, bridge = histories.recipe, histories._bridge
    assert bridge is not None and recipe.decode.omega == 0.3
    (ready,) = histories._asker.ready([PAST], lambda *_: None, guided=True)  # type: ignore[arg-type]
    assert ready.vectors is not None and ready.vectors.shape == (1, 16)
    histories.recipe = apply(recipe, ["decode.omega=2.0", "decode.standardise=false"])
    plain = histories.search(PAST, 50)[0]
    histories.recipe = apply(recipe, ["decode.omega=0.0"])
    silent = {hit.item_id: hit.score for hit in histories.search(PAST, 50)[0]}
    assert voted.keys() == silent.keys() and voted != silent
    books = histories.docids.codebooks
    for hit in plain:
        near = sum(book[code] for book, code in zip(books, hit.docid, strict=True))
        vote = 2 * float(2 * ready.vectors[0] @ near - near @ near)
        assert hit.score == pytest.approx(silent[hit.item_id] + vote, abs=1e-3)


def test_a_bridge_leads_to_what_comes_next(histories: Retriever, tmp_path: Path) -> None:
    """Far more often to the right kind of tool than chance, one in seven, and it helps to find."""
    from trieline.data import open_dataset

    asked = open_dataset(write_sequences(tmp_path))
    queries = list(asked.queries("test"))
    answers = {qrel.query_id: qrel.item_id for qrel in asked.qrels("test")}
    (codes, owner), names = histories.catalog.codes(), [item.id for item in ITEMS]
    books = histories.docids.codebooks
    near = sum(book[codes[:, level]] for level, book in enumerate(books))
    kind = [names[row].split("-")[1] for row in owner]
    ready = histories._asker.ready(queries, lambda *_: None, guided=True)  # type: ignore[arg-type]
    placed = np.concatenate([batch.vectors for batch in ready if batch.vectors is not None])
    nearest = ((placed[:, None] - near) ** 2).sum(axis=2).argmin(axis=1)
    right = [kind[n] == answers[q.id].split("-")[1] for n, q in zip(nearest, queries, strict=True)]
    assert np.mean(right) > 0.5
    assert score(histories.run(queries, 5), asked.qrels("test"), ["R@5"]).means["R@5"] > 0.4


def test_guided_histories_batched_saved_added_to_and_explained(
    bridged: Path, tmp_path: Path
) -> None:
    with Retriever.load(bridged) as opened:
        (hits,) = opened.search(PAST, 5)
        batch = [Query("a", history=("golden-rake",)), PAST]
        assert [h.item_id for h in opened.search(batch, 5)[1]] == [h.item_id for h in hits]
        told = opened.explain(PAST, hits[2].item_id)
        assert told.rank == 3
        opened.save(tmp_path / "b.tl")
    with Retriever.load(tmp_path / "b.tl") as copy:
        assert copy.search(PAST, 5) == [hits]
        copy.add([NEW])
        assert len(copy.search(Query("n", history=(NEW.id,)), 5)[0]) == 5


def test_a_bridge_of_another_index_is_refused(bridged: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(bridged, tmp_path / "a.tl")
    rewrite(tmp_path / "a.tl", lambda tree: tree["fingerprints"].update(bridge="other"))
    with pytest.raises(IndexMismatch, match="built with bridge other"):
        Retriever.load(tmp_path / "a.tl")


def test_histories_are_asked_as_their_last_items(
    words: Path, tmp_path: Path, learnt: list[tuple[Floats, Judged]]
) -> None:
    recipe = tiger(words, "ids.sizes=[4, 4]", "train.max_steps=1", "train.min_steps=1")
    Retriever.build(write_sequences(tmp_path), recipe, path=tmp_path / "a.tl").close()
    ((items, judged),) = learnt
    np.testing.assert_array_equal(judged.queries, items)
    place = {item.id: row for row, item in enumerate(ITEMS)}
    pairs = set(zip(judged.query.tolist(), judged.item.tolist(), strict=True))
    assert (place["red-kettle"], place["green-kettle"]) in pairs
    assert all(ITEMS[a].id.split("-")[1] == ITEMS[b].id.split("-")[1] for a, b in pairs)


def test_a_bridge_needs_histories_and_words(words: Path, tmp_path: Path) -> None:
    for recipe in (pro(words, "model.bridge=true"), tiger(words, "ids.scheme=tree")):
        with pytest.raises(SettingsError, match="model.bridge = true places histories"):
            Retriever.build(dataset(), recipe, path=tmp_path / "a.tl")


def test_a_recipe_by_its_name_opens_again(words: Path, tmp_path: Path) -> None:
    """Its defaults are as they were written, 0 for 0.0, where changed recipes were read back."""
    changed = changes(words, "ids.sizes=[4, 8, 8]", "train.max_steps=2", "train.min_steps=2")
    Retriever.build(dataset(), "pro", path=tmp_path / "a.tl", settings=changed).close()
    Retriever.load(tmp_path / "a.tl").close()
