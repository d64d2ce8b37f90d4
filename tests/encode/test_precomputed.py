from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from trieline.config import EncodeSettings
from trieline.encode import open_encoder
from trieline.encode.precomputed import PrecomputedEncoder
from trieline.errors import DataError, DimensionError
from trieline.types import Floats, Item, Query


class Table:
    def __init__(self, width: int, **vectors: list[float]) -> None:
        self.width = width
        self._vectors = vectors

    def __contains__(self, id_: object) -> bool:
        return id_ in self._vectors

    def rows(self, ids: Sequence[str]) -> Floats:
        return np.array([self._vectors[i] for i in ids], np.float32).reshape(-1, self.width)


def vector(*values: float) -> Floats:
    return np.array(values, dtype=np.float32)


def test_the_vectors_are_used_as_they_are() -> None:
    encoder = PrecomputedEncoder()
    things = [Item("a", embedding=vector(3, 4)), Item("b", embedding=vector(0, 0))]
    found = encoder.encode(things)
    assert found.dtype == np.float32
    assert found.tolist() == [[3, 4], [0, 0]]
    assert encoder.dim == 2
    found[0, 0] = 9
    assert things[0].embedding is not None
    assert things[0].embedding[0] == 3, "a copy"


def test_tables_fill_what_the_things_do_not_bring() -> None:
    encoder = PrecomputedEncoder(
        Table(2, a=[1, 2], b=[3, 4]), Table(2, a=[-1, -2])
    )  # an item and a query of one id
    items = [Item("b"), Item("x", embedding=vector(9, 9)), Item("a")]
    assert encoder.encode(items).tolist() == [[3, 4], [9, 9], [1, 2]]
    assert encoder.encode([Query("a")]).tolist() == [[-1, -2]]


def test_missing_vectors_name_the_first() -> None:
    encoder = PrecomputedEncoder(Table(2, a=[1, 2]))
    with pytest.raises(DataError, match=r"item 'c' has no vector \(2 of 3 have none\)"):
        encoder.encode([Item("a"), Item("c"), Item("d")])
    with pytest.raises(DataError, match="query 'a' has no vector"):
        encoder.encode([Query("a")])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_values_that_are_no_numbers_name_the_first(bad: float) -> None:
    wide = np.array([1.0, bad])
    things = [Item("ok", embedding=vector(1, 2)), Item("bad", embedding=wide)]
    with pytest.raises(DimensionError, match="embedding of item 'bad' has NaN or infinite"):
        PrecomputedEncoder().encode(things)


def test_widths_must_agree() -> None:
    things = [Item("a", embedding=vector(1, 2)), Item("b", embedding=vector(1, 2, 3))]
    with pytest.raises(DimensionError, match=r"item 'b' has shape \[3\], expected \[2\]"):
        PrecomputedEncoder().encode(things)
    encoder = PrecomputedEncoder()
    encoder.encode(things[:1])
    with pytest.raises(DimensionError, match=r"query 'q' has shape \[3\], expected \[2\]"):
        encoder.encode([Query("q", embedding=vector(1, 2, 3))])
    with pytest.raises(DimensionError, match=r"item 'a' has shape \[2\], expected \[5\]"):
        PrecomputedEncoder(dim=5).encode(things[:1])
    with pytest.raises(DimensionError, match="table of queries has vectors of 3 values"):
        PrecomputedEncoder(Table(2), Table(3))


@pytest.mark.parametrize("shape", [(), (2, 2), (0,)])
def test_an_embedding_is_one_row(shape: tuple[int, ...]) -> None:
    with pytest.raises(DimensionError, match=r"item 'a' has shape .* expected"):
        PrecomputedEncoder().encode([Item("a", embedding=np.zeros(shape, np.float32))])


def test_no_things_and_no_width_yet() -> None:
    encoder = PrecomputedEncoder()
    assert encoder.encode([]).shape == (0, 0)
    with pytest.raises(DataError, match="not known before the first"):
        encoder.dim  # noqa: B018
    assert PrecomputedEncoder(dim=3).encode([]).shape == (0, 3)


def test_opened_from_settings() -> None:
    settings = EncodeSettings(kind="precomputed")
    encoder = open_encoder(settings, items=Table(2, a=[1, 2]), dim=2)
    assert encoder.fingerprint == "precomputed"
    assert encoder.encode([Item("a")]).tolist() == [[1, 2]]
