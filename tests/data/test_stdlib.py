from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from trieline.data.stdlib_compiled import read_compiled
from trieline.data.stdlib_source import Entry, read_sources

FILES = {
    "plain.py": '''
        """A plain module."""
        import os
        from elsewhere import brought

        def shown(a, /, b: int, *rest, c=1, **more) -> int:
            """Shown to users."""

        def _private():
            """Not shown."""

        def silent():
            pass

        try:
            import fast
        except ImportError:
            async def guarded(x):
                """Stands inside try."""

        class Thing:
            """A thing."""
            def __init__(self, size: int = 2): ...
            def method(self, x):
                """A method."""
            @staticmethod
            def still(x):
                """A static method."""
            @property
            def wide(self):
                """A property."""
            def _hidden(self):
                """Not shown."""
            class Inner:
                """Inside."""
    ''',
    "parcel/__init__.py": '''
        """A package."""
        from .part import *
        from ._secret import Base as Foundation
        __all__ = part.__all__ + ("Foundation",)
        __all__ += ["late"]
    ''',
    "parcel/part.py": '''
        """A part of it."""
        names = ["sleep"]
        __all__ = names
        def sleep(delay):
            """Sleep."""
        def internal():
            """Not exported."""
    ''',
    "parcel/_secret.py": '''
        class Base:
            """A base."""
    ''',
    "parcel/lazy.py": '''
        def late():
            """Imported when it is asked for."""
    ''',
    "dice.py": '''
        __all__ = ["Dice", "roll", "Child"]
        class Dice:
            """Dice."""
            def roll(self, sides):
                """Roll them."""
        _dice = Dice()
        roll = _dice.roll
        class _Parent:
            def inherited(self, a):
                """From a base nobody sees."""
        class Child(_Parent):
            """A child."""
        class Unlisted:
            """Not exported."""
    ''',
    "antigravity.py": 'raise SystemExit("never run, never read")',
    "twice.py": '''
        raise SystemExit("never run")
        def f(a):
            pass
        def f(a, b):
            """The one with words."""
    ''',
}


@pytest.fixture
def entries(tmp_path: Path) -> dict[str, Entry]:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    modules = ["plain", "parcel", "dice", "antigravity", "twice", "missing"]
    return {entry.name: entry for entry in read_sources(str(tmp_path), modules)}


def test_everything_public_and_documented_is_named_as_users_import_it(
    entries: dict[str, Entry],
) -> None:
    assert sorted(entries) == sorted(
        """plain plain.shown plain.guarded plain.Thing plain.Thing.method plain.Thing.still
        plain.Thing.wide plain.Thing.Inner parcel parcel.part parcel.sleep parcel.Foundation
        parcel.late dice.Dice dice.roll dice.Child dice.Child.inherited twice.f""".split()
    )


def test_signatures_have_no_self_and_no_annotations(entries: dict[str, Entry]) -> None:
    assert {name: entry.signature for name, entry in entries.items() if entry.signature} == {
        "plain.shown": "(a, /, b, *rest, c=1, **more)",
        "plain.guarded": "(x)",
        "plain.Thing": "(size=2)",
        "plain.Thing.method": "(x)",
        "plain.Thing.still": "(x)",
        "parcel.sleep": "(delay)",
        "parcel.late": "()",
        "dice.roll": "(sides)",
        "dice.Child.inherited": "(a)",
        "twice.f": "(a, b)",
    }


def test_kinds_and_modules(entries: dict[str, Entry]) -> None:
    assert entries["plain"].kind == "module"
    assert entries["plain.Thing"].kind == "class"
    assert entries["plain.Thing.wide"].kind == "property"
    assert entries["dice.roll"].kind == "method"
    assert entries["parcel.sleep"] == Entry(
        "parcel.sleep", "parcel", "function", "(delay)", "Sleep."
    )


def test_compiled_modules_are_asked() -> None:
    entries = {entry.name: entry for entry in read_compiled(())}
    assert entries["math.sqrt"].signature == "(x, /)"
    assert entries["len"].kind == "function"
    assert entries["str.split"].kind == "method"
    assert entries["bytes.maketrans"].doc.startswith("Return a translation table")
    assert entries["array.array"].kind == "class"
    assert "array.ArrayType" not in entries  # another name of array.array
    assert "OSError" in entries and "os.error" not in entries
    assert not [name for name in entries if any(part[0] == "_" for part in name.split("."))]


def test_known_names_are_left_to_the_source() -> None:
    assert "math.sqrt" not in {entry.name for entry in read_compiled({"math.sqrt"})}
