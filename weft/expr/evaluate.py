"""Evaluation of typed expressions on record batches.

This runs inside the workers: arrays in, arrays out, no Python per row, nothing imported but Arrow and numpy.
Constants stay scalars until the end.  Every failure is a QueryError that names the expression; no kernel ever
returns a wrong number instead.

In SQL one expression may guard another: `CASE WHEN b <> 0 THEN a % b END`, `b <> 0 AND a % b = 1`.  Kernels compute
all rows, so if a guarded part fails, it is computed again for only those rows that reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from weft.errors import InternalError, QueryError, own_traceback
from weft.expr.casts import Datum, as_array
from weft.expr.functions import FUNCTIONS
from weft.expr.logic import MORE_THAN_ONE
from weft.expr.model import Call, Column, Expr, Literal, Udf, transform
from weft.expr.render import to_sql

Functions = Mapping[str, Callable[..., pa.Array]]
"""Registered Python functions by name."""


def evaluate(expr: Expr, batch: pa.RecordBatch, functions: Functions) -> pa.Array:
    """The values of `expr` for every row of `batch`.

    >>> batch = pa.RecordBatch.from_pydict({"o.price": [1, None, 3]})
    >>> double = Call("*", (Column("o", "price", pa.int64()), Literal(2, pa.int64())), pa.int64())
    >>> evaluate(double, batch, {}).to_pylist()
    [2, None, 6]
    """
    return as_array(_evaluate(expr, batch, functions), batch.num_rows)


def filter_mask(predicates: Sequence[Expr], batch: pa.RecordBatch, functions: Functions) -> pa.BooleanArray:
    """Which rows make every predicate TRUE; no NULLs in the result."""
    if not predicates:
        return pa.array([True]).take(pa.nulls(batch.num_rows, pa.int8()).fill_null(0))
    whole = Call("and", tuple(predicates), pa.bool_())
    return pc.fill_null(evaluate(whole, batch, functions), False)


def _evaluate(expr: Expr, batch: pa.RecordBatch, functions: Functions) -> Datum:
    if isinstance(expr, Column):
        return _column(expr, batch)
    if isinstance(expr, Literal):
        return pa.scalar(expr.value, expr.type)
    if isinstance(expr, Udf):
        return _call_udf(expr, batch, functions)
    if expr.op in _GUARDS:
        return _evaluate_guarded(expr, batch, functions)
    if expr.op in _INEQUALITIES:
        return _compare(expr, batch, functions)
    return _apply(expr, [_evaluate(arg, batch, functions) for arg in expr.args])


def _column(column: Column, batch: pa.RecordBatch) -> pa.Array:
    at = batch.schema.get_field_index(column.field)
    if at < 0:
        raise InternalError(f'column "{column.field}" is not in the batch', detail=f"it has {batch.schema.names}.")
    return batch.column(at)


def _apply(call: Call, args: Sequence[Datum]) -> Datum:
    try:
        return FUNCTIONS[call.op].kernel(args, call.type)
    except (pa.ArrowException, OverflowError) as error:
        raise _failure(call, error) from error


def _failure(call: Call, error: Exception) -> QueryError:
    problem = str(error).splitlines()[0]
    hint = "guard it with CASE or NULLIF." if "zero" in problem else "correct the value, or filter such rows."
    if problem == MORE_THAN_ONE:
        detail = "a row that came made it more than one; nothing of this batch was taken over."
        hint = "aggregate it, as in (SELECT MAX(x) FROM ...)."
        return QueryError("a subquery that is a value has more than one row", detail=detail, hint=hint)
    if call.op == "cast" and pt.is_string(call.args[0].type):
        hint = "TRY_CAST(x AS type) is NULL where CAST fails."
    if "verflow" in problem or "fit" in problem:
        hint = "CAST its operands AS DOUBLE, or filter such rows."
    return QueryError(f"cannot compute {to_sql(transform(call, _named))}", detail=f"{problem}.", hint=hint)


def _named(node: Expr) -> Expr:
    """A column as people know it: names of derived streams say what their rows are, to nobody."""
    return replace(node, alias="") if isinstance(node, Column) and node.alias.startswith("#") else node


_INEQUALITIES = {"<", "<=", ">", ">="}


def _compare(call: Call, batch: pa.RecordBatch, functions: Functions) -> Datum:
    """An inequality.  If a sum in it overflows, both sides are computed with as many digits as they need.

    An index answers such a predicate with terms moved from one side to the other, where other sums may overflow; so
    that all plans agree, sums in inequalities never do.
    """
    try:
        return _apply(call, [_evaluate(arg, batch, functions) for arg in call.args])
    except QueryError:
        if not any(_is_sum(arg) for arg in call.args):
            raise
        return _apply(call, [_sum_exactly(arg, batch, functions) for arg in call.args])


def _is_sum(expr: Expr) -> bool:
    whole = pt.is_integer(expr.type) or pt.is_timestamp(expr.type) or pt.is_duration(expr.type)
    return isinstance(expr, Call) and expr.op in _SUMS and bool(whole)


def _sum_exactly(expr: Expr, batch: pa.RecordBatch, functions: Functions) -> Datum:
    """Sums and differences as decimals of up to 76 digits; other expressions are evaluated as usual."""
    if isinstance(expr, Call) and _is_sum(expr):
        return _SUMS[expr.op](*(_sum_exactly(arg, batch, functions) for arg in expr.args))
    return pc.cast(pc.cast(evaluate(expr, batch, functions), pa.int64()), pa.decimal256(20, 0))


_SUMS: dict[str, Callable[..., Datum]] = {"+": pc.add, "-": pc.subtract, "neg": pc.negate, "abs": pc.abs}


_GUARDS = {"and", "or", "case", "coalesce"}


def _evaluate_guarded(call: Call, batch: pa.RecordBatch, functions: Functions) -> Datum:
    try:
        return _apply(call, [_evaluate(arg, batch, functions) for arg in call.args])
    except QueryError:
        return _evaluate_reached(call, batch, functions)


def _evaluate_reached(call: Call, batch: pa.RecordBatch, functions: Functions) -> Datum:
    """The same value, with every argument evaluated only on rows that the earlier arguments have not decided."""
    if call.op == "case":
        return _evaluate_reached_case(call, batch, functions)
    args: list[Datum] = []
    undecided = pa.repeat(True, batch.num_rows)
    for arg in call.args:
        args.append(_on_rows(arg, batch, undecided, functions))
        undecided = pc.and_not(undecided, _decides(call.op, args[-1]))
    return _apply(call, args)


def _decides(op: str, value: pa.Array) -> pa.Array:
    """Where one argument decides the result: TRUE for OR, FALSE for AND, any value for COALESCE."""
    return pc.is_valid(value) if op == "coalesce" else pc.fill_null(pc.equal(value, pa.scalar(op == "or")), False)


def _evaluate_reached_case(call: Call, batch: pa.RecordBatch, functions: Functions) -> Datum:
    args: list[Datum] = []
    undecided = pa.repeat(True, batch.num_rows)
    for condition, result in zip(call.args[:-1:2], call.args[1:-1:2], strict=True):
        holds = pc.fill_null(_on_rows(condition, batch, undecided, functions), False)
        args += [holds, _on_rows(result, batch, pc.and_(undecided, holds), functions)]
        undecided = pc.and_not(undecided, holds)
    return _apply(call, [*args, _on_rows(call.args[-1], batch, undecided, functions)])


def _on_rows(expr: Expr, batch: pa.RecordBatch, rows: pa.Array, functions: Functions) -> pa.Array:
    """Values on the chosen rows, NULL elsewhere."""
    some = evaluate(expr, batch.filter(rows), functions)
    places = pc.subtract(pc.cumulative_sum(pc.cast(rows, pa.int64())), 1)
    return some.take(pc.if_else(rows, places, pa.scalar(None, pa.int64())))


def _call_udf(udf: Udf, batch: pa.RecordBatch, functions: Functions) -> pa.Array:
    function = functions.get(udf.name)
    if function is None:
        raise QueryError(
            f'function "{udf.name}" is not registered',
            detail=f"registered functions are: {', '.join(sorted(functions)) or 'none'}.",
            hint="register it before the run: s.function(name, function, returns).",
        )
    args = [evaluate(arg, batch, functions) for arg in udf.args]
    try:
        result = function(*args)
    except Exception as error:
        raise QueryError(
            f'function "{udf.name}" failed: {type(error).__name__}: {error}',
            detail=f"{_say_row(function, args)}{own_traceback(error)}",
            hint="nothing of this batch was joined; correct the function and run again.",
        ) from error
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
    if not isinstance(result, pa.Array):
        raise _bad_result(udf, f"returned a {type(result).__name__}")
    if len(result) != batch.num_rows:
        raise _bad_result(udf, f"returned {len(result)} values for {batch.num_rows} rows")
    if result.type != udf.type:
        raise _bad_result(udf, f"returned values of type {result.type}, but {udf.type} was declared")
    return result


def _say_row(function: Callable[..., pa.Array], args: Sequence[pa.Array]) -> str:
    """The first row that the function cannot take, if it is one row that makes it fail."""
    rows = list(range(len(args[0]))) if args else []
    while len(rows) > 1:
        half = rows[: len(rows) // 2]
        rows = half if _fails(function, args, half) else rows[len(half) :]
    if not rows or not _fails(function, args, rows):
        return ""
    values = ", ".join(repr(arg[rows[0]].as_py()) for arg in args)
    return f"it fails on the arguments ({values}).\n"


def _fails(function: Callable[..., pa.Array], args: Sequence[pa.Array], rows: Sequence[int]) -> bool:
    try:
        function(*(arg.slice(rows[0], len(rows)) for arg in args))
    except Exception:  # noqa: BLE001 - whatever it raises
        return True
    return False


def _bad_result(udf: Udf, what: str) -> QueryError:
    return QueryError(
        f'function "{udf.name}" {what}',
        detail=f"it was called as {to_sql(udf)}.",
        hint="it must return one Arrow array, as long as its arguments and of the type it was registered with.",
    )
