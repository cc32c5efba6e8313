"""The range each probing tuple asks an index for: inclusive order codes, and which tuples can match at all.

The planner moved terms from one side of a predicate to the other, so computing a bound may overflow although the
predicate itself does not.  A whole number beyond 64 bits is not an error here: such a bound either excludes nothing or
excludes everything.  Infinity minus infinity is NaN and says nothing; that predicate is checked again on each pair.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from weft.errors import QueryError
from weft.expr.evaluate import Functions, evaluate
from weft.expr.logic import nan_to_null
from weft.expr.model import Call, Expr
from weft.host.envelope import Frame
from weft.kernels.codes import HIGHEST, LOWEST, Bools, Ints, order_codes
from weft.topology.node import Bound


def limit_codes(bound: Bound, frame: Frame, functions: Functions, *, upper: bool) -> tuple[Ints, list[Bools]]:
    """The bound as inclusive codes, and masks of the tuples that something can match."""
    try:
        array = evaluate(bound.expr, frame, functions)
    except QueryError:
        if not _is_sum(bound.expr):
            raise
        return _clip(_sum_exactly(bound.expr, frame, functions), bound.strict, upper)
    found = order_codes(array)
    values, masks = found.values, [found.valid] if found.valid is not None else []
    if bound.loose and masks:
        known = _all_known(bound.expr, frame, functions)
        values = np.where(known & ~masks[0], HIGHEST if upper else LOWEST, values)
        masks = [known]
    if bound.strict and found.exact:
        edge = LOWEST if upper else HIGHEST
        masks.append(values != edge)  # no code lies beyond the last one
        values = np.where(values == edge, values, values - 1 if upper else values + 1)
    return values, masks


def _all_known(expr: Expr, frame: Frame, functions: Functions) -> Bools:
    """Where no term of the sum is NULL or NaN.  If the sum is NaN there, it subtracted infinities."""
    if isinstance(expr, Call) and expr.op in ("+", "-"):
        left, right = (_all_known(arg, frame, functions) for arg in expr.args)
        return left & right
    values = nan_to_null(evaluate(expr, frame, functions))
    known: Bools = pc.is_valid(values).to_numpy(zero_copy_only=False)
    return known


def _is_sum(expr: Expr) -> bool:
    whole = pt.is_integer(expr.type) or pt.is_timestamp(expr.type) or pt.is_duration(expr.type)
    return isinstance(expr, Call) and expr.op in ("+", "-") and whole


def _sum_exactly(expr: Expr, frame: Frame, functions: Functions) -> list[int | None]:
    """Sums and differences in Python's integers, which cannot overflow; other expressions are evaluated as usual."""
    if not _is_sum(expr):
        array = evaluate(expr, frame, functions)
        return (array if pt.is_integer(array.type) else array.view(pa.int64())).to_pylist()
    assert isinstance(expr, Call)
    sign = 1 if expr.op == "+" else -1
    left, right = (_sum_exactly(arg, frame, functions) for arg in expr.args)
    return [None if a is None or b is None else a + sign * b for a, b in zip(left, right, strict=True)]


def _clip(exact: list[int | None], strict: bool, upper: bool) -> tuple[Ints, list[Bools]]:
    step = (-1 if upper else 1) if strict else 0
    wanted = [None if value is None else value + step for value in exact]
    can = [v is not None and (v >= int(LOWEST) if upper else v <= int(HIGHEST)) for v in wanted]
    values = [min(max(v or 0, int(LOWEST)), int(HIGHEST)) for v in wanted]
    return np.array(values, dtype=np.int64), [np.array(can, dtype=np.bool_)]
