"""Every error Weft raises on purpose, and the place in a text of SQL that it points at.

    WeftError
    ├── ParseError      SQL text that Weft does not accept; points at the construct with a caret
    ├── QueryError      a query or stream that has no meaning: unknown names, wrong types, bad windows
    ├── PlanError       a query that cannot be planned as asked: cross products, options
    ├── SourceError     input that cannot be read as declared
    ├── SinkError       output that cannot be written where asked
    ├── StateError      a checkpoint that is damaged, or belongs to other queries
    ├── HostError       the run itself: Spark, Java, workers
    └── InternalError   an invariant of Weft is broken: a bug in Weft

A message has three layers: the primary line says what is wrong, the detail says where and with which
values, the hint says what to do.  Whoever raises an error about a text of SQL gives its place; the detail then begins
with the line and carets under the construct.  Where it knows none, the construct that is read around it is the place
(`placed`).  Errors cross process borders as text, so they can be rebuilt from their
class name and the three strings.

A place holds the text that it points into.  So parts of several texts (a query, the views that it reads, fragments of
the builder) may be mixed: each error points into its own text.

Every error also knows the function that made it.  The page of errors in the documentation has a place for each of
these functions, named by `anchor`.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Span:
    """Where a construct stands in a text: offsets of its first and last character."""

    start: int
    end: int
    text: str = field(default="", compare=False, repr=False)

    def __reduce__(self) -> tuple[object, ...]:
        """Without the text: plans are sent to workers, which point at nothing."""
        return (Span, (self.start, self.end))

    def to(self, last: Span) -> Span:
        """From the beginning of this one to the end of another one in the same text."""
        return Span(self.start, last.end, self.text)


def whole(text: object) -> Span | None:
    """All of a text; of anything else, no place."""
    return Span(0, len(text), text) if isinstance(text, str) else None


def point(span: Span) -> str:
    """The line of the text where `span` begins, with carets under it.

    >>> print(point(Span(21, 25, "SELECT a\\nFROM orders LIMIT 5")))
    line 2, column 13
      FROM orders LIMIT 5
                  ^^^^^
    """
    text = span.text
    start = min(span.start, len(text))
    head = text.rfind("\n", 0, start) + 1
    tail = text.find("\n", start)
    line = text[head : len(text) if tail < 0 else tail].rstrip()
    carets = max(1, min(span.end + 1, head + len(line)) - start)
    # Tabs stay tabs, so that the carets stand where they should however wide a tab is shown.
    indent = "".join("\t" if char == "\t" else " " for char in text[head:start])
    number = text.count("\n", 0, start) + 1
    return f"line {number}, column {start - head + 1}\n  {line}\n  {indent}{'^' * carets}"


class WeftError(Exception):
    """Root of all errors raised by Weft on purpose."""

    def __init__(
        self, message: str, *, detail: str | None = None, hint: str | None = None, span: Span | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint
        self.is_placed = False
        """Whether it points at a place in a text."""
        self.anchor = _find_place()
        """Where the page of errors in the documentation speaks of it."""
        self.place(span)

    def place(self, span: Span | None) -> None:
        """Point at a place, if it is one and the error points nowhere yet."""
        if span is not None and span.text and not self.is_placed:
            self.detail = "\n".join(part for part in (point(span), self.detail) if part)
            self.is_placed = True

    def __str__(self) -> str:
        lines = [self.message]
        if self.detail:
            lines.append(f"detail: {self.detail}")
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self).__name__, self.message, self.detail, self.hint, self.anchor))

    def restate(self, *, detail: str | None, hint: str | None) -> Self:
        """The same error with another detail and hint, and the same place in the documentation."""
        made = type(self)(self.message, detail=detail, hint=hint)
        made.anchor, made.is_placed = self.anchor, self.is_placed
        return made


@contextmanager
def placed(span: Span | None) -> Iterator[None]:
    """Errors that have no place of their own get this one: contexts are nested, and the innermost one counts."""
    try:
        yield
    except WeftError as error:
        error.place(span)
        raise


def not_too_deep(read: Callable[P, T]) -> Callable[P, T]:
    """A function that reads or plans what people write, which may be nested deeper than Python can follow."""

    @wraps(read)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        except RecursionError:
            raise QueryError(
                "the query is nested too deeply",
                detail="parentheses, CASE, operators or derived tables stand inside of each other too many times.",
                hint="name parts of it as derived tables or views; write many alternatives as IN (...) or as a table.",
            ) from None

    return guarded


class ParseError(WeftError):
    """SQL text that Weft does not accept."""


class QueryError(WeftError):
    """A query or a stream that has no meaning: unknown names, wrong types, bad windows."""


class PlanError(WeftError):
    """A query that cannot be planned as asked."""


class SourceError(WeftError):
    """Input that cannot be read as declared."""


class SinkError(WeftError):
    """Output that cannot be written where asked."""


class StateError(WeftError):
    """A checkpoint that is damaged, or that belongs to other queries."""


class HostError(WeftError):
    """The run itself failed: Spark, Java or a worker."""


class InternalError(WeftError):
    """An invariant of Weft is broken."""

    def __init__(
        self, message: str, *, detail: str | None = None, hint: str | None = None, span: Span | None = None
    ) -> None:
        hint = hint or "this is a bug in Weft; please report it with the plan that explain() prints."
        super().__init__(message, detail=detail, hint=hint, span=span)


_LEAVES: dict[str, type[WeftError]] = {
    leaf.__name__: leaf
    for leaf in (
        WeftError,
        ParseError,
        QueryError,
        PlanError,
        SourceError,
        SinkError,
        StateError,
        HostError,
        InternalError,
    )
}

_OPEN, _CLOSE = "<<weft-error ", " weft-error>>"


def _rebuild(name: str, message: str, detail: str | None, hint: str | None, anchor: str = "") -> WeftError:
    made = _LEAVES.get(name, WeftError)(message, detail=detail, hint=hint)
    made.anchor = anchor
    return made


def name_place(module: str, function: str) -> str:
    """The name of a place that makes errors.

    >>> name_place("weft.session.catalog", "check_name")
    'session-catalog-check-name'
    """
    return f"{module.removeprefix('weft.')}.{function}".replace(".", "-").replace("_", "-").strip("-").lower()


def _find_place() -> str:
    """The function that makes an error: the first one outside of this module."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__") == __name__ and frame.f_back is not None:
        frame = frame.f_back
    return name_place(str(frame.f_globals.get("__name__", "")), frame.f_code.co_name)


def first_line(error: BaseException) -> str:
    """The first line of an exception's text that is not empty."""
    return next((line for line in str(error).splitlines() if line.strip()), "")


def own_traceback(error: BaseException) -> str:
    """The traceback of an error in a user's function: the last frames, once, without those of the caller."""
    trace = error.__traceback__.tb_next if error.__traceback__ is not None else None
    lines = traceback.format_exception(type(error), error, trace, limit=-3, chain=False)
    return "".join(lines).rstrip()


def to_wire(error: WeftError) -> str:
    """The error as one line that can be found again inside the traceback of another process."""
    text = json.dumps([type(error).__name__, error.message, error.detail, error.hint, error.anchor])
    return f"{_OPEN}{text.encode().hex()}{_CLOSE}"


def from_wire(text: str) -> WeftError | None:
    """The innermost error written by :func:`to_wire` anywhere in `text`, if there is one."""
    start = text.find(_OPEN)
    end = text.find(_CLOSE, start)
    if start < 0 or end < 0:
        return None
    return _rebuild(*json.loads(bytes.fromhex(text[start + len(_OPEN) : end])))
