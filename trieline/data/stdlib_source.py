"""What the standard library's Python source says about itself: every public, documented thing.

Source is read and never imported, since importing some modules opens a browser or a window.
Trap: a thing is named as its users import it (``asyncio.sleep``, though it stands in
``asyncio.tasks``), so re-exports are followed before anything is named.
"""

from __future__ import annotations

import ast
import pkgutil
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from importlib.machinery import ModuleSpec, PathFinder
from typing import Literal, NamedTuple

__all__ = ["Entry", "Kind", "read_sources"]

# Not for users, or gone from newer versions (so that versions differ little): never opened.
_UNREAD = frozenset(
    """__hello__ __phello__ antigravity encodings ensurepip idlelib ntpath pydoc_data test tests
    this turtledemo windows_events windows_utils
    aifc asynchat asyncore audioop cgi cgitb chunk crypt distutils imghdr imp lib2to3 mailcap
    msilib nis nntplib ossaudiodev pipes smtpd sndhdr spwd sunau telnetlib tkinter.tix uu
    xdrlib""".split()
)
# Read for what others take from them.
_HIDDEN = frozenset("genericpath nturl2path sre_compile sre_constants sre_parse".split())
_RENAMED = {"posixpath": "os.path", "_collections_abc": "collections.abc"}  # as users know them

Kind = Literal["module", "class", "function", "method", "property"]
Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef


class Entry(NamedTuple):
    """One documented thing."""

    name: str  # as its users import it: json.JSONDecoder.decode
    module: str
    kind: Kind
    signature: str  # "(s, _w=WHITESPACE.match)"; empty where there is none
    doc: str


class _Source(NamedTuple):
    """The top level of one module's source."""

    name: str
    package: str  # what "." means in its imports
    doc: str
    defined: dict[str, Definition]
    imported: dict[str, tuple[str, str]]  # name -> module, name there
    stars: list[str]  # modules taken whole
    exports: list[ast.expr]  # what __all__ is made of
    literals: dict[str, ast.expr]  # lists that __all__ may be made of


def read_sources(
    folder: str | None = None, modules: Collection[str] = sys.stdlib_module_names
) -> Iterator[Entry]:
    """Everything public and documented in the modules written in Python, in a fixed order.

    ``folder`` holds the modules; None means this Python's own.
    """
    where = sysconfig.get_path("stdlib") if folder is None else folder
    library = {source.name: source for source in _sources(where, modules)}
    names: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for source in library.values():
        if _is_public(source.name):
            shown = _RENAMED.get(source.name, source.name)
            if source.doc:
                yield Entry(shown, shown, "module", "", source.doc)
            for name in _surface(source, library):
                home = _home(source.name, name, library)
                if home is not None:
                    names.setdefault(home, []).append((shown, name))
    for (module, name), candidates in names.items():
        # The shortest import path is the one that people use.
        shown, alias = min(candidates, key=lambda c: (c[0].count("."), len(c[0]), c))
        source = library[module]
        surface = set(_surface(source, library))
        # Names that no statement brings are methods of a ready-made object: random.randint.
        known = all(star in library for star in source.stars)
        lifted = surface - source.defined.keys() - source.imported.keys() if known else set()
        hidden = _hidden(source, surface, library)
        yield from _entries(source.defined[name], hidden, f"{shown}.{alias}", shown, lifted)


def _is_public(module: str) -> bool:
    return module in _RENAMED or not (_is_private(module) or module in _HIDDEN)


def _is_private(module: str) -> bool:
    return any(part.startswith("_") for part in module.split("."))


# ---- from files to the names of a module ----


def _sources(folder: str, modules: Collection[str]) -> Iterator[_Source]:
    for name in sorted(set(modules) - _UNREAD):
        spec = PathFinder.find_spec(name, [folder])
        if spec is not None:
            yield from _read(spec)


