"""What is checked before training starts: settings that cannot work, parts that do not fit."""

from __future__ import annotations

from trieline.config import TrainSettings
from trieline.errors import DimensionError, SettingsError
from trieline.index import Trie
from trieline.model.questions import Questions, VectorQuestions
from trieline.model.readers import VectorReader
from trieline.model.seq2seq import Speller
from trieline.types import Floats

__all__ = ["check_settings", "check_vectors"]


def check_settings(settings: TrainSettings, trie: Trie | None) -> None:
    """Refuse what cannot work, in the words of the recipe."""
    for name in ("epochs", "lr", "batch", "accumulate"):
        if not getattr(settings, name) > 0:
            raise SettingsError(f"train.{name} = {getattr(settings, name)}: must be above 0.")
    for name in ("warmup", "pseudo_share", "interpolate_share", "label_smoothing"):
        if not 0 <= getattr(settings, name) <= 1:
            raise SettingsError(f"train.{name} = {getattr(settings, name)}: must be 0 to 1.")
    counts = "seed", "patience", "max_steps", "pairs_per_query", "borrowed"
    for name in (*counts, "interpolate", "weight_decay"):
        if getattr(settings, name) < 0:
            raise SettingsError(f"train.{name} = {getattr(settings, name)}: cannot be negative.")
    if settings.normalise == "legal" and trie is None:
        raise SettingsError("train.normalise = 'legal' needs the trie of the docids: pass trie=.")


def check_vectors(speller: Speller, questions: Questions, items: Floats | None) -> None:
    """Refuse vectors of another width than the model reads."""
    if not isinstance(speller.reader, VectorReader) or not isinstance(questions, VectorQuestions):
        return
    for name, table in (("query", questions.vectors), ("item", items)):
        if table is not None and (table.ndim != 2 or table.shape[1] != speller.reader.dim):
            raise DimensionError(
                f"{name} vectors have shape {table.shape}, the model reads "
                f"{speller.reader.dim} dimensions. Encode with the model that it was built for."
            )
