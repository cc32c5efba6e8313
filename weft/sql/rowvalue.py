"""Comparisons of rows of values, and of a value with all rows of a subquery.

    (a, b) = (c, d)        a = c AND b = d          (a, b) IN ((1, 2), (3, 4))      one of two such comparisons
    (a, b) < (c, d)        a < c OR (a = c AND b < d)
    x < ANY (SELECT ...)   a call `in_query` with its operator; IN (SELECT ...) is the one with =
    x < ALL (SELECT ...)   NOT x >= ANY (SELECT ...)
    x < ANY (ARRAY[a, b])  x < a OR x < b

What must hold: NULLs make a result unknown exactly where SQL says so; the right sides do, by three-valued logic.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.errors import Span
from weft.expr.model import Call, Expr, Literal
from weft.sql import forms
from weft.sql.cursor import Cursor

_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
ROW = "row"
"""The operator of a row of values; one that is not compared is refused when names are looked up."""


def compare(cursor: Cursor, op: str, left: Expr, right: Expr, span: Span) -> Expr:
    """A comparison, of rows too."""
    if not is_row(left) and not is_row(right):
        return Call(op, (left, right), None, span)
    first, second = _values(left), _values(right)
    if len(first) != len(second):
        detail = f"the left side has {len(first)}, the right side {len(second)}."
        raise cursor.fail(span, "rows of different length are compared", detail=detail, hint="name as many values.")
    if op in ("=", "<>"):
        equal = Call("and", tuple(Call("=", pair, None, span) for pair in zip(first, second, strict=True)), None, span)
        return equal if op == "=" else Call("not", (equal,), None, span)
    return _ordered(op, [*zip(first, second, strict=True)], span)


def _ordered(op: str, pairs: list[tuple[Expr, Expr]], span: Span) -> Expr:
    """The first pair that differs decides."""
    (left, right), *rest = pairs
    last = Call(op, (left, right), None, span)
    if not rest:
        return last
    equal = Call("=", (left, right), None, span)
    return Call("or", (Call(op[0], last.args, None, span), Call("and", (equal, _ordered(op, rest, span)))), None, span)


def is_row(expr: Expr) -> bool:
    """Whether it is a row of values."""
    return isinstance(expr, Call) and expr.op == ROW


def _values(expr: Expr) -> tuple[Expr, ...]:
    return expr.args if isinstance(expr, Call) and expr.op == ROW else (expr,)


def member(cursor: Cursor, left: Expr, among: tuple[Expr, ...], span: Span) -> Expr:
    """IN (...): a list of values, or of rows."""
    if not is_row(left) and not any(map(is_row, among)):
        return Call("in", (left, *among), None, span)
    found = tuple(compare(cursor, "=", left, one, span) for one in among)
    return found[0] if len(found) == 1 else Call("or", found, None, span)


def quantified(cursor: Cursor, op: str, left: Expr, start: int, read: forms.Read) -> Expr:
    """ANY, SOME or ALL behind an operator, with the subquery or the list behind it."""
    every = cursor.next().upper == "ALL"
    cursor.expect("(", "ANY and ALL are followed by a SELECT or a list in parentheses.")
    if not forms.sees_subquery(cursor):
        return _listed(cursor, "and" if every else "or", lambda one, span: compare(cursor, op, left, one, span), read)
    if is_row(left) and op not in ("=", "<>"):
        hint = "rows are compared with the rows of a subquery by = or <> alone."
        raise cursor.fail(cursor.span_from(start), "rows have no order here", hint=hint)
    asked = Literal(_OPPOSITE[op] if every else op)
    found = Call("in_query", (left, asked, forms.subquery(cursor)), None, cursor.span_from(start))
    return Call("not", (found,), None, found.span) if every else found


def _listed(cursor: Cursor, joined: str, compared: Callable[[Expr, Span], Expr], read: forms.Read) -> Expr:
    """A comparison with each value of a list that is written."""
    start = cursor.at
    listed, span = read(cursor), cursor.span_from(start)
    cursor.expect(")", "the parenthesis is never closed.")
    if not isinstance(listed, Call) or listed.op != "list_value":
        hint = "take the list apart in FROM: FROM t, UNNEST(t.list) AS u (x), and compare with u.x."
        raise cursor.fail(span, "ANY and ALL take a SELECT or a list that is written", hint=hint)
    found = tuple(compared(one, span) for one in listed.args)
    return found[0] if len(found) == 1 else Call(joined, found, None, span)