def _read(spec: ModuleSpec) -> Iterator[_Source]:
    read = getattr(spec.loader, "get_source", None)
    text = read(spec.name) if read is not None else None
    inside = spec.submodule_search_locations
    package = spec.name if inside is not None else spec.name.rpartition(".")[0]
    if text:  # compiled modules have none
        yield _scan(spec.name, package, ast.parse(text))
    for child in sorted(pkgutil.iter_modules(inside or []), key=lambda c: c.name):
        name = f"{spec.name}.{child.name}"
        if not {child.name, name} & _UNREAD and not child.name.startswith("__"):
            found = PathFinder.find_spec(name, inside)
            if found is not None:
                yield from _read(found)


def _scan(name: str, package: str, tree: ast.Module) -> _Source:
    source = _Source(name, package, ast.get_docstring(tree) or "", {}, {}, [], [], {})
    for statement in _flat(tree.body):
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                known = source.defined.get(statement.name)
                if known is None or not ast.get_docstring(known, clean=False):
                    source.defined[statement.name] = statement
            case ast.ImportFrom():
                _scan_import(statement, source)
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                source.exports.append(value)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.List() | ast.Tuple() as value):
                source.literals[name] = value
            case ast.AugAssign(target=ast.Name(id="__all__"), value=value):
                source.exports.append(value)
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id="__all__"), attr=verb), args=[value]
                )
            ):
                source.exports.append(ast.List([value]) if verb == "append" else value)
    return source


def _scan_import(statement: ast.ImportFrom, source: _Source) -> None:
    base = source.package.split(".")
    base = base[: len(base) - statement.level + 1] if statement.level else []
    module = ".".join([*base, *([statement.module] if statement.module else [])])
    for alias in statement.names:
        if alias.name == "*":
            source.stars.append(module)
        else:
            source.imported[alias.asname or alias.name] = (module, alias.name)


