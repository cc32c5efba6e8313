"""Type rules of dates, times and durations; see `weft.expr.rules`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyarrow import types as pt

from weft.errors import QueryError
from weft.expr.arguments import Rule, all_integer, constant, is_number_or_null, require_all
from weft.expr.coerce import cast_to, incomparable, unify
from weft.expr.dates import PARTS, UNITS, unit_of
from weft.expr.model import Call, Expr, Literal
from weft.expr.timetext import check_pattern, from_java
from weft.expr.types import (
    DURATION,
    TIMESTAMP,
    TIMESTAMP_UTC,
    sql_name,
)


def time_arithmetic(call: Call, left: Expr, right: Expr) -> Call:
    """+ and - where a side is no number."""
    a, b = left.type, right.type
    if call.op == "+" and (pt.is_duration(a) or pt.is_integer(a)) and not pt.is_duration(b):
        return time_arithmetic(call, right, left)
    if pt.is_date(a) and pt.is_integer(b):
        return replace(call, args=(left, cast_to(right, pa.int32())), type=a)  # days, as many as a date can hold
    if call.op == "-" and pt.is_date(a) and pt.is_date(b):
        return replace(call, args=(left, right), type=pa.int64())
    if pt.is_duration(b) and (pt.is_timestamp(a) or pt.is_date(a) or pt.is_duration(a)):
        moved = cast_to(left, TIMESTAMP) if pt.is_date(a) else left
        return replace(call, args=(moved, right), type=moved.type)
    if call.op == "-" and _is_time(a) and _is_time(b):
        return replace(call, args=unify((left, right), "difference"), type=DURATION)
    raise incomparable(a, b, call, f'"{call.op}"')


def _is_time(kind: pa.DataType) -> bool:
    return bool(pt.is_timestamp(kind) or pt.is_date(kind))


def extraction(call: Call) -> Call:
    """year, month and other parts of a date or timestamp; epoch also of a duration."""
    kind = pa.float64() if call.op == "epoch" else pa.int64()
    if call.op == "epoch" and pt.is_duration(call.args[0].type):
        return replace(call, type=kind)
    if call.op == "epoch_ms" and pt.is_integer(call.args[0].type):
        return from_epoch(TIMESTAMP)(replace(call, op="make_timestamp_ms"))
    return replace(call, args=(_time(call, call.args[0]),), type=kind)


def date_part(call: Call) -> Call:
    """date_part and EXTRACT: the function that is named by a constant."""
    unit = _unit(call, tuple(PARTS))
    return extraction(replace(call, op=str(unit.value), args=call.args[1:]))


def truncation(call: Call) -> Call:
    """date_trunc: a constant unit; a date becomes a timestamp."""
    arg = _time(call, call.args[1])
    return replace(call, args=(_unit(call, UNITS), arg), type=arg.type)


def written_time(call: Call) -> Call:
    """strftime(time, '%Y-%m-%d'): a constant format."""
    pattern = constant(call, call.args[1], pa.string())
    check_pattern(str(pattern.value), pattern.span or call.span)
    return replace(call, args=(_time(call, call.args[0]), pattern), type=pa.string())


def java_time(call: Call) -> Call:
    """date_format(time, 'yyyy-MM-dd') is strftime, with the letters of Java's formats."""
    pattern = constant(call, call.args[1], pa.string())
    made = from_java(str(pattern.value), pattern.span or call.span)
    return written_time(replace(call, op="strftime", args=(call.args[0], replace(pattern, value=made))))


def difference(call: Call) -> Call:
    """date_diff: a constant unit and two times."""
    unit = _unit(call, UNITS)
    first, last = unify([_time(call, arg) for arg in call.args[1:]], '"date_diff"')
    return replace(call, args=(unit, first, last), type=pa.int64())


def _unit(call: Call, known: Sequence[str]) -> Literal:
    given = constant(call, call.args[0], pa.string())
    name = unit_of(str(given.value))
    if name not in known:
        raise QueryError(
            f"{call.op} does not know the unit {given.value!r}", hint=f"use one of {', '.join(known)}.", span=given.span
        )
    return Literal(name, pa.string(), given.span)


def moment(call: Call) -> Call:
    """The time of a batch."""
    return replace(call, type=TIMESTAMP_UTC)


def from_epoch(kind: pa.DataType) -> Rule:
    """A number of seconds, milliseconds or microseconds since 1970 as a time."""

    def rule(call: Call) -> Call:
        require_all(call.args, is_number_or_null, f'"{call.op}"', call)
        number = pa.float64() if call.op == "to_timestamp" else pa.int64()
        if number == pa.int64():
            require_all(call.args, lambda given: not pt.is_floating(given), f'"{call.op}"', call)
        return replace(call, args=(cast_to(call.args[0], number),), type=kind)

    return rule


def months_added(call: Call) -> Call:
    """A time and a constant number of months."""
    arg = _time(call, call.args[0])
    return replace(call, args=(arg, constant(call, call.args[1], pa.int64())), type=arg.type)


def date_of_parts(call: Call) -> Call:
    """make_date: three integers."""
    return replace(all_integer(call), type=pa.date32())


def _time(call: Call, arg: Expr) -> Expr:
    if not (_is_time(arg.type) or pt.is_null(arg.type)):
        raise QueryError(
            f'"{call.op}" needs a date or timestamp, not a {sql_name(arg.type)}',
            hint="CAST it AS TIMESTAMP.",
            span=arg.span,
        )
    return arg if pt.is_timestamp(arg.type) else cast_to(arg, TIMESTAMP)
