"""What stands behind OVER: a window, written there or in the WINDOW clause.

    OVER name | OVER ([name] [PARTITION BY expression, ...] [ORDER BY key, ...] [frame])
    SELECT ... [HAVING ...] WINDOW name AS (...), ... [QUALIFY ...] [ORDER BY ...]

The clause stands behind the calls that use it.  So it is looked up when its SELECT begins, and a window is read anew
for each call.  A window may begin with the name of one before it, and adds what that one lacks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from weft.expr.model import Expr, Literal
from weft.query.overcall import SortKey
from weft.query.overs import Frame
from weft.sql.cursor import Cursor
from weft.sql.frames import read_frame

Read = Callable[[Cursor], Expr]
Order = Callable[[Cursor, Read], tuple[SortKey, ...]]

FORM = "OVER (PARTITION BY key ORDER BY value DESC)."
_CLAUSE = "write WINDOW name AS (PARTITION BY key ORDER BY value) behind WHERE, GROUP BY and HAVING."


@dataclass(frozen=True, slots=True)
class Window:
    """The rows among which a call looks, and their order."""

    by: tuple[Expr, ...]
    order: tuple[SortKey, ...]
    frame: Frame
    has_frame: bool
    """Whether the frame is written."""


def find_windows(cursor: Cursor) -> dict[str, int]:
    """The windows that the SELECT which begins here names, and at which token each of them is written."""
    found: dict[str, int] = {}
    depth, inside = 0, False
    for at in range(cursor.at, len(cursor.tokens) - 2):
        word = cursor.tokens[at].upper
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth < 0 or word == ";":
            break
        inside = inside or (depth == 0 and word == "WINDOW")
        if inside and depth == 0 and cursor.tokens[at + 1].upper == "AS" and cursor.tokens[at + 2].upper == "(":
            found.setdefault(cursor.tokens[at].text.lower(), at + 2)
    return found


def read_windows(cursor: Cursor, read: Read, order: Order) -> None:
    """Read the WINDOW clause, or nothing; each window must make sense, used or not."""
    if not cursor.accept("WINDOW"):
        return
    while True:
        cursor.name("the name of a window")
        if not cursor.accept("AS"):
            raise cursor.unexpected("AS is missing", _CLAUSE)
        _definition(cursor, read, order)
        if not cursor.accept(","):
            return


def read_window(cursor: Cursor, read: Read, order: Order) -> Window:
    """Read what stands behind OVER."""
    return _named(cursor, read, order) if cursor.is_name() else _parenthesised(cursor, read, order)


def _parenthesised(cursor: Cursor, read: Read, order: Order) -> Window:
    cursor.expect("(", FORM)
    base = _base(cursor, read, order)
    by, keys = base.by if base else (), base.order if base else ()
    if base and cursor.sees("PARTITION", "BY"):
        raise cursor.fail(cursor.token.span, "a named window has its own PARTITION BY", hint="leave the name out.")
    if cursor.accept("PARTITION", "BY"):
        by = _expressions(cursor, read)
    if keys and cursor.sees("ORDER", "BY"):
        raise cursor.fail(cursor.token.span, "the named window has an ORDER BY", hint="leave one of both out.")
    if cursor.accept("ORDER", "BY"):
        keys = order(cursor, read)
    has_frame = cursor.sees_any("ROWS", "RANGE", "GROUPS")
    start = cursor.at
    frame = read_frame(cursor, is_ordered=bool(keys))
    if frame.is_by_value and len(keys) > 1:
        hint = "order by one key, or write ROWS."
        raise cursor.fail(cursor.span_from(start), "this RANGE needs an order by one key", hint=hint)
    cursor.expect(")", FORM)
    return Window(by, keys, frame, has_frame)


def _base(cursor: Cursor, read: Read, order: Order) -> Window | None:
    """The window whose name a window begins with, if it does."""
    if not cursor.is_name() or cursor.sees("PARTITION", "BY") or cursor.sees_any("ROWS", "RANGE", "GROUPS"):
        return None
    start = cursor.at
    base = _named(cursor, read, order)
    if base.has_frame:
        span, name = cursor.span_from(start), cursor.tokens[start].text
        raise cursor.fail(span, f'the window "{name}" has a frame', hint="write OVER name without parentheses.")
    return base


def _named(cursor: Cursor, read: Read, order: Order) -> Window:
    """A window by its name: one behind this call, or, in another window, one before it."""
    token = cursor.next()
    at = cursor.windows.get(token.text.lower())
    if at is None:
        names = ", ".join(cursor.windows)
        detail = f"windows are: {names}." if names else ""
        raise cursor.fail(token.span, f'there is no window "{token.text}" here', detail=detail, hint=_CLAUSE)
    back, cursor.at = cursor.at, at
    window = _definition(cursor, read, order)
    cursor.at = back
    return window


def _definition(cursor: Cursor, read: Read, order: Order) -> Window:
    """A window of the WINDOW clause; it knows those before it."""
    windows, at = cursor.windows, cursor.at
    cursor.windows = {name: place for name, place in windows.items() if place < at}
    window = _parenthesised(cursor, read, order)
    cursor.windows = windows
    return window


def _expressions(cursor: Cursor, read: Read) -> tuple[Expr, ...]:
    found = [read(cursor)]
    while cursor.accept(","):
        found.append(read(cursor))
    return tuple(key for key in found if not isinstance(key, Literal))  # a constant parts nothing
