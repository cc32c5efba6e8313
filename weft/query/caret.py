"""Pointing at a place in a SQL text."""

from __future__ import annotations

from weft.expr.model import Span


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
