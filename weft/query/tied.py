"""How a subquery is tied to the query around it: what is compared with what, and which joins in it are flat."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from weft.errors import QueryError, Span
from weft.expr.model import Call, Expr, Literal, columns
from weft.query.draft import Condition, Item, Source, Star
from weft.query.opened import Part

Pairs = list[tuple[Expr, Expr]]
"""Values outside, and the columns of a subquery that they are compared with."""


@dataclass(frozen=True, slots=True)
class Tie:
    """What one of the first columns of a subquery is compared with outside."""

    outer: Expr
    op: str = "="
    """`same` if NULL is the same as NULL."""

    def compared(self, key: Expr, span: Span | None) -> Call:
        """The comparison with that column."""
        return Call(self.op, (key, self.outer), None, span)


COMPARED = frozenset(["=", "<>", "<", "<=", ">", ">="])


def expr_of(one: Condition | Item) -> Expr:
    """What a condition or an item says."""
    assert not isinstance(one.expr, str | Star)
    return one.expr


def null_test(expr: Expr) -> Expr:
    """IS NULL."""
    return Call("is_null", (expr,))


def operator_of(call: Call) -> str:
    """How IN, ANY or ALL compares."""
    return str(call.args[1].value) if len(call.args) == 3 and isinstance(call.args[1], Literal) else "="


def surely(pairs: Pairs, call: Call) -> list[Expr]:
    """Conditions that all hold where the comparison is true; rows differ if one of their values does."""
    op = operator_of(call)
    found: list[Expr] = [Call(op, pair, None, call.span) for pair in pairs]
    return [Call("or", tuple(found), None, call.span)] if op == "<>" and len(found) > 1 else found


def maybe(pairs: Pairs, call: Call) -> list[Expr]:
    """Conditions that all hold where the comparison is true or unknown."""
    op = operator_of(call)
    open_: list[Expr] = [
        Call("or", (Call(op, (one, other), None, call.span), null_test(one), null_test(other)), None, call.span)
        for one, other in pairs
    ]
    return [Call("or", tuple(open_), None, call.span)] if op == "<>" and len(open_) > 1 else open_


def many_columns(call: Call, count: int) -> QueryError:
    """A subquery that is compared with a row of values has another number of columns."""
    return QueryError(f"this subquery must select {count} columns", hint="one for each value.", span=call.span)


def one_column(call: Call) -> QueryError:
    """A subquery that is a value has several columns."""
    return QueryError("this subquery must select one column", hint="name one column behind SELECT.", span=call.span)


def sides(condition: Condition, mine: set[str], call: Call) -> tuple[Expr, Tie]:
    """`inner = outer` of a subquery that groups rows."""
    expr = expr_of(condition)
    found = equal_sides(expr, mine, ("=", "same"))
    if found is None or not isinstance(expr, Call):
        raise QueryError(
            "a subquery that groups rows can be tied to the query around it by comparisons with one stream alone",
            hint="write inner column = outer column, or join first and group around it.",
            span=expr.span or call.span,
        )
    return found[0], Tie(found[1], expr.op)


def equal_sides(expr: Expr, mine: set[str], ops: Collection[str] = ("=",)) -> tuple[Expr, Expr] | None:
    """The side inside and the side outside of an equality; None if it is no such equality."""
    if not isinstance(expr, Call) or expr.op not in ops:
        return None
    first, second = expr.args
    for inner, outer in ((first, second), (second, first)):
        inside = {column.alias in mine for column in columns(inner)}
        outside = {column.alias in mine for column in columns(outer)}
        if inside == {True} and outside == {False}:
            return inner, outer
    return None


def flat_joins(part: Part) -> tuple[tuple[Source, ...], tuple[Condition, ...]] | None:
    """Sources and conditions of inner joins; None if there are others."""
    if isinstance(part, Source):
        return (part,), ()
    left, right = flat_joins(part.left), ((), ()) if part.right is None else flat_joins(part.right)
    if part.kind not in ("inner", "where") or part.asof or left is None or right is None:
        return None
    return (*left[0], *right[0]), (*left[1], *right[1], *part.on)
