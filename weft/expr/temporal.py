"""Kernels of arithmetic with dates and times.

Dates are days, timestamps and durations microseconds; zoned timestamps are read in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.casts import Datum


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
