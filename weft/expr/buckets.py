"""time_bucket: the beginning of the stretch of time in which a time lies.

    time_bucket(INTERVAL '10' MINUTE, ts [, origin])

Stretches follow each other from an origin on, in both directions.  Where none is given it is a Monday, 2000-01-03.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from weft.errors import QueryError
from weft.expr.casts import Datum
from weft.expr.coerce import cast_to
from weft.expr.model import Call, Expr, Literal
from weft.expr.types import DURATION, TIMESTAMP, sql_name

_MONDAY = dt.datetime(2000, 1, 3)  # noqa: DTZ001 - a plain time; of a zoned one it is UTC


def rule(call: Call) -> Call:
    """A constant length, a time, and perhaps a constant origin; of a date the result is a date."""
    length, time, *origin = call.args
    given = length.value if isinstance(length, Literal) else None
    if not isinstance(given, dt.timedelta) or given <= dt.timedelta():
        hint = "write a constant such as INTERVAL '10' MINUTE; for months and years use date_trunc."
        raise QueryError("time_bucket needs a length of days or less", hint=hint, span=length.span or call.span)
    if not (pt.is_timestamp(time.type) or pt.is_date(time.type) or pt.is_null(time.type)):
        raise QueryError(
            f'"time_bucket" needs a date or timestamp, not a {sql_name(time.type)}',
            hint="CAST it AS TIMESTAMP.",
            span=time.span or call.span,
        )
    moment = time if pt.is_timestamp(time.type) else cast_to(time, TIMESTAMP)
    start = _origin(origin[0], call) if origin else _MONDAY
    made = replace(call, args=(cast_to(length, DURATION), moment, Literal(start, TIMESTAMP)), type=moment.type)
    return Call("cast", (made,), time.type, call.span) if pt.is_date(time.type) else made


def _origin(given: Expr, call: Call) -> dt.datetime:
    if not isinstance(given, Literal) or not isinstance(given.value, dt.datetime):
        hint = "write a constant such as TIMESTAMP '2024-01-01 00:00:00'."
        raise QueryError("the origin of time_bucket must be a constant time", hint=hint, span=given.span or call.span)
    zoned = given.value.tzinfo is not None
    return given.value.astimezone(dt.UTC).replace(tzinfo=None) if zoned else given.value


def kernel(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """Whole-number arithmetic on microseconds."""
    length, times, start = (pc.cast(arg, pa.int64()) for arg in args)
    past = pc.subtract_checked(times, start)
    rest = pc.subtract(past, pc.multiply(pc.divide(past, length), length))
    rest = pc.if_else(pc.less(rest, 0), pc.add(rest, length), rest)
    return pc.cast(pc.subtract_checked(times, rest), kind)
