"""From a tree with typed columns to a tree that can be evaluated.

`add_types` gives every node a type, inserts the casts, reads text constants as the dates they stand for, and
computes what is constant.  Both sides of an `=` get identical Arrow types, because partners are found by the hash of
their values.  A call that has a type is finished, so that typing a tree twice changes nothing; only a CAST, and a call
of a Python function, say their type before.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pyarrow as pa
from pyarrow import types as pt

from weft.errors import InternalError, QueryError
from weft.expr.coerce import type_literal
from weft.expr.evaluate import evaluate
from weft.expr.functions import FUNCTIONS
from weft.expr.model import Call, Column, Expr, Literal, Udf
from weft.expr.types import DURATION, MONTHS

CASTS = ("cast", "try_cast")
"""Calls whose type is said by whoever writes them."""

_ONE_ROW = pa.RecordBatch.from_arrays([pa.array([0])], ["_"])


def add_types(expr: Expr) -> Expr:
    """The expression with all types, casts and constants in place.

    >>> from weft.expr.render import to_sql
    >>> price = Column("o", "price", pa.int32())
    >>> to_sql(add_types(Call("<", (price, Call("*", (Literal(2), Literal(3)))))))
    'o.price < 6'
    """
    if isinstance(expr, Literal):
        return type_literal(expr)
    if expr.type is None and not isinstance(expr, Call):
        raise InternalError(f"{expr} has no type")
    if isinstance(expr, Column) or (isinstance(expr, Call) and expr.op not in CASTS and expr.type is not None):
        return expr
    expr = replace(expr, args=tuple(add_types(arg) for arg in expr.args))
    return expr if isinstance(expr, Udf) else _type_call(expr)


def _type_call(call: Call) -> Expr:
    moved = _add_months(call)
    if moved is not None:
        return moved
    function = FUNCTIONS.get(call.op)
    if function is None:
        raise InternalError(f'no operator is called "{call.op}"')
    if not function.least <= len(call.args) <= function.most:
        raise QueryError(
            f'"{call.op}" takes {_count(function.least, function.most)}, not {len(call.args)}',
            hint=_WRITTEN.get(call.op, "leave arguments out, or write those that are missing."),
            span=call.span,
        )
    ruled = function.rule(call)
    if ruled.op != call.op:  # it was rewritten, and its new arguments may be constant
        ruled = replace(ruled, args=tuple(_fold(arg) if isinstance(arg, Call) else arg for arg in ruled.args))
    return _fold(ruled)


def require_type(expr: Expr) -> Expr:
    """The expression, if it has a type: a bare NULL, or a column that holds nothing else, cannot be put out."""
    if isinstance(expr, Column) and pt.is_null(expr.type):
        detail = "the first file or batch holds only NULLs for it."
        hint = "declare the columns: schema=pyarrow.schema([...])."
        raise QueryError(f'column "{expr.name}" has no type', detail=detail, hint=hint, span=expr.span)
    if pt.is_null(expr.type) or pt.is_interval(expr.type):
        raise QueryError("this output has no type of its own", hint="write CAST(... AS type).", span=expr.span)
    return expr


_WRITTEN = {
    "date_diff": "write date_diff('day', first, last).",
    "date_trunc": "write date_trunc('hour', time).",
    "split_part": "write split_part(text, separator, number).",
    "strftime": "write strftime(time, '%Y-%m-%d').",
    "substring": "write substring(text, first, length).",
}
"""Functions that other systems call with fewer arguments -> how they are written here."""


def _count(least: int, most: int) -> str:
    if least == most:
        return f"{least} argument{'s' * (least != 1)}"
    return f"{least} to {most} arguments" if most < 100 else f"at least {least} arguments"


def _fold(call: Call) -> Expr:
    if call.op in CASTS and call.args[0].type == call.type:
        return call.args[0]
    if not call.args or not all(isinstance(arg, Literal) for arg in call.args) or pt.is_list(call.type):
        return call  # a list cannot be compared as a constant
    try:
        return Literal(evaluate(call, _ONE_ROW, {})[0].as_py(), call.type, call.span)
    except QueryError as error:
        raise QueryError(error.message, detail=error.detail, hint=error.hint, span=call.span) from None


def _add_months(call: Call) -> Expr | None:
    """A time plus or minus an interval with months in it; anywhere else it has no fixed length."""
    months = [arg for arg in call.args if arg.type == MONTHS]
    if not months:
        return None
    times = [arg for arg in call.args if pt.is_date(arg.type) or pt.is_timestamp(arg.type)]
    order_fits = call.op == "+" or (call.op == "-" and call.args[1:] == tuple(months))
    if len(call.args) != 2 or not times or not order_fits or not isinstance(months[0], Literal):
        raise QueryError(
            "an interval of months or years has no fixed length",
            detail="it can be added to a date or timestamp, and to nothing else.",
            hint="write it in days, such as INTERVAL '30' DAY.",
            span=months[0].span,
        )
    return _move(call, times[0], months[0].value)


def _move(call: Call, time: Expr, interval: object) -> Expr:
    """The months first, then the rest, as SQL does it."""
    assert isinstance(interval, pa.MonthDayNano)
    sign = -1 if call.op == "-" else 1
    moved: Expr = Call("add_months", (time, Literal(sign * interval.months)), None, call.span)
    rest = dt.timedelta(days=interval.days, microseconds=interval.nanoseconds // 1000)
    return add_types(Call(call.op, (moved, Literal(rest, DURATION)), None, call.span) if rest else moved)
