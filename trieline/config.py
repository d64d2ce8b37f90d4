"""What a system is made of: one frozen, typed class per room, read from and written to TOML.

A recipe is a TOML file. ``extends = "genius"`` starts from another recipe (a shipped name or a
path); ``apply(recipe, ["ids.sizes=[64, 64]"])`` changes single settings from the command line.
An unknown key is an error that names its path.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import msgspec

from trieline.errors import SettingsError

__all__ = [
    "DecodeSettings",
    "EncodeSettings",
    "IdSettings",
    "ModelSettings",
    "ProSettings",
    "Recipe",
    "TrainSettings",
    "apply",
    "cache_folder",
    "from_mapping",
    "load_recipe",
    "recipe_names",
    "to_mapping",
]

Text = dict[str, Any]


class EncodeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which vectors stand for items and queries."""

    kind: Literal["text", "static", "precomputed", "clip", "image", "projection"] = "text"
    model: str = "minilm"  # "minilm" (offline, from its package), a local folder or a hub name
    image_model: str = "efficientnet-lite0"  # of image, projection; "": all bring their features
    projection: str = ""  # kind = "projection": the file of both maps
    fusion: str = "sum"  # kind = "clip": of a text with its picture; or the file of a mixer
    max_tokens: int = 256
    batch: int = 32
    precision: Literal["fp32", "bf16"] = "fp32"  # bf16: faster where the CPU has it in hardware

    def __post_init__(self) -> None:
        if (self.kind == "projection") != bool(self.projection):
            raise SettingsError(
                f"encode.kind = '{self.kind}' and encode.projection = '{self.projection}': a "
                "projection needs its file, and nothing else reads one."
            )
        if self.kind != "clip" and self.fusion != "sum":
            raise SettingsError(
                f"encode.fusion = '{self.fusion}' goes with encode.kind = 'clip', not "
                f"'{self.kind}'."
            )


class ProSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How docids learn to keep the prefixes of answers alive: PRO, Eq. 6 (ids.scheme = "pro")."""

    preset: Literal["cpu", "paper"] = "cpu"  # of epochs, batch and lr where they are left at 0
    epochs: float = 0.0
    batch: int = 0  # pairs of a query and an item that answers it
    lr: float = 0.0
    contrast: float = 1.0  # weights of the four losses
    rq: float = 100.0
    mse: float = 100.0
    rank: float = 100.0
    tau: float = 0.05  # temperature of teacher and student
    contrast_tau: float = 0.01
    candidates: int = 128  # of the batch, ranked for each query
    warmup: float = 0.1  # share of the steps over which the weight of rank grows
    quantised: Literal["both", "items"] = "both"  # what L_rq is of; both: queries too, as the paper
    distil: Literal["prefixes", "items"] = "prefixes"  # items: as the released code
    student: Literal["product", "distance"] = "product"  # distance: as guides score prefixes
    codebooks: Literal["gradient", "ema"] = "gradient"
    project: bool = False  # a learnt map before the quantiser, the same for queries and items

    def __post_init__(self) -> None:
        weights = self.contrast, self.rq, self.mse, self.rank
        if not all(0 <= weight < math.inf for weight in weights) or not 0 <= self.warmup <= 1:
            raise SettingsError(
                f"ids.pro has weights {', '.join(f'{w:g}' for w in weights)} and warmup = "
                f"{self.warmup:g}: expected weights from 0 upwards and a share from 0 to 1."
            )
        if not min(self.tau, self.contrast_tau) > 0 or self.candidates < 2:
            raise SettingsError(
                f"ids.pro.tau = {self.tau:g}, contrast_tau = {self.contrast_tau:g}, candidates = "
                f"{self.candidates}: expected temperatures above 0 and at least 2 candidates."
            )
        if not min(self.epochs, self.batch, self.lr) >= 0:
            raise SettingsError("ids.pro.epochs, batch and lr: expected numbers from 0 upwards.")
        if self.codebooks == "ema" and not self.project:
            raise SettingsError(
                'ids.pro.codebooks = "ema" with project = false leaves nothing that the losses '
                'could change. Set ids.pro.codebooks="gradient" or ids.pro.project=true.'
            )


class IdSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How items get their docids."""

    scheme: Literal["residual", "pro", "tree", "atomic"] = "residual"
    sizes: tuple[int, ...] = (256,) * 8  # codes per level; tree: the branching of each level
    metric: Literal["l2", "cosine"] = "l2"
    beam: int = 1  # beam width of the assignment
    refine: Literal["none", "ema", "gradient"] = "none"
    refine_epochs: int = 10
    modality: bool = False  # first code is the item's modality
    collisions: Literal["keep", "extra", "reassign"] = "keep"
    extra: int = 256  # codes of the disambiguation level when collisions = "extra"
    pro: ProSettings = ProSettings()

    def __post_init__(self) -> None:
        if self.scheme != "atomic" and not self.sizes:
            raise SettingsError(
                "ids.sizes is empty: give the codes of each level, e.g. [256, 256]."
            )
        bad = [size for size in self.sizes if not 2 <= size <= 65536]
        if bad:
            raise SettingsError(f"ids.sizes has {bad[0]}: a level holds 2 to 65536 codes.")


class ModelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What spells the docids."""

    query: Literal["embedding", "tokens", "history"] = "embedding"
    preset: Literal["cpu", "paper"] = "cpu"
    soft_tokens: int = 4  # query = "embedding": memory tokens projected from the vector
    text_model: str = "minilm"  # query = "tokens": whose token states are read
    train_text_model: bool = False
    max_tokens: int = 64  # query = "tokens"
    max_history: int = 20  # query = "history": last items that are read
    bridge: bool = False  # query = "history": learn to place histories among the codebooks
    bridge_ridge: float = 1e-3  # penalty of that regression
    checkpoint: str | None = None  # a T5 checkpoint to start the decoder from
    init_from_codebooks: bool = True
    dropout: float = 0.1
    # Sizes left at 0 come from the preset.
    width: int = 0
    heads: int = 0
    head_width: int = 0
    feed_forward: int = 0
    decoder_layers: int = 0
    encoder_layers: int = -1


class TrainSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the model learns to spell."""

    epochs: float = 30
    min_steps: int = 0  # for small corpora, whose epochs are short
    max_steps: int = 0  # > 0 caps all of it
    batch: int = 256
    accumulate: int = 1
    lr: float = 1e-3
    weight_decay: float = 0.01
    warmup: float = 0.05  # share of all steps
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    clip: float = 1.0
    label_smoothing: float = 0.1
    pairs_per_query: int = 16  # most pairs of one query in an epoch; 0 = all
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    normalise: Literal["level", "legal"] = "level"  # softmax over the level, or legal children
    interpolate: float = 2.0  # GENIUS: Beta(a, a) mixing of query and item vectors; 0 = off
    interpolate_share: float = 0.5  # share of a batch that is mixed
    titles: bool = True  # pseudo queries from titles
    crops: int = 2  # pseudo queries an item, cropped from its sentences
    itself: bool = False  # model.query = "embedding": each item's vector as a pseudo query
    borrowed: int = 0  # pseudo queries an item, placed as queries of near items are (train.borrow)
    pseudo_share: float = 0.3  # share of an epoch's pairs that are pseudo queries, where both exist
    evaluate_every: float = 1.0  # epochs
    patience: int = 5  # evaluations without improvement before stopping; 0 = never
    validation_queries: int = 500
    measure: str = "R@10"
    checkpoint_every: float = 60.0  # seconds
    seed: int = 0


class DecodeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How docids are spelled out."""

    beam: int = 50
    normalise: Literal["level", "legal", "raw", "vocab"] = "level"
    batch: int = 32  # queries decoded together
    omega: float = 0.0  # weight of the codebooks' geometry (PRO Eq. 7); 0 = off
    geometry: Literal["carry", "look"] = "carry"  # votes level by level, or the best reachable
    standardise: bool = False  # z-scores over each codebook, as PRO's released code has it
    plan: Literal["none", "soft", "hard"] = "none"  # look ahead (PAG); hard: only what is planned
    plan_size: int = 1000  # items planned; 0 = all
    plan_reduce: Literal["max", "mean", "min"] = "max"  # of the planned items below a prefix
    plan_weight: float = 1.0

    def __post_init__(self) -> None:
        if self.geometry == "look" and self.standardise:
            raise SettingsError(
                "decode.standardise = true rescales the votes of each level; decode.geometry = "
                '"look" has none. Leave one of them out.'
            )
        if self.plan_size < 0 or not self.plan_weight >= 0:
            raise SettingsError(
                f"decode.plan_size = {self.plan_size}, decode.plan_weight = {self.plan_weight}: "
                "expected numbers from 0 upwards."
            )

    @property
    def guided(self) -> bool:
        """Whether anything but the model votes, and so needs the query's vector."""
        return bool(self.omega) or self.plan != "none"


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One system: every choice in one place."""

    name: str = "genius"
    about: str = ""
    encode: EncodeSettings = EncodeSettings()
    ids: IdSettings = IdSettings()
    model: ModelSettings = ModelSettings()
    train: TrainSettings = TrainSettings()
    decode: DecodeSettings = DecodeSettings()


def cache_folder() -> Path:
    """Where embeddings and unfinished trainings wait to be used again.

    ``TRIELINE_CACHE``, or ``trieline`` in the user's cache folder.
    """
    own = os.environ.get("TRIELINE_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trieline"


def recipe_names() -> list[str]:
    """The recipes that ship with trieline."""
    folder = resources.files("trieline") / "recipes"
    return sorted(f.name[:-5] for f in folder.iterdir() if f.name.endswith(".toml"))


def load_recipe(name: str | Path, changes: Sequence[str] = ()) -> Recipe:
    """A recipe by shipped name or path, with ``a.b=value`` changes applied on top."""
    tree = _read(str(name), seen=())
    for change in changes:
        _merge(tree, _parse_change(change))
    return _convert(tree, str(name))


def apply(recipe: Recipe, changes: Sequence[str]) -> Recipe:
    """The recipe with ``a.b=value`` changes applied."""
    tree = to_mapping(recipe)
    for change in changes:
        _merge(tree, _parse_change(change))
    return _convert(tree, recipe.name)


def to_mapping(recipe: Recipe) -> Text:
    """Plain dicts and lists, as they go into a manifest."""
    tree: Text = msgspec.to_builtins(recipe)
    return tree


def from_mapping(tree: Mapping[str, Any], source: str) -> Recipe:
    """The inverse of ``to_mapping``."""
    return _convert(dict(tree), source)


def _read(name: str, seen: tuple[str, ...]) -> Text:
    path = Path(name)
    if path.suffix == ".toml":  # "a/../x.toml" and "x.toml" are the same recipe
        name = str(path.resolve())
    if name in seen:
        raise SettingsError(f"recipe '{name}' extends itself: {' -> '.join((*seen, name))}.")
    if path.suffix == ".toml":
        if not path.is_file():
            raise SettingsError(f"no recipe file at {path}. Shipped recipes: {_shipped()}.")
        text = path.read_text(encoding="utf-8")
    elif name in recipe_names():
        text = (resources.files("trieline") / "recipes" / f"{name}.toml").read_text("utf-8")
    else:
        raise SettingsError(
            f"no recipe named '{name}'. Shipped recipes: {_shipped()}; or give the path of a .toml."
        )
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"recipe {name}: not valid TOML: {error}.") from None
    parent = tree.pop("extends", None)
    if parent is None:
        return tree
    if not isinstance(parent, str):
        raise SettingsError(f"recipe {name}: extends = must be a recipe name or path.")
    if parent.endswith(".toml") and path.suffix == ".toml":
        parent = str(path.parent / parent)
    return _merge(_read(parent, (*seen, name)), tree)


def _shipped() -> str:
    return ", ".join(recipe_names())


def _merge(base: Text, over: Mapping[str, Any]) -> Text:
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(base.get(key), dict):
            _merge(base[key], value)
        else:
            base[key] = value
    return base


def _parse_change(change: str) -> Text:
    key, eq, value = change.partition("=")
    if not eq or not key.strip():
        raise SettingsError(f"--set {change!r}: expected key=value, e.g. --set decode.beam=100.")
    key, value = key.strip(), value.strip()
    try:
        return tomllib.loads(f"{key} = {value}")
    except tomllib.TOMLDecodeError:
        quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    try:
        return tomllib.loads(f'{key} = "{quoted}"')
    except tomllib.TOMLDecodeError:
        raise SettingsError(f"--set {change!r}: expected key=value, with a dotted key.") from None


def _convert(tree: Text, source: str) -> Recipe:
    try:
        return msgspec.convert(tree, Recipe)
    except msgspec.ValidationError as error:
        raise SettingsError(f"recipe {source}: {error}. See 'trieline recipes --help'.") from None
