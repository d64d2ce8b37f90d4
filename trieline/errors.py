"""Every error that trieline raises on purpose.

    TrielineError
    ├── SettingsError        a recipe, a setting or a command-line value is wrong
    ├── MissingExtra         a feature needs a package that is not installed
    ├── DataError            the user's data cannot be used as it is
    │   ├── FormatError      a file breaks its format; says which file and line
    │   └── DimensionError   vectors of the wrong width, or with NaN or infinite values
    ├── IndexFolderError     an index folder is missing, half written, truncated, damaged or foreign
    │   └── IndexMismatch    the parts of an index do not belong together
    └── TrainError           training cannot start or go on

Each message says what happened, what was given, what was expected and how to mend it.
"""

from __future__ import annotations

from pathlib import Path

__all__ = [
    "DataError",
    "DimensionError",
    "FormatError",
    "IndexFolderError",
    "IndexMismatch",
    "MissingExtra",
    "SettingsError",
    "TrainError",
    "TrielineError",
]


class TrielineError(Exception):
    """Anything that went wrong in a way that trieline foresaw."""


class SettingsError(TrielineError):
    """A recipe, a setting or a command-line value is wrong."""


class MissingExtra(TrielineError):
    """A feature needs a package that is not installed."""

    def __init__(self, feature: str, package: str, extra: str) -> None:
        super().__init__(
            f"{feature} need {package}. Install it with: pip install 'trieline[{extra}]'"
        )


class DataError(TrielineError):
    """The user's data cannot be used as it is."""


class FormatError(DataError):
    """A file breaks its format."""

    def __init__(
        self, path: str | Path, line: int | None, expected: str, got: str, fix: str = ""
    ) -> None:
        where = f"{path} line {line}" if line is not None else str(path)
        ending = f" {fix}" if fix else ""
        super().__init__(f"{where}: expected {expected}, got {got}.{ending}")
        self.path = Path(path)
        self.line = line


class DimensionError(DataError):
    """Vectors of the wrong width, or with NaN or infinite values."""


class IndexFolderError(TrielineError):
    """An index folder is missing, half written, truncated, damaged or foreign."""


class IndexMismatch(IndexFolderError):
    """The parts of an index do not belong together."""


class TrainError(TrielineError):
    """Training cannot start or go on."""
