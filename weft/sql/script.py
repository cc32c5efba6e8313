"""The grammar of scripts: text to statements, as plain data.

    SET name = value;
    CREATE STREAM name [(column TYPE, ...)] FROM PARQUET | CSV | JSON 'folder' [WITH (option = value, ...)];
    CREATE STREAM name [(column TYPE, ...)] FROM KAFKA 'servers' TOPIC 'topic' [(option = value, ...)] [WITH (...)];
    CREATE TABLE name [(column TYPE, ...)] FROM PARQUET | CSV | JSON 'folder' [KEY (column, ...)] [WITH (...)];
    CREATE TABLE name [(column TYPE, ...)] FROM KAFKA 'servers' TOPIC 'topic' [(...)] KEY (column, ...) [WITH (...)];
    CREATE VIEW name AS SELECT ...;
    CREATE QUERY name INTO PARQUET 'folder' [WITH (option = value, ...)] AS SELECT ...;
    CREATE QUERY name INTO KAFKA 'servers' TOPIC 'topic' [(option = value, ...)] [WITH (...)] AS SELECT ...;
    DROP QUERY name;

Only these statements exist.  One cursor reads the whole script, and the grammar of queries reads a SELECT from it, so
that places in errors are places in the script.  Options are checked by name and kind, so that a misspelt one is never
ignored.  Any word can be the name of a stream, a table, a query or an option.

A query that is dropped may be created again further down: that replaces it.  To create a query and then drop it makes
no sense in a text that is read as a whole, and is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal as OneOf

import pyarrow as pa

from weft.errors import ParseError, Span, not_too_deep, placed
from weft.query.draft import Draft
from weft.sql.cursor import Cursor
from weft.sql.options import COUNTS as _COUNTS
from weft.sql.options import FLAG as _FLAG
from weft.sql.options import FLAGS as _FLAGS
from weft.sql.options import NAMES as _NAMES
from weft.sql.options import NUMBER as _NUMBER
from weft.sql.options import SIZE as _SIZE
from weft.sql.options import TEXT as _TEXT
from weft.sql.options import WHOLE as _WHOLE
from weft.sql.options import Known as _Known
from weft.sql.options import (
    Options,
    Value,
    read_assignment,
    read_options,
    read_string,
)
from weft.sql.sources import read_names
from weft.sql.statement import read_body, read_select
from weft.sql.tokens import Token
from weft.sql.topics import FORM, FROM_KAFKA, TO_KAFKA, Topic, read_topic
from weft.sql.typename import read_type

Format = OneOf["parquet", "csv", "json", "kafka"]


_PLANNING: _Known = {
    "strategy": _TEXT, "budget": _SIZE, "placement": _TEXT, "capacity": _NUMBER, "arrival": _TEXT,
    "statistics": _TEXT,
}  # fmt: skip
_FOLLOWING: _Known = {"adapt": _FLAG, "epoch": _TEXT, "threshold": _NUMBER}
_SETTINGS: _Known = {
    "checkpoint": _TEXT,
    "workers": _WHOLE,
    "watermark": _TEXT,
    "sharing": _TEXT,
    **_FOLLOWING,
    **_PLANNING,
}
_STREAM_OPTIONS: _Known = {
    "event_time": _TEXT, "unit": _TEXT, "lateness": _TEXT, "max_files": _WHOLE, "unique": _NAMES,
    "bad_files": _TEXT, "idle": _TEXT, "static": _FLAG, "changes": _TEXT, "key": _NAMES, "format": _TEXT,
    "delimiter": _TEXT, "partitions": _FLAG,
}  # fmt: skip
_TABLE_OPTIONS: _Known = {
    "key": _NAMES, "changes": _TEXT, "format": _TEXT, "refresh": _FLAG, "event_time": _TEXT, "unit": _TEXT,
    "lateness": _TEXT, "idle": _TEXT, "max_files": _WHOLE, "delimiter": _TEXT,
    "partitions": _FLAG, "bad_files": _TEXT,
}  # fmt: skip
_QUERY_OPTIONS: _Known = {
    "cross_product": _FLAG, "closed": _FLAG, **_PLANNING, "parallelism": _COUNTS, "skewed": _FLAGS,
    "start": _TEXT, "backfill": _FLAG, "complete": _FLAG, "merge": _FLAG, "mode": _TEXT,
    "partition_by": _NAMES,
}  # fmt: skip
_FORMATS: dict[str, Format] = {"PARQUET": "parquet", "CSV": "csv", "JSON": "json", "KAFKA": "kafka"}
_SET = "SET name = value;"
_STREAM = "CREATE STREAM name FROM PARQUET 'folder' WITH (event_time = 'column');"
_TABLE = "CREATE TABLE name FROM PARQUET 'folder' KEY (column);"
_QUERY = "CREATE QUERY name INTO PARQUET 'folder' AS SELECT ...;"
_VIEW = "CREATE VIEW name AS SELECT ...;"
_DROP = "DROP QUERY name;"
_ELSEWHERE = {
    ("WATERMARK", "FOR"): "say it behind FROM: WITH (event_time = 'column', lateness = '5 seconds').",
    ("PRIMARY", "KEY"): "say it behind FROM: KEY (column) of a table, WITH (key = 'column') of a stream.",
}
"""What is no column -> where it stands."""
_FORMS = {"stream": _STREAM, "table": _TABLE, "view": _VIEW, "query": _QUERY}


@dataclass(frozen=True, slots=True)
class StreamStatement:
    """CREATE STREAM or CREATE TABLE: where the files are, and what the session is told about them."""

    name: str
    format: Format
    path: Path
    options: Options = field(default_factory=dict)
    is_table: bool = False
    schema: pa.Schema | None = None
    """The columns, if they are declared."""
    topic: Topic | None = None
    """Where rows come from, if that is no folder."""
    span: Span = field(default=Span(0, 0), compare=False, repr=False)

    @property
    def kind(self) -> str:
        """For people."""
        return "table" if self.is_table else "stream"


@dataclass(frozen=True, slots=True)
class ViewStatement:
    """CREATE VIEW: a SELECT under a name."""

    name: str
    draft: Draft
    span: Span = field(default=Span(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class QueryStatement:
    """CREATE QUERY: a SELECT, the folder its results go to, and what `Session.query` is told about it."""

    name: str
    path: Path
    draft: Draft
    options: Options = field(default_factory=dict)
    topic: Topic | None = None
    """Where results go, if that is no folder."""
    span: Span = field(default=Span(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Statements:
    """What a script says, with paths as written."""

    settings: Options
    streams: tuple[StreamStatement, ...]
    queries: tuple[QueryStatement, ...]
    drops: tuple[str, ...] = ()
    """Queries of the checkpoint that are meant to go."""
    views: tuple[ViewStatement, ...] = ()
    """In the order of the script: each may use those before it."""
    places: Mapping[str, Span] = field(default_factory=dict, compare=False, repr=False)
    """Setting -> where it stands."""


def parse_statements(text: str) -> Statements:
    """The statements of the script `text`, checked."""
    cursor = Cursor(text, read_body)
    script = _Script()
    while not cursor.at_end:
        if not cursor.accept(";"):
            with placed(cursor.token.span):
                not_too_deep(script.read)(cursor)
    if not script.queries:
        raise ParseError("the script has no query", hint=f"add {_QUERY}", span=cursor.token.span)
    return Statements(
        script.settings,
        tuple(script.streams.values()),
        tuple(script.queries.values()),
        tuple(script.drops),
        tuple(script.views.values()),
        script.places,
    )


class _Script:
    """What is read so far."""

    def __init__(self) -> None:
        self.settings: dict[str, Value] = {}
        self.places: dict[str, Span] = {}
        self.streams: dict[str, StreamStatement] = {}
        self.views: dict[str, ViewStatement] = {}
        self.queries: dict[str, QueryStatement] = {}
        self.drops: dict[str, Token] = {}

    def read(self, cursor: Cursor) -> None:
        """Read one statement, up to its semicolon."""
        if cursor.accept("SET"):
            name, value = read_assignment(cursor, "setting", _SETTINGS)
            _end(cursor, _SET)
            self.settings[name.text.lower()], self.places[name.text.lower()] = value, name.span
        elif cursor.accept("CREATE", "STREAM"):
            name = self._read_new_name(cursor, "stream")
            self.streams[name.text] = _read_stream(cursor, name)
        elif cursor.accept("CREATE", "TABLE"):
            name = self._read_new_name(cursor, "table")
            self.streams[name.text] = _read_table(cursor, name)
        elif cursor.accept("CREATE", "VIEW"):
            name = self._read_new_name(cursor, "view")
            cursor.expect("AS", _VIEW)
            cursor.depth = 1
            self.views[name.text] = ViewStatement(name.text, read_select(cursor), name.span)
            cursor.depth = 0
        elif cursor.accept("CREATE", "QUERY"):
            name = self._read_new_name(cursor, "query")
            self.queries[name.text] = _read_query(cursor, name)
        elif cursor.accept("DROP", "QUERY"):
            name = self._read_drop(cursor)
            self.drops[name.text] = name
        else:
            _ = cursor.accept("CREATE") or cursor.accept("DROP")  # then the word behind it is the wrong one
            hint = "statements are: SET, CREATE STREAM, CREATE TABLE, CREATE VIEW, CREATE QUERY, DROP QUERY."
            raise cursor.unexpected("there is no such statement", hint)

    def _read_new_name(self, cursor: Cursor, what: str) -> Token:
        if cursor.sees("IF", "NOT", "EXISTS"):
            span = cursor.read("IF", "NOT", "EXISTS")
            if what == "query":
                hint = "leave it out: a query that the checkpoint has goes on, unless its text is another one."
                raise cursor.fail(span, "a query is not created IF NOT EXISTS", hint=hint)
        name = cursor.word(f"the name of the {what}", _FORMS[what])
        others: Mapping[str, str] = {n: s.kind for n, s in self.streams.items()} | dict.fromkeys(self.views, "view")
        others = dict.fromkeys(self.queries, "query") if what == "query" else others
        if (other := others.get(name.text)) is not None:
            message = f"{what} {name.text} is created twice"
            if other != what:
                message = f"{name.text} is created as a {other} and as a {what}"
            raise cursor.fail(name.span, message, hint="give one of them another name.")
        return name

    def _read_drop(self, cursor: Cursor) -> Token:
        name = cursor.word("the name of the query", _DROP)
        _end(cursor, _DROP)
        if name.text in self.drops:
            raise cursor.fail(name.span, f"query {name.text} is dropped twice", hint="leave one of them out.")
        if name.text in self.queries:
            hint = "leave both out; to replace a query, write DROP QUERY before CREATE QUERY."
            raise cursor.fail(name.span, f"query {name.text} is created and then dropped", hint=hint)
        return name


def _read_stream(cursor: Cursor, name: Token) -> StreamStatement:
    schema = _read_columns(cursor)
    form, place = _read_place(cursor, "stream")
    options = read_options(cursor, _options_of(form, _STREAM_OPTIONS))
    _end(cursor, _STREAM)
    path, topic = (Path(), place) if isinstance(place, Topic) else (place, None)
    return StreamStatement(name.text, form, path, options, schema=schema, topic=topic, span=name.span)


def _read_columns(cursor: Cursor) -> pa.Schema | None:
    """`(column TYPE, ...)`, or nothing."""
    if not cursor.accept("("):
        return None
    columns: dict[str, pa.DataType] = {}
    while True:
        _refuse_clause(cursor)
        name = cursor.word("the name of a column", "columns are written (name TYPE, name TYPE).")
        if name.text in columns:
            raise cursor.fail(name.span, f"column {name.text} is declared twice", hint="leave one of them out.")
        columns[name.text] = read_type(cursor)
        if not cursor.accept(","):
            break
    cursor.expect(")", "columns are written (name TYPE, name TYPE).")
    return pa.schema(list(columns.items()))


def _refuse_clause(cursor: Cursor) -> None:
    """What other systems say among the columns stands behind them here."""
    for words, hint in _ELSEWHERE.items():
        if cursor.sees(*words):
            span = cursor.read(*words)
            raise cursor.fail(span, f"{' '.join(words)} does not stand among the columns", hint=hint)


def _read_table(cursor: Cursor, name: Token) -> StreamStatement:
    schema = _read_columns(cursor)
    form, place = _read_place(cursor, "table")
    key = {"key": list(read_names(cursor, "KEY (column, ...)."))} if cursor.accept("KEY") else {}
    options: Options = {**key, **read_options(cursor, _options_of(form, _TABLE_OPTIONS))}
    if isinstance(place, Topic) and "key" not in options and "changes" not in options and "format" not in options:
        hint = "say how its rows follow each other: KEY (column); or read it as a stream: CREATE STREAM."
        raise cursor.fail(name.span, "a table that is a topic has no key", hint=hint)
    _end(cursor, _TABLE)
    path, topic = (Path(), place) if isinstance(place, Topic) else (place, None)
    return StreamStatement(name.text, form, path, options, True, schema, topic, name.span)


def _read_place(cursor: Cursor, what: str) -> tuple[Format, Path | Topic]:
    """`FROM PARQUET 'folder'`, or `FROM KAFKA 'servers' TOPIC 'topic'`."""
    cursor.expect("FROM", _FORMS[what])
    form = _FORMATS.get(cursor.token.upper)
    if form is None:
        raise cursor.unexpected("a format is missing", f"formats are: {', '.join(_FORMATS)}.")
    cursor.next()
    if form == "kafka":
        return form, read_topic(cursor, FROM_KAFKA)
    return form, Path(read_string(cursor, f"the folder of the {what}"))


def _options_of(form: Format, known: _Known) -> _Known:
    """Those that mean something for this format."""
    missing = {"csv": (), "kafka": ("max_files", "bad_files", "delimiter", "partitions")}.get(form, ("delimiter",))
    return {name: kind for name, kind in known.items() if name not in missing}


def _read_query(cursor: Cursor, name: Token) -> QueryStatement:
    cursor.expect("INTO", _QUERY)
    topic = read_topic(cursor, TO_KAFKA) if cursor.accept("KAFKA") else None
    if topic is None and not cursor.accept("PARQUET"):
        raise cursor.unexpected("PARQUET is missing", f"results of a script go to Parquet folders, or to {FORM}.")
    path = Path() if topic else Path(read_string(cursor, "the folder of the results"))
    options = read_options(cursor, _QUERY_OPTIONS)
    cursor.expect("AS", _QUERY)
    return QueryStatement(name.text, path, read_select(cursor), options, topic, name.span)


def _end(cursor: Cursor, form: str) -> None:
    if not cursor.ends_statement:
        raise cursor.unexpected("the statement should end here", f"statements end with ; as in {form}")
