from __future__ import annotations

from pathlib import Path

import huggingface_hub
import pytest

from trieline.encode.weights import locate, model_digest, prompts
from trieline.errors import SettingsError


def put(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def test_minilm_comes_from_its_package() -> None:
    assert (locate("minilm") / "model.safetensors").is_file()


def test_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "mine", "model.safetensors")
    assert locate(str(tmp_path / "mine")) == tmp_path / "mine"
    monkeypatch.chdir(tmp_path)
    assert locate("mine") == Path("mine")
    put(tmp_path / "old", "0_Transformer/pytorch_model.bin")
    assert locate("old") == Path("old")


def test_a_folder_without_weights(tmp_path: Path) -> None:
    put(tmp_path, "config.json")
    with pytest.raises(SettingsError, match=r"this folder holds no weights \(\*\.safetensors"):
        locate(str(tmp_path))


@pytest.mark.parametrize("name", ["/no/such/folder", "./models/x", "~/x-y-z", "a/b/c"])
def test_a_folder_that_is_not_there(name: str) -> None:
    with pytest.raises(SettingsError, match="there is no such folder. Give 'minilm'"):
        locate(name)


@pytest.mark.parametrize("name", ["owner/model-nobody-made", "nobody-made-this", "not a name!"])
def test_a_name_that_cannot_be_reached(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(SettingsError, match=f"hf download {name}"):
        locate(name)


class Hub:
    """Stands in for ``snapshot_download``."""

    def __init__(self, folder: Path, published: list[str], cached: bool) -> None:
        self.folder, self.published, self.cached = folder, published, cached
        self.fetched = 0

    def __call__(
        self, name: str, *, local_files_only: bool = False, ignore_patterns: list[str] | None = None
    ) -> str:
        if local_files_only:
            if not self.cached:
                raise huggingface_hub.errors.LocalEntryNotFoundError("not cached")
            return str(self.folder)
        self.fetched += 1
        ignored = ignore_patterns or []
        names = [n for n in self.published if not any(Path(n).match(p) for p in ignored)]
        return str(put(self.folder, *names))


@pytest.mark.parametrize(
    ("published", "fetched", "expected"),
    [
        (["config.json", "model.safetensors", "pytorch_model.bin"], 1, "model.safetensors"),
        (["config.json", "pytorch_model.bin", "tf_model.h5"], 2, "pytorch_model.bin"),
    ],
)
def test_a_hub_name_is_fetched_without_what_nobody_loads(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    published: list[str],
    fetched: int,
    expected: str,
) -> None:
    hub = Hub(tmp_path / "snapshot", published, cached=False)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", hub)
    folder = locate("owner/model")
    assert hub.fetched == fetched
    assert sorted(file.name for file in folder.iterdir()) == sorted(["config.json", expected])


def test_a_hub_name_in_the_local_cache_is_not_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = Hub(put(tmp_path, "config.json"), ["model.safetensors"], cached=True)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", hub)
    locate("owner/model")
    assert hub.fetched == 1, "only the configuration was there"
    locate("owner/model")
    assert hub.fetched == 1


def test_the_digest_is_of_what_is_loaded(tmp_path: Path) -> None:
    names = ("model.safetensors", "config.json", "1_Pooling/config.json", "vocab.txt")
    first = model_digest(put(tmp_path / "a", *names))
    beside = ("README.md", "onnx/model.json", "pytorch_model.bin", ".gitattributes")
    assert model_digest(put(tmp_path / "b", *names, *beside)) == first
    for name in names:
        folder = put(tmp_path / name.replace("/", "-"), *names)
        (folder / name).write_text("changed")
        assert model_digest(folder) != first
    assert model_digest(put(tmp_path / "c", "pytorch_model.bin")) != model_digest(
        put(tmp_path / "d", "pytorch_model-2.bin")
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, ("", "")),
        ("{}", ("", "")),
        ("not json", ("", "")),
        ('{"prompts": {"query": "q: ", "passage": "p: "}}', ("p: ", "q: ")),
        ('{"prompts": {"query": "q: ", "document": ""}}', ("", "q: ")),
        ('{"prompts": {"x": "x: "}, "default_prompt_name": "x"}', ("x: ", "x: ")),
        ('{"prompts": null, "default_prompt_name": null}', ("", "")),
    ],
)
def test_prompts(tmp_path: Path, content: str | None, expected: tuple[str, str]) -> None:
    if content is not None:
        (tmp_path / "config_sentence_transformers.json").write_text(content)
    assert prompts(tmp_path) == expected
