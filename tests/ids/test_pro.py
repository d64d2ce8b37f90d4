"""Docids that learn from queries: what they keep alive, what they keep, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from trieline.config import IdSettings, ProSettings, Recipe, apply
from trieline.errors import DimensionError, IndexMismatch, SettingsError
from trieline.ids import Judged, ProIds, ResidualIds, open_docids
from trieline.ids.docids import fingerprint_of
from trieline.ids.vectors import unit

Floats = NDArray[np.float32]
Clustered = Callable[..., Floats]
Score = Literal["product", "distance"]


def half_blind(seed: int) -> tuple[Floats, Judged, Judged]:
    """Items in clusters, queries that know only half of an item's coordinates, with some noise.

    So k-means spends its first words on what no query asks for. One query in four is kept out.
    """
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((20, 16))
    items = centres[rng.integers(0, 20, 400)] + 0.5 * rng.standard_normal((400, 16))
    queries = np.repeat(items, 4, axis=0)
    queries[:, :8] = 0.0
    queries += 0.2 * rng.standard_normal(queries.shape)
    asked, item = unit(queries.astype(np.float32)), np.repeat(np.arange(400), 4)
    held = np.arange(len(asked)) % 4 == 0
    seen, kept = (
        Judged(asked[rows], np.arange(int(rows.sum())), item[rows]) for rows in (~held, held)
    )
    return unit(items.astype(np.float32)), seen, kept


def alive(docids: ProIds, items: Floats, asked: Judged, beam: int, by: Score) -> Floats:
    """The share of queries whose item's prefix is in a beam ranked by geometry alone: [L]."""
    codes, queries = docids.assign(items).codes, docids.project(asked.queries)
    beams = np.ones((len(queries), 1), bool)  # [Q, prefixes of the level before]
    before, found = np.zeros(len(items), np.int64), []
    for level in range(codes.shape[1]):
        prefixes, number = np.unique(codes[:, : level + 1], axis=0, return_inverse=True)
        parent = np.zeros(len(prefixes), np.int64)
        parent[number.ravel()], before = before, number.ravel()
        score = queries @ docids.reconstruct(prefixes).T
        if by == "distance":
            score -= (docids.reconstruct(prefixes) ** 2).sum(axis=1) / 2
        score[~beams[:, parent]] = -np.inf
        least = np.sort(score, axis=1)[:, -min(beam, len(prefixes))][:, None]
        beams = (score >= least) & np.isfinite(score)
        found.append(beams[np.arange(len(queries)), before[asked.item]].mean())
    return np.array(found, np.float32)


@pytest.mark.parametrize("by", ["product", "distance"])
def test_distilled_prefixes_survive(by: Score) -> None:
    """At the same codes and training, with and without L_rank; queries that nobody trained on.

    Ranked as the student scores prefixes: products are the paper's oracle, distances its Eq. 7.
    """
    gains = []
    for seed in range(3):
        items, seen, kept = half_blind(seed)
        share = []
        for rank in (0.0, 100.0):
            how = ProSettings(
                rq=1.0, mse=0.0, rank=rank, candidates=200, epochs=12, lr=4e-3, student=by
            )
            settings = IdSettings(scheme="pro", sizes=(16, 16, 16), pro=how)
            docids = ProIds(settings, seed).fit(items, judged=seen)
            share.append(alive(docids, items, kept, 5, by))
        gains.append(share[1] - share[0])
    gain = np.mean(gains, axis=0)
    assert gain[1] > 0.03 and gain[2] > 0, "of queries; .064 and .049 at level 2 when written"


def small(**how: Any) -> IdSettings:
    return IdSettings(scheme="pro", sizes=(8, 8), pro=ProSettings(**{"epochs": 3, **how}))


def test_the_same_seed_gives_the_same_docids() -> None:
    items, seen, _ = half_blind(0)
    for how in ({}, {"project": True, "codebooks": "ema"}):
        once, again = (ProIds(small(**how), 1).fit(items, judged=seen) for _ in range(2))
        assert once.fingerprint == again.fingerprint
        others = [
            ProIds(small(**how), 2).fit(items, judged=seen),
            ProIds(small(**how), 1).fit(items),
            ProIds(small(**how, rank=1.0), 1).fit(items, judged=seen),
            ProIds(small(**how), 1).fit(items, judged=seen._replace(item=seen.item[::-1])),
        ]
        assert len({once.fingerprint, *(other.fingerprint for other in others)}) == 5


