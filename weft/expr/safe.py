"""Whether an expression has a value for every row, whatever the row holds.

An expression that may fail (a sum of large whole numbers, a cast of text, a function of the user) must be asked only
where a query asks it: a row that joins nothing must not end a run.  What is not known here to be safe may fail.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as pt

from weft.expr.model import Call, Column, Expr, Literal

_LOGIC = frozenset([
    "=", "<>", "<", "<=", ">", ">=", "same", "and", "or", "not", "is_null", "case", "coalesce", "in", "between",
    "exists", "in_query",
])  # fmt: skip
_SUMS = frozenset(["+", "-", "*", "neg"])
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}


def cannot_fail(expr: Expr) -> bool:
    """Whether evaluating the expression never fails."""
    if isinstance(expr, Column | Literal):
        return True
    if not isinstance(expr, Call) or not all(map(cannot_fail, expr.args)):
        return False
    if expr.op in _LOGIC or expr.op == "try_cast":
        return True
    if expr.op == "cast":
        return _widens(expr.args[0].type, expr.type)
    return expr.op in _SUMS and _has_room(expr)


def _widens(given: pa.DataType | None, kind: pa.DataType | None) -> bool:
    if given is None or kind is None:
        return False
    if given == kind or (pt.is_floating(kind) and (pt.is_integer(given) or pt.is_decimal(given))):
        return True
    if pt.is_floating(kind) and pt.is_floating(given):
        return bool(kind.bit_width >= given.bit_width)
    if pt.is_integer(kind) and pt.is_integer(given):
        return bool(kind.bit_width >= given.bit_width)
    if not pt.is_decimal(kind):
        return False
    if pt.is_integer(given):
        return bool(kind.precision - kind.scale >= _DIGITS[given.bit_width])
    fits = pt.is_decimal(given) and kind.precision - kind.scale >= given.precision - given.scale
    return bool(fits and kind.scale >= given.scale)


def _has_room(expr: Call) -> bool:
    """Whether the result of a sum or product always fits into its type."""
    kind = expr.type
    if kind is None:
        return False
    if pt.is_floating(kind):
        return True
    if pt.is_decimal(kind):
        return bool(kind.precision < 38)
    return pt.is_integer(kind) and kind.bit_width == 64 and all(map(_is_small, expr.args))


def _is_small(expr: Expr) -> bool:
    """Whether it is a whole number of at most 32 bits, perhaps made wider."""
    if isinstance(expr, Call) and expr.op == "cast":
        expr = expr.args[0]
    if isinstance(expr, Literal):
        return isinstance(expr.value, int) and abs(expr.value) < 2**31
    return expr.type is not None and pt.is_integer(expr.type) and expr.type.bit_width <= 32 and isinstance(expr, Column)
