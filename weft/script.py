"""Jobs as SQL scripts: streams in, queries out.

    SET checkpoint = 'state';
    CREATE STREAM orders FROM PARQUET 'in/orders' WITH (event_time = 'o_ts', lateness = '10 seconds');
    CREATE QUERY late INTO PARQUET 'out/late' AS SELECT ... FROM customer c JOIN orders o ON ...;

Only these three statements exist.  This module cuts the text into statements and reads their frame; the
SELECT inside a query goes to `weft.sql` untouched.  Keywords take either case, strings take single quotes
(`''` for a quote inside), comments are `--` and `/* */`.  A relative path counts from the script's folder,
so a job means the same wherever it is started.  Without SET, the checkpoint is `<script name>.checkpoint`
beside the script: running a job again takes it up where it ended, and does not write its results twice.

Every refusal points at the place in the text.  Options are checked here by name and kind, so that a
misspelt one is never passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from weft.errors import ParseError, SourceError, WeftError

if TYPE_CHECKING:
    from weft import Session

Format = Literal["parquet", "csv", "json"]
Value = str | bool | int | float | tuple[str, ...]

_SETTINGS: dict[str, type] = {"checkpoint": str, "workers": int}
_STREAM_OPTIONS: dict[str, type] = {"event_time": str, "unit": str, "lateness": str, "max_files": int, "unique": tuple}
_QUERY_OPTIONS: dict[str, type] = {"strategy": str, "cross_product": bool, "closed": bool}
_FORMATS: tuple[Format, ...] = ("parquet", "csv", "json")
_KINDS = {str: "a string", bool: "TRUE or FALSE", int: "a whole number", tuple: "a list of strings"}

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<string>'(?:[^']|'')*')
      | (?P<name>"(?:[^"]|"")*"|[^\W\d]\w*)
      | (?P<number>-?\d+(?:\.\d+)?)
      | (?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class StreamStatement:
    """CREATE STREAM: where a stream's files are, and what `Session.stream` is told about it."""

    name: str
    format: Format
    path: Path
    options: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueryStatement:
    """CREATE QUERY: a SELECT, the folder its results go to, and what `Session.query` is told about it."""

    name: str
    path: Path
    sql: str
    options: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Script:
    """A whole job, with the paths made absolute."""

    checkpoint: Path
    workers: int | None
    streams: tuple[StreamStatement, ...]
    queries: tuple[QueryStatement, ...]


def read_script(path: Path) -> Script:
    """Read and check the script at `path`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        hint = "name a file of SET, CREATE STREAM and CREATE QUERY statements."
        raise SourceError(f'script "{path}" cannot be read', detail=f"{error}.", hint=hint) from None
    return parse_script(text, folder=path.resolve().parent, name=path.stem)


def parse_script(text: str, *, folder: Path, name: str = "job") -> Script:
    """Check the script `text`; relative paths count from `folder`."""
    settings: dict[str, Value] = {}
    streams: list[StreamStatement] = []
    queries: list[QueryStatement] = []
    taken: set[str] = set()
    for reader in _statements(text):
        if reader.accept("set"):
            settings.update(_set(reader))
            continue
        reader.expect("create", or_else="SET, CREATE STREAM or CREATE QUERY")
        if reader.accept("stream"):
            at = reader.here
            streams.append(_stream(reader, folder))
            new = f"stream {streams[-1].name}"
        else:
            reader.expect("query", or_else="STREAM or QUERY")
            at = reader.here
            queries.append(_query(reader, folder))
            new = f"query {queries[-1].name}"
        if new in taken:
            reader.refuse(f"{new} is created twice", at=at)
        taken.add(new)
    if not queries:
        raise ParseError("the script has no query", hint="add CREATE QUERY name INTO PARQUET 'folder' AS SELECT ...;")
    workers = settings.get("workers")
    return Script(
        checkpoint=folder / str(settings.get("checkpoint", f"{name}.checkpoint")),
        workers=workers if isinstance(workers, int) else None,
        streams=tuple(streams),
        queries=tuple(queries),
    )


def open_session(script: Script, *, checkpoint: Path | None = None, workers: int | None = None) -> Session:
    """A session with the script's streams and queries declared and nothing started."""
    import weft

    workers = script.workers if workers is None else workers
    session = weft.Session(checkpoint=str(checkpoint or script.checkpoint), workers=workers)
    for stream in script.streams:
        options: dict[str, Any] = dict(stream.options)
        with _naming(f"stream {stream.name}"):
            source = getattr(weft.read, stream.format)(str(stream.path), max_files=options.pop("max_files", None))
            session.stream(stream.name, source, **options)
    for query in script.queries:
        knobs: dict[str, Any] = dict(query.options)
        with _naming(f"query {query.name}"):
            session.query(query.name, query.sql, **knobs).to_parquet(str(query.path))
    return session


@contextmanager
def _naming(statement: str) -> Iterator[None]:
    """Say which statement an error is about: lines and columns are counted inside it."""
    try:
        yield
    except WeftError as error:
        detail = f"in {statement}, {error.detail}" if error.detail else f"in {statement}."
        raise type(error)(error.message, detail=detail, hint=error.hint) from error


# ------------------------------------------------------------------------------------------ statements


def _set(reader: _Reader) -> dict[str, Value]:
    at = reader.here
    name = reader.name("a setting").lower()
    if name not in _SETTINGS:
        reader.refuse(f'unknown setting "{name}"', at=at, hint=f"settings are: {', '.join(_SETTINGS)}")
    reader.expect("=")
    value = reader.value(name, _SETTINGS[name])
    reader.end()
    return {name: value}


