"""Kernels of arithmetic.

Integers are int64.  Every overflow is an error, and so is integer division by zero; floats follow IEEE 754.
Decimals are computed in 256 bits and then reduced to the 38 digits of the result's type; an overflow is an error again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any
from typing import Literal as OneOf

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from weft.expr.casts import Datum, rescale, unscale
from weft.expr.logic import Kernel
from weft.expr.types import DURATION, MAX_DIGITS

Binary = Callable[[Datum, Datum], Datum]
Mode = OneOf["half_towards_infinity", "towards_zero"]


def arithmetic(checked: Binary, total: int = 2 * MAX_DIGITS) -> Kernel:
    """The kernel of + - or *; `total` is how many digits both sides together may have for 256 bits to hold it."""

    def kernel(args: Sequence[Datum], kind: pa.DataType) -> Datum:
        if not pt.is_decimal(kind):
            return checked(*args)
        left, right = args
        room = total - left.type.precision
        left = pc.cast(left, pa.decimal256(left.type.precision, left.type.scale))
        right = pc.cast(right, pa.decimal256(min(right.type.precision, room), right.type.scale))
        return rescale(checked(left, right), kind.precision, kind.scale)

    return kernel


def divide(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    """Division of floats: by zero it gives an infinity or NaN."""
    return pc.divide(*args)


def integer_divide(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    """Integer division, cut towards zero."""
    return pc.divide_checked(*args)


def modulo(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """The remainder, with the sign of the dividend."""
    left, right = args
    if pt.is_floating(kind):
        return _through_numpy(np.fmod, left, right)
    if pt.is_decimal(kind):
        return _decimal_modulo(left, right, kind)
    # Division by -1 leaves no remainder; it is handled apart, because the quotient of the smallest integer overflows.
    divisor = pc.if_else(pc.equal(right, -1), pa.scalar(1, kind), right)
    return pc.subtract(left, pc.multiply(pc.divide_checked(left, divisor), divisor))


def _through_numpy(function: Callable[..., Any], left: Datum, right: Datum) -> Datum:
    valid = pc.and_(pc.is_valid(left), pc.is_valid(right))
    with np.errstate(all="ignore"):
        values = function(_to_numpy(left), _to_numpy(right))
    if isinstance(valid, pa.Scalar):
        return pa.scalar(values[0].item() if valid.as_py() else None, left.type)
    return pc.if_else(valid, pa.array(values, left.type), pa.scalar(None, left.type))


def _to_numpy(value: Datum) -> Any:
    if isinstance(value, pa.Scalar):
        return np.array([value.as_py() if value.is_valid else 1])
    return value.fill_null(1).to_numpy(zero_copy_only=False)


def _decimal_modulo(left: Datum, right: Datum, kind: pa.DataType) -> Datum:
    """The remainder of the unscaled integers: as int64 where they fit, otherwise value by value."""
    whole = [unscale(side) for side in (left, right)]
    try:
        small = [pc.cast(side, pa.int64()) for side in whole]
        rest = pc.cast(modulo(small, pa.int64()), whole[0].type)
    except pa.ArrowInvalid:
        rest = _through_numpy(_exact_fmod, *whole)
    return _rescale_unscaled(rest, kind)


def _exact_fmod(left: Any, right: Any) -> Any:
    if (right == 0).any():
        raise pa.ArrowInvalid("divide by zero")
    return np.frompyfunc(_remainder, 2, 1)(left, right)


def _remainder(left: Decimal, right: Decimal) -> Decimal:
    rest = abs(int(left)) % abs(int(right))
    return Decimal(rest if left >= 0 else -rest)


def _rescale_unscaled(value: Datum, kind: pa.DataType) -> Datum:
    if isinstance(value, pa.Scalar):
        return _rescale_unscaled(pa.array([value.as_py()], value.type), kind)[0]
    return value.view(pa.decimal128(MAX_DIGITS, kind.scale)).cast(kind)


def multiply_duration(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    """A duration times an integer, in either order."""
    left, right = (pc.cast(arg, pa.int64()) for arg in args)
    return pc.cast(pc.multiply_checked(left, right), DURATION)


def negate(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    """Unary minus."""
    return pc.negate_checked(args[0])


def abs_(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    """Absolute value."""
    return pc.abs_checked(args[0])


def rounded(mode: Mode) -> Kernel:
    """The kernel that rounds to a constant number of digits: halves away from zero, or everything towards zero."""

    def kernel(args: Sequence[Datum], kind: pa.DataType) -> Datum:
        value, places = args[0], args[1].as_py() if len(args) > 1 else 0
        if places is None:
            return pa.scalar(None, kind)
        if pt.is_decimal(kind):
            return _round_decimal(value, places, kind, mode)
        if pt.is_integer(kind) and places >= 0:
            return value
        return pc.round(value, places, round_mode=mode)

    return kernel


def _round_decimal(value: Datum, places: int, kind: pa.DataType, mode: Mode) -> Datum:
    wide = pc.cast(value, pa.decimal256(MAX_DIGITS + 2, value.type.scale))
    if places < value.type.scale:
        wide = pc.round(wide, places, round_mode=mode)
    return rescale(wide, kind.precision, kind.scale)


def floor(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """The next integer below."""
    return _to_whole(pc.floor, args[0], kind)


def ceil(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """The next integer above."""
    return _to_whole(pc.ceil, args[0], kind)


def _to_whole(function: Callable[[Datum], Datum], value: Datum, kind: pa.DataType) -> Datum:
    if not pt.is_decimal(kind):
        return function(value)
    wide = pc.cast(value, pa.decimal256(MAX_DIGITS + 2, value.type.scale))
    return rescale(function(wide), kind.precision, kind.scale)


def sign(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """-1, 0 or 1; 0 for NaN."""
    value = args[0]
    if pt.is_decimal(value.type):
        return pc.cast(pc.sign(value), kind)
    if pt.is_floating(value.type):
        value = pc.if_else(pc.is_nan(value), pa.scalar(0, value.type), value)
    return pc.cast(pc.sign(value), kind)


def unary(function: Callable[[Datum], Datum]) -> Kernel:
    """The kernel of a float function of one argument."""
    return lambda args, _: function(args[0])


def binary(function: Binary) -> Kernel:
    """The kernel of a float function of two arguments."""
    return lambda args, _: function(*args)


def times(factor: float) -> Kernel:
    """The kernel that multiplies by a constant."""
    return lambda args, _: pc.multiply(args[0], factor)


def power(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    """The first argument raised to the second."""
    return pc.power(*args)
