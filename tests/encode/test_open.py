from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from trieline.config import EncodeSettings
from trieline.encode import open_encoder
from trieline.encode.cache import CachedEncoder
from trieline.encode.static import StaticEncoder
from trieline.encode.text import TextEncoder
from trieline.types import Query


def test_each_kind(tiny_bert: Path, tiny_static: Path) -> None:
    text = open_encoder(EncodeSettings(model=str(tiny_bert), max_tokens=16))
    assert isinstance(text, TextEncoder)
    assert "tokens=16 precision=fp32" in text.fingerprint
    static = open_encoder(EncodeSettings(kind="static", model=str(tiny_static)))
    assert isinstance(static, StaticEncoder)


def test_with_a_cache(tiny_bert: Path, tmp_path: Path) -> None:
    settings = EncodeSettings(model=str(tiny_bert), max_tokens=16)
    questions = [Query(str(n), text=f"cat {'dog ' * n}") for n in range(40)]
    encoder = open_encoder(settings, tmp_path)
    assert isinstance(encoder, CachedEncoder)
    plain = open_encoder(settings)
    assert encoder.fingerprint == plain.fingerprint
    assert np.array_equal(encoder.encode(questions), plain.encode(questions))


def test_precision_reaches_the_encoder(tiny_bert: Path) -> None:
    settings = EncodeSettings(model=str(tiny_bert), max_tokens=16)
    assert "precision=bf16" in open_encoder(settings, precision="bf16").fingerprint


def test_what_is_cached_needs_no_torch(tiny_bert: Path, tmp_path: Path) -> None:
    settings = EncodeSettings(model=str(tiny_bert), max_tokens=16)
    questions = [Query(str(n), text=f"cat {n}") for n in range(40)]
    open_encoder(settings, tmp_path).encode(questions)
    program = f"""
import sys
from pathlib import Path
from trieline.config import EncodeSettings
from trieline.encode import open_encoder
from trieline.types import Query
settings = EncodeSettings(model={str(tiny_bert)!r}, max_tokens=16)
encoder = open_encoder(settings, Path({str(tmp_path)!r}))
vectors = encoder.encode([Query(str(n), text=f"cat {{n}}") for n in range(40)])
assert vectors.shape == (40, encoder.dim)
assert not {{"torch", "transformers", "sentence_transformers"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])
