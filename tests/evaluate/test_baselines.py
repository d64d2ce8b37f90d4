from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trieline.errors import DataError, DimensionError, SettingsError
from trieline.evaluate.baselines import Bm25, Dense, bm25, dense, last_item, popular
from trieline.types import Hit, Item, Qrel, Query

ITEMS = [
    Item("d1", "the cat sat on the mat"),
    Item("d2", "a dog chased the cat", "dogs and cats"),
    Item("d3", "stock markets fell"),
    Item("d4", "stock markets fell"),
    Item("d5", ""),
]


def ids(hits: list[Hit]) -> list[str]:
    return [hit.item_id for hit in hits]


def test_bm25_finds_shared_words_and_never_fills_up() -> None:
    queries = [
        Query("q1", "cat mat"),
        Query("q2", "Markets!"),
        Query("q3", "nothing of it here"),
        Query("q4", "the of and"),
        Query("q5", ""),
        Query("q6", "dogs"),
    ]
    found = bm25(ITEMS, queries, 3)
    assert {query: ids(hits) for query, hits in found.items()} == {
        "q1": ["d1", "d2"],
        "q2": ["d3", "d4"],  # equal scores: the order of the items
        "q3": [],
        "q4": [],
        "q5": [],
        "q6": ["d2"],  # its title
    }
    assert [hit.rank for hit in found["q1"]] == [1, 2]
    assert all(type(hit.score) is float for hits in found.values() for hit in hits)


def test_bm25_ties_at_the_end_of_the_list_keep_item_order() -> None:
    items = [Item(f"d{i}", "same words") for i in range(50)]
    assert ids(bm25(items, [Query("q", "words")], 7)["q"]) == [f"d{i}" for i in range(7)]


def test_bm25_reads_a_stream_once_and_tells_how_far_it_is() -> None:
    told: list[tuple[str, int]] = []

    class Watcher:
        def __init__(self, what: str, total: int | None) -> None:
            self.what = what

        def __enter__(self) -> Watcher:
            return self

        def __exit__(self, *error: object) -> None:
            pass

        def advance(self, n: int = 1, note: str = "") -> None:
            told.append((self.what, n))

    def stream() -> Iterator[Item]:
        yield from ITEMS

    found = bm25(stream(), iter([Query("q", "cat")]), 1, watch=Watcher)  # type: ignore[arg-type]
    assert len(found["q"]) == 1
    assert told == [("reading items for BM25", 1)] * 5 + [("asking BM25", 1)]


@pytest.mark.parametrize("items", [[], [Item("d", "")], [Item("d", "the of")]])
def test_bm25_of_a_corpus_without_words(items: list[Item]) -> None:
    assert bm25(items, [Query("q", "cat")], 5) == {"q": []}


def test_bm25_without_queries() -> None:
    assert bm25(ITEMS, [], 5) == {}


VECTORS = np.array([[1, 0], [0, 2], [3, 3], [0, 0]], dtype=np.float32)


def test_dense_by_cosine_and_by_dot_product() -> None:
    asked = np.array([[2, 0]], dtype=np.float32)
    cosine = dense(["a", "b", "c", "z"], VECTORS, ["q"], asked, 4)["q"]
    assert ids(cosine) == ["a", "c", "b", "z"]  # b and z tie at zero: item order
    assert [hit.score for hit in cosine] == pytest.approx([1, 0.5**0.5, 0, 0])
    dot = dense(["a", "b", "c", "z"], VECTORS, ["q"], asked, 2, metric="dot")["q"]
    assert [(hit.item_id, hit.score, hit.rank) for hit in dot] == [("c", 6.0, 1), ("a", 2.0, 2)]


