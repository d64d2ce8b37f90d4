"""Maps between two spaces: against closed forms and plain loops, and as an encoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trieline.config import EncodeSettings
from trieline.encode import open_encoder
from trieline.encode.contrast import Contrast, held_out, info_nce
from trieline.encode.projection import (
    Pairs,
    Projection,
    Shape,
    learn_projection,
    load_projection,
    ridge_projection,
    save_projection,
)
from trieline.errors import DataError, DimensionError, SettingsError, TrainError
from trieline.types import Floats, Item, Query

QUICK = Contrast(epochs=25, batch=64, lr=5e-3, patience=5)


def world(pictures: int = 120, captions: int = 3, seed: int = 0) -> Pairs:
    """Both sides are noisy views of the same 6 hidden numbers, through a curve for pictures."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(pictures, 6))
    owner = np.repeat(np.arange(pictures), captions)
    said = hidden[owner] @ rng.normal(size=(6, 12)) + 0.3 * rng.normal(size=(len(owner), 12))
    shown = np.maximum(hidden @ rng.normal(size=(6, 20)), 0) + 0.1
    return Pairs(said.astype(np.float32), shown.astype(np.float32), owner)


def success(maps: Projection, pairs: Pairs) -> float:
    """Share of captions whose nearest picture is theirs."""
    said = maps.texts.vectors(pairs.captions, "texts")
    shown = maps.pictures.vectors(pairs.features, "pictures")
    return float(((said @ shown.T).argmax(axis=1) == pairs.owner).mean())


def test_the_loss_is_that_of_two_plain_loops() -> None:
    rng = np.random.default_rng(0)
    left, right = (unit(rng.normal(size=(7, 5))) for _ in range(2))
    groups, scale = [0, 1, 1, 2, 0, 3, 1], 20.0

    def one_way(a: Floats, b: Floats) -> float:
        total = 0.0
        for i in range(7):
            others = [j for j in range(7) if j == i or groups[j] != groups[i]]
            total -= scale * a[i] @ b[i] - np.log(sum(np.exp(scale * a[i] @ b[j]) for j in others))
        return total / 7

    found = info_nce(
        torch.from_numpy(left), torch.from_numpy(right), torch.tensor(scale), torch.tensor(groups)
    )
    assert float(found) == pytest.approx((one_way(left, right) + one_way(right, left)) / 2)


def unit(x: Floats) -> Floats:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize("hidden", [0, 16])
def test_learnt_maps_find_pictures_they_never_saw(hidden: int) -> None:
    everything = world(pictures=160)
    train = everything.owner < 120
    pairs = Pairs(everything.captions[train], everything.features[:120], everything.owner[train])
    unseen = Pairs(
        everything.captions[~train], everything.features[120:], everything.owner[~train] - 120
    )
    maps, learnt = learn_projection(pairs, Shape(dim=16, hidden=hidden), QUICK)
    assert learnt.rr > 0.3
    assert success(maps, unseen) > 0.3, "chance is 1 in 40"
    assert success(maps, unseen) > 2 * success(ridge_projection(world(seed=9)), unseen)


def test_same_seed_same_maps_another_seed_others() -> None:
    pairs = world(40)
    state = torch.random.get_rng_state()
    one, told = learn_projection(pairs, Shape(dim=8), QUICK._replace(epochs=3))
    assert torch.equal(state, torch.random.get_rng_state()), "the user's generator is left alone"
    torch.manual_seed(77)
    two, again = learn_projection(pairs, Shape(dim=8), QUICK._replace(epochs=3))
    assert told == again
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, two.state_dict()[name]), name
    other, _ = learn_projection(pairs, Shape(dim=8), QUICK._replace(epochs=3, seed=1))
    assert not torch.equal(one.texts.linear.weight, other.texts.linear.weight)


def test_it_stops_when_held_out_pairs_no_longer_gain() -> None:
    noise = np.random.default_rng(0)
    pairs = Pairs(
        noise.normal(size=(60, 8)).astype(np.float32),
        noise.normal(size=(60, 8)).astype(np.float32),
        np.arange(60),
    )
    _, learnt = learn_projection(pairs, Shape(dim=8), QUICK._replace(epochs=200, patience=4))
    assert learnt.epochs < 200
    assert learnt.epochs == learnt.best_epoch + 4


