"""The tree of centres: paths, forced codes, and numbers at the leaves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load, save

from trieline.config import IdSettings
from trieline.errors import DimensionError, IndexMismatch, SettingsError
from trieline.ids import TreeIds, load_docids, resolve
from trieline.types import Codes

Floats = NDArray[np.float32]


def tree(items: Floats, sizes: tuple[int, ...], extra: int = 64, metric: str = "l2") -> TreeIds:
    how = IdSettings(scheme="tree", sizes=sizes, extra=extra, metric=metric)  # type: ignore[arg-type]
    return TreeIds(how).fit(items)


def settled(docids: TreeIds, items: Floats, taken: Codes | None = None) -> Codes:
    return resolve(docids.assign(items), docids.settings, docids=docids, taken=taken)


@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("sizes", [(4,), (4, 4), (3, 5, 2), (2,) * 6, (64, 4)])
def test_every_docid_is_unique(
    sizes: tuple[int, ...], metric: str, clustered: Callable[..., Floats]
) -> None:
    items = clustered(300)
    docids = tree(items, sizes, extra=300, metric=metric)
    codes = settled(docids, items)
    assert docids.sizes == (*sizes, 300)
    assert (codes.codes < docids.sizes).all()
    assert len(np.unique(codes.codes, axis=0)) == 300


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_the_path_is_a_walk_to_the_nearest_centre(
    metric: str, clustered: Callable[..., Floats]
) -> None:
    items = clustered(200)
    docids = tree(items, (4, 3, 5), metric=metric)
    centres, first, children, _ = docids.arrays().values()
    new = clustered(60, seed=5)
    for x, codes in zip(new, docids.assign(new).codes, strict=True):
        node = 0
        for level in range(3):
            if children[node] == 0:
                assert not codes[level:].any()
                break
            below = centres[first[node] : first[node] + children[node]].astype(np.float64)
            far = ((below - x) ** 2).sum(axis=1)
            angle = -(below @ x) / np.linalg.norm(below, axis=1)
            assert codes[level] == np.argmin(far if metric == "l2" else angle)
            node = first[node] + codes[level]


def test_a_group_no_larger_than_its_branches_ends(clustered: Callable[..., Floats]) -> None:
    docids = tree(clustered(4), (5, 5))
    assert settled(docids, clustered(4)).codes.tolist() == [[0, 0, i] for i in range(4)]
    items = clustered(200)
    codes = settled(tree(items, (4, 8, 8), extra=200), items).codes
    prefixes, sizes = np.unique(codes[:, :2], axis=0, return_counts=True)
    for prefix, size in zip(prefixes, sizes, strict=True):
        below = codes[(codes[:, :2] == prefix).all(axis=1), 2]
        assert below.any() == (size > 8)  # larger groups are split, others are not


def test_each_centre_has_items(clustered: Callable[..., Floats]) -> None:
    items = clustered(300)
    docids = tree(items, (6, 6), extra=300)
    arrays = docids.arrays()
    nodes = len(arrays["centres"])
    codes = docids.assign(items).codes
    used = len(np.unique(codes[:, 0])) + sum(
        arrays["children"][1 + code] if arrays["children"][1 + code] else 0
        for code in np.unique(codes[:, 0])
    )
    assert used == nodes - 1 and int(arrays["children"].sum()) == nodes - 1


def test_similar_items_share_prefixes(clustered: Callable[..., Floats]) -> None:
    items = clustered(400)
    codes = tree(items, (8, 8), extra=400).assign(items).codes
    far = ((items[:, None] - items) ** 2).sum(axis=2)
    same = codes[:, None, 0] == codes[None, :, 0]
    assert far[same].mean() < 0.5 * far[~same].mean()


def test_items_added_later_continue_the_numbers(clustered: Callable[..., Floats]) -> None:
    items = clustered(200)
    docids = tree(items, (4, 4), extra=200)
    at_once = settled(docids, items).codes
    first = settled(docids, items[:120])
    later = settled(docids, items[120:], taken=first)
    np.testing.assert_array_equal(np.concatenate([first.codes, later.codes]), at_once)


@pytest.mark.parametrize("items", [1, 2, 50])
def test_equal_items(items: int) -> None:
    vectors = np.ones((items, 3), np.float32)
    codes = settled(tree(vectors, (4, 4)), vectors).codes
    assert codes.tolist() == [[0, 0, i] for i in range(items)]


def test_a_leaf_that_is_full(clustered: Callable[..., Floats]) -> None:
    vectors = np.ones((9, 3), np.float32)
    docids = tree(vectors, (4, 4), extra=8)
    with pytest.raises(SettingsError, match=r"9 items share the docid \(0, 0\).*ids.extra=16"):
        settled(docids, vectors)


def test_saved_and_loaded(clustered: Callable[..., Floats]) -> None:
    items = clustered(200)
    docids = tree(items, (4, 3))
    loaded = load_docids(docids.settings, load(save(docids.arrays())))
    assert loaded.fingerprint == docids.fingerprint
    assert loaded.fingerprint != tree(items[:-1], (4, 3)).fingerprint
    np.testing.assert_array_equal(loaded.assign(items).codes, docids.assign(items).codes)
    assert [book.shape for book in loaded.codebooks] == [(4, 12), (3, 12), (64, 12)]
    assert not any(book.any() for book in loaded.codebooks)


def test_wrong_use(clustered: Callable[..., Floats]) -> None:
    docids = TreeIds(IdSettings(scheme="tree", sizes=(4,)))
    with pytest.raises(SettingsError, match="call fit"):
        docids.assign(clustered(3))
    with pytest.raises(DimensionError, match="3 wide"):
        docids.fit(clustered(9)).assign(clustered(9, 3))
    with pytest.raises(IndexMismatch, match="no array 'seed'"):
        load_docids(docids.settings, {})
