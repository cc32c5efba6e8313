"""Windows of time in FROM: TUMBLE, HOP and CUMULATE, which add the window to every row.

    TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTE))     as Flink writes it
    tumble(bids, ts, INTERVAL '10' MINUTE)                              as RisingWave writes it

Both are a derived table: SELECT *, time_bucket(...) AS window_start, ... AS window_end FROM bids.  A row of HOP and of
CUMULATE lies in several windows: there it is one SELECT for each of them, joined by UNION ALL.

What must hold: windows begin at multiples of their length since 1970, and hold their start but not their end; a row
without time lies in none.  So joins and groups over them are joins and groups over columns, and nothing else.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from weft.errors import Span
from weft.expr.model import Call, Column, Expr, Literal, Udf
from weft.expr.types import DURATION, TIMESTAMP
from weft.query.draft import Condition, Draft, Item, Source, Star
from weft.sql.cursor import Cursor
from weft.sql.interval import interval_literal

WINDOWS = {"TUMBLE": 1, "HOP": 2, "CUMULATE": 2}
"""Name -> how many lengths it takes, before an offset."""
_MOST = 256
"""A row lies in at most so many windows."""
_FORMS = {
    "TUMBLE": "TUMBLE(stream, time, length)",
    "HOP": "HOP(stream, time, slide, length)",
    "CUMULATE": "CUMULATE(stream, time, step, length)",
}
_MICROSECOND = dt.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Windowed:
    """A stream with a window for each of its rows."""

    stream: str
    draft: Draft


@dataclass(frozen=True, slots=True)
class _Lengths:
    step: dt.timedelta
    size: dt.timedelta
    offset: dt.timedelta


def sees_windows(cursor: Cursor) -> bool:
    """Whether one of the three functions comes next, bare or in TABLE(...)."""
    ahead = 2 if cursor.sees("TABLE", "(") else 0
    return cursor.peek(ahead).upper in (*WINDOWS, "SESSION") and cursor.peek(ahead + 1).upper == "("


def read_windows(cursor: Cursor) -> Windowed:
    """Read TABLE(TUMBLE(...)) or TUMBLE(...)."""
    start, wrapped = cursor.at, cursor.accept("TABLE", "(")
    name = cursor.next().upper
    cursor.next()
    if name == "SESSION":
        hint = "use TUMBLE, HOP or CUMULATE."
        raise cursor.fail(cursor.span_from(start), "windows of sessions are not supported", hint=hint)
    source = _stream(cursor, name)
    cursor.expect(",", f"{_FORMS[name]}.")
    time = _time(cursor, name)
    lengths = _lengths(cursor, name, start)
    cursor.expect(")", f"{_FORMS[name]}.")
    if wrapped:
        cursor.expect(")", f"TABLE({_FORMS[name]}).")
    ranges = _ranges(name, time, lengths)
    if len(ranges) > _MOST:
        detail = f"a row would lie in {len(ranges)} windows, and {_MOST} are the most."
        raise cursor.fail(cursor.span_from(start), "there are too many windows", detail=detail, hint="make them fewer.")
    first, *rest = (_select(cursor, source, time, one, wrapped) for one in ranges)
    return Windowed(
        source.stream, Draft(first.sources, first.conditions, first.items, None, cursor.text, unions=(*rest,))
    )


def _named(cursor: Cursor) -> None:
    """Read `name =>` before an argument, if it is there."""
    if cursor.token.kind == "word" and cursor.peek().upper == "=>":
        cursor.next(), cursor.next()


def _stream(cursor: Cursor, name: str) -> Source:
    _named(cursor)
    inside = cursor.accept("(")
    cursor.accept("TABLE")
    start = cursor.at
    found = cursor.name("the name of a stream")
    if inside:
        cursor.expect(")", f"{_FORMS[name]}.")
    return Source(found.text, found.text, None, cursor.span_from(start))


def _time(cursor: Cursor, name: str) -> Column:
    _named(cursor)
    inside = cursor.accept("DESCRIPTOR", "(")
    found = cursor.name("the column with the time")
    if cursor.accept("."):
        found = cursor.name("the column with the time")
    if inside:
        cursor.expect(")", f"{_FORMS[name]}.")
    return Column("", found.text, None, found.span)


def _lengths(cursor: Cursor, name: str, start: int) -> _Lengths:
    found: list[dt.timedelta] = []
    while cursor.accept(","):
        _named(cursor)
        if not cursor.sees("INTERVAL"):
            raise cursor.unexpected("INTERVAL is missing", f"{_FORMS[name]}, as in INTERVAL '10' MINUTE.")
        literal = interval_literal(cursor)
        if not isinstance(literal.value, dt.timedelta):
            hint = "write it in days, such as INTERVAL '30' DAY."
            raise cursor.fail(_place(literal, cursor, start), "months and years have no fixed length", hint=hint)
        found.append(literal.value)
    most = WINDOWS[name] + 1
    if not WINDOWS[name] <= len(found) <= most or any(length <= dt.timedelta() for length in found[: most - 1]):
        raise cursor.fail(cursor.span_from(start), f"the lengths of {name} are wrong", hint=f"{_FORMS[name]}.")
    size = found[WINDOWS[name] - 1]
    if name == "CUMULATE" and size % found[0]:
        hint = "the length must be a multiple of the step."
        raise cursor.fail(cursor.span_from(start), "the last window is cut short", hint=hint)
    return _Lengths(found[0], size, found[-1] if len(found) == most else dt.timedelta())


def _place(literal: Literal, cursor: Cursor, start: int) -> Span:
    return literal.span or cursor.span_from(start)


@dataclass(frozen=True, slots=True)
class _Range:
    """Where a window begins and ends for a row, and what else must hold for the row to lie in it."""

    start: Expr
    end: Expr
    holds: tuple[Expr, ...] = ()


def _ranges(name: str, time: Column, lengths: _Lengths) -> list[_Range]:
    if name == "CUMULATE":
        start = _bucket(lengths.size, time, lengths.offset)
        ends = [_later(start, lengths.step * i) for i in range(1, lengths.size // lengths.step + 1)]
        return [_Range(start, end, (Call("<", (time, end), None, time.span),)) for end in ends]
    last = _bucket(lengths.step, time, lengths.offset)
    starts = [_later(last, -lengths.step * i) for i in range(-(-lengths.size // lengths.step))]
    found = [_Range(start, _later(start, lengths.size)) for start in starts]
    if lengths.size % lengths.step:
        found = [_Range(one.start, one.end, (Call("<", (time, one.end), None, time.span),)) for one in found]
    return found


def _bucket(length: dt.timedelta, time: Column, offset: dt.timedelta) -> Expr:
    origin = Literal(dt.datetime(1970, 1, 1) + offset, TIMESTAMP)  # noqa: DTZ001 - a plain time, as TIMESTAMP is
    return Udf("time_bucket", (Literal(length, DURATION), time, origin), None, time.span)


def _later(time: Expr, by: dt.timedelta) -> Expr:
    return Call("+", (time, Literal(by, DURATION)), None, time.span) if by else time


def _select(cursor: Cursor, source: Source, time: Column, one: _Range, wrapped: bool) -> Draft:
    """SELECT *, window_start, window_end FROM stream; in Flink's spelling the last moment of the window too."""
    shown = [("window_start", one.start), ("window_end", one.end)]
    shown += [("window_time", _later(one.end, -1000 * _MICROSECOND))] if wrapped else []
    known: Expr = Call("not", (Call("is_null", (time,), None, time.span),), None, time.span)
    items = (Item(Star(), None, cursor.text), *(Item(value, name, cursor.text) for name, value in shown))
    conditions = tuple(Condition(test, cursor.text) for test in (known, *one.holds))
    return Draft((source,), conditions, items, None, cursor.text)
