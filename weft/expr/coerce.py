"""Bringing expressions to a type: constants are rewritten, everything else gets a CAST around it.

`unify` gives both sides of a comparison one type.  A constant takes the type of what it is compared with whenever
that keeps its value, so that columns stay as they are stored and keys need no cast.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
from pyarrow import types as pt

from weft.errors import QueryError, Span
from weft.expr.casts import cast, is_castable
from weft.expr.model import Call, Expr, Literal
from weft.expr.types import (
    DURATION,
    TIMESTAMP,
    TIMESTAMP_UTC,
    common_type,
    digits,
    is_number,
    sql_name,
)


def literal_type(value: object) -> pa.DataType:
    """The type a bare Python constant has in a query."""
    if isinstance(value, Decimal):
        return _decimal_type(value)
    if isinstance(value, dt.datetime):
        return TIMESTAMP_UTC if value.tzinfo else TIMESTAMP
    for kind, arrow in _PYTHON_TYPES:
        if isinstance(value, kind):
            return arrow
    raise QueryError(
        f"a constant of Python type {type(value).__name__} has no SQL type",
        hint="use bool, int, float, Decimal, str, bytes, date, datetime, timedelta or None.",
    )


_PYTHON_TYPES: tuple[tuple[type, pa.DataType], ...] = (
    (type(None), pa.null()),
    (bool, pa.bool_()),
    (int, pa.int64()),
    (float, pa.float64()),
    (str, pa.string()),
    (bytes, pa.binary()),
    (dt.date, pa.date32()),
    (dt.timedelta, DURATION),
)


def _decimal_type(value: Decimal) -> pa.DataType:
    _, written, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise QueryError(f"{value} is not a number", hint="write CAST('NaN' AS DOUBLE).")
    scale = max(0, -exponent)
    precision = max(len(written) + max(0, exponent), scale, 1)
    if precision > 38:
        raise QueryError(f"the number {value} has more than 38 digits", hint="write it with an exponent: a DOUBLE.")
    return pa.decimal128(precision, scale)


def type_literal(node: Literal) -> Literal:
    """The constant with its type; it is refused if it does not fit the type."""
    kind = literal_type(node.value) if node.type is None else node.type
    try:
        pa.scalar(node.value, kind)
    except (pa.ArrowException, OverflowError) as error:
        raise QueryError(
            f"the constant {node.value!r} is not a {sql_name(kind)}",
            detail=str(error),
            hint="use a value that fits 64 bits.",
            span=node.span,
        ) from None
    return replace(node, type=kind)


def require_castable(source: pa.DataType, target: pa.DataType, span: Span | None) -> None:
    """Refuse a CAST that is not defined, and say what the values can become."""
    if is_castable(source, target):
        return
    some = (pa.string(), pa.int64(), pa.float64(), pa.bool_(), TIMESTAMP)
    names = [sql_name(kind) for kind in some if is_castable(source, kind)]
    ways = f"it can become {', '.join(names)}" if names else "take one value first, as in list[1] or struct.field"
    hint = f"{ways}; to_timestamp and make_date make times of numbers." if is_number(source) else f"{ways}."
    raise QueryError(f"cannot cast {sql_name(source)} to {sql_name(target)}", hint=hint, span=span)


def cast_to(expr: Expr, target: pa.DataType) -> Expr:
    """The expression as `target`, by an explicit or implied CAST."""
    if expr.type == target:
        return expr
    require_castable(expr.type, target, expr.span)
    if not isinstance(expr, Literal):
        return Call("cast", (expr,), target, expr.span)
    try:
        return Literal(cast(pa.scalar(expr.value, expr.type), target).as_py(), target, expr.span)
    except pa.ArrowException as error:
        raise QueryError(
            f"cannot read {expr.value!r} as {sql_name(target)}",
            detail=str(error),
            hint=_FORMATS.get(target),
            span=expr.span,
        ) from None


_FORMATS = {
    pa.date32(): "write dates as '2020-12-31'.",
    TIMESTAMP: "write timestamps as '2020-12-31 23:59:59'.",
    TIMESTAMP_UTC: "write zoned timestamps as '2020-12-31 23:59:59+00'.",
}


def unify(exprs: Sequence[Expr], what: str) -> tuple[Expr, ...]:
    """All expressions in one type; `what` names the operation in errors."""
    fixed = [expr for expr in exprs if not isinstance(expr, Literal)]
    target = pa.null()
    for expr in fixed:
        target = _meet(target, expr.type, expr, what)
    constants = [_read_time(expr, target, exprs) for expr in exprs if isinstance(expr, Literal)]
    for constant in constants:
        if not (fixed and _survives(constant, target)):
            target = _meet(target, constant.type, constant, what)
    waiting = iter(constants)
    return tuple(cast_to(next(waiting) if isinstance(expr, Literal) else expr, target) for expr in exprs)


def _meet(a: pa.DataType, b: pa.DataType, at: Expr, what: str) -> pa.DataType:
    common = common_type(a, b)
    if common is None:
        raise incomparable(a, b, at, what)
    return common


def incomparable(a: pa.DataType, b: pa.DataType, at: Expr, what: str) -> QueryError:
    """The error for two types without a common type."""
    hint = f"CAST one side: CAST(... AS {sql_name(a if not pt.is_string(a) else b)})."
    if pt.is_timestamp(a) and pt.is_timestamp(b):
        hint = "one side has a time zone and the other has none; CAST the latter AS TIMESTAMPTZ, which reads it as UTC."
    if what in ('"+"', '"-"') and _is_time(a) != _is_time(b) and (is_number(a) or is_number(b)):
        hint = f"a number of what? Write an interval: {what[1:-1]} INTERVAL '5' SECOND."
    return QueryError(f"{what} of {sql_name(a)} and {sql_name(b)} is not defined", hint=hint, span=at.span)


def _is_time(kind: pa.DataType) -> bool:
    return pt.is_timestamp(kind) or pt.is_date(kind)


def _read_time(constant: Literal, target: pa.DataType, exprs: Sequence[Expr]) -> Literal:
    """A text constant read as the date or time it stands beside."""
    if not pt.is_string(constant.type):
        return constant
    kinds = [target, *(expr.type for expr in exprs if isinstance(expr, Literal))]
    for kind in kinds:
        if pt.is_timestamp(kind) or (pt.is_date(kind) and _has_time(constant)):
            return _as_literal(cast_to(constant, kind if pt.is_timestamp(kind) else TIMESTAMP))
        if pt.is_date(kind):
            return _as_literal(cast_to(constant, kind))
    return constant


def _has_time(constant: Literal) -> bool:
    return ":" in str(constant.value)


def _as_literal(expr: Expr) -> Literal:
    assert isinstance(expr, Literal)
    return expr


def _survives(constant: Literal, target: pa.DataType) -> bool:
    """Whether the constant has exactly the same value as a `target`."""
    if constant.value is None or constant.type == target:
        return True
    if not (is_number(constant.type) and is_number(target)) or pt.is_floating(constant.type):
        return False
    if pt.is_floating(target):
        return bool(target == pa.float64())
    value = Decimal(str(constant.value))
    if pt.is_integer(target):
        limit = 2 ** (target.bit_width - 1)
        return value == value.to_integral_value() and -limit <= value < limit
    precision, scale = digits(target)
    return value == round(value, scale) and abs(value) < Decimal(10) ** (precision - scale)
