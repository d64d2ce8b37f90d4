from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from tests.encode.conftest import WORDS, save_static
from trieline.config import EncodeSettings
from trieline.encode import open_encoder
from trieline.encode.static import StaticEncoder
from trieline.errors import DataError, MissingExtra, SettingsError
from trieline.types import Floats, Item, Query


def slow_vector(folder: Path, text: str, max_tokens: int = 256) -> Floats:
    """What the module says, in plain loops."""
    tensors = load_file(folder / "model.safetensors")
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    tokens = [vocabulary[word] for word in text.split() if word in vocabulary]
    total = np.zeros(8)
    for token in tokens[:max_tokens]:
        row = tensors["mapping"][token] if "mapping" in tensors else token
        weight = tensors["weights"][token] if "weights" in tensors else 1.0
        total += float(weight) * tensors["embeddings"][row].astype(np.float64)
    return (total / np.linalg.norm(total)).astype(np.float32)


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "weights and mapping"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("static")
    save_static(folder, with_weights=request.param)
    return folder


@given(words=st.lists(st.sampled_from([*WORDS.split(), "zebra"]), min_size=1, max_size=30))
def test_the_mean_of_the_known_tokens(model: Path, words: list[str]) -> None:
    text = " ".join([*words, "cat"])
    encoder = StaticEncoder(str(model), max_tokens=12)
    (vector,) = encoder.encode_texts([text])
    assert vector.dtype == np.float32
    assert np.allclose(vector, slow_vector(model, text, 12), atol=1e-5)
    together = encoder.encode_texts(["dog", text, "the red tree " * 20])
    assert np.array_equal(together[1], vector), "the others do not matter"


def test_items_queries_and_nothing(tiny_static: Path) -> None:
    encoder = StaticEncoder(str(tiny_static))
    assert encoder.dim == 8
    found = encoder.encode([Item("i", title="red", text="cat")])
    assert np.array_equal(found, encoder.encode([Query("q", text="red cat")]))
    assert encoder.encode([]).shape == (0, 8)
    with pytest.raises(DataError, match="item 'empty'"):
        encoder.encode([Item("empty")])


def test_a_text_of_unknown_tokens_only_is_that(tiny_static: Path) -> None:
    encoder = StaticEncoder(str(tiny_static))
    zebra, zebras, cat = encoder.encode_texts(["zebra", "zebra zebra okapi", "cat zebra"])
    assert np.allclose(zebra, zebras, atol=1e-6)
    assert np.allclose(cat, encoder.encode_texts(["cat"])[0], atol=1e-6)


def test_a_text_without_any_token(tiny_static: Path) -> None:
    with pytest.raises(DataError, match=r"no token of the text .* has a vector"):
        StaticEncoder(str(tiny_static)).encode_texts([" "])


def test_model2vecs_nested_layout(tmp_path: Path) -> None:
    save_static(
        tmp_path / "nested",
        with_weights=False,
        vectors="0_StaticEmbedding/model.safetensors",
        tokenizer="0_StaticEmbedding/tokenizer.json",
        name="embedding.weight",
    )
    save_static(tmp_path / "flat", with_weights=False)
    nested, flat = StaticEncoder(str(tmp_path / "nested")), StaticEncoder(str(tmp_path / "flat"))
    assert np.array_equal(nested.encode_texts(["red cat"]), flat.encode_texts(["red cat"]))


@pytest.fixture
def wordllama(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that looks like the wheel, and must not be imported."""
    package = tmp_path / "site" / "wordllama"
    save_static(
        package,
        with_weights=False,
        vectors="weights/l2_supercat_256.safetensors",
        tokenizer="tokenizers/l2_supercat_tokenizer_config.json",
        name="embedding.weight",
    )
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.delitem(sys.modules, "wordllama", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return package


def test_the_wheels_files_are_read_where_they_are(wordllama: Path) -> None:
    encoder = open_encoder(EncodeSettings(kind="static"))
    assert encoder.dim == 8
    assert encoder.encode([Query("q", text="red cat")]).shape == (1, 8)
    assert encoder.fingerprint == StaticEncoder("wordllama").fingerprint


def test_the_wheel_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'trieline\[static\]'"):
        open_encoder(EncodeSettings(kind="static"))


def test_fingerprints(tmp_path: Path) -> None:
    for name, weighted in (("a", False), ("b", False), ("c", True)):
        save_static(tmp_path / name, with_weights=weighted)
    prints = [StaticEncoder(str(tmp_path / name)).fingerprint for name in "abc"]
    assert prints[0] == prints[1] != prints[2]
    assert StaticEncoder(str(tmp_path / "a"), max_tokens=9).fingerprint != prints[0]


def test_folders_that_hold_something_else(tmp_path: Path, tiny_static: Path) -> None:
    from safetensors.numpy import save_file

    with pytest.raises(SettingsError, match=r"holds no static vectors\. Expected model\.safe"):
        (tmp_path / "empty").mkdir()
        (tmp_path / "empty" / "weights.safetensors").write_bytes(b"")
        StaticEncoder(str(tmp_path / "empty"))
    save_file({"other": np.zeros((2, 2))}, tiny_static / "model.safetensors")
    with pytest.raises(SettingsError, match="holds other: expected a table named 'embeddings'"):
        StaticEncoder(str(tiny_static)).encode_texts(["cat"])
    (tiny_static / "model.safetensors").write_bytes(b"short")
    with pytest.raises(SettingsError, match="cannot be read as static vectors"):
        StaticEncoder(str(tiny_static)).encode_texts(["cat"])
    with pytest.raises(SettingsError, match="max_tokens = 0"):
        StaticEncoder(str(tiny_static), max_tokens=0)


def test_the_tokenizers_own_limits_are_lifted(tiny_static: Path) -> None:
    saved = Tokenizer.from_file(str(tiny_static / "tokenizer.json"))
    assert len(saved.encode("cat " * 9).ids) == 3, "the file says three tokens"
    long, short = StaticEncoder(str(tiny_static)).encode_texts(["cat cat cat dog", "cat cat cat"])
    assert not np.allclose(long, short)
