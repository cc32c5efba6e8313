"""Kernels of dates and times.

Dates are days, timestamps and durations microseconds; zoned timestamps are read in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.casts import Datum
from weft.expr.logic import Kernel

TRUNC_UNITS = {
    "microseconds": "microsecond",
    "milliseconds": "millisecond",
    "second": "second",
    "minute": "minute",
    "hour": "hour",
    "day": "day",
    "week": "week",
    "month": "month",
    "quarter": "quarter",
    "year": "year",
}
"""What date_trunc cuts to, and Arrow's names for it."""


def extract(part: Callable[[Datum], Datum]) -> Kernel:
    """The kernel of year, month, day, hour, minute or second."""
    return lambda args, kind: pc.cast(part(args[0]), kind)


def date_trunc(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """The timestamp cut down to a constant unit; weeks start on Monday."""
    unit = TRUNC_UNITS[args[0].as_py()]
    return pc.cast(pc.floor_temporal(args[1], unit=unit), kind)


def add_time(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """A timestamp and a duration, in either order, or two durations."""
    return _through_int64(pc.add_checked, args, kind)


def subtract_time(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """Timestamp - timestamp, timestamp - duration, duration - duration."""
    return _through_int64(pc.subtract_checked, args, kind)


def add_days(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    """A date and a number of days, in either order."""
    return _to_date(pc.add_checked(*(_days(arg) for arg in args)))


def subtract_days(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    """A date some days earlier."""
    return _to_date(pc.subtract_checked(*(_days(arg) for arg in args)))


def days_between(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    """Date - date as a number of days."""
    return pc.subtract_checked(*(_days(arg) for arg in args))


def negate_time(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """The negated duration."""
    return pc.cast(pc.negate_checked(pc.cast(args[0], pa.int64())), kind)


def _through_int64(function: Callable[..., Datum], args: Sequence[Datum], kind: pa.DataType) -> Datum:
    return pc.cast(function(*(pc.cast(arg, pa.int64()) for arg in args)), kind)


def _days(value: Datum) -> Datum:
    return pc.cast(pc.cast(value, pa.int32()), pa.int64())


def _to_date(days: Datum) -> Datum:
    return pc.cast(pc.cast(days, pa.int32()), pa.date32())