def test_without_queries_items_ask_for_themselves(clustered: Clustered) -> None:
    items = clustered(200)
    alone = ProIds(small(), 0).fit(items)
    every = np.arange(200)
    asked = ProIds(small(), 0).fit(items, judged=Judged(4 * items, every, every))
    assert alone.fingerprint == asked.fingerprint
    nothing = Judged(items[:0], every[:0], every[:0])
    assert ProIds(small(), 0).fit(items, judged=nothing).fingerprint == alone.fingerprint
    start = ResidualIds(IdSettings(sizes=(8, 8))).fit(unit(items))
    assert np.abs(alone.codebooks[0] - start.codebooks[0]).max() > 1e-4


@pytest.mark.parametrize("project", [False, True])
def test_queries_are_brought_to_where_the_codebooks_are(
    project: bool, clustered: Clustered
) -> None:
    items = clustered(200)
    docids = ProIds(small(project=project, rq=1.0, mse=1.0)).fit(items)
    placed = docids.project(items)
    np.testing.assert_allclose(np.linalg.norm(placed, axis=1), 1, atol=1e-5)
    assert bool(np.abs(placed - unit(items)).max() > 1e-3) == project
    assert (docids.project(np.zeros((1, 12), np.float32)) == 0).all()
    nearest = ((placed[:, None] - docids.codebooks[0]) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(docids.assign(items).codes[:, 0], nearest)
    np.testing.assert_array_equal(docids.assign(5 * items).codes, docids.assign(items).codes)
    loaded = ProIds.from_arrays(docids.settings, docids.arrays())
    np.testing.assert_array_equal(loaded.project(items), placed)
    assert loaded.fingerprint == docids.fingerprint


def test_modalities_have_prefixes_of_their_own(clustered: Clustered) -> None:
    items = clustered(120)
    labels = ["image", "text"] * 60
    settings = IdSettings(scheme="pro", sizes=(8, 8), modality=True, pro=ProSettings(epochs=2))
    docids = ProIds(settings, 0, ("image", "text")).fit(items, labels=labels)
    codes = docids.assign(items, labels=labels).codes
    assert docids.sizes == (2, 8, 8) and codes.shape == (120, 3)
    np.testing.assert_array_equal(codes[:, 0], [0, 1] * 60)
    other = ProIds(settings, 0, ("image", "text")).fit(items, labels=["image"] * 60 + ["text"] * 60)
    assert np.abs(docids.codebooks[1] - other.codebooks[1]).max() > 0, "their rankings differ"


def test_progress_is_told(clustered: Clustered) -> None:
    told: dict[str, list[str]] = {}

    @contextmanager
    def watch(what: str, total: int | None) -> Iterator[Any]:
        class Task:
            def advance(self, n: int = 1, note: str = "") -> None:
                told.setdefault(f"{what}, {total}", []).append(note)

        yield Task()

    ProIds(small(batch=50)).fit(clustered(200), watch=watch)
    notes = told["learning to rank prefixes, 12"]
    assert len(notes) == 12 and notes[0].startswith("loss ")


def test_what_does_not_go(clustered: Clustered) -> None:
    items = clustered(50)
    with pytest.raises(SettingsError, match="nothing that the losses could change"):
        ProSettings(codebooks="ema")
    for bad in ("rank=-1.0", "warmup=2.0", "tau=0.0", "candidates=1", "lr=-0.1", "rq=nan"):
        with pytest.raises(SettingsError, match=r"ids\.pro"):
            apply(Recipe(), [f"ids.pro.{bad}"])
    with pytest.raises(SettingsError, match="Try a lower ids.pro.lr"):
        ProIds(small(lr=1e18)).fit(items)
    with pytest.raises(DimensionError, match="12"):
        ProIds(small()).fit(items, judged=Judged(items[:, :3], np.arange(9), np.arange(9)))
    with pytest.raises(SettingsError, match="learnt nothing"):
        ProIds(small()).assign(items)
    settings = small(project=True)
    arrays = ProIds(settings).fit(items).arrays()
    del arrays["projection"]
    with pytest.raises(IndexMismatch, match="no array 'projection'"):
        open_docids(settings).__class__.from_arrays(settings, arrays)


@pytest.mark.parametrize("zero", [0, 0.0])
def test_a_fingerprint_does_not_depend_on_how_a_number_is_written(zero: float) -> None:
    settings = IdSettings(scheme="pro", pro=ProSettings(epochs=zero))
    assert fingerprint_of(settings, {}) == fingerprint_of(IdSettings(scheme="pro"), {})


def test_a_setting_that_came_later_leaves_older_fingerprints_alone() -> None:
    """As the version before ``quantised`` had it; with the new setting it is another one."""
    before = "2967b438954899bfecaf4eab1da99ad413729a678924c7ed5f530bba5a77d79e"
    assert fingerprint_of(IdSettings(scheme="pro"), {}) == before
    other = IdSettings(scheme="pro", pro=ProSettings(quantised="items"))
    assert fingerprint_of(other, {}) != before
