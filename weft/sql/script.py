"""The grammar of scripts: text to statements, as plain data.

    SET name = value;
    CREATE STREAM name FROM PARQUET | CSV | JSON 'folder' [WITH (option = value, ...)];
    CREATE QUERY name INTO PARQUET 'folder' [WITH (option = value, ...)] AS SELECT ...;

Only these three statements exist.  One cursor reads the whole script, and the grammar of queries reads a SELECT from
it, so that places in errors are places in the script.  Options are checked by name and kind, so that a misspelt one is
never ignored.  Any word can be the name of a stream, a query or an option.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal as OneOf

from weft.errors import ParseError
from weft.expr.model import Span
from weft.query.draft import Draft
from weft.sql.cursor import Cursor
from weft.sql.statement import read_select
from weft.sql.tokens import Token

Format = OneOf["parquet", "csv", "json"]
Value = str | bool | int | float | list[str]
Options = Mapping[str, Value]

_SETTINGS: dict[str, type] = {"checkpoint": str, "workers": int}
_STREAM_OPTIONS: dict[str, type] = {"event_time": str, "unit": str, "lateness": str, "max_files": int, "unique": list}
_QUERY_OPTIONS: dict[str, type] = {"strategy": str, "cross_product": bool, "closed": bool}
_KINDS = {str: "a string", bool: "TRUE or FALSE", int: "a whole number", list: "a list of strings"}
_EXAMPLES = {str: "'text'", bool: "TRUE", int: "4", list: "('a', 'b')"}
_FORMATS: dict[str, Format] = {"PARQUET": "parquet", "CSV": "csv", "JSON": "json"}

_SET = "SET name = value;"
_STREAM = "CREATE STREAM name FROM PARQUET 'folder' WITH (event_time = 'column');"
_QUERY = "CREATE QUERY name INTO PARQUET 'folder' AS SELECT ...;"


@dataclass(frozen=True, slots=True)
class StreamStatement:
    """CREATE STREAM: where a stream's files are, and what `Session.stream` is told about it."""

    name: str
    format: Format
    path: Path
    options: Options = field(default_factory=dict)
    span: Span = field(default=Span(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class QueryStatement:
    """CREATE QUERY: a SELECT, the folder its results go to, and what `Session.query` is told about it."""

    name: str
    path: Path
    draft: Draft
    options: Options = field(default_factory=dict)
    span: Span = field(default=Span(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Statements:
    """What a script says, with paths as written."""

    settings: Options
    streams: tuple[StreamStatement, ...]
    queries: tuple[QueryStatement, ...]


def parse_statements(text: str) -> Statements:
    """The statements of the script `text`, checked."""
    cursor = Cursor(text)
    script = _Script()
    while not cursor.at_end:
        if not cursor.accept(";"):
            script.read(cursor)
    if not script.queries:
        raise ParseError("the script has no query", hint=f"add {_QUERY}")
    return Statements(script.settings, tuple(script.streams.values()), tuple(script.queries.values()))


class _Script:
    """What is read so far."""

    def __init__(self) -> None:
        self.settings: dict[str, Value] = {}
        self.streams: dict[str, StreamStatement] = {}
        self.queries: dict[str, QueryStatement] = {}

    def read(self, cursor: Cursor) -> None:
        """Read one statement, up to its semicolon."""
        if cursor.accept("SET"):
            self.settings.update(_read_setting(cursor))
        elif cursor.accept("CREATE", "STREAM"):
            name = _read_new_name(cursor, "stream", self.streams)
            self.streams[name.text] = _read_stream(cursor, name)
        elif cursor.accept("CREATE", "QUERY"):
            name = _read_new_name(cursor, "query", self.queries)
            self.queries[name.text] = _read_query(cursor, name)
        else:
            cursor.accept("CREATE")  # then the word behind it is the wrong one
            hint = "statements are: SET, CREATE STREAM, CREATE QUERY."
            raise cursor.unexpected("there is no such statement", hint)


def _read_new_name(cursor: Cursor, what: str, taken: Mapping[str, object]) -> Token:
    name = cursor.word(f"the name of the {what}", _STREAM if what == "stream" else _QUERY)
    if name.text in taken:
        raise cursor.fail(name.span, f"{what} {name.text} is created twice", hint="give one of them another name.")
    return name


def _read_setting(cursor: Cursor) -> dict[str, Value]:
    name, value = _read_assignment(cursor, "setting", _SETTINGS)
    _end(cursor, _SET)
    return {name.text.lower(): value}


def _read_stream(cursor: Cursor, name: Token) -> StreamStatement:
    cursor.expect("FROM", _STREAM)
    form = _FORMATS.get(cursor.token.upper)
    if form is None:
        raise cursor.unexpected("a format is missing", f"formats are: {', '.join(_FORMATS)}.")
    cursor.next()
    path = Path(_read_string(cursor, "the folder of the stream"))
    behind = cursor.token.span
    options = _read_options(cursor, _STREAM_OPTIONS)
    _end(cursor, _STREAM)
    if "event_time" not in options:
        raise cursor.fail(behind, f'stream "{name.text}" has no event time', hint="write WITH (event_time = 'column').")
    return StreamStatement(name.text, form, path, options, name.span)


def _read_query(cursor: Cursor, name: Token) -> QueryStatement:
    cursor.expect("INTO", _QUERY)
    if not cursor.accept("PARQUET"):
        raise cursor.unexpected("PARQUET is missing", "results of a script go to Parquet folders.")
    path = Path(_read_string(cursor, "the folder of the results"))
    options = _read_options(cursor, _QUERY_OPTIONS)
    cursor.expect("AS", _QUERY)
    return QueryStatement(name.text, path, read_select(cursor), options, name.span)


def _end(cursor: Cursor, form: str) -> None:
    if not cursor.ends_statement:
        raise cursor.unexpected("the statement should end here", f"statements end with ; as in {form}")


def _read_options(cursor: Cursor, known: Mapping[str, type]) -> dict[str, Value]:
    """`WITH (name = value, ...)`, or nothing."""
    options: dict[str, Value] = {}
    if not cursor.accept("WITH"):
        return options
    cursor.expect("(", "WITH (option = value, ...).")
    while True:
        name, value = _read_assignment(cursor, "option", known)
        if name.text.lower() in options:
            raise cursor.fail(name.span, f'option "{name.text.lower()}" is given twice', hint="leave one of them out.")
        options[name.text.lower()] = value
        if not cursor.accept(","):
            break
    cursor.expect(")", "WITH (option = value, ...).")
    return options


def _read_assignment(cursor: Cursor, what: str, known: Mapping[str, type]) -> tuple[Token, Value]:
    hint = f"{what}s are: {', '.join(known)}."
    name = cursor.word(f"the name of the {what}", hint)
    key = name.text.lower()
    if key not in known:
        raise cursor.fail(name.span, f'unknown {what} "{key}"', hint=hint)
    cursor.expect("=", f"as in {key} = {_EXAMPLES[known[key]]}.")
    return name, _read_value(cursor, key, known[key])


def _read_value(cursor: Cursor, name: str, kind: type) -> Value:
    """A value of one kind; a single string may stand for a list of one."""
    start = cursor.at
    value = _read_any_value(cursor, name)
    if kind is list and isinstance(value, str):
        value = [value]
    if type(value) is not kind:  # TRUE is an int in Python, but not a number here
        hint = f"write {name} = {_EXAMPLES[kind]}."
        raise cursor.fail(cursor.span_from(start), f'"{name}" takes {_KINDS[kind]}', hint=hint)
    return value


def _read_any_value(cursor: Cursor, name: str) -> Value:
    if cursor.accept("("):
        return _read_list(cursor)
    if cursor.sees_any("TRUE", "FALSE"):
        return cursor.next().upper == "TRUE"
    if cursor.token.kind == "number" or cursor.sees("-"):
        return _read_number(cursor)
    return _read_string(cursor, f"a value for {name}")


def _read_list(cursor: Cursor) -> list[str]:
    items = [_read_string(cursor, "an item")]
    while cursor.accept(","):
        items.append(_read_string(cursor, "an item"))
    cursor.expect(")", "a list is written ('a', 'b').")
    return items


def _read_number(cursor: Cursor) -> int | float:
    sign = "-" if cursor.accept("-") else ""
    if cursor.token.kind != "number":
        raise cursor.unexpected("a number is missing", "a minus sign stands before a number.")
    text = cursor.next().text
    return int(sign + text) if text.isdigit() else float(sign + text)


def _read_string(cursor: Cursor, what: str) -> str:
    if cursor.token.kind != "string":
        raise cursor.unexpected(f"{what} is missing", "write it in single quotes.")
    return cursor.next().text
