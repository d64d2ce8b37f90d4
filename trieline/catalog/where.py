"""Which items may be found: conditions on metadata, as a mapping or as text, turned into SQL.

    {"section": "net", "year": {">=": 2010, "<": 2020}, "lang": ["de", "fr"]}
    "section=net"  "year>=2010"  "year<2020"  "lang in de,fr"  "tags contains cli"

A key is one of the item's own fields ``id``, ``title``, ``modality``, or a key of its metadata.

    =  !=          equal or not; != also accepts items that lack the key; None means "lacks it"
    <  <=  >  >=   numbers with numbers, texts with texts (by code point); else not accepted
    in             equal to one of these (a list stands for it)
    contains       a list that holds the value, or a text with the value within

Numbers and texts are never equal; true and false count as 1 and 0, as in Python. In the textual
form a value is read as JSON where it is JSON (2010, true, null, "2010") and is a text otherwise.

Trap: nothing that a user gives becomes part of the SQL; keys and values are parameters. A key goes
into a JSON path, which has no way to write quotes and backslashes, so keys with them are refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, Self

from trieline.errors import SettingsError

__all__ = ["Condition", "Where"]

Scalar = str | int | float | bool | None

_OWN = {"id": "id", "title": "coalesce(title, '')", "modality": "coalesce(modality, 'text')"}
_ORDERS = ("<", "<=", ">", ">=")
_OPERATORS = ("=", "!=", *_ORDERS, "in", "contains")
_TEXT = re.compile(
    r"""\s* (?: "(?P<quoted>[^"]*)" | (?P<plain>[^\s<>=!"]+) )
        (?: \s* (?P<sign><=|>=|!=|==|=|<|>) \s* | \s+ (?P<word>in|contains) \s+ )
        (?P<value>.*?) \s*""",
    re.VERBOSE | re.DOTALL,
)
_MOST = 100  # conditions; SQLite has limits of its own, which it tells in words of its own
_FORMS = "Expected e.g. 'section=net', 'year>=2010', 'lang in de,fr' or 'tags contains cli'."


class Condition(NamedTuple):
    """What one key of an item must be."""

    key: str
    operator: str
    value: Scalar | tuple[Scalar, ...]  # a tuple for "in"


class Where(NamedTuple):
    """Conditions that must all hold; none accept every item. Equal ones have equal hashes."""

    conditions: tuple[Condition, ...]

    @classmethod
    def of(cls, wanted: Mapping[str, Any]) -> Self:
        """From a mapping: key -> value, list of values, or {operator: value}."""
        found: list[Condition] = []
        for key, value in wanted.items():
            if isinstance(value, Mapping):
                if not value:
                    raise SettingsError(f"where: {key!r} has no condition: give {{'>=': 2010}}.")
                found += [_checked(key, operator, own) for operator, own in value.items()]
            elif _is_list(value):
                found.append(_checked(key, "in", value))
            else:
                found.append(_checked(key, "=", value))
        return cls(_few(found))

    @classmethod
    def parse(cls, *texts: str) -> Self:
        """From texts such as ``year>=2010``, one condition each."""
        return cls(_few([_parsed(text) for text in texts]))

    def sql(self) -> tuple[str, list[str | int | float]]:
        """The condition on a row of the table ``items``, and the values of its parameters."""
        parts: list[str] = []
        values: list[str | int | float] = []
        for condition in self.conditions:
            part, own = _sql_of(condition)
            parts.append(part)
            values += own
        return " AND ".join(parts) or "1", values


# --- checks ---------------------------------------------------------------------------------------


def _checked(key: object, operator: object, value: Any) -> Condition:
    name = _key(key)
    if operator not in _OPERATORS:
        raise SettingsError(
            f"where: {name!r} has the operator {operator!r}. Expected one of {' '.join(_OPERATORS)}"
        )
    if operator == "in":
        if not _is_list(value):
            raise SettingsError(f"where: {name!r} in {value!r}: expected a list of values.")
        return Condition(name, "in", tuple(_scalar(name, each) for each in value))
    scalar = _scalar(name, value)
    if operator in _ORDERS and isinstance(scalar, bool | None):
        raise SettingsError(f"where: {name!r} {operator} {value!r}: expected a number or a text.")
    return Condition(name, str(operator), scalar)


def _key(key: object) -> str:
    if not isinstance(key, str) or not key:
        raise SettingsError(f"where: the key {key!r} is no name of a field. {_FORMS}")
    if '"' in key or "\\" in key or any(ord(letter) < 32 for letter in key):
        raise SettingsError(
            f"where: the key {key!r} has a quote, a backslash or a control character; items cannot "
            "be filtered by it. Rename it in the metadata."
        )
    return _encodable(key)


def _scalar(key: str, value: object) -> Scalar:
    if key in _OWN and not isinstance(value, str):
        raise SettingsError(f"where: {key!r} is a text, got {value!r}. Expected a text.")
    if isinstance(value, str):
        if "\0" in value:  # SQLite's JSON ends a text there
            raise SettingsError(f"where: {key!r}: the text {value!r} has a NUL, which cannot be.")
        return _encodable(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise SettingsError(
        f"where: {key!r} is compared with {value!r} of type {type(value).__name__}. Expected a "
        "text, a finite number, true, false or None."
    )


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SettingsError(f"where: {text!r} is not valid text: {error}.") from None
    return text


def _is_list(value: object) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)


def _few(conditions: list[Condition]) -> tuple[Condition, ...]:
    if len(conditions) > _MOST:
        raise SettingsError(f"where: {len(conditions)} conditions; at most {_MOST} can be given.")
    return tuple(conditions)


# --- text -----------------------------------------------------------------------------------------


def _parsed(text: str) -> Condition:
    found = _TEXT.fullmatch(text)
    if found is None:
        raise SettingsError(f"where {text!r}: not understood. {_FORMS}")
    key = found["plain"] if found["quoted"] is None else found["quoted"]
    operator = found["word"] or found["sign"].replace("==", "=")
    if operator != "in":
        return _checked(key, operator, _value(key, found["value"]))
    listed = _json(found["value"])
    if not isinstance(listed, list):
        listed = [_value(key, part.strip()) for part in found["value"].split(",")]
    return _checked(key, "in", listed)


def _value(key: str, text: str) -> Any:
    """JSON where it is some; fields of the item's own are texts, whatever they look like."""
    value = _json(text)
    return text if key in _OWN and not isinstance(value, str) else value


