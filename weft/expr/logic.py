"""Kernels of comparisons and of three-valued logic.

A comparison with NULL or NaN on either side is NULL.  Both operands have the same type: the planner ensures that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from weft.expr.casts import Datum
from weft.expr.nested import equal as nested_equal
from weft.expr.nested import is_nested

Kernel = Callable[[Sequence[Datum], pa.DataType], Datum]
"""Arguments and result type to result."""


def comparison(compare: Callable[[Datum, Datum], Datum]) -> Kernel:
    """The kernel of one comparison operator."""

    def kernel(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
        left, right = (nan_to_null(arg) for arg in args)
        if is_nested(left.type):
            same = nested_equal(left, right)
            return same if compare is pc.equal else pc.invert(same)
        return compare(left, right)

    return kernel


def nan_to_null(value: Datum) -> Datum:
    """The value with every NaN replaced by NULL: a comparison with NaN is NULL."""
    if not pt.is_floating(value.type):
        return value
    nan = pc.is_nan(value)
    if isinstance(value, pa.Scalar):
        return pa.scalar(None, value.type) if nan.as_py() else value
    return pc.if_else(nan, pa.scalar(None, value.type), value) if pc.any(nan).as_py() else value


def and_(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    """AND of any number of conditions."""
    return reduce(pc.and_kleene, args)


def or_(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    """OR of any number of conditions."""
    return reduce(pc.or_kleene, args)


def not_(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    """NOT."""
    return pc.invert(args[0])


def is_null(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    """IS NULL; NaN is not NULL."""
    return pc.is_null(args[0])


def in_(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    """Whether the first value equals one of the others, which are constants."""
    value = nan_to_null(args[0])
    if pt.is_floating(value.type):
        value = pc.add(value, pa.scalar(0.0, value.type))  # makes -0.0 0.0: is_in compares bits
    choices = [nan_to_null(arg) for arg in args[1:]]
    known = pa.array([_without_sign_of_zero(choice.as_py()) for choice in choices if choice.is_valid], value.type)
    found = pc.is_in(value, value_set=known)
    if len(known) < len(choices):
        found = pc.if_else(found, pa.scalar(True), pa.scalar(None, pa.bool_()))
    return pc.if_else(pc.is_valid(value), found, pa.scalar(None, pa.bool_()))


def _without_sign_of_zero(value: object) -> object:
    return 0.0 if isinstance(value, float) and value == 0 else value


def case(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    """CASE: condition, value, condition, value, ..., else."""
    result = args[-1]
    for at in range(len(args) - 3, -1, -2):
        holds = pc.fill_null(args[at], False)
        result = pc.if_else(holds, args[at + 1], result)
    return result


def coalesce(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    """The first argument that is not NULL."""
    return pc.coalesce(*args)


def greatest(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    """The largest argument; NULL and NaN do not take part."""
    return _extreme(pc.greater, args)


def least(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    """The smallest argument; NULL and NaN do not take part."""
    return _extreme(pc.less, args)


def _extreme(better: Callable[[Datum, Datum], Datum], args: Sequence[Datum]) -> Datum:
    def pick(best: Datum, other: Datum) -> Datum:
        return pc.if_else(pc.coalesce(better(other, best), pc.is_null(best)), other, best)

    return reduce(pick, [nan_to_null(arg) for arg in args])


def only(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    """The value of a subquery, if it has at most one row."""
    most = pc.max(args[1]) if isinstance(args[1], pa.Array | pa.ChunkedArray) else args[1]
    if most.is_valid and most.as_py() > 1:
        raise pa.ArrowInvalid(MORE_THAN_ONE)
    return args[0]


MORE_THAN_ONE = "the subquery has more than one row, and a value is one"