@given(
    groups=st.lists(st.integers(0, 20), min_size=1, max_size=60),
    share=st.floats(0.01, 0.99),
    seed=st.integers(0, 9),
)
@settings(max_examples=80, deadline=None)
def test_groups_are_held_out_whole(groups: list[int], share: float, seed: int) -> None:
    own = np.array(groups, np.int64)
    if len(set(groups)) < 4:
        with pytest.raises(TrainError, match="at least 4 groups"):
            held_out(own, share, seed)
        return
    kept = held_out(own, share, seed)
    inside, outside = set(own[kept]), set(own[~kept])
    assert not inside & outside
    assert len(inside) >= 2
    assert len(outside) >= 2


def test_ridge_is_the_closed_form_of_all_pairs() -> None:
    pairs = world(30)
    pairs = pairs._replace(owner=np.sort(np.random.default_rng(1).integers(0, 30, 90)))
    maps = ridge_projection(pairs, strength=0.3)
    spread = pairs.features.std(axis=0)
    x = ((pairs.features - pairs.features.mean(axis=0)) / spread)[pairs.owner].astype(np.float64)
    x = np.hstack([x, np.ones((90, 1))])
    penalty = 0.3 * 90 * np.eye(x.shape[1])
    penalty[-1, -1] = 0  # the constant is free
    weights = np.linalg.solve(x.T @ x + penalty, x.T @ pairs.captions)
    picture = np.append((pairs.features[4] - pairs.features.mean(axis=0)) / spread, 1) @ weights
    found = maps.pictures.vectors(pairs.features[4:5], "pictures")[0]
    np.testing.assert_allclose(found, picture / np.linalg.norm(picture), atol=1e-5)
    np.testing.assert_allclose(
        maps.texts.vectors(pairs.captions, "texts"), unit(pairs.captions), atol=1e-6
    )


def test_a_constant_feature_does_no_harm() -> None:
    pairs = world(30)
    pairs.features[:, 3] = 7
    maps, _ = learn_projection(pairs, Shape(dim=8), QUICK._replace(epochs=2))
    moved = pairs.features.copy()
    moved[:, 3] = 8
    found = maps.pictures.vectors(pairs.features, "pictures")
    np.testing.assert_array_equal(found, maps.pictures.vectors(moved, "pictures"))
    assert np.isfinite(found).all()


@pytest.mark.parametrize("hidden", [0, 5])
def test_saved_and_loaded(tmp_path: Path, hidden: int) -> None:
    pairs = world(20)
    maps, _ = learn_projection(pairs, Shape(dim=8, hidden=hidden), QUICK._replace(epochs=1))
    path = tmp_path / "maps.safetensors"
    save_projection(path, maps, texts="text a", pictures="image b")
    loaded = load_projection(path)
    assert loaded.shape == maps.shape
    assert loaded.encoders == ("text a", "image b")
    for name in ("captions", "features"):
        own, other = ((m.texts, m.pictures)[name == "features"] for m in (maps, loaded))
        x = getattr(pairs, name)
        np.testing.assert_array_equal(own.vectors(x, name), other.vectors(x, name))
    first = path.read_bytes()
    save_projection(path, maps, texts="text a", pictures="image b")
    assert path.read_bytes() == first
    with pytest.raises(DimensionError, match=r"reads texts of 12 values, got shape \[2, 3\]"):
        loaded.texts.vectors(np.ones((2, 3), np.float32), "texts")


