"""Recipes: what may be said, how one starts from another, and how a mistake is answered."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trieline.config import (
    DecodeSettings,
    IdSettings,
    Recipe,
    apply,
    from_mapping,
    load_recipe,
    to_mapping,
)
from trieline.errors import SettingsError


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_an_empty_recipe_is_the_default(tmp_path: Path) -> None:
    assert load_recipe(write(tmp_path / "empty.toml", "")) == Recipe()


def test_a_recipe_is_read(tmp_path: Path) -> None:
    text = 'name = "mine"\n[ids]\nsizes = [32, 64]\nrefine = "ema"\n[decode]\nbeam = 7\n'
    recipe = load_recipe(tmp_path / write(tmp_path / "mine.toml", text))
    assert recipe.name == "mine"
    assert recipe.ids == IdSettings(sizes=(32, 64), refine="ema")
    assert recipe.decode == DecodeSettings(beam=7)
    assert recipe.train == Recipe().train


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        Recipe().decode.beam = 3  # type: ignore[misc]


class TestMistakes:
    @pytest.mark.parametrize(
        ("text", "path"),
        [
            ("[decode]\nbeams = 3\n", r"unknown field `beams`.*\$\.decode"),
            ("[decoder]\nbeam = 3\n", "unknown field `decoder`"),
            ('[decode]\nbeam = "3"\n', r"Expected `int`.*\$\.decode\.beam"),
            ('[ids]\nscheme = "magic"\n', r"Invalid enum value 'magic'.*\$\.ids\.scheme"),
            ("[ids]\nsizes = [8, 8.5]\n", r"\$\.ids\.sizes\[1\]"),
        ],
    )
    def test_the_path_of_the_key_is_named(self, tmp_path: Path, text: str, path: str) -> None:
        with pytest.raises(SettingsError, match=f"(?s)wrong.toml.*{path}"):
            load_recipe(write(tmp_path / "wrong.toml", text))

    @pytest.mark.parametrize("sizes", ["[]", "[1]", "[256, 65537]", "[0, 8]"])
    def test_sizes_that_no_level_can_have(self, tmp_path: Path, sizes: str) -> None:
        with pytest.raises(SettingsError, match="sizes"):
            load_recipe(write(tmp_path / "wrong.toml", f"[ids]\nsizes = {sizes}\n"))

    def test_not_toml(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match=r"wrong\.toml: not valid TOML.*line 1"):
            load_recipe(write(tmp_path / "wrong.toml", "beam: 3\n"))

    def test_no_such_recipe(self) -> None:
        with pytest.raises(SettingsError, match="no recipe named 'nothing'.*Shipped recipes"):
            load_recipe("nothing")

    def test_no_such_file(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match=r"no recipe file at .*gone\.toml"):
            load_recipe(tmp_path / "gone.toml")


class TestExtends:
    def test_the_later_wins_key_by_key(self, tmp_path: Path) -> None:
        write(tmp_path / "one.toml", "[decode]\nbeam = 5\nbatch = 4\n[ids]\nsizes = [8, 8, 8]\n")
        write(tmp_path / "two.toml", 'extends = "one.toml"\n[decode]\nbeam = 6\n')
        last = write(tmp_path / "three.toml", 'extends = "two.toml"\n[ids]\nsizes = [4]\n')
        recipe = load_recipe(last)
        assert recipe.decode == DecodeSettings(beam=6, batch=4)
        assert recipe.ids.sizes == (4,)

    def test_a_path_counts_from_the_file_that_says_it(self, tmp_path: Path) -> None:
        (tmp_path / "deep").mkdir()
        write(tmp_path / "one.toml", "[decode]\nbeam = 5\n")
        two = write(tmp_path / "deep" / "two.toml", 'extends = "../one.toml"\n')
        assert load_recipe(two).decode.beam == 5

    @pytest.mark.parametrize("length", [1, 2, 3])
    def test_a_circle(self, tmp_path: Path, length: int) -> None:
        for n in range(length):
            write(tmp_path / f"{n}.toml", f'extends = "{(n + 1) % length}.toml"\n')
        with pytest.raises(SettingsError, match=r"extends itself.*0\.toml"):
            load_recipe(tmp_path / "0.toml")

    def test_a_circle_over_a_detour(self, tmp_path: Path) -> None:
        """The same file by another spelling of its path is still the same file."""
        (tmp_path / "side").mkdir()
        write(tmp_path / "one.toml", 'extends = "side/../one.toml"\n')
        with pytest.raises(SettingsError, match="extends itself"):
            load_recipe(tmp_path / "one.toml")

    def test_no_such_parent(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match="no recipe named 'nobody'"):
            load_recipe(write(tmp_path / "one.toml", 'extends = "nobody"\n'))

    def test_not_a_name(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match="extends"):
            load_recipe(write(tmp_path / "one.toml", "extends = 3\n"))


class TestSet:
    @pytest.mark.parametrize(
        ("change", "got"),
        [
            ("decode.beam=7", lambda r: r.decode.beam == 7),
            ("decode.omega = 0.5", lambda r: r.decode.omega == 0.5),
            ("ids.sizes=[64, 32]", lambda r: r.ids.sizes == (64, 32)),
            ("ids.modality=true", lambda r: r.ids.modality is True),
            ("ids.refine=ema", lambda r: r.ids.refine == "ema"),
            ('ids.refine="ema"', lambda r: r.ids.refine == "ema"),
            ("name=mine", lambda r: r.name == "mine"),
            ("encode.model=/a/b=c d", lambda r: r.encode.model == "/a/b=c d"),
            (r"encode.model=C:\new", lambda r: r.encode.model == r"C:\new"),
            ('about=says "so"', lambda r: r.about == 'says "so"'),
        ],
    )
    def test_a_change(self, change: str, got: object) -> None:
        assert callable(got)
        assert got(apply(Recipe(), [change]))

    def test_the_last_change_wins(self) -> None:
        assert apply(Recipe(), ["decode.beam=7", "decode.beam=8"]).decode.beam == 8

    def test_the_rest_stays(self) -> None:
        recipe = Recipe(ids=IdSettings(sizes=(8, 8)))
        assert apply(recipe, ["ids.beam=3"]).ids == IdSettings(sizes=(8, 8), beam=3)

    def test_on_top_of_a_file(self, tmp_path: Path) -> None:
        path = write(tmp_path / "one.toml", "[decode]\nbeam = 5\nbatch = 4\n")
        assert load_recipe(path, ["decode.beam=9"]).decode == DecodeSettings(beam=9, batch=4)

    @pytest.mark.parametrize("change", ["", "decode.beam", "=3", " = 3", "a b=3", "decode..beam=3"])
    def test_not_a_change(self, change: str) -> None:
        with pytest.raises(SettingsError, match="expected key=value"):
            apply(Recipe(), [change])

    @pytest.mark.parametrize(
        "change", ["decode.beams=3", "decoder.beam=3", "decode=3", "decode.beam=x"]
    )
    def test_a_change_of_what_is_not_there(self, change: str) -> None:
        with pytest.raises(SettingsError, match="decode"):
            apply(Recipe(), [change])


sizes = st.lists(st.integers(2, 65536), min_size=1, max_size=4).map(tuple)


@given(sizes=sizes, beam=st.integers(1, 9), omega=st.floats(0, 100), about=st.text(max_size=20))
def test_a_recipe_survives_the_manifest(
    sizes: tuple[int, ...], beam: int, omega: float, about: str
) -> None:
    recipe = Recipe(
        about=about, ids=IdSettings(sizes=sizes), decode=DecodeSettings(beam=beam, omega=omega)
    )
    written = msgspec.json.encode(to_mapping(recipe))
    assert from_mapping(msgspec.json.decode(written), "manifest.json") == recipe
