"""CAST on Arrow data, with DuckDB's rounding.

Floats round half to even on their way to an integer, decimals half away from zero; text is in `weft.expr.casttext`.
A value that does not fit is an ArrowInvalid, which `evaluate` turns into a QueryError; nothing wraps around, and
nothing becomes NULL but by TRY_CAST.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from weft.expr.casttext import from_text
from weft.expr.types import MAX_DIGITS, TIMESTAMP, TIMESTAMP_UTC, is_number

Datum: TypeAlias = "pa.Array | pa.Scalar"
"""An array, or a scalar that stands for an array of equal values."""


def as_array(value: Datum | pa.ChunkedArray, rows: int) -> pa.Array:
    """The value in one piece; a scalar as so many rows."""
    if isinstance(value, pa.Scalar):
        return pa.repeat(value, rows) if rows else pa.array([], value.type)  # lists cannot be repeated 0 times
    return value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value


def is_castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether CAST from `source` to `target` is defined at all."""
    if source == target or pt.is_null(source):
        return True
    if pt.is_string(source):
        return bool(is_number(target) or pt.is_boolean(target) or target in _TIMES)
    if pt.is_string(target):
        return bool(is_number(source) or pt.is_boolean(source) or source in _TIMES)
    if pt.is_boolean(source) or pt.is_boolean(target):
        return is_number(source) or is_number(target)
    if source in _TIMES and target in _TIMES:
        return True
    return is_number(source) and is_number(target)


_PLAIN = 1e16
"""Floats are written without exponent below this."""

_TIMES = (pa.date32(), TIMESTAMP, TIMESTAMP_UTC)


def cast(value: Datum, target: pa.DataType) -> Datum:
    """`value` as `target`."""
    source = value.type
    if source == target:
        return value
    if pt.is_null(source):
        return pa.scalar(None, target) if isinstance(value, pa.Scalar) else pa.nulls(len(value), target)
    if pt.is_string(source):
        return from_text(value, target)
    if pt.is_string(target):
        return _to_text(value)
    if pt.is_integer(target):
        return _to_integer(value, target)
    if pt.is_decimal(target):
        return _to_decimal(value, target)
    if pt.is_decimal(source) and pt.is_floating(target):
        return _decimal_to_float(value, target)
    if pt.is_date(target) or (pt.is_timestamp(source) and pt.is_timestamp(target)) or pt.is_floating(target):
        return pc.cast(value, target, safe=False)
    return pc.cast(value, target)


def try_cast(value: Datum, target: pa.DataType) -> Datum:
    """`value` as `target`, and NULL where it does not fit."""
    try:
        return from_text(value, target, lenient=True) if _is_parsed(value.type, target) else cast(value, target)
    except (pa.ArrowException, OverflowError):
        if isinstance(value, pa.Scalar) or len(value) == 1:
            return pa.scalar(None, target) if isinstance(value, pa.Scalar) else pa.nulls(1, target)
    half = len(value) // 2
    return pa.concat_arrays([try_cast(value[:half], target), try_cast(value[half:], target)])


def _is_parsed(source: pa.DataType, target: pa.DataType) -> bool:
    return bool(pt.is_string(source) and not pt.is_string(target))


def _to_integer(value: Datum, target: pa.DataType) -> Datum:
    if pt.is_decimal(value.type):
        value = rescale(value, MAX_DIGITS, 0)
    elif pt.is_floating(value.type):
        value = pc.round(value, round_mode="half_to_even")
    return pc.cast(value, target)


def _to_decimal(value: Datum, target: pa.DataType) -> Datum:
    if pt.is_boolean(value.type):
        value = pc.cast(value, pa.int8())
    if pt.is_floating(value.type):
        return _float_to_decimal(value, target)
    if pt.is_integer(value.type):
        value = pc.cast(value, pa.decimal256(MAX_DIGITS, 0))
    return rescale(value, target.precision, target.scale)


def _float_to_decimal(value: Datum, target: pa.DataType) -> Datum:
    """The product with a power of ten, rounded half away from zero; Arrow's own cast rounds halves to even."""
    if isinstance(value, pa.Scalar):
        return _float_to_decimal(pa.array([value.as_py()], value.type), target)[0]
    scaled = pc.multiply(pc.cast(value, pa.float64()), 10.0**target.scale)
    whole = pc.cast(pc.round(scaled, round_mode="half_towards_infinity"), pa.decimal128(MAX_DIGITS, 0))
    return whole.view(pa.decimal128(MAX_DIGITS, target.scale)).cast(target)


def _decimal_to_float(value: Datum, target: pa.DataType) -> Datum:
    """Digits divided by a power of ten, which rounds once; Arrow's own cast can be one bit off."""
    try:
        whole = pc.cast(unscale(value), pa.int64())
    except pa.ArrowInvalid:
        return pc.cast(value, target)
    return pc.cast(pc.divide(pc.cast(whole, pa.float64(), safe=False), 10.0**value.type.scale), target, safe=False)


def unscale(value: Datum) -> Datum:
    """The digits of a decimal without its point: the same bits under another type."""
    if isinstance(value, pa.Scalar):
        return unscale(pa.array([value.as_py()], value.type))[0]
    return value.cast(pa.decimal128(MAX_DIGITS, value.type.scale)).view(pa.decimal128(MAX_DIGITS, 0))


def rescale(value: Datum, precision: int, scale: int) -> Datum:
    """A decimal with other digits, rounded half away from zero, exact otherwise."""
    wide = pa.decimal256(76, max(scale, value.type.scale))
    value = pc.cast(value, wide)
    if wide.scale > scale:
        value = pc.round(value, scale, round_mode="half_towards_infinity")
    return pc.cast(value, pa.decimal128(precision, scale))


def _to_text(value: Datum) -> Datum:
    if pt.is_floating(value.type):
        return _float_to_text(value)
    if pt.is_decimal(value.type):
        return _decimal_to_text(value)
    text = pc.cast(value, pa.string())
    if pt.is_timestamp(value.type):
        text = pc.replace_substring_regex(text, r"\.(\d*?)0+(Z?)$", r".\1\2")
        text = pc.replace_substring_regex(text, r"\.(Z?)$", r"\1")
        text = pc.replace_substring_regex(text, r"Z$", "+00")
    return text


def _decimal_to_text(value: Datum) -> Datum:
    """All digits of the scale; Arrow itself writes small numbers with an exponent."""
    if isinstance(value, pa.Scalar):
        return _decimal_to_text(pa.array([value.as_py()], value.type))[0]
    text = pc.cast(value, pa.string())
    small = pc.fill_null(pc.match_substring(text, "E"), False)
    if not pc.any(small).as_py():
        return text
    written = [format(number, "f") for number in value.filter(small).to_pylist()]
    return pc.replace_with_mask(text, small, pa.array(written, pa.string()))


def _float_to_text(value: Datum) -> Datum:
    """The shortest text that reads back as the same number, always with a point or an exponent."""
    array = pa.array([value.as_py()], value.type) if isinstance(value, pa.Scalar) else value
    numbers = array.fill_null(0).to_numpy(zero_copy_only=False)
    written = numbers.astype(str).astype(object)
    if array.type == pa.float32():  # numpy changes to an exponent earlier for these than for doubles
        for at in np.flatnonzero((np.abs(numbers) >= 1) & (np.abs(numbers) < _PLAIN)):
            written[at] = np.format_float_positional(numbers[at], trim="0")
    text = pa.array(written, pa.string(), mask=np.asarray(array.is_null()))
    return text[0] if isinstance(value, pa.Scalar) else text
