"""Whether an expression has a value for every row, whatever the row holds.

An expression that may fail (a sum of large whole numbers, a cast of text, a function of the user) must be asked only
where a query asks it: a row that joins nothing must not end a run.  What is not known here to be safe may fail.
Most of that fails for values that nobody has.  What is brittle fails for values that are common: 0, or text that is no
number.
"""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
from pyarrow import types as pt

from weft.expr.model import Call, Column, Expr, Literal, Udf, walk

_LOGIC = frozenset([
    "=", "<>", "<", "<=", ">", ">=", "same", "and", "or", "not", "is_null", "case", "coalesce", "in", "between",
    "exists", "in_query",
])  # fmt: skip
_SUMS = frozenset(["+", "-", "*", "neg"])
_GUARDS = frozenset(["and", "or", "case", "coalesce"])
_PARTIAL = frozenset(["only", "chr", "make_date", "make_timestamp", "make_timestamp_ms", "to_timestamp"])
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


def is_brittle(expr: Expr, *, mixed: bool) -> bool:
    """Whether evaluating the expression fails for values that are common: those that a query guards against.

    A sum or product that grows too large counts where something in the expression chooses between values, and these
    are `mixed`: else no row that is there for a moment has values that others have not.
    """
    is_guarded = mixed and any(isinstance(node, Call) and node.op in _GUARDS for node in walk(expr))
    return any(_is_partial(node) or (is_guarded and _overflows(node)) for node in walk(expr))


def _is_partial(node: Expr) -> bool:
    if not isinstance(node, Call):
        return isinstance(node, Udf)
    if node.op in ("%", "div"):
        return not pt.is_floating(node.type) and not _is_divisor(node.args[1])
    return node.op in _PARTIAL or (node.op == "cast" and _may_not_fit(node.args[0].type, node.type))


def _is_divisor(expr: Expr) -> bool:
    """Whether it is a constant by which anything can be divided."""
    while isinstance(expr, Call) and expr.op == "cast":
        expr = expr.args[0]
    return isinstance(expr, Literal) and isinstance(expr.value, int | Decimal) and expr.value > 0


def _may_not_fit(given: pa.DataType | None, kind: pa.DataType | None) -> bool:
    if given is None or kind is None or pt.is_null(given) or pt.is_string(kind) or pt.is_boolean(kind):
        return given is not None and pt.is_string(given) and kind is not None and pt.is_boolean(kind)
    return not pt.is_boolean(given) and not pt.is_temporal(given) and not _widens(given, kind)


def _overflows(node: Expr) -> bool:
    return isinstance(node, Call) and node.op in _SUMS and not _has_room(node)


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
