"""Aggregate functions: how a query calls them, what they take and what they give.

Before types are known, a call of one is a Udf node without type.  DISTINCT and FILTER are calls of operators that no
other part of Weft knows:

    COUNT(DISTINCT x)              count(distinct(x))
    SUM(x) FILTER (WHERE c)        filter(sum(x), c)
    COUNT(*)                       count()

`window(time, length)` is such a Udf too, and `window.start` is a column of an alias that no relation has.  All of them
are gone once a query is resolved: see `weft.query.groups`.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from pyarrow import types as pt

from weft.errors import QueryError
from weft.expr.coerce import cast_to
from weft.expr.model import Call, Column, Expr, Literal, Udf, children, walk
from weft.expr.rules import condition as require_condition
from weft.expr.types import MAX_DIGITS, is_comparable, is_number, is_orderable, sql_name
from weft.expr.typing import add_types
from weft.query.gathering import NAMES, ORDERED, is_gathering, packed
from weft.query.grouping import Kind
from weft.query.overcall import is_over

AGGREGATES: dict[str, Kind] = {
    "count": "count",
    "sum": "sum",
    "avg": "avg",
    "mean": "avg",
    "min": "min",
    "max": "max",
    "bool_and": "bool_and",
    "bool_or": "bool_or",
    "every": "bool_and",
    "any_value": "min",
    "approx_count_distinct": "distinct",
    **dict.fromkeys(NAMES, "list"),
}
"""Aggregate functions by the names SQL has for them."""

NOT_DONE = frozenset([
    "cume_dist", "dense_rank", "histogram", "lag", "lead", "ntile", "percent_rank", "rank", "row_number",
])  # fmt: skip
"""Aggregate and window functions of SQL that Weft does not have."""

WINDOW = "window"
PARTS = ("start", "end")
"""What a window of event time has."""


def is_aggregate(node: Expr) -> bool:
    """Whether this node, its names looked up, is a call of an aggregate function."""
    return isinstance(node, Udf) and node.type is None and node.name in AGGREGATES


def is_window(node: Expr) -> bool:
    """Whether this node, its names looked up, is a window of event time."""
    return isinstance(node, Udf) and node.type is None and node.name == WINDOW


def is_window_part(node: Expr) -> bool:
    """Whether this node, its names looked up, is `window.start` or `window.end`."""
    return isinstance(node, Column) and node.type is None


def has_aggregate(expr: Expr) -> bool:
    """Whether an aggregate function is called in the expression."""
    return any(is_aggregate(node) for node in walk(expr))


def calls_aggregate(written: object) -> bool:
    """The same of what is written, its names not looked up."""
    named = (
        node.name.lower() for node in (walk(written) if isinstance(written, Expr) else ()) if isinstance(node, Udf)
    )
    return any(name in AGGREGATES for name in named)


def refuse_aggregates(expr: Expr, place: str) -> None:
    """Refuse what only a grouped row has: aggregates and windows."""
    for node in walk(expr):
        if is_aggregate(node):
            raise QueryError(
                f"an aggregate cannot stand in {place}",
                detail="it is known only when the rows are grouped.",
                hint="write conditions on aggregates in HAVING." if "WHERE" in place else "put it in the SELECT list.",
                span=node.span,
            )
        if is_window(node) or is_window_part(node):
            raise QueryError(
                f"a window of event time cannot stand in {place}",
                hint="write window(time, length) in GROUP BY, window.start and window.end in SELECT and HAVING.",
                span=node.span,
            )
        if is_over(node):
            raise QueryError(
                f"the number of a row cannot stand in {place}",
                detail="rows are numbered when they are joined, selected and grouped.",
                hint="write QUALIFY, or number the rows in a derived table and select around it.",
                span=node.span,
            )
        refuse_marks(node)


def refuse_marks(node: Expr) -> None:
    """Refuse DISTINCT in, and FILTER after, a call that is no aggregate."""
    for at, child in enumerate(children(node)):
        if isinstance(child, Call) and child.op == "distinct" and not is_aggregate(node):
            raise QueryError("DISTINCT stands only in aggregates", hint="leave it out.", span=child.span)
        if isinstance(node, Call) and node.op == "filter" and at == 0 and not is_aggregate(child):
            raise QueryError("FILTER stands only after aggregates", hint="use CASE WHEN ... END.", span=node.span)


def read_call(call: Expr) -> tuple[Kind, Expr | None, pa.DataType, tuple[Literal, ...]]:
    """What an aggregate is: its kind, its argument with types, the type of its value, and what is made of a list."""
    test = None
    if isinstance(call, Call) and call.op == "filter":
        call, test = call.args
    assert isinstance(call, Udf)
    _refuse_nested(call, test)
    if is_gathering(call):
        row, made = packed(call)
        return "list", row if test is None else _where(test, row), pa.list_(row.type), made
    call = replace(call, args=tuple(_unordered(arg) for arg in call.args))
    kind, argument = _argument(call)
    if argument is not None:
        kind, argument, gives = _typed(kind, argument, call)
    else:
        gives = pa.int64()
    if test is not None:
        argument = _where(test, argument)
    return kind, argument, gives, ()


def _unordered(arg: Expr) -> Expr:
    """An argument whose order changes nothing."""
    return arg.args[0] if isinstance(arg, Call) and arg.op == ORDERED else arg


def _refuse_nested(call: Udf, test: Expr | None) -> None:
    for node in (inner for arg in (*call.args, *([] if test is None else [test])) for inner in walk(arg)):
        if is_aggregate(node):
            hint = "aggregate once; use a second query for the outer aggregate."
            raise QueryError("aggregates cannot be nested", hint=hint, span=node.span)
        if is_window(node) or is_window_part(node):
            hint = "use the event time itself, or window.start outside the aggregate."
            raise QueryError("a window cannot stand in an aggregate", hint=hint, span=node.span)


def _argument(call: Udf) -> tuple[Kind, Expr | None]:
    """The kind and the one argument; DISTINCT makes a kind of its own, or no difference."""
    kind, args = AGGREGATES[call.name], call.args
    distinct = bool(args) and isinstance(args[0], Call) and args[0].op == "distinct"
    args = children(args[0]) if distinct else args
    counts_all = kind == "count" and not args and not distinct
    if len(args) != 1 and not counts_all:
        raise QueryError(f'"{call.name}" takes 1 argument, not {len(args)}', hint="give it one value.", span=call.span)
    return "distinct" if distinct and kind == "count" else kind, args[0] if args else None


def _typed(kind: Kind, written: Expr, call: Udf) -> tuple[Kind, Expr | None, pa.DataType]:
    argument = add_types(written)
    if kind == "count":
        if isinstance(argument, Literal) and argument.value is not None:
            return kind, None, pa.int64()
        return kind, cast_to(argument, pa.bool_()) if pt.is_null(argument.type) else argument, pa.int64()
    if kind in ("bool_and", "bool_or"):
        return kind, require_condition(argument), pa.bool_()
    if pt.is_null(argument.type):
        raise QueryError("the argument has no type of its own", hint="write CAST(NULL AS type).", span=written.span)
    if kind == "sum" and pt.is_boolean(argument.type):
        argument = cast_to(argument, pa.int64())
    _require_type(kind, argument, call)
    return kind, argument, _value_type(kind, argument.type)


def _require_type(kind: Kind, argument: Expr, call: Udf) -> None:
    fits = {"sum": is_number, "avg": is_number, "min": is_orderable, "max": is_orderable, "distinct": is_comparable}
    if not fits[kind](argument.type):
        raise QueryError(
            f"{call.name.upper()} is not defined on {sql_name(argument.type)}",
            detail="SUM and AVG take numbers, MIN and MAX whatever has an order.",
            hint="CAST the argument to a number." if kind in ("sum", "avg") else "aggregate another column.",
            span=argument.span or call.span,
        )


def _value_type(kind: Kind, argument: pa.DataType) -> pa.DataType:
    if kind in ("min", "max"):
        return argument
    if kind == "distinct":
        return pa.int64()
    if kind == "avg" or pt.is_floating(argument):
        return pa.float64()
    return pa.decimal128(MAX_DIGITS, argument.scale) if pt.is_decimal(argument) else pa.int64()


def _where(test: Expr, argument: Expr | None) -> Expr:
    """The argument where the condition holds, NULL elsewhere; COUNT(*) counts ones."""
    value = Literal(1) if argument is None else argument
    return add_types(Call("case", (require_condition(add_types(test)), value, Literal(None)), None, test.span))
