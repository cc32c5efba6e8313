"""Settings and options in scripts: names with values of known kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weft.query.names import suggestion
from weft.sql.cursor import Cursor
from weft.sql.tokens import Token

Value = str | bool | int | float | list[str] | dict[str, int] | dict[str, bool]
Options = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Kind:
    """What the value of a setting or an option may be."""

    types: tuple[type, ...]
    words: str
    example: str


TEXT = Kind((str,), "a string", "'text'")
FLAG = Kind((bool,), "TRUE or FALSE", "TRUE")
WHOLE = Kind((int,), "a whole number", "4")
NUMBER = Kind((int, float), "a number", "1000")
SIZE = Kind((int, float, str), "a number of rows, or a string with a unit", "'2 GB'")
NAMES = Kind((list,), "a list of strings", "('a', 'b')")
COUNTS = Kind((dict,), "whole numbers by alias", "('a' = 2)")
FLAGS = Kind((dict,), "TRUE or FALSE by column", "('a.k' = TRUE)")
TEXTS = Kind((dict,), "strings by name", "('security.protocol' = 'SSL')")
TYPES = Kind((dict,), "types by column", "('id' = 'BIGINT')")
START = Kind((str, dict), "a string, or offsets by partition", "'latest'")
Known = Mapping[str, Kind]


def read_options(cursor: Cursor, known: Known) -> dict[str, Value]:
    """`WITH (name = value, ...)`, or nothing."""
    if not cursor.accept("WITH"):
        return {}
    cursor.expect("(", "WITH (option = value, ...).")
    return read_assignments(cursor, known, "WITH (option = value, ...).")


def read_assignments(cursor: Cursor, known: Known, form: str) -> dict[str, Value]:
    """`name = value, ...)`."""
    options: dict[str, Value] = {}
    while True:
        name, value = read_assignment(cursor, "option", known)
        if name.text.lower() in options:
            raise cursor.fail(name.span, f'option "{name.text.lower()}" is given twice', hint="leave one of them out.")
        options[name.text.lower()] = value
        if not cursor.accept(","):
            break
    cursor.expect(")", form)
    return options


def read_assignment(cursor: Cursor, what: str, known: Known) -> tuple[Token, Value]:
    """`name = value`, of those that are known."""
    hint = f"{what}s are: {', '.join(known)}."
    name = cursor.word(f"the name of the {what}", hint)
    key = name.text.lower()
    if key not in known:
        near = suggestion(key, known)
        raise cursor.fail(name.span, f'unknown {what} "{key}"', hint=f"{near} {hint}" if near else hint)
    cursor.expect("=", f"as in {key} = {known[key].example}.")
    return name, _read_value(cursor, key, known[key])


def _read_value(cursor: Cursor, name: str, kind: Kind) -> Value:
    """A value of one kind; a single string may stand for a list of one."""
    start = cursor.at
    value = _read_any_value(cursor, name)
    if kind is NAMES and isinstance(value, str):
        value = [value]
    if type(value) not in kind.types or not _is_of(kind, value):  # TRUE is an int in Python, but not a number here
        hint = f"write {name} = {kind.example}."
        raise cursor.fail(cursor.span_from(start), f'"{name}" takes {kind.words}', hint=hint)
    return value


def _read_any_value(cursor: Cursor, name: str) -> Value:
    if cursor.accept("("):
        return _read_list(cursor)
    if cursor.sees_any("TRUE", "FALSE"):
        return cursor.next().upper == "TRUE"
    if cursor.token.kind == "number" or cursor.sees("-"):
        return _read_number(cursor)
    return read_string(cursor, f"a value for {name}")


def _is_of(kind: Kind, value: Value) -> bool:
    """Whether the values of a mapping are of the right type."""
    wanted = {COUNTS: int, FLAGS: bool, TYPES: str}.get(kind)
    return wanted is None or (isinstance(value, dict) and all(type(item) is wanted for item in value.values()))


def _read_list(cursor: Cursor) -> Value:
    """`('a', 'b')`, or `('a' = value, 'b' = value)`."""
    first = read_string(cursor, "an item")
    if cursor.sees("="):
        return _read_mapping(cursor, first)
    items = [first]
    while cursor.accept(","):
        items.append(read_string(cursor, "an item"))
    cursor.expect(")", "a list is written ('a', 'b').")
    return items


def _read_mapping(cursor: Cursor, first: str) -> Value:
    items: dict[str, Any] = {}
    key = first
    while True:
        cursor.expect("=", "values by name are written ('a' = 2, 'b' = 4).")
        items[key] = _read_any_value(cursor, key)
        if not cursor.accept(","):
            break
        key = read_string(cursor, "a name")
    cursor.expect(")", "values by name are written ('a' = 2, 'b' = 4).")
    return items


def _read_number(cursor: Cursor) -> int | float:
    sign = "-" if cursor.accept("-") else ""
    if cursor.token.kind != "number":
        raise cursor.unexpected("a number is missing", "a minus sign stands before a number.")
    text = cursor.next().text
    return int(sign + text) if text.isdigit() else float(sign + text)


def read_string(cursor: Cursor, what: str) -> str:
    """A string in quotes."""
    if cursor.token.kind != "string":
        raise cursor.unexpected(f"{what} is missing", "write it in single quotes.")
    return cursor.next().text
