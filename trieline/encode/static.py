"""Vectors of texts by averaging a vector for each token: no network is run, only a table read.

As in model2vec and WordLlama: a text is the (weighted) mean of its tokens' vectors, scaled to unit
length. Reads the file that the ``wordllama`` wheel carries (its own loader looks elsewhere when
there is no network), or a folder in one of model2vec's layouts. The trap: word order is lost and so
is much of the meaning; about 3,000 abstracts/s on one core, where MiniLM does 30.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.encode.weights import files_digest, locate
from trieline.encode.wording import WORDING, texts_of
from trieline.errors import DataError, MissingExtra, SettingsError
from trieline.types import Floats, Item, Query
from trieline.watch import Watch, silent

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["StaticEncoder"]

_BLOCK = 256  # texts whose tokens are held at once
_LAYOUTS = (  # (vectors, tokenizer) inside a folder
    ("model.safetensors", "tokenizer.json"),
    ("0_StaticEmbedding/model.safetensors", "0_StaticEmbedding/tokenizer.json"),
    ("weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json"),
)


class _Table(NamedTuple):
    """What a static model is."""

    vectors: Floats  # [rows, D]
    weights: Floats | None  # [tokens]
    rows: NDArray[np.int64] | None  # [tokens] the row of each token, where several share one
    tokenizer: Tokenizer
    unknown: int  # the id that stands for everything without a token of its own; -1: none


class StaticEncoder:
    """See the module. ``model``: "wordllama", a local folder, or a hub name."""

    def __init__(self, model: str = "wordllama", *, max_tokens: int = 256) -> None:
        if max_tokens < 1:
            raise SettingsError(f"encode.max_tokens = {max_tokens}: expected 1 or more.")
        folder = _packaged_wordllama() if model == "wordllama" else locate(model)
        self._vectors_file, self._tokenizer_file = _files(folder)
        self._max_tokens = max_tokens
        digest = files_digest(folder, (self._vectors_file, self._tokenizer_file))
        self.fingerprint = (
            f"static model={digest[:32]} tokens={max_tokens} wording={WORDING} norm=l2"
        )

    @property
    def dim(self) -> int:
        """D, the length of a vector."""
        return int(self._table.vectors.shape[1])

    def encode(self, things: Sequence[Item] | Sequence[Query], watch: Watch = silent) -> Floats:
        """float32[N, D], each vector of unit length."""
        return self.encode_texts(self.texts(things), watch)

    def texts(self, things: Sequence[Item] | Sequence[Query]) -> list[str]:
        """What is encoded for each thing."""
        return texts_of(things)

    def encode_texts(self, texts: Sequence[str], watch: Watch = silent) -> Floats:
        """float32[N, D] of plain texts."""
        vectors = np.empty((len(texts), self.dim), dtype=np.float32)
        with watch("encoding texts", len(texts)) as task:
            for start in range(0, len(texts), _BLOCK):
                block = list(texts[start : start + _BLOCK])
                found = self._table.tokenizer.encode_batch(block, add_special_tokens=False)
                for row, (text, encoding) in enumerate(zip(block, found, strict=True), start):
                    vectors[row] = self._vector(np.array(encoding.ids, dtype=np.int64), text)
                task.advance(len(block))
        return vectors

    def _vector(self, ids: NDArray[np.int64], text: str) -> Floats:
        table = self._table
        known = ids[ids != table.unknown]
        ids = (known if len(known) else ids)[: self._max_tokens]
        ids = ids[ids < (len(table.vectors) if table.rows is None else len(table.rows))]
        rows = ids if table.rows is None else table.rows[ids]
        weights = np.ones(len(ids), np.float32) if table.weights is None else table.weights[ids]
        vector: Floats = weights @ table.vectors[rows]
        length = float(np.linalg.norm(vector))
        if not np.isfinite(length) or length == 0:
            raise DataError(
                f"no token of the text {text[:60]!r} has a vector in {self._vectors_file}. "
                "Leave it out, or use encode.kind = 'text'."
            )
        return vector / np.float32(length)

    @cached_property
    def _table(self) -> _Table:
        return _load(self._vectors_file, self._tokenizer_file)


def _packaged_wordllama() -> Path:
    found = importlib.util.find_spec("wordllama")  # found, not imported: it wants much we do not
    if found is None or not found.submodule_search_locations:
        raise MissingExtra("static vectors", "wordllama", "static")
    return Path(next(iter(found.submodule_search_locations)))


def _files(folder: Path) -> tuple[Path, Path]:
    for vectors, tokenizer in _LAYOUTS:
        if (folder / vectors).is_file() and (folder / tokenizer).is_file():
            return folder / vectors, folder / tokenizer
    expected = " or ".join(" + ".join(layout) for layout in _LAYOUTS[:2])
    raise SettingsError(
        f"encode.kind = 'static': {folder} holds no static vectors. Expected {expected}, "
        "as model2vec saves them."
    )


def _load(vectors_file: Path, tokenizer_file: Path) -> _Table:
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    try:
        tensors = load_file(vectors_file)
        tokenizer = Tokenizer.from_file(str(tokenizer_file))
    except Exception as error:  # both libraries raise errors of their own, or plain Exception
        raise SettingsError(
            f"{vectors_file} and {tokenizer_file.name} beside it cannot be read as static vectors: "
            f"{error}. Save or fetch the model again."
        ) from error
    vectors = tensors.get("embeddings", tensors.get("embedding.weight"))
    if vectors is None or vectors.ndim != 2:
        raise SettingsError(
            f"{vectors_file} holds {', '.join(sorted(tensors))}: expected a table named "
            "'embeddings' or 'embedding.weight', one row a token."
        )
    tokenizer.no_padding()
    tokenizer.no_truncation()
    weights, rows = tensors.get("weights"), tensors.get("mapping")
    return _Table(
        vectors.astype(np.float32),
        None if weights is None else weights.astype(np.float32),
        None if rows is None else rows.astype(np.int64),
        tokenizer,
        _unknown(tokenizer),
    )


def _unknown(tokenizer: Tokenizer) -> int:
    model = json.loads(tokenizer.to_str())["model"]
    token = model.get("unk_token")
    found = tokenizer.token_to_id(token) if token else model.get("unk_id")
    return -1 if found is None else int(found)