@given(
    items=arrays(
        np.float32, st.tuples(st.integers(1, 40), st.just(2)), elements=st.integers(-2, 2)
    ),
    asked=arrays(np.float32, st.tuples(st.integers(1, 5), st.just(2)), elements=st.integers(-2, 2)),
    k=st.integers(1, 50),
    block=st.integers(1, 9),
)
def test_dense_in_blocks_is_a_stable_sort(
    items: np.ndarray, asked: np.ndarray, k: int, block: int
) -> None:
    names = [f"d{i}" for i in range(len(items))]
    queries = [f"q{i}" for i in range(len(asked))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trieline.evaluate.baselines._ITEMS", block)
        patch.setattr("trieline.evaluate.baselines._QUERIES", 2)
        found = dense(names, items, queries, asked, k, metric="dot")
    for query, scores in zip(queries, asked @ items.T, strict=True):
        order = np.argsort(-scores, kind="stable")[:k]
        assert [(hit.item_id, hit.score) for hit in found[query]] == [
            (names[i], float(scores[i])) for i in order
        ]


def test_dense_with_nothing_to_find_or_ask() -> None:
    none = np.zeros((0, 2), dtype=np.float32)
    assert dense([], none, ["q"], VECTORS[:1], 3) == {"q": []}
    assert dense(["a"], VECTORS[:1], [], none, 3) == {}


def test_dense_refuses_what_cannot_be_compared() -> None:
    broken = VECTORS.copy()
    broken[1, 0] = np.nan
    names = ["a", "b", "c", "z"]
    with pytest.raises(DimensionError, match="vector of item 'b' has NaN"):
        dense(names, broken, ["q"], VECTORS[:1], 3)
    with pytest.raises(DimensionError, match="2 wide and query vectors 3"):
        dense(names, VECTORS, ["q"], np.ones((1, 3), dtype=np.float32), 3)
    with pytest.raises(DataError, match="3 item ids but 4 vectors"):
        dense(names[:3], VECTORS, ["q"], VECTORS[:1], 3)
    with pytest.raises(DimensionError, match=r"shape \(2,\)"):
        dense(names, VECTORS, ["q", "r"], VECTORS[0], 3)
    with pytest.raises(SettingsError, match="metric = 'l2'"):
        dense(names, VECTORS, ["q"], VECTORS[:1], 3, metric="l2")  # type: ignore[arg-type]


TRAIN = [
    Query("u1#1", history=("a",)),
    Query("u1#2", history=("a", "b")),
    Query("u2#1", history=("a",)),
    Query("u3#1", history=("c",)),
    Query("u4#0"),
]
ANSWERS = [
    Qrel("u1#1", "b", 1),
    Qrel("u1#2", "d", 1),
    Qrel("u2#1", "c", 1),
    Qrel("u2#1", "e", 0),
    Qrel("u3#1", "d", 1),
    Qrel("u4#0", "c", 1),
]


def test_popular_is_the_same_for_everybody() -> None:
    found = popular(ANSWERS, ["x", "y"], 2)
    assert ids(found["x"]) == ids(found["y"]) == ["c", "d"]  # two each: by id
    assert [hit.score for hit in found["x"]] == [2.0, 2.0]
    assert ids(popular(ANSWERS, ["x"], 9)["x"]) == ["c", "d", "b"]  # never one judged zero


def test_last_item_then_popular() -> None:
    queries = [
        Query("x", history=("d", "a")),  # b and c followed a once each; d is in the history
        Query("y", history=("new",)),
        Query("z"),
    ]
    found = last_item(TRAIN, ANSWERS, queries, 3)
    assert ids(found["x"]) == ["b", "c"]
    assert ids(last_item(TRAIN, ANSWERS, queries, 3, again=True)["x"]) == ["b", "c", "d"]
    assert ids(found["y"]) == ids(found["z"]) == ["c", "d", "b"]
    for hits in found.values():
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))


def test_last_item_counts() -> None:
    train = [Query(str(i), history=("a",)) for i in range(3)]
    qrels = [Qrel("0", "x", 1), Qrel("1", "y", 1), Qrel("2", "y", 1)]
    found = last_item(train, qrels, [Query("q", history=("a",))], 1)["q"]
    assert found == [Hit("y", 3.0, rank=1)]


@pytest.mark.parametrize("k", [0, -1])
def test_k_is_at_least_one(k: int) -> None:
    for find in (
        lambda: bm25(ITEMS, [], k),
        lambda: dense(["a"], VECTORS[:1], ["q"], VECTORS[:1], k),
        lambda: popular([], [], k),
        lambda: last_item([], [], [], k),
    ):
        with pytest.raises(SettingsError, match="at least 1"):
            find()


def test_an_index_is_asked_many_times_and_knows_its_bytes() -> None:
    items = [Item("a", "red kettle"), Item("b", "blue kettle pot")]
    words, vectors = Bm25(items), np.eye(2, dtype=np.float32)
    near = Dense(["a", "b"], vectors)
    asked = [Query("q", "kettle"), Query("r", "pot")]
    assert [[hit.item_id for hit in hits] for hits in words.search(asked, 2)] == [["a", "b"], ["b"]]
    assert words.search(asked[1:], 2) == words.search(asked, 2)[1:]
    assert [hits[0].item_id for hits in near.search(vectors[::-1], 1)] == ["b", "a"]
    # five postings of a score and an item; where each of four words begins, and the end
    assert words.nbytes == 5 * (4 + 4) + 5 * 8
    assert near.nbytes == 2 * 2 * 4
    assert Bm25([Item("a", "")]).nbytes == 0
