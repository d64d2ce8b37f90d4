"""The mixer: what it starts as, what it learns, and whose it is."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from tiny_clip import WORDS, save_pictures, save_tiny

from trieline.config import EncodeSettings
from trieline.encode import open_encoder
from trieline.encode.clip import Clip, open_clip
from trieline.encode.contrast import Contrast
from trieline.encode.mixer import MixerShape, learn_mixer, open_mixing, save_mixer
from trieline.errors import SettingsError
from trieline.types import Item, Query

SHAPE = MixerShape(width=16, layers=1, heads=2, dropout=0.0)
Pair = tuple[Query, Item]


@pytest.fixture(scope="module", params=["clip", "siglip"])
def clip(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Clip:
    return Clip(str(save_tiny(tmp_path_factory.mktemp(request.param), request.param)), batch=8)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[Pair]:
    """A picture with words asks for an item of its own."""
    pictures = save_pictures(tmp_path_factory.mktemp("pictures"), 16)
    words = WORDS.split()
    return [
        (
            Query(f"q{n}", text=f"{words[n]} {words[n + 3]}" + " cat" * (n % 3), image=path),
            Item(f"i{n}", text=words[(5 * n) % 19], image=path if n % 2 else None),
        )
        for n, path in enumerate(pictures)
    ]


def test_untrained_it_is_the_sum(clip: Clip, pairs: list[Pair], tmp_path: Path) -> None:
    queries = [query for query, _ in pairs]
    mixer, learnt = learn_mixer(clip, pairs, SHAPE, Contrast(epochs=0))
    assert learnt.epochs == 0
    save_mixer(tmp_path / "m.safetensors", mixer, clip)
    mixed = open_clip(clip, fusion=str(tmp_path / "m.safetensors")).encode(queries)
    np.testing.assert_allclose(mixed, open_clip(clip).encode(queries), atol=1e-6)


def test_trained_it_brings_things_to_their_answers(
    clip: Clip, pairs: list[Pair], tmp_path: Path
) -> None:
    how = Contrast(epochs=12, batch=16, lr=3e-3, held_out=0.25, patience=0, seed=3)
    mixer, learnt = learn_mixer(clip, pairs, SHAPE, how)
    again, _ = learn_mixer(clip, pairs, SHAPE, how)
    assert all(
        np.array_equal(a.detach(), b.detach())
        for a, b in zip(mixer.parameters(), again.parameters(), strict=True)
    ), "same seed, same mixer"
    assert 1 <= learnt.best_epoch <= learnt.epochs == 12
    path = tmp_path / "m.safetensors"
    save_mixer(path, mixer, clip)
    settings = EncodeSettings(kind="clip", model=str(clip.folder), fusion=str(path), batch=8)
    trained, plain = open_encoder(settings), open_clip(clip)
    assert trained.fingerprint != plain.fingerprint
    queries, items = [q for q, _ in pairs], [i for _, i in pairs]
    target = plain.encode(items)
    near = (trained.encode(queries) * target).sum(axis=1).mean()
    assert near > (plain.encode(queries) * target).sum(axis=1).mean() + 0.02
    alone = np.stack([trained.encode([query])[0] for query in queries])
    np.testing.assert_allclose(trained.encode(queries), alone, atol=2e-6)
    parts = [Query("t", text="cat"), Query("p", image=queries[0].image)]
    np.testing.assert_array_equal(trained.encode(parts), plain.encode(parts))


def test_it_belongs_to_its_model(clip: Clip, pairs: list[Pair], tmp_path: Path) -> None:
    mixer, _ = learn_mixer(clip, pairs, SHAPE, Contrast(epochs=0))
    save_mixer(tmp_path / "m.safetensors", mixer, clip)
    other = Clip(str(save_tiny(tmp_path, "clip" if clip.kind == "siglip" else "siglip")))
    with pytest.raises(SettingsError, match="was trained with .* model=.*Name the model"):
        open_mixing(other, tmp_path / "m.safetensors")
    (tmp_path / "x").write_bytes(b"no")
    with pytest.raises(
        SettingsError, match=r"no file of trieline-mixer/1 .*encode.fusion is 'sum'"
    ):
        open_clip(clip, fusion=str(tmp_path / "x"))
