"""CAST of text, as DuckDB reads it.

Texts in the plain form of their type are read by Arrow, all at once; the others one by one, by the rules written here.
So a text is read in one way whatever stands in the other rows, and Arrow's parser sees no number that it would wrap
around.  Not read, as the types cannot hold it or few write it: years before 1 and after 9999, `infinity`, `epoch`.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

Datum: TypeAlias = "pa.Array | pa.Scalar"
_SPACE = " \t\n\v\f\r"
_WHOLE = r"^-?[0-9]{1,18}$"
_HEX = r"^0[xX][0-9a-fA-F]{1,15}$"
_DECIMAL = r"^[+-]?([0-9]{1,18}(\.[0-9]{0,18})?|\.[0-9]{1,18})$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T]([01][0-9]|2[0-3]):[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
_ZONE = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
_NUMBER = re.compile(r"[+-]?([0-9](_?[0-9])*(\.([0-9](_?[0-9])*)?)?|\.[0-9](_?[0-9])*)([eE][+-]?[0-9]{1,9})?", re.ASCII)
_MOMENT = re.compile(
    r"([0-9]{1,4})([-/ \\])([0-9]{1,2})\2([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)? ?(Z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")
_EXACT = Context(prec=80, rounding=ROUND_HALF_UP)
_FAR = 80
"""Numbers with so many digits before the point fit no type, and with so many zeros behind it they are zero."""


def from_text(value: Datum, target: pa.DataType, *, lenient: bool = False) -> Datum:
    """Text as a number, a truth value or a time; `lenient` gives NULL for most of what is none."""
    if isinstance(value, pa.Scalar):
        return from_text(pa.array([value.as_py()], pa.string()), target, lenient=lenient)[0]
    value = value if pt.is_boolean(target) else pc.utf8_trim(value, _SPACE)
    plain, at_once, alone = _ways(target)
    odd = pc.fill_null(pc.invert(pc.match_substring_regex(value, plain)), False)
    if not pc.any(odd).as_py():
        return at_once(value)
    found = at_once(pc.if_else(odd, pa.scalar(None, pa.string()), value))
    read = partial(_read, alone=alone, target=target, lenient=lenient)
    return pc.replace_with_mask(found, odd, pa.array([read(text) for text in value.filter(odd).to_pylist()], target))


def _ways(target: pa.DataType) -> tuple[str, Callable[[pa.Array], pa.Array], Callable[[str], Any]]:
    """The plain form of a type, how Arrow reads it, and how others are read; these raise ValueError."""
    if pt.is_integer(target):
        return f"{_WHOLE}|{_HEX}", lambda text: pc.cast(text, target), partial(_integer, target=target)
    if pt.is_decimal(target):
        return _DECIMAL, partial(_decimals, target=target), partial(_decimal, target=target)
    if pt.is_boolean(target):
        return "^(true|false)$", lambda text: pc.cast(text, target), _truth
    if pt.is_date(target):
        return _DATE, lambda text: pc.cast(text, target), _day
    if pt.is_timestamp(target) and target.tz is None:
        return f"{_DATE}|{_TIME}$", lambda text: pc.cast(text, target), lambda text: _moment(text)[0]
    if pt.is_timestamp(target):
        return f"{_TIME}{_ZONE}$", lambda text: pc.cast(text, target), _moment_of_zone
    return r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$", lambda text: pc.cast(text, target), _float


def _read(text: str, alone: Callable[[str], Any], target: pa.DataType, *, lenient: bool) -> Any:
    try:
        return alone(text)
    except (ValueError, OverflowError):
        if lenient:
            return None
        raise pa.ArrowInvalid(f"Failed to parse string: '{text}' as a scalar of type {target}") from None


def _integer(text: str, target: pa.DataType) -> int:
    if (bits := re.fullmatch("0[bB]([01]+)", text)) is not None:
        number = int(bits.group(1), 2)
    else:
        number = int(_rounded(text, 0))
    if not -(1 << target.bit_width - 1) <= number < 1 << target.bit_width - 1:
        raise ValueError(text)
    return number


def _decimals(text: pa.Array, target: pa.DataType) -> pa.Array:
    """With 18 digits on each side of the point nothing wraps around; halves are rounded away from zero."""
    exact = pc.cast(pc.cast(text, pa.decimal128(38, 18)), pa.decimal256(76, max(18, target.scale)))
    return pc.cast(pc.round(exact, target.scale, round_mode="half_towards_infinity"), target)


def _decimal(text: str, target: pa.DataType) -> Decimal:
    number = _rounded(text, target.scale)
    if abs(number) >= Decimal(10) ** (target.precision - target.scale):
        raise ValueError(text)
    return number


def _rounded(text: str, scale: int) -> Decimal:
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(text)
    number = Decimal(text.replace("_", ""))
    if number.adjusted() < -_FAR or not number:
        number = Decimal(0)
    elif number.adjusted() > _FAR // 2:
        raise ValueError(text)
    return number.quantize(Decimal(1).scaleb(-scale), context=_EXACT)


def _float(text: str) -> float:
    if _NUMBER.fullmatch(text) is None and text.lower().lstrip("+-") not in ("nan", "inf", "infinity"):
        raise ValueError(text)
    return float(text)


def _truth(text: str) -> bool:
    if text.lower() not in (*_TRUE, *_FALSE):
        raise ValueError(text)
    return text.lower() in _TRUE


def _moment(text: str) -> tuple[datetime.datetime, str]:
    """A time as it is written, and its zone."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise ValueError(text)
    year, _, month, day, hour, minute, second, fraction, zone = found.groups()
    time = datetime.timedelta(hours=int(hour or 0), minutes=int(minute or 0), seconds=int(second or 0))
    time += datetime.timedelta(microseconds=int((fraction or "")[:6].ljust(6, "0")))
    if int(minute or 0) > 59 or int(second or 0) > 59 or time > datetime.timedelta(days=1):
        raise ValueError(text)
    day_began = datetime.datetime(int(year), int(month), int(day))  # noqa: DTZ001 - SQL's TIMESTAMP has no zone
    return day_began + time, zone or "Z"


def _day(text: str) -> datetime.date:
    """The day that is written, also if its time is 24:00."""
    _moment(text)
    year, month, day = map(int, _MOMENT.fullmatch(text).group(1, 3, 4))  # type: ignore[union-attr]
    return datetime.date(year, month, day)


def _moment_of_zone(text: str) -> datetime.datetime:
    moment, zone = _moment(text)
    if zone[0] in "+-":
        digits = zone[1:].replace(":", "").ljust(4, "0")
        ahead = datetime.timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
        moment = moment - ahead if zone[0] == "+" else moment + ahead
    return moment.replace(tzinfo=datetime.UTC)
