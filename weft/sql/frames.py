"""The frame of a window function: which rows of its group a row looks at.

    ROWS | RANGE | GROUPS  [BETWEEN] bound [AND bound]
    bound: UNBOUNDED PRECEDING | n PRECEDING | CURRENT ROW | n FOLLOWING | UNBOUNDED FOLLOWING

n is a number of rows, with GROUPS of groups of rows at the same place, or, with RANGE, how far the key of the order
may differ: a whole number, or an INTERVAL.
Without one it goes from the first row to the last at the same place, or over the whole group if there is no order.
"""

from __future__ import annotations

from datetime import timedelta

from weft.query.overs import Bound, Frame
from weft.sql.cursor import Cursor
from weft.sql.interval import interval_literal

_FORM = "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW."


def read_frame(cursor: Cursor, *, is_ordered: bool) -> Frame:
    """Read a frame, or nothing."""
    start = cursor.at
    if not cursor.sees_any("ROWS", "RANGE", "GROUPS"):
        frame = Frame("range" if is_ordered else "all")
    else:
        unit = cursor.next().upper
        if cursor.accept("BETWEEN"):
            low = _bound(cursor)
            cursor.expect("AND", _FORM)
            high = _bound(cursor)
        else:
            low, high = _bound(cursor), 0
        frame = _frame(cursor, start, unit, low, high, is_ordered=is_ordered)
    if cursor.sees("EXCLUDE"):
        raise cursor.fail(cursor.token.span, "EXCLUDE is not supported", hint="leave it out.")
    return frame


def _frame(cursor: Cursor, start: int, unit: str, low: Bound, high: Bound, *, is_ordered: bool) -> Frame:
    span = cursor.span_from(start)
    if low is None and high is None:
        return Frame("all")
    if unit != "RANGE" and any(isinstance(bound, timedelta) for bound in (low, high)):
        raise cursor.fail(span, f"{unit} are counted", hint="write RANGE for a frame by time.")
    if unit != "ROWS" and not is_ordered:
        if low or high:
            raise cursor.fail(span, f"a frame of {unit} needs an order", hint="write ORDER BY one key before it.")
        return Frame("all")
    return Frame(unit.lower(), low, high)


def _bound(cursor: Cursor) -> Bound:
    """How much further on; None is the end of the group."""
    if cursor.accept("CURRENT", "ROW"):
        return 0
    if cursor.accept("UNBOUNDED"):
        if not cursor.accept("PRECEDING") and not cursor.accept("FOLLOWING"):
            raise cursor.unexpected("PRECEDING or FOLLOWING is missing", _FORM)
        return None
    far = _far(cursor)
    if cursor.accept("PRECEDING"):
        return -far
    cursor.expect("FOLLOWING", _FORM)
    return far


def _far(cursor: Cursor) -> int | timedelta:
    if cursor.sees("INTERVAL"):
        length = interval_literal(cursor)
        if isinstance(length.value, timedelta) and length.value >= timedelta(0):
            return length.value
        hint = "write days, hours or smaller units, and no sign."
        raise cursor.fail(length.span or cursor.token.span, "a frame cannot be as long as that", hint=hint)
    if not cursor.token.text.isdecimal():
        raise cursor.unexpected("a frame takes a whole number or an INTERVAL", _FORM)
    return int(cursor.next().text)
