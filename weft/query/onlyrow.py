"""Subqueries that have exactly one row, whatever rows come: aggregates without GROUP BY.

Rows that find nothing have a row of aggregates too, so EXISTS, IN, ANY and ALL of such a subquery are no joins with its
groups but comparisons with its value.

    EXISTS (SELECT COUNT(*) FROM b WHERE b.k = a.k)               TRUE
    a.x IN (SELECT MAX(y) FROM b WHERE b.k = a.k)                 a.x = (SELECT MAX(y) FROM b WHERE b.k = a.k)
    (SELECT MAX(y) FROM b WHERE b.k = a.k HAVING COUNT(*) > 1)    (SELECT CASE WHEN COUNT(*) > 1 THEN MAX(y) END ...)

With HAVING the row is there only where it holds: elsewhere EXISTS and IN are false, and the value is NULL.
"""

from __future__ import annotations

from dataclasses import replace

from weft.expr.model import Call, Column, Expr, Literal, transform
from weft.query.aggregates import calls_aggregate
from weft.query.draft import Condition, Draft, Item, Star
from weft.query.ranking import is_ranking
from weft.query.tied import expr_of, many_columns, one_column, operator_of


def has_one_row(draft: Draft) -> bool:
    """Whether a subquery has one row of aggregates, if HAVING lets it."""
    if draft.group_by or draft.unions or draft.sets or draft.distinct or is_ranking(draft) or not draft.sources:
        return False
    return bool(draft.having) or any(calls_aggregate(item.expr) for item in draft.items)


def without_having(draft: Draft) -> Draft:
    """The subquery with NULL where HAVING does not hold; it must have one column."""
    test = _having(draft)
    if test is None or len(draft.items) != 1 or isinstance(draft.items[0].expr, Star):
        return draft
    (item,) = draft.items
    return replace(draft, items=(replace(item, expr=Call("case", (test, expr_of(item), Literal(None)))),), having=())


def as_values(draft: Draft) -> tuple[tuple[Item, ...], tuple[Condition, ...]]:
    """Its columns as subqueries that are a value, and the condition on which the row is there."""

    def value(expr: Expr) -> Call:
        made = replace(draft, items=(Item(expr, "value", draft.text),), having=())
        return Call("subquery", (Literal(made),), None, draft.place)

    items = (
        replace(item, expr=value(expr_of(item)), name=item.name or f"#value{at}") for at, item in enumerate(draft.items)
    )
    test = _having(draft)
    return tuple(items), () if test is None else (Condition(value(test), draft.text),)


def compared(call: Call, draft: Draft) -> Expr:
    """EXISTS or IN as a condition on the value."""
    test = _having(draft)
    if call.op == "exists":
        return Literal(True) if test is None else Call("coalesce", (_value(call, draft, test), Literal(False)))
    value = call.args[0]
    values = value.args if isinstance(value, Call) and value.op == "row" else (value,)
    if len(values) != len(draft.items):
        raise one_column(call) if len(values) == 1 else many_columns(call, len(values))
    op = operator_of(call)
    pairs = [
        Call(op, (one, _value(call, draft, expr_of(item))), None, call.span)
        for one, item in zip(values, draft.items, strict=True)
    ]
    same = pairs[0] if len(pairs) == 1 else Call("or" if op == "<>" else "and", tuple(pairs), None, call.span)
    return same if test is None else Call("case", (_value(call, draft, test), same, Literal(False)), None, call.span)


def _value(call: Call, draft: Draft, expr: Expr) -> Call:
    made = replace(draft, items=(Item(expr, "value", draft.text),), having=())
    return Call("subquery", (Literal(made),), None, call.span)


def _having(draft: Draft) -> Expr | None:
    """The condition, in which a bare name may be that of an output."""
    named = {
        item.name.lower(): item.expr for item in draft.items if item.name and not isinstance(item.expr, Star | str)
    }

    def meant(node: Expr) -> Expr:
        return named.get(node.name.lower(), node) if isinstance(node, Column) and not node.alias else node

    tests = tuple(transform(expr_of(one), meant) for one in draft.having)
    return None if not tests else tests[0] if len(tests) == 1 else Call("and", tests)
