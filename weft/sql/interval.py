"""INTERVAL constants and the lengths of WITHIN.

Days and smaller units are exact and become durations.  Months and years have no fixed length: they are kept as they
are, and can only be added to a date or a timestamp.
"""

from __future__ import annotations

import datetime as dt
import re

import pyarrow as pa

from weft.errors import QueryError
from weft.expr.model import Literal
from weft.expr.types import DURATION, MONTHS
from weft.query.draft import Within
from weft.query.duration import parse_duration, unit_size
from weft.sql.cursor import Cursor

_MONTHS = {"month": 1, "mon": 1, "quarter": 3, "year": 12}
_MONTH_PARTS = re.compile(r"\s*([+-]?\d+)\s*([A-Za-z]+)\s*")


def interval_literal(cursor: Cursor) -> Literal:
    """Read INTERVAL '10' MINUTE, INTERVAL 10 MINUTE or INTERVAL '10 minutes'."""
    start = cursor.at
    cursor.next()
    text = _interval_text(cursor)
    span = cursor.span_from(start)
    months, others = _split_months(text)
    try:
        rest = signed_duration(others) if others or months is None else 0
        if months is not None:
            return Literal(pa.MonthDayNano((months, 0, rest * 1000)), MONTHS, span)
        return Literal(dt.timedelta(microseconds=rest), DURATION, span)
    except OverflowError:
        raise cursor.fail(span, "the interval is too long", hint="leave WITHIN out to keep rows for ever.") from None
    except QueryError as problem:
        raise cursor.fail(span, problem.message, detail=problem.detail or "", hint=problem.hint) from None


def _interval_text(cursor: Cursor) -> str:
    sign = "-" if cursor.accept("-") else ""
    token = cursor.token
    if token.kind not in ("string", "number"):
        raise cursor.unexpected("the length of the interval is missing", "as in INTERVAL '10' MINUTE.")
    if token.kind == "number" and not token.text.isdigit():
        raise cursor.fail(token.span, "an interval counts whole units", hint="write 90 SECOND for 1.5 MINUTE.")
    amount = sign + cursor.next().text
    if cursor.token.kind == "word" and (_month_size(cursor.token.text) or unit_size(cursor.token.text)):
        unit = cursor.next().text
        if cursor.sees("TO"):
            raise cursor.fail(cursor.token.span, "intervals with TO are not supported", hint="give one unit.")
        if not re.fullmatch(r"\s*[+-]?[\d.]+\s*", amount):
            raise cursor.fail(
                token.span, f"{token.text!r} is not a number", hint="give the unit once, as in '10' MINUTE."
            )
        return f"{amount} {unit}"
    return amount


def _month_size(unit: str) -> int | None:
    return _MONTHS.get(unit.lower()) or _MONTHS.get(unit.lower().removesuffix("s"))


def _split_months(text: str) -> tuple[int | None, str]:
    """The months in it, None if there are none, and the rest."""
    found = [part for part in _MONTH_PARTS.finditer(text) if _month_size(part[2]) is not None]
    rest = _MONTH_PARTS.sub(lambda part: part[0] if _month_size(part[2]) is None else " ", text)
    return sum(int(part[1]) * (_month_size(part[2]) or 0) for part in found) if found else None, rest.strip()


def signed_duration(text: str) -> int:
    """A duration that may be negative."""
    stripped = text.strip()
    return -parse_duration(stripped[1:]) if stripped.startswith("-") else parse_duration(stripped.removeprefix("+"))


def window_length(cursor: Cursor) -> Within:
    """Read what stands after WITHIN."""
    if cursor.accept("UNBOUNDED"):
        return "unbounded"
    start = cursor.at
    if cursor.sees("INTERVAL"):
        literal = interval_literal(cursor)
        if literal.type == MONTHS:
            raise cursor.fail(
                cursor.span_from(start),
                "an interval of months or years has no fixed length",
                hint="write it in days, such as INTERVAL '30' DAY.",
            )
        assert isinstance(literal.value, dt.timedelta)
        length = literal.value // dt.timedelta(microseconds=1)
    else:
        length = _bare_length(cursor)
    if length <= 0:
        raise cursor.fail(
            cursor.span_from(start), "a window must be longer than 0", hint="write a length such as '10 minutes'."
        )
    return length


def _bare_length(cursor: Cursor) -> int:
    start = cursor.at
    if cursor.token.kind not in ("string", "number"):
        raise cursor.unexpected("the length of the window is missing", "as in WITHIN INTERVAL '10' MINUTE.")
    text = _interval_text(cursor)
    try:
        return signed_duration(text)
    except QueryError as problem:
        raise cursor.fail(
            cursor.span_from(start), problem.message, detail=problem.detail or "", hint=problem.hint
        ) from None
