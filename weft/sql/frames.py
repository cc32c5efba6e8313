"""The frame of a window function: which rows of its group a row looks at.

    ROWS | RANGE  [BETWEEN] bound [AND bound]
    bound: UNBOUNDED PRECEDING | n PRECEDING | CURRENT ROW | n FOLLOWING | UNBOUNDED FOLLOWING

Without one it goes from the first row to the last at the same place, or over the whole group if there is no order.
"""

from __future__ import annotations

from weft.query.overs import LAST, Frame
from weft.sql.cursor import Cursor

_FORM = "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW."
_WHOLE = "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW."


def read_frame(cursor: Cursor, name: str, *, is_ordered: bool) -> Frame:
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
    if name in LAST and frame.unit != "all":
        hint = "write ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING."
        raise cursor.fail(cursor.token.span, f"{name.upper()} needs all rows of the group", hint=hint)
    return frame


def _frame(cursor: Cursor, start: int, unit: str, low: int | None, high: int | None, *, is_ordered: bool) -> Frame:
    span = cursor.span_from(start)
    if low is None and high is None:
        return Frame("all")
    if unit == "ROWS":
        if (low or 0) > 0 or (high if high is not None else 0) < 0:
            raise cursor.fail(span, "the frame of a row must hold the row itself", hint=_FORM)
        return Frame("rows", low, high)
    if unit == "RANGE" and low is None and high == 0:
        return Frame("range" if is_ordered else "all")
    raise cursor.fail(span, f"this frame of {unit} is not supported", hint=f"write {_WHOLE[:-1]}, or ROWS.")


def _bound(cursor: Cursor) -> int | None:
    """How many rows further on; None is the end of the group."""
    if cursor.accept("CURRENT", "ROW"):
        return 0
    if cursor.accept("UNBOUNDED"):
        if not cursor.accept("PRECEDING") and not cursor.accept("FOLLOWING"):
            raise cursor.unexpected("PRECEDING or FOLLOWING is missing", _FORM)
        return None
    if not cursor.token.text.isdecimal():
        raise cursor.unexpected("a frame takes a whole number of rows", _FORM)
    count = int(cursor.next().text)
    if cursor.accept("PRECEDING"):
        return -count
    cursor.expect("FOLLOWING", _FORM)
    return count
