"""Windows of event time: GROUP BY window(time, length[, slide]), window.start and window.end.

A row belongs to every window [start, start + length) that holds its time; starts are multiples of `slide` since 1970.
The key in the join's output is the time itself, as a timestamp in microseconds; the finished key is the start.  Both
are without zone; where the event time has one, window.start and window.end have it too.
"""

from __future__ import annotations

import datetime as dt

from pyarrow import types as pt

from weft.errors import QueryError, Span
from weft.expr.coerce import cast_to
from weft.expr.model import Call, Column, Expr, Literal, Udf, columns
from weft.expr.types import DURATION, MONTHS, TIMESTAMP, TIMESTAMP_UTC
from weft.expr.typing import add_types
from weft.query.duration import UNITS, format_duration, parse_duration
from weft.query.grouping import TimeWindow
from weft.query.model import Query, Stream

_STEPS = {"s": "second", "ms": "millisecond", "us": "microsecond"}
_HOW = "write window(time, '10 minutes') or window(time, '10 minutes', '5 minutes')."

_LONGEST = 100_000 * 365 * 86_400 * 1_000_000
"""Microseconds: added to any time of the calendar this stays within 64 bits."""


def read_window(call: Expr, query: Query) -> tuple[Expr, int, int]:
    """The time that a window is made of, its length and its slide."""
    assert isinstance(call, Udf)
    if len(call.args) not in (2, 3):
        raise QueryError(f"window takes 2 or 3 arguments, not {len(call.args)}", hint=_HOW, span=call.span)
    time = _time(call.args[0], query)
    length, slide = _length(call.args[1]), _length(call.args[-1])
    if length > _LONGEST:
        raise QueryError(
            f"a window of {format_duration(length)} is too long",
            detail="ends of windows are 64-bit numbers of microseconds.",
            hint="leave the window out of GROUP BY: the group then holds all times.",
            span=call.args[1].span,
        )
    if slide > length:
        raise QueryError(
            "the slide of a window is longer than the window",
            detail=f"rows would fall between windows of {format_duration(length)} every {format_duration(slide)}.",
            hint="make the slide at most as long as the window.",
            span=call.args[-1].span,
        )
    return time, length, slide


def _time(written: Expr, query: Query) -> Expr:
    if isinstance(written, Column) and written.alias in query.aliases:
        stream = query.relation(written.alias).stream
        if stream.event_time == written.name:
            return _as_timestamp(written, stream)
    if any(r.stream.made for r in query.relations):
        raise QueryError(
            "a window cannot be over an outer join, a subquery or a derived table that is no plain join",
            detail="their rows come later than their event time, or are taken back.",
            hint="group by an expression of the time: date_trunc('hour', a.ts).",
            span=written.span,
        )
    times = [f"{r.alias}.{r.stream.event_time}" for r in query.relations if r.stream.event_time is not None]
    raise QueryError(
        "window needs the event time of a stream",
        detail=f"event times here are: {', '.join(times)}." if times else "no stream of the query has an event time.",
        hint=f"write window({times[0]}, ...)." if times else 'declare it: s.stream("name", source, event_time="...").',
        span=written.span,
    )


def _as_timestamp(time: Column, stream: Stream) -> Expr:
    if not pt.is_integer(time.type):
        return cast_to(time, TIMESTAMP)
    step = Literal(dt.timedelta(microseconds=UNITS[_STEPS[stream.unit]]), DURATION)
    epoch = Literal(dt.datetime(1970, 1, 1), TIMESTAMP)  # noqa: DTZ001 - SQL's TIMESTAMP has no zone
    return add_types(Call("+", (epoch, Call("*", (time, step), None, time.span)), None, time.span))


def _length(written: Expr) -> int:
    value = written.value if isinstance(written, Literal) else None
    if written.type == MONTHS:
        hint = "write it in days, such as '30 days'."
        raise QueryError("an interval of months or years has no fixed length", hint=hint, span=written.span)
    if not isinstance(value, str | dt.timedelta):
        raise QueryError("the length of a window is a constant", hint=_HOW, span=written.span)
    try:
        length = parse_duration(value)
    except QueryError as error:
        raise QueryError(error.message, detail=error.detail, hint=error.hint, span=written.span) from None
    if length <= 0:
        raise QueryError("a window must be longer than 0", hint=_HOW, span=written.span)
    return length


def bound_of(window: TimeWindow, part: str, time: Expr, span: Span | None = None) -> Expr:
    """window.start or window.end over the finished columns of a group; `time` is the key in the join's output."""
    bound: Expr = Column("", window.key, TIMESTAMP, span)
    if part == "end":
        length = Literal(dt.timedelta(microseconds=window.length), DURATION)
        bound = add_types(Call("+", (bound, length), None, span))
    has_zone = any(column.type == TIMESTAMP_UTC for column in columns(time))
    return cast_to(bound, TIMESTAMP_UTC) if has_zone else bound
