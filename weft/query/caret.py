"""Pointing at a place in a SQL text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft.errors import QueryError
from weft.expr.model import Span
from weft.expr.types import ExprError


def point(text: str, span: Span) -> str:
    """The line of `text` where `span` begins, with carets under it.

    >>> print(point("SELECT a\\nFROM orders LIMIT 5", Span(21, 25)))
    line 2, column 13
      FROM orders LIMIT 5
                  ^^^^^
    """
    start = min(span.start, len(text))
    head = text.rfind("\n", 0, start) + 1
    tail = text.find("\n", start)
    line = text[head : len(text) if tail < 0 else tail].rstrip()
    carets = max(1, min(span.end + 1, head + len(line)) - start)
    # Tabs stay tabs, so that the carets stand where they should however wide a tab is shown.
    indent = "".join("\t" if char == "\t" else " " for char in text[head:start])
    number = text.count("\n", 0, start) + 1
    return f"line {number}, column {start - head + 1}\n  {line}\n  {indent}{'^' * carets}"


def locate_error(
    message: str, text: str, span: Span | None, *, detail: str | None = None, hint: str | None = None
) -> QueryError:
    """A QueryError that points at `span` of `text`, if both are given."""
    where = point(text, span) if text and span else None
    return QueryError(message, detail="\n".join(part for part in (where, detail) if part) or None, hint=hint)


@contextmanager
def pointing_into(text: str) -> Iterator[None]:
    """Errors about expressions point into `text` where they know their place in it."""
    try:
        yield
    except ExprError as error:
        raise locate_error(error.message, text, error.span, detail=error.detail, hint=error.hint) from None