def test_files_that_are_none(tmp_path: Path, tiny_bert: Path) -> None:
    for path, said in (
        (tmp_path / "none", "No such file"),
        (tiny_bert / "model.safetensors", "its format is"),
        (tiny_bert / "config.json", "trieline-projection/1"),
    ):
        with pytest.raises(
            SettingsError, match=f"no file of trieline-projection/1 .*{said}|{said}"
        ):
            load_projection(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"owner": np.zeros(3, np.int64)}, r"owner \[3\]: expected \[N, Dt\]"),
        ({"owner": np.full(60, 20)}, "outside the 20 features"),
        ({"captions": np.full((60, 12), np.nan, np.float32)}, "captions have NaN"),
    ],
)
def test_pairs_that_do_not_fit(change: dict[str, Floats], said: str) -> None:
    with pytest.raises(DimensionError, match=said):
        learn_projection(world(20)._replace(**change))


# --- as an encoder ------------------------------------------------------------------------------


@pytest.fixture
def projected(tiny_bert: Path, tmp_path: Path) -> EncodeSettings:
    """Settings of a projection of the tiny BERT and of features that everybody brings."""
    text = open_encoder(EncodeSettings(model=str(tiny_bert), max_tokens=16))
    pairs = world(20)
    texts = [Query(str(n), text=f"cat {'dog ' * (n % 9)}") for n in range(60)]
    maps, _ = learn_projection(
        pairs._replace(captions=text.encode(texts)), Shape(dim=8), QUICK._replace(epochs=1)
    )
    path = tmp_path / "maps.safetensors"
    save_projection(path, maps, texts=text.fingerprint)
    return EncodeSettings(
        kind="projection",
        model=str(tiny_bert),
        max_tokens=16,
        projection=str(path),
        image_model="",
    )


def test_texts_and_features_meet(projected: EncodeSettings, tmp_path: Path) -> None:
    encoder = open_encoder(projected, tmp_path / "cache")
    features = np.random.default_rng(0).normal(size=(2, 20)).astype(np.float32)
    things = [
        Item("t", text="cat"),
        Item("p", embedding=features[0], modality="image"),
        Item("b", text="cat", embedding=features[0], modality="image,text"),
        Item("q", embedding=features[1], modality="image"),
    ]
    found = encoder.encode(things)
    assert found.shape == (4, encoder.dim) == (4, 8)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(found[2], unit(found[:1] + found[1:2])[0], atol=1e-6)
    maps = load_projection(projected.projection)
    np.testing.assert_allclose(found[[1, 3]], maps.pictures.vectors(features, ""), atol=1e-6)
    with pytest.raises(SettingsError, match="'x' brings no features"):
        encoder.encode([Item("x", image="x.png")])
    with pytest.raises(DimensionError, match=r"features of 'x' have shape \[3\]"):
        encoder.encode([Item("x", embedding=np.ones(3, np.float32))])
    with pytest.raises(DataError, match="nothing to encode"):
        encoder.encode([Item("x")])


def test_another_encoder_is_refused(projected: EncodeSettings) -> None:
    import msgspec

    other = msgspec.structs.replace(projected, max_tokens=8)
    with pytest.raises(SettingsError, match=r"trained on texts encoded by '.*tokens=16.*tokens=8"):
        open_encoder(other)


def test_the_fingerprint_knows_maps_and_encoders(
    projected: EncodeSettings, tiny_static: Path
) -> None:
    own = open_encoder(projected).fingerprint
    maps = load_projection(projected.projection)
    static = open_encoder(EncodeSettings(kind="static", model=str(tiny_static)))
    save_projection(projected.projection, maps, texts=maps.encoders[0], pictures="image x")
    assert open_encoder(projected).fingerprint != own, "the file is another"
    save_projection(
        projected.projection, Projection((8, 20), Shape(dim=4)), texts=static.fingerprint
    )
    import msgspec

    by_static = open_encoder(
        msgspec.structs.replace(projected, model=str(tiny_static), max_tokens=256)
    )
    assert by_static.encode([Query("q", text="cat dog")]).shape == (1, 4)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "projection"}, "a projection needs its file"),
        ({"projection": "x"}, "nothing else reads one"),
        ({"fusion": "x"}, "encode.fusion = 'x' goes with encode.kind = 'clip', not 'text'"),
    ],
)
def test_settings_that_do_not_go_together(given: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        EncodeSettings(**given)  # type: ignore[arg-type]
