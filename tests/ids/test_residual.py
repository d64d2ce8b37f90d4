"""Residual docids as a whole: sizes, modality codes, saving, and every wrong input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from trieline.config import IdSettings
from trieline.errors import DataError, DimensionError, IndexMismatch, SettingsError
from trieline.ids import ResidualIds, load_docids, open_docids
from trieline.ids.assign import assign
from trieline.watch import Task

Floats = NDArray[np.float32]
KINDS = ("image", "text", "video")


def test_codes_are_those_of_the_codebooks(clustered: Callable[..., Floats]) -> None:
    items = clustered()
    docids = ResidualIds(IdSettings(sizes=(8, 16, 4), beam=3)).fit(items)
    codes = docids.assign(items)
    np.testing.assert_array_equal(codes.codes, assign(items, docids.codebooks, beam=3))
    assert codes.codes.dtype == np.uint16 and codes.owner.dtype == np.uint32
    assert codes.owner.tolist() == list(range(len(items)))
    assert [book.shape for book in docids.codebooks] == [(8, 12), (16, 12), (4, 12)]
    left = items - docids.reconstruct(codes.codes)
    assert (left**2).sum() < 0.3 * ((items - items.mean(axis=0)) ** 2).sum()


@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("refine", ["none", "ema", "gradient"])
def test_saved_and_loaded(
    metric: str, refine: str, clustered: Callable[..., Floats], tmp_path: Path
) -> None:
    items = clustered(200)
    how = {"metric": metric, "refine": refine, "refine_epochs": 2}
    settings = IdSettings(sizes=(8, 8), modality=True, **how)  # type: ignore[arg-type]
    labels = [KINDS[i % 3] for i in range(200)]
    docids = open_docids(settings, 3, KINDS).fit(items, labels=labels)
    save_file(docids.arrays(), tmp_path / "docids.safetensors")
    loaded = load_docids(settings, load_file(tmp_path / "docids.safetensors"))
    assert loaded.fingerprint == docids.fingerprint
    assert loaded.sizes == docids.sizes == (3, 8, 8)
    np.testing.assert_array_equal(
        loaded.assign(items, labels=labels).codes, docids.assign(items, labels=labels).codes
    )


def test_fingerprints_tell_settings_and_codebooks_apart(clustered: Callable[..., Floats]) -> None:
    settings, items = IdSettings(sizes=(8, 8)), clustered(200)
    first = ResidualIds(settings, 0).fit(items)
    assert first.fingerprint == ResidualIds(settings, 0).fit(items).fingerprint
    others = [
        ResidualIds(settings, 1).fit(items),
        ResidualIds(settings, 0).fit(items[1:]),
        ResidualIds(IdSettings(sizes=(8, 8), beam=2), 0).fit(items),
    ]
    assert len({first.fingerprint, *(other.fingerprint for other in others)}) == 4


def test_the_first_code_is_the_modality(clustered: Callable[..., Floats]) -> None:
    items = clustered(90)
    labels = [KINDS[i % 3] for i in range(90)]
    with_kind = ResidualIds(IdSettings(sizes=(8, 8), modality=True), 0, KINDS)
    codes = with_kind.fit(items, labels=labels).assign(items, labels=labels).codes
    assert codes[:, 0].tolist() == [i % 3 for i in range(90)]
    plain = ResidualIds(IdSettings(sizes=(8, 8)), 0).fit(items)
    np.testing.assert_array_equal(codes[:, 1:], plain.assign(items).codes)
    assert not with_kind.codebooks[0].any() and with_kind.codebooks[0].shape == (3, 12)
    np.testing.assert_array_equal(
        with_kind.reconstruct(codes), plain.reconstruct(plain.assign(items).codes)
    )


def test_one_modality_still_has_two_codes(clustered: Callable[..., Floats]) -> None:
    docids = ResidualIds(IdSettings(sizes=(4,), modality=True), 0, ("text",))
    assert docids.sizes == (2, 4)


def test_the_level_of_extra_has_no_geometry(clustered: Callable[..., Floats]) -> None:
    items = clustered(90)
    docids = ResidualIds(IdSettings(sizes=(8, 8), collisions="extra", extra=30)).fit(items)
    codes = docids.assign(items).codes
    assert docids.sizes == (8, 8, 30) and codes.shape == (90, 3) and not codes[:, 2].any()
    assert docids.codebooks[2].shape == (30, 12) and not docids.codebooks[2].any()
    np.testing.assert_array_equal(docids.reconstruct(codes), docids.reconstruct(codes[:, :2]))


@pytest.mark.parametrize("items", [1, 2, 3, 17])
@pytest.mark.parametrize("beam", [1, 5])
def test_corpora_smaller_than_a_codebook(
    items: int, beam: int, clustered: Callable[..., Floats]
) -> None:
    vectors = clustered(items)
    docids = ResidualIds(IdSettings(sizes=(256, 256), beam=beam)).fit(vectors)
    codes = docids.assign(vectors).codes
    np.testing.assert_allclose(docids.reconstruct(codes), vectors, atol=1e-5)
    assert docids.used[0] == items and (codes < docids.used).all()
    assert (docids.assign(clustered(50, seed=9)).codes < docids.used).all()


def test_equal_items_share_a_docid() -> None:
    items = np.ones((30, 4), np.float32)
    docids = ResidualIds(IdSettings(sizes=(8, 8))).fit(items)
    assert docids.assign(items).codes.tolist() == [[0, 0]] * 30


def test_work_is_watched(clustered: Callable[..., Floats]) -> None:
    told: list[str] = []

    class Noted:
        def advance(self, n: int = 1, note: str = "") -> None:
            told.append(note)

    @contextmanager
    def watch(what: str, total: int | None) -> Iterator[Task]:
        told.append(f"{what} {total}")
        yield Noted()

    settings = IdSettings(sizes=(4, 4), refine="ema", refine_epochs=2)
    ResidualIds(settings).fit(clustered(60), watch=watch)
    assert told[:3] == ["learning codebooks 2", "level 1", "level 2"]
    assert told[3] == "refining codebooks 2" and len(told) == 6


def test_vectors_of_other_kinds(clustered: Callable[..., Floats]) -> None:
    items = clustered(60)
    docids = ResidualIds(IdSettings(sizes=(8, 8))).fit(items)
    double = np.asfortranarray(items.astype(np.float64))
    np.testing.assert_array_equal(docids.assign(double).codes, docids.assign(items).codes)  # type: ignore[arg-type]
    assert docids.assign(items[:0]).codes.shape == (0, 2)


def test_wrong_vectors(clustered: Callable[..., Floats]) -> None:
    docids, items = ResidualIds(IdSettings(sizes=(8, 8))), clustered(60)
    with pytest.raises(SettingsError, match="call fit"):
        docids.assign(items)
    with pytest.raises(DataError, match="corpus is empty"):
        docids.fit(items[:0])
    with pytest.raises(DimensionError, match=r"shape \(12,\)"):
        docids.fit(items[0])
    bad = items.copy()
    bad[41, 3] = np.nan
    with pytest.raises(DimensionError, match="item 41"):
        docids.fit(bad)
    docids.fit(items)
    with pytest.raises(DimensionError, match="5 wide.*12 wide"):
        docids.assign(items[:, :5])
    bad[41, 3] = np.inf
    with pytest.raises(DimensionError, match="item 41"):
        docids.assign(bad)


def test_wrong_labels(clustered: Callable[..., Floats]) -> None:
    items = clustered(6)
    settings = IdSettings(sizes=(4,), modality=True)
    with pytest.raises(SettingsError, match="no modalities were named"):
        open_docids(settings)
    docids = open_docids(settings, 0, ("text", "image"))
    with pytest.raises(DataError, match="6 items, no labels"):
        docids.fit(items)
    with pytest.raises(DataError, match="6 items, 2 labels"):
        docids.fit(items, labels=["text"] * 2)
    with pytest.raises(DataError, match="'sound'.*text, image"):
        docids.fit(items, labels=["text"] * 5 + ["sound"])


def test_arrays_of_other_settings(clustered: Callable[..., Floats]) -> None:
    arrays = ResidualIds(IdSettings(sizes=(8, 8))).fit(clustered(60)).arrays()
    with pytest.raises(IndexMismatch, match=r"no array 'codebook\.2'"):
        load_docids(IdSettings(sizes=(8, 8, 8)), arrays)
    with pytest.raises(IndexMismatch, match=r"shape \(8, 12\).*at most 4"):
        load_docids(IdSettings(sizes=(8, 4)), arrays)
    with pytest.raises(IndexMismatch, match="'modalities', only none"):
        load_docids(IdSettings(sizes=(8,)), {})
