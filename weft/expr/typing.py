"""From a tree with typed columns to a tree that can be evaluated.

`add_types` gives every node a type, inserts the casts, reads text constants as the dates they stand for, and
computes what is constant.  Both sides of an `=` get identical Arrow types, because partners are found by the hash of
their values.  Typing a tree twice changes nothing.
"""

from __future__ import annotations

import calendar
import datetime as dt
from dataclasses import replace

import pyarrow as pa
from pyarrow import types as pt

from weft.errors import InternalError, QueryError
from weft.expr.coerce import type_literal
from weft.expr.evaluate import evaluate
from weft.expr.functions import FUNCTIONS
from weft.expr.model import Call, Column, Expr, Literal, Udf
from weft.expr.types import MONTHS, TIMESTAMP, ExprError

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
    if isinstance(expr, Column):
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
        raise ExprError(
            f'"{call.op}" takes {_count(function.least, function.most)}, not {len(call.args)}', span=call.span
        )
    ruled = function.rule(call)
    if ruled.op != call.op:  # it was rewritten, and its new arguments may be constant
        ruled = replace(ruled, args=tuple(_fold(arg) if isinstance(arg, Call) else arg for arg in ruled.args))
    return _fold(ruled)


def _count(least: int, most: int) -> str:
    if least == most:
        return f"{least} argument{'s' * (least != 1)}"
    return f"{least} to {most} arguments" if most < 100 else f"at least {least} arguments"


def _fold(call: Call) -> Expr:
    if call.op == "cast" and call.args[0].type == call.type:
        return call.args[0]
    if not all(isinstance(arg, Literal) for arg in call.args):
        return call
    try:
        return Literal(evaluate(call, _ONE_ROW, {})[0].as_py(), call.type, call.span)
    except QueryError as error:
        raise ExprError(error.message, detail=error.detail, hint=error.hint, span=call.span) from None


def _add_months(call: Call) -> Literal | None:
    """A constant date plus or minus months; anywhere else an interval of months has no fixed length."""
    months = [arg for arg in call.args if arg.type == MONTHS]
    if not months:
        return None
    dates = [arg for arg in call.args if isinstance(arg, Literal) and isinstance(arg.value, dt.date)]
    order_fits = call.op == "+" or (call.op == "-" and call.args[1:] == tuple(months))
    if len(call.args) != 2 or not dates or not order_fits or not isinstance(months[0], Literal):
        raise ExprError(
            "an interval of months or years has no fixed length",
            detail="it can only be added to a constant date or timestamp.",
            hint="write it in days, such as INTERVAL '30' DAY.",
            span=months[0].span,
        )
    return _move_date(dates[0], months[0].value, -1 if call.op == "-" else 1)


def _move_date(date: Literal, interval: object, sign: int) -> Literal:
    assert isinstance(interval, pa.MonthDayNano)
    start = date.value
    assert isinstance(start, dt.date)
    if not isinstance(start, dt.datetime):
        start = dt.datetime(start.year, start.month, start.day)  # noqa: DTZ001 - SQL's TIMESTAMP has no zone
    month = start.year * 12 + start.month - 1 + sign * interval.months
    year, month = month // 12, month % 12 + 1
    day = min(start.day, calendar.monthrange(year, month)[1])
    rest = dt.timedelta(days=interval.days, microseconds=interval.nanoseconds // 1000)
    kind = TIMESTAMP if pt.is_date(date.type) else date.type
    return Literal(start.replace(year=year, month=month, day=day) + sign * rest, kind, date.span)
