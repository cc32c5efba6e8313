"""Dimensions: which conditions with parameters an index decides, and the codes of tuples and subscriptions in them.

A condition that compares a value of joined tuples with an expression over parameters is an end of a dimension.  What
must hold: a subscription whose conditions hold for a tuple lies around the tuple in every dimension, by codes.  The
other way round is not promised: conditions that codes do not decide are checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from weft.expr.evaluate import Functions, evaluate
from weft.expr.model import Call, Column, Expr, aliases, columns, text_of
from weft.expr.safe import cannot_fail
from weft.kernels.codes import (
    HIGHEST,
    LOWEST,
    Bools,
    Ints,
    end_codes,
    equality_codes,
    exact_equality,
    exact_order,
    has_codes,
    order_codes,
)
from weft.query.model import Query
from weft.query.parameters import is_joined, unless_null
from weft.topology.matching import Dimension, End

_FLIP = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}

_Compared = tuple[Expr, str, Expr]
"""A value of joined tuples, how it is compared, and an expression over parameters."""


def divide(query: Query) -> tuple[tuple[Dimension, ...], tuple[Expr, ...]]:
    """Dimensions of a query with subscriptions, and the conditions that must be checked on what they leave."""
    assert query.subscribers is not None
    members = {output.name: tuple(sorted(aliases(output.expr))) for output in query.outputs}
    found: dict[tuple[str, bool], Dimension] = {}
    checks: list[Expr] = []
    for predicate in query.subscribers.asked:
        compared = _compare(predicate)
        if compared is not None:
            value, op, _ = compared
            key = text_of(value), op == "="
            found[key] = _with_end(found.get(key) or _dimension(value, op, members), compared)
        if compared is None or not _is_decided(compared):
            checks.append(unless_null(predicate))
    return tuple(found.values()), tuple(checks)


def _compare(predicate: Expr) -> _Compared | None:
    """The condition as a comparison that an index can decide, if it is one."""
    if not isinstance(predicate, Call) or predicate.op not in _FLIP:
        return None
    op, (left, right) = predicate.op, predicate.args
    if not all(map(is_joined, columns(left))):
        op, left, right = _FLIP[op], right, left
    apart = all(map(is_joined, columns(left))) and not any(map(is_joined, columns(right)))
    known = apart and bool(columns(left)) and bool(columns(right)) and left.type is not None
    fits = known and left.type == right.type and has_codes(left.type) and cannot_fail(left) and cannot_fail(right)
    return (left, op, right) if fits else None


def _dimension(value: Expr, op: str, members: Mapping[str, tuple[str, ...]]) -> Dimension:
    labels = {label for column in columns(value) for label in members[column.name]}
    return Dimension(value, (), (), op == "=", tuple(sorted(labels)))


def _with_end(dimension: Dimension, compared: _Compared) -> Dimension:
    _, op, expr = compared
    end = End(expr, op in ("<", ">"))
    low = (*dimension.low, end) if op in (">", ">=", "=") else dimension.low
    high = (*dimension.high, end) if op in ("<", "<=", "=") else dimension.high
    return replace(dimension, low=low, high=high)


def _is_decided(compared: _Compared) -> bool:
    """Whether codes alone decide the comparison."""
    value, op, end = compared
    assert value.type is not None
    exact = exact_equality([value.type]) if op == "=" else exact_order(value.type)
    return exact and isinstance(end, Column)


# ---------------------------------------------------------------------------------------------------- codes


@dataclass(frozen=True, eq=False)
class Boxes:
    """What subscriptions admit, a row each and a column for each dimension."""

    low: Ints
    high: Ints
    """The lowest and the highest code."""
    free: Bools
    """Where no end is given: there also tuples match that have no code.  The highest code there is may be given."""
    valid: Bools
    """Which subscriptions can match at all."""


def boxes(rows: pa.RecordBatch, dimensions: Sequence[Dimension], functions: Functions) -> Boxes:
    """What subscriptions admit.  Without a dimension there is one that admits everything."""
    shape = rows.num_rows, max(1, len(dimensions))
    low, high = np.full(shape, LOWEST, dtype=np.int64), np.full(shape, HIGHEST, dtype=np.int64)
    free = np.ones(shape, dtype=np.bool_)
    valid = np.ones(rows.num_rows, dtype=np.bool_)
    for place, dimension in enumerate(dimensions):
        for end in dimension.low:
            codes, known, missing = _end(rows, dimension, end, functions, upper=False)
            low[:, place] = np.maximum(low[:, place], codes)
            valid, free[:, place] = valid & known, free[:, place] & missing
        for end in dimension.high:
            codes, known, missing = _end(rows, dimension, end, functions, upper=True)
            high[:, place] = np.minimum(high[:, place], codes)
            valid, free[:, place] = valid & known, free[:, place] & missing
    return Boxes(low, high, free, valid)


def _end(
    rows: pa.RecordBatch, dimension: Dimension, end: End, functions: Functions, *, upper: bool
) -> tuple[Ints, Bools, Bools]:
    """The codes of an end, which subscriptions can match by it, and which have none."""
    column = evaluate(end.expr, rows, functions)
    missing = column.is_null().to_numpy(zero_copy_only=False)
    if dimension.equal:
        found = equality_codes([column])
        known = np.ones(len(column), dtype=np.bool_) if found.valid is None else found.valid | missing
        return np.where(missing, HIGHEST if upper else LOWEST, found.values), known, missing
    codes = end_codes(column, upper=upper, strict=end.strict)
    return codes.values, np.ones(len(column), dtype=np.bool_) if codes.valid is None else codes.valid, missing


def points(frame: pa.RecordBatch, dimensions: Sequence[Dimension], functions: Functions) -> tuple[Ints, Bools | None]:
    """The codes of tuples in all dimensions, and where they have one; None if everywhere."""
    if not dimensions:
        return np.zeros((frame.num_rows, 1), dtype=np.int64), None
    found = [value_codes(evaluate(d.value, frame, functions), d) for d in dimensions]
    return side_by_side(found, frame.num_rows)


def side_by_side(found: Sequence[tuple[Ints, Bools | None]], count: int) -> tuple[Ints, Bools | None]:
    """Codes of several dimensions, a column each."""
    codes = np.stack([values for values, _ in found], axis=1)
    if all(valid is None for _, valid in found):
        return codes, None
    known = [np.ones(count, dtype=np.bool_) if valid is None else valid for _, valid in found]
    return codes, np.stack(known, axis=1)


def value_codes(column: pa.Array, dimension: Dimension) -> tuple[Ints, Bools | None]:
    """The codes of values of a dimension, and which values have one."""
    found = equality_codes([column]) if dimension.equal else order_codes(column)
    return found.values, found.valid