def _stream(reader: _Reader, folder: Path) -> StreamStatement:
    name = reader.name("the name of a stream")
    reader.expect("from")
    form = next((form for form in _FORMATS if reader.accept(form)), None)
    if form is None:
        reader.refuse(f"expected a format, found {reader.found}", hint="formats are: PARQUET, CSV, JSON")
    path = folder / reader.string("the folder of the stream")
    at = reader.here
    options = reader.options(_STREAM_OPTIONS)
    reader.end()
    if "event_time" not in options:
        reader.refuse(f'stream "{name}" has no event time', at=at, hint="say WITH (event_time = 'column')")
    options = {key: list(value) if isinstance(value, tuple) else value for key, value in options.items()}
    return StreamStatement(name, form, path, options)


def _query(reader: _Reader, folder: Path) -> QueryStatement:
    name = reader.name("the name of a query")
    reader.expect("into")
    if not reader.accept("parquet"):
        reader.refuse(f"expected PARQUET, found {reader.found}", hint="results of a script go to Parquet folders")
    path = folder / reader.string("the folder of the results")
    options = reader.options(_QUERY_OPTIONS)
    reader.expect("as")
    sql = reader.rest()
    if not sql:
        reader.refuse(f'query "{name}" has no SELECT')
    return QueryStatement(name, path, sql, options)


# ---------------------------------------------------------------------------------------------- tokens


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int


def _statements(text: str) -> Iterator[_Reader]:
    """Cut the text at its semicolons; those in strings and comments do not count."""
    tokens: list[_Token] = []
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup or "mark"
        token = _Token(kind, found.group(), found.start())
        if token.text in ("'", '"') or (kind == "mark" and text.startswith("/*", token.start)):
            what = "comment" if token.text == "/" else "string" if token.text == "'" else "name"
            _refuse(text, token.start, f"this {what} does not end")
        if token.text == ";":
            if tokens:
                yield _Reader(text, tokens, token.start)
            tokens = []
        elif kind != "space":
            tokens.append(token)
    if tokens:
        yield _Reader(text, tokens, len(text.rstrip()))


class _Reader:
    """Reads one statement from left to right."""

    def __init__(self, text: str, tokens: list[_Token], end: int) -> None:
        self._text, self._tokens, self._end, self._next = text, tokens, end, 0

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next] if self._next < len(self._tokens) else _Token("end", "", self._end)

    @property
    def here(self) -> int:
        return self._token.start

    @property
    def found(self) -> str:
        return self._token.text or "the end of the statement"

    def accept(self, word: str) -> bool:
        matches = self._token.text.lower() == word
        self._next += matches
        return matches

    def expect(self, word: str, *, or_else: str | None = None) -> None:
        if not self.accept(word):
            self.refuse(f"expected {or_else or word.upper()}, found {self.found}")

    def name(self, what: str) -> str:
        token = self._take("name", what)
        return token.text[1:-1].replace('""', '"') if token.text.startswith('"') else token.text

    def string(self, what: str) -> str:
        return self._take("string", f"{what} in single quotes").text[1:-1].replace("''", "'")

    def value(self, name: str, kind: type) -> Value:
        """A string, a number, TRUE or FALSE, or `('a', 'b')`; a single string may stand for a list of one."""
        at = self.here
        value: Value
        if self.accept("("):
            items = [self.string("an item")]
            while self.accept(","):
                items.append(self.string("an item"))
            self.expect(")")
            value = tuple(items)
        elif self._token.kind == "number":
            number = self._take("number", "a number").text
            value = float(number) if "." in number else int(number)
        elif self._token.text.lower() in ("true", "false"):
            value = self._take("name", "TRUE or FALSE").text.lower() == "true"
        else:
            value = self.string(f"a value for {name}")
        if kind is tuple and isinstance(value, str):
            value = (value,)
        if type(value) is not kind:  # TRUE is an int in Python, and no number here
            self.refuse(f'"{name}" takes {_KINDS[kind]}', at=at)
        return value

    def options(self, known: Mapping[str, type]) -> dict[str, Any]:
        """`WITH (name = value, ...)`, or nothing."""
        options: dict[str, Value] = {}
        if not self.accept("with"):
            return options
        self.expect("(")
        while True:
            at = self.here
            name = self.name("an option").lower()
            if name in options:
                self.refuse(f'option "{name}" is given twice', at=at)
            if name not in known:
                self.refuse(f'unknown option "{name}"', at=at, hint=f"options are: {', '.join(known)}")
            self.expect("=")
            options[name] = self.value(name, known[name])
            if not self.accept(","):
                break
        self.expect(")")
        return options

    def rest(self) -> str:
        return self._text[self.here : self._end].strip()

    def end(self) -> None:
        if self._token.kind != "end":
            self.refuse(f"expected the end of the statement, found {self.found}", hint="statements end with ;")

    def refuse(self, message: str, *, at: int | None = None, hint: str | None = None) -> NoReturn:
        _refuse(self._text, self.here if at is None else at, message, hint)

    def _take(self, kind: str, what: str) -> _Token:
        token = self._token
        if token.kind != kind:
            self.refuse(f"expected {what}, found {self.found}")
        self._next += 1
        return token


def _refuse(text: str, at: int, message: str, hint: str | None = None) -> NoReturn:
    """Raise with the line, and a caret below the place."""
    before = text[:at]
    number = before.count("\n") + 1
    start = before.rfind("\n") + 1
    line = text[start:].split("\n", 1)[0]
    gap = re.sub(r"[^\t]", " ", text[start:at])
    raise ParseError(message, detail=f"line {number}, column {at - start + 1}\n  {line}\n  {gap}^", hint=hint)
