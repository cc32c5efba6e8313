"""Kernels of the calendar: parts of a time, times cut to a unit, differences in units, months added.

Times are timestamps in microseconds, zoned ones in UTC.  A year, a month or a week is counted as a whole number, so
that all of this is integer arithmetic on arrays: a difference in units is the difference of two such numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from weft.expr.casts import Datum
from weft.expr.logic import Kernel

Ints = npt.NDArray[np.int64]

_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_LENGTHS = {
    "microsecond": 1, "millisecond": 1000, "second": _SECOND, "minute": 60 * _SECOND, "hour": 3600 * _SECOND,
    "day": _DAY,
}  # fmt: skip
_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200, "millennium": 12000}
_SPOKEN = {
    "us": "microsecond", "usec": "microsecond", "ms": "millisecond", "msec": "millisecond", "s": "second",
    "sec": "second", "m": "minute", "min": "minute", "h": "hour", "hr": "hour", "d": "day", "w": "week", "mon": "month",
    "y": "year", "yr": "year", "centuries": "century", "millennia": "millennium", "millenium": "millennium",
    "dow": "dayofweek", "weekday": "dayofweek", "doy": "dayofyear", "weekofyear": "week", "dayofmonth": "day",
}  # fmt: skip
UNITS = (*_LENGTHS, "week", *_MONTHS, "isoyear")
"""What a time can be cut to, and what differences are counted in."""


def unit_of(word: str) -> str:
    """A unit or part under its one name; other words come back as they are."""
    word = word.lower()
    word = _SPOKEN.get(word, word)
    single = word.removesuffix("s")
    return word if word in PARTS else _SPOKEN.get(single, single)


def part(name: str) -> Kernel:
    """The kernel of one part of a time."""

    def kernel(args: Sequence[Datum], kind: pa.DataType) -> Datum:
        return _keep_nulls(args[0], PARTS[name], kind)

    return kernel


def _whole_part(function: Callable[[Datum], Datum]) -> Callable[[pa.Array], Any]:
    return lambda times: pc.cast(function(times), pa.int64()).to_numpy(zero_copy_only=False)


def _years(times: pa.Array) -> Ints:
    found: Ints = pc.year(times).to_numpy(zero_copy_only=False)
    return found


def _within(times: pa.Array, unit: str, of: str) -> Ints:
    """How many units have passed of a larger one."""
    return np.mod(_micros(times), _LENGTHS[of]) // _LENGTHS[unit]


PARTS: dict[str, Callable[[pa.Array], Any]] = {
    "year": _years,
    "quarter": _whole_part(pc.quarter),
    "month": _whole_part(pc.month),
    "week": _whole_part(pc.iso_week),
    "day": _whole_part(pc.day),
    "hour": _whole_part(pc.hour),
    "minute": _whole_part(pc.minute),
    "second": _whole_part(pc.second),
    "millisecond": lambda times: _within(times, "millisecond", "minute"),
    "microsecond": lambda times: _within(times, "microsecond", "minute"),
    "dayofweek": lambda times: (_whole_part(pc.day_of_week)(times) + 1) % 7,
    "isodow": lambda times: _whole_part(pc.day_of_week)(times) + 1,
    "dayofyear": _whole_part(pc.day_of_year),
    "isoyear": _whole_part(pc.iso_year),
    "yearweek": lambda times: _whole_part(pc.iso_year)(times) * 100 + _whole_part(pc.iso_week)(times),
    "decade": lambda times: _years(times) // 10,
    "century": lambda times: (_years(times) - 1) // 100 + 1,
    "millennium": lambda times: (_years(times) - 1) // 1000 + 1,
    "epoch": lambda times: _micros(times) / _SECOND,
    "epoch_ms": lambda times: _nearest(_micros(times), 1000),
    "epoch_us": lambda times: _micros(times),
    "epoch_ns": lambda times: _scale(_micros(times), 1000),
}
"""Parts of a time, and the functions that give them."""


def date_trunc(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """The time cut down to a constant unit; weeks start on Monday."""
    unit = args[0].as_py()
    return _keep_nulls(args[1], lambda times: _starts(_number(times, unit), unit), kind)


def date_diff(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """How many beginnings of a constant unit lie between two times; weeks are seven days, wherever they begin."""
    unit = args[0].as_py()
    counted = "day" if unit == "week" else unit
    first, last = (_keep_nulls(arg, lambda times: _number(times, counted), kind) for arg in args[1:])
    found = pc.subtract(last, first)
    return pc.divide(found, 7) if unit == "week" else found


def add_months(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """The time some months later; a day that the month does not have becomes its last one."""
    months = args[1].as_py()

    def moved(times: pa.Array) -> Ints:
        number = _number(times, "month")
        days = pc.day(times).to_numpy(zero_copy_only=False)
        rest = _micros(times) - _starts(number, "month") - (days - 1) * _DAY
        start, end = (_starts(number + months + more, "month") for more in (0, 1))
        return start + (np.minimum(days, (end - start) // _DAY) - 1) * _DAY + rest

    return _keep_nulls(args[0], moved, kind)


def from_epoch(size: int) -> Kernel:
    """The kernel that makes a time of a number of units, each of `size` microseconds."""

    def kernel(args: Sequence[Datum], kind: pa.DataType) -> Datum:
        value = args[0]
        if pt.is_floating(value.type):
            value = pc.round(pc.multiply(value, float(size)), round_mode="half_to_even")
            return pc.cast(pc.cast(value, pa.int64()), kind)
        return pc.cast(pc.multiply_checked(value, size), kind)

    return kernel


def make_date(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """The date with a year, a month and a day."""
    text = [
        pc.utf8_lpad(pc.cast(arg, pa.string()), width=w, padding="0") for arg, w in zip(args, (4, 2, 2), strict=True)
    ]
    return pc.cast(pc.binary_join_element_wise(*text, "-"), kind)


def _number(times: pa.Array, unit: str) -> Ints:
    """Which unit a time lies in, counted from some beginning."""
    if unit in _LENGTHS:
        return _micros(times) // _LENGTHS[unit]
    if unit == "week":
        return (_micros(times) + 3 * _DAY) // (7 * _DAY)  # 1970 began on a Thursday
    if unit == "isoyear":
        found: Ints = _whole_part(pc.iso_year)(times)
        return found
    return (_years(times) * 12 + _whole_part(pc.month)(times) - 1) // _MONTHS[unit]


def _starts(numbers: Ints, unit: str) -> Ints:
    """When units begin, in microseconds."""
    if unit in _LENGTHS:
        return numbers * _LENGTHS[unit]
    if unit == "week":
        return numbers * 7 * _DAY - 3 * _DAY
    if unit == "isoyear":  # the week with the fourth of January
        fourth = _starts(numbers, "year") + 3 * _DAY
        return (fourth + 3 * _DAY) // (7 * _DAY) * 7 * _DAY - 3 * _DAY
    months = numbers * _MONTHS[unit] - 1970 * 12
    return months.astype("datetime64[M]").astype("datetime64[us]").astype(np.int64)


def _micros(times: pa.Array) -> Ints:
    found: Ints = pc.cast(times, pa.int64()).to_numpy(zero_copy_only=False)
    return found


def _nearest(numbers: Ints, size: int) -> Ints:
    """Divided and rounded, halves away from zero."""
    return np.sign(numbers) * ((np.abs(numbers) + size // 2) // size)


def _scale(numbers: Ints, factor: int) -> Any:
    return pc.multiply_checked(pa.array(numbers), factor).to_numpy(zero_copy_only=False)


def _keep_nulls(value: Datum, function: Callable[[pa.Array], Any], kind: pa.DataType) -> Datum:
    """A function of times, in which none is NULL, of any times."""
    if isinstance(value, pa.Scalar):
        return _keep_nulls(pa.array([value.as_py()], value.type), function, kind)[0]
    missing = pc.is_null(value).to_numpy(zero_copy_only=False)
    found = np.asarray(function(pc.fill_null(value, pa.scalar(0, pa.int64()).cast(value.type))))
    plain = pa.float64() if found.dtype.kind == "f" else pa.int64()
    return pc.cast(pa.array(found, plain, mask=missing), kind)
