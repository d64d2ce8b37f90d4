"""Pictures of explanations: valid files, the same twice, for every way a search can end."""

from __future__ import annotations

import struct
import sys
import xml.etree.ElementTree as ElementTree
from functools import cache
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from toys import SIZES, asked, corpus, one, searching, speller

from trieline.diagnose import Explanation, explain
from trieline.errors import MissingExtra, SettingsError
from trieline.index import Trie
from trieline.types import Codes, Item

MODEL, CODES = speller(), corpus(80)
TRIE = Trie.build(CODES, SIZES)


def told_of(number: int, beam: int, title: str = "Thing", views: int = 0) -> Explanation:
    owner = CODES.owner.copy()
    owner[:views] = number
    codes = Codes(CODES.codes, owner)
    trie = Trie.build(codes, SIZES)
    return explain(
        searching(MODEL, one(asked(1)), trie),
        trie,
        codes.codes[owner == number],
        number,
        query="what costs $5 and $6",
        item=Item("i", title=title),
        beam=beam,
        items=lambda numbers: {n: Item(f"i{n}", title=f"Thing {n}, $1 or $2") for n in numbers},
        searches=4,
    )


def lost() -> Explanation:
    stories = (told_of(number, 2) for number in range(80))
    return next(told for told in stories if told.docids[0].lost_at == 2)


@cache
def endings() -> dict[str, Explanation]:
    found = told_of(int(searching(MODEL, one(asked(1)), TRIE)(id, beam=9).items[0]), 9)
    fell = lost()
    (story,) = fell.docids
    return {
        "found": found,
        "lost": fell,
        "several docids": told_of(79, 2, views=2),
        "nothing pruned": told_of(3, 200),
        "forbidden": fell._replace(docids=(story._replace(scores=(story.scores[0], -np.inf)),)),
        "never a candidate": fell._replace(docids=(story._replace(levels=(), scores=()),)),
        "excluded": fell._replace(excluded=True),
        "an empty trie": fell._replace(narrowing=(), needed=None),
        "no name": fell._replace(title=""),
    }


@pytest.mark.parametrize(
    "ending",
    [
        "found",
        "lost",
        "several docids",
        "nothing pruned",
        "forbidden",
        "never a candidate",
        "excluded",
        "an empty trie",
        "no name",
    ],
)
def test_a_picture_of_every_ending(ending: str, tmp_path: Path) -> None:
    told = endings()[ending]
    for kind in ("png", "svg"):
        told.picture(tmp_path / f"one.{kind}")
        told.picture(str(tmp_path / f"two.{kind}"))
        drawn = (tmp_path / f"one.{kind}").read_bytes()
        assert drawn == (tmp_path / f"two.{kind}").read_bytes()
    png = (tmp_path / "one.png").read_bytes()
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", png[16:24]) == (900, 500)
    svg = ElementTree.parse(tmp_path / "one.svg").getroot()
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"


def words(path: Path) -> str:
    return " ".join(" ".join(ElementTree.parse(path).getroot().itertext()).split())


def test_what_a_picture_says(tmp_path: Path) -> None:
    told = lost()
    told.picture(tmp_path / "why.svg")
    said, last = words(tmp_path / "why.svg"), told.docids[0].levels[-1]
    assert f"Thing: {told.verdict}" in said
    assert "“what costs $5 and $6”, beam 2" in said
    assert f"#{last.rank}" in said
    assert f"last place: {'-'.join(map(str, last.rival))}" in said
    assert last.rival_title in said
    assert f"{last.candidates} → 2" in said
    assert "answer 2" in said


def test_titles_of_any_script_are_drawn(tmp_path: Path) -> None:
    told = told_of(3, 2, title="時刻表 & <b>")
    told.picture(tmp_path / "why.png")
    told.picture(tmp_path / "why.SVG")
    assert "時刻表 & <b>" in words(tmp_path / "why.SVG")


def test_a_picture_that_cannot_be_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = lost()
    with pytest.raises(SettingsError, match=r"why.gif: expected a file that ends in .svg or .png"):
        told.picture(tmp_path / "why.gif")
    with pytest.raises(SettingsError, match="there is no folder .*nowhere"):
        told.picture(tmp_path / "nowhere" / "why.svg")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        MissingExtra, match=r"pictures need matplotlib. .*pip install 'trieline\[plots\]'"
    ):
        told.picture(tmp_path / "why.svg")
    assert not list(tmp_path.iterdir())


def test_drawing_leaves_no_trace_in_matplotlib(tmp_path: Path) -> None:
    import matplotlib

    own = "svg.hashsalt", "svg.fonttype"
    before = [matplotlib.rcParams[name] for name in own]
    lost().picture(tmp_path / "why.svg")
    assert [matplotlib.rcParams[name] for name in own] == before
    assert "matplotlib.pyplot" not in sys.modules