def _json(text: str) -> Any:
    def refuse(word: str) -> None:
        raise ValueError(word)  # NaN and its like are no JSON

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        return text


# --- SQL ------------------------------------------------------------------------------------------

# ``IN (SELECT ... json_each(?))`` serves for one value as for many: one parameter however many
# there are, and values read from JSON in the same way as the metadata they are compared with.
_LISTED = "IN (SELECT value FROM json_each(?))"
_NUMBERS = "('integer', 'real', 'true', 'false')"

_Sql = tuple[str, list[str | int | float]]


def _sql_of(condition: Condition) -> _Sql:
    key, operator, value = condition
    if operator == "contains":
        return _contains(key, value)
    if operator in _ORDERS:
        return _ordered(key, operator, value)
    listed = value if isinstance(value, tuple) else (value,)
    sql, values = _equal(key, listed)
    return (f"NOT coalesce({sql}, 0)" if operator == "!=" else sql), values


def _equal(key: str, listed: tuple[Scalar, ...]) -> _Sql:
    """Equal to one of these."""
    texts, numbers, none = _by_kind(listed)
    if key in _OWN:
        return f"({_OWN[key]} {_LISTED})", [json.dumps(texts)]
    path, parts = _path(key), list[str]()
    values: list[str | int | float] = []
    for kind, some in (("= 'text'", texts), (f"IN {_NUMBERS}", numbers)):
        if some:
            parts.append(  # few pass the first test: a third faster than the other way round
                f"(json_extract(metadata, ?) {_LISTED} AND json_type(metadata, ?) {kind})"
            )
            values += [path, json.dumps(some), path]
    if none:
        parts.append("coalesce(json_type(metadata, ?), 'null') = 'null'")
        values.append(path)
    return f"({' OR '.join(parts) or '0'})", values


def _ordered(key: str, operator: str, value: Any) -> _Sql:
    if key in _OWN:
        return f"({_OWN[key]} {operator} ?)", [value]
    kind = "= 'text'" if isinstance(value, str) else f"IN {_NUMBERS}"
    path = _path(key)
    return (
        f"(json_type(metadata, ?) {kind} AND json_extract(metadata, ?) {operator} ?)",
        [path, path, value],
    )


def _contains(key: str, value: Any) -> _Sql:
    if key in _OWN:
        return f"(instr({_OWN[key]}, ?) > 0)", [value]
    path, (texts, numbers, _) = _path(key), _by_kind((value,))
    kind = "= 'text'" if texts else f"IN {_NUMBERS}" if numbers else "= 'null'"
    same = f"AND e.atom {_LISTED}" if texts or numbers else ""
    held = (
        "(json_type(metadata, ?) = 'array' AND EXISTS (SELECT 1 FROM json_each(metadata, ?) AS e"
        f" WHERE e.type {kind} {same}))"
    )
    values: list[str | int | float] = [path, path]
    values += [json.dumps(texts or numbers)] if same else []
    if not texts:
        return held, values
    within = "(json_type(metadata, ?) = 'text' AND instr(json_extract(metadata, ?), ?) > 0)"
    return f"({held} OR {within})", [*values, path, path, value]


def _by_kind(values: tuple[Scalar, ...]) -> tuple[list[str], list[int | float], bool]:
    """Texts, numbers, and whether None is among them."""
    numbers = [value for value in values if isinstance(value, int | float)]
    return [value for value in values if isinstance(value, str)], numbers, None in values


def _path(key: str) -> str:
    return f'$."{key}"'