def _flat(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements, looking into if, try and with, since platforms and accelerators differ."""
    for statement in statements:
        yield statement
        match statement:
            case ast.If(body=body, orelse=orelse):
                yield from _flat([*body, *orelse])
            case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final):
                rescue = [inner for handler in handlers for inner in handler.body]
                yield from _flat([*body, *rescue, *orelse, *final])
            case ast.With(body=body):
                yield from _flat(body)


# ---- which names are public, and where they stand ----


def _surface(source: _Source, library: dict[str, _Source]) -> list[str]:
    """The names that users of a module see, those of other modules' things included."""
    listed, whole = _listed(source, library, ())
    names = list(listed) if whole else [*listed, *source.defined]
    for star in () if whole else source.stars:
        if star in library and _is_inner(star, source):
            names += _surface(library[star], library)
    if not source.exports:
        names += [name for name, (home, _) in source.imported.items() if _is_inner(home, source)]
    return [name for name in dict.fromkeys(names) if not name.startswith("_")]


def _is_inner(module: str, source: _Source) -> bool:
    """Whether what comes from that module is the importing module's own face to the world."""
    if _is_private(module):
        return True
    return source.name == source.package and module.startswith(f"{source.name}.")


def _listed(
    source: _Source, library: dict[str, _Source], seen: Sequence[str]
) -> tuple[list[str], bool]:
    """``__all__`` as far as it can be read without running it, and whether that is all of it."""
    names: list[str] = []
    whole = bool(source.exports)
    pending = list(reversed(source.exports))
    while pending:
        match pending.pop():
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                values = (e.value for e in elements if isinstance(e, ast.Constant))
                names += [value for value in values if isinstance(value, str)]
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                pending += [right, left]
            case ast.Name(id=name) if name in source.literals:
                pending.append(source.literals[name])
            case ast.Attribute(value=ast.Name(id=module), attr="__all__"):
                other = library.get(f"{source.package}.{module}") or library.get(module)
                if other is not None and other.name not in seen:
                    names += _listed(other, library, (*seen, source.name))[0]
            case _:
                whole = False
    return names, whole


def _home(
    module: str, name: str, library: dict[str, _Source], seen: Sequence[str] = ()
) -> tuple[str, str] | None:
    """The module and name under which a public name is defined."""
    source = library.get(module)
    if source is None or module in seen:
        return None
    if name in source.defined:
        return module, name
    if name in source.imported:
        return _home(*source.imported[name], library, (*seen, module))
    homes = [_home(star, name, library, (*seen, module)) for star in source.stars]
    if source.name == source.package:  # imported when it is asked for: concurrent.futures
        inner = (m for m in library if m.rpartition(".")[0] == module)
        homes += [(m, name) for m in inner if name in library[m].defined]
    return next((home for home in homes if home is not None), None)


def _hidden(
    source: _Source, surface: Collection[str], library: dict[str, _Source]
) -> dict[str, Definition]:
    """What a module's classes may inherit from that nobody would find under its own name."""
    hidden = {name: node for name, node in source.defined.items() if name not in surface}
    for name, (module, _) in source.imported.items():
        home = _home(source.name, name, library) if _is_private(module) else None
        if home is not None and name not in surface:
            hidden[name] = library[home[0]].defined[home[1]]
    return hidden


# ---- from definitions to entries ----


def _entries(
    node: Definition, classes: Mapping[str, Definition], name: str, module: str, lifted: set[str]
) -> Iterator[Entry]:
    """A definition and what is in it, given the module's definitions and lifted method names."""
    doc = ast.get_docstring(node) or ""
    if not isinstance(node, ast.ClassDef):
        if doc:
            yield Entry(name, module, "function", _signature(node), doc)
        return
    members = _members(node, classes)
    start = members.get("__init__") or members.get("__new__")
    if isinstance(start, Function):
        doc = doc or ast.get_docstring(start) or ""
    if doc:
        signature = _signature(start, skip=1) if isinstance(start, Function) else ""
        yield Entry(name, module, "class", signature, doc)
    for member, inner in members.items():
        if member.startswith("_"):
            continue
        shown = f"{module if member in lifted else name}.{member}"
        if isinstance(inner, ast.ClassDef):
            yield from _entries(inner, {}, shown, module, set())
        elif inner_doc := ast.get_docstring(inner):
            yield _method(inner, shown, module, inner_doc)


def _members(node: ast.ClassDef, classes: Mapping[str, Definition]) -> dict[str, Definition]:
    """Methods and inner classes; of several definitions of a name, the first with words.

    ``classes`` are those whose methods nobody would find under their own names.
    """
    members: dict[str, Definition] = {}
    for statement in _flat(node.body):
        if isinstance(statement, Definition) and "overload" not in _decorators(statement):
            known = members.get(statement.name)
            if known is None or not ast.get_docstring(known, clean=False):
                members[statement.name] = statement
    for base in node.bases:
        inherited = classes.get(base.id) if isinstance(base, ast.Name) else None
        if isinstance(inherited, ast.ClassDef) and inherited is not node:
            members = {**_members(inherited, classes), **members}
    return members


def _method(node: Function, name: str, module: str, doc: str) -> Entry:
    decorators = _decorators(node)
    if any(word.endswith("property") for word in decorators):
        return Entry(name, module, "property", "", doc)
    skip = 0 if "staticmethod" in decorators else 1
    return Entry(name, module, "method", _signature(node, skip), doc)


def _decorators(node: Definition) -> set[str]:
    return {ast.unparse(word).rpartition(".")[2] for word in node.decorator_list}


def _signature(node: Function, skip: int = 0) -> str:
    """Parameters and defaults, without annotations and without self."""
    arguments = copy(node.args)
    arguments.posonlyargs = [ast.arg(a.arg) for a in arguments.posonlyargs]
    arguments.args = [ast.arg(a.arg) for a in arguments.args]
    arguments.kwonlyargs = [ast.arg(a.arg) for a in arguments.kwonlyargs]
    arguments.vararg = arguments.vararg and ast.arg(arguments.vararg.arg)
    arguments.kwarg = arguments.kwarg and ast.arg(arguments.kwarg.arg)
    del (arguments.posonlyargs or arguments.args)[:skip]
    return f"({ast.unparse(arguments)})"
