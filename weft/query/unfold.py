"""An aggregate query as a person would write it again: the finished columns of a group say what they stand for.

    #k0 / 2 + #a1      becomes      o.price / 2 + sum(l.amount)

Two groupings of equal joins are equal iff what is written here is.
"""

from __future__ import annotations

from weft.expr.model import Call, Column, Expr, Literal, Udf, transform
from weft.query.aggregates import WINDOW
from weft.query.duration import format_duration
from weft.query.grouping import Aggregate, Grouping, value_field
from weft.query.model import Query


def unfold(query: Query, expr: Expr) -> Expr:
    """An output or HAVING of a grouping, over the relations of its query."""
    meaning = _meanings(query)
    return transform(expr, lambda node: meaning.get(node.name, node) if isinstance(node, Column) else node)


def keys(query: Query) -> tuple[Expr, ...]:
    """What GROUP BY says."""
    grouping = _grouping(query)
    given = {output.name: output.expr for output in query.outputs}
    return tuple(_key(grouping, name, given[name]) for name in grouping.keys)


def _key(grouping: Grouping, name: str, expr: Expr) -> Expr:
    window = grouping.window
    if window is None or window.key != name:
        return expr
    lengths = (window.length,) if window.length == window.slide else (window.length, window.slide)
    return Udf(WINDOW, (expr, *(Literal(format_duration(length)) for length in lengths)))


def _meanings(query: Query) -> dict[str, Expr]:
    grouping = _grouping(query)
    given = {output.name: output.expr for output in query.outputs}
    found: dict[str, Expr] = {name: given[name] for name in grouping.keys}
    if grouping.window is not None:
        found[grouping.window.key] = Column(WINDOW, "start")
    if grouping.ranking is not None:
        found = {**given, value_field(0): Udf(grouping.ranking.kind, ())}
    for at, aggregate in enumerate(grouping.aggregates):
        found[value_field(at)] = _call(aggregate, given)
    return found


def _call(aggregate: Aggregate, given: dict[str, Expr]) -> Udf:
    args = () if aggregate.argument is None else (given[aggregate.argument],)
    if aggregate.kind == "list":
        return Udf("list", args, aggregate.type)
    if aggregate.kind == "distinct":
        return Udf("count", (Call("distinct", args),), aggregate.type)
    return Udf(aggregate.kind, args, aggregate.type)


def _grouping(query: Query) -> Grouping:
    assert query.grouping is not None
    return query.grouping
