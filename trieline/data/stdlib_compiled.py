"""What the parts of the standard library that are written in C say about themselves.

There is no source to read, so these modules are imported (all of them only define things) and
asked.
Trap: their docstrings often begin with the signature, as in ``str.find``: "S.find(sub[, start[,
end]]) -> int".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from importlib import import_module
from inspect import cleandoc
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    ModuleType,
)
from typing import Any

from trieline.data.stdlib_source import Entry, Kind

__all__ = ["read_compiled"]

# Wholly or partly in C. Those that do not exist on a platform are passed over.
_MODULES = """builtins array atexit binascii bz2 cmath codecs collections contextvars csv curses
    datetime decimal errno fcntl functools gc grp hashlib io itertools lzma marshal math mmap
    operator os pickle pwd queue random re resource select signal socket sqlite3 ssl struct sys
    syslog termios threading time tracemalloc types unicodedata weakref zlib""".split()

_ALIASES = frozenset({"SocketType"})  # a base class, public only for isinstance

_METHODS = (BuiltinFunctionType, ClassMethodDescriptorType, MethodDescriptorType)
_PROPERTIES = (GetSetDescriptorType, MemberDescriptorType)

# "find(sub[, start]) -> int", "dumps(obj, /)", "B.lower() -> copy of B"
_CALL = re.compile(r"^[\w.]+(?P<signature>\(.*\))\s*(?:->|--|=|$)", re.MULTILINE)
_SELF = re.compile(r"^\(\$\w+(, /)?(, )?")


def read_compiled(known: Collection[str]) -> Iterator[Entry]:
    """Everything public and documented in C whose name is not yet known, in a fixed order."""
    seen: set[int] = set()  # one thing may have several names: OSError, os.error
    for name in _MODULES:
        try:
            module = import_module(name)
        except ImportError:
            continue
        if name not in known and module.__doc__:
            yield Entry(name, name, "module", "", cleandoc(module.__doc__))
        for entry in _of_module(module, seen):
            if entry.name not in known:
                yield entry


def _of_module(module: ModuleType, seen: set[int]) -> Iterator[Entry]:
    prefix = "" if module.__name__ == "builtins" else f"{module.__name__}."
    for name in _public(module):
        thing = getattr(module, name, None)
        if (
            id(thing) in seen
            or name in _ALIASES
            or not isinstance(thing, type | BuiltinFunctionType)
        ):
            continue
        seen.add(id(thing))
        doc = _doc(thing)
        if doc:
            kind: Kind = "class" if isinstance(thing, type) else "function"
            yield Entry(f"{prefix}{name}", module.__name__, kind, _signature(thing, doc), doc)
        if isinstance(thing, type):
            yield from _of_class(thing, f"{prefix}{name}", module.__name__)


def _public(module: ModuleType) -> list[str]:
    listed = getattr(module, "__all__", None)
    if listed is None:
        own = (module.__name__, f"_{module.__name__}")
        inside = {name: getattr(thing, "__module__", "") for name, thing in vars(module).items()}
        listed = [name for name, home in inside.items() if home in own]
    names = [name for name in listed if not name.startswith("_")]
    # Of several names for one thing its own goes first: array.array, not array.ArrayType.
    return sorted(names, key=lambda n: (getattr(vars(module).get(n), "__name__", "") != n, n))


def _of_class(thing: type, name: str, module: str) -> Iterator[Entry]:
    # Bases that have no public home of their own: _socket.socket below socket.socket.
    hidden = [base for base in thing.__mro__[1:] if base.__module__.startswith("_")]
    members = {m: value for base in [*hidden[::-1], thing] for m, value in vars(base).items()}
    for member in sorted(members):
        value = members[member]
        value = getattr(value, "__func__", value)  # of a class method or static method
        doc = "" if member.startswith("_") else _doc(value)
        if doc and isinstance(value, _METHODS):
            found = _signature(value, doc)
            yield Entry(f"{name}.{member}", module, "method", found, doc)
        elif doc and isinstance(value, _PROPERTIES):
            yield Entry(f"{name}.{member}", module, "property", "", doc)


def _doc(thing: Any) -> str:
    doc = getattr(thing, "__doc__", None)
    return cleandoc(doc) if isinstance(doc, str) else ""


def _signature(thing: Any, doc: str) -> str:
    # Not inspect.signature, which evaluates the defaults.
    text = getattr(thing, "__text_signature__", None)
    if isinstance(text, str):
        return _SELF.sub("(", " ".join(text.split()))
    found = _CALL.match(doc)
    return found["signature"] if found else ""
