"""Selections: which rows of a stream a relation wants, and what two selections have in common.

A selection is a conjunction over a stream's own columns; the empty one wants everything.  What must hold: if one
selection implies another, every row that passes the first passes the second.  Not every implication is found: equal
parts, and comparisons of one expression with constants, are.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from weft.expr.model import Call, Column, Expr, Literal, text_of, transform, without_alias
from weft.optimizer.graph.predicates import FLIP
from weft.optimizer.lower.ways import Ways

Selection = tuple[Expr, ...]

_IMPLIED: dict[str, dict[str, str]] = {
    ">": {">": ">=", ">=": ">", "=": ">"},
    ">=": {">": ">=", ">=": ">=", "=": ">="},
    "<": {"<": "<=", "<=": "<", "=": "<"},
    "<=": {"<": "<=", "<=": "<=", "=": "<="},
    "<>": {">": ">=", ">=": ">", "<": "<=", "<=": "<", "=": "<>"},
}
"""x `op` w -> what x `other` v needs v and w to be: x > w follows from x >= v if v > w."""
_COMPARE = {
    ">": lambda v, w: v > w, ">=": lambda v, w: v >= w, "<": lambda v, w: v < w, "<=": lambda v, w: v <= w,
    "<>": lambda v, w: v != w,
}  # fmt: skip


def selection(plan: Ways, label: str) -> Selection:
    """The selections of a relation, in an order that does not depend on the query's."""
    own = (without_alias(p) for p in plan.query.selections(label))
    return (*sorted(own, key=text_of), *_require_time(plan, label))


def _require_time(plan: Ways, label: str) -> Selection:
    """A row without event time is in no window.  Edges with a clock drop it; without one this selection does."""
    relation = plan.query.relation(label)
    if plan.clocked or relation.window is None or len(plan.query.relations) == 1:
        return ()
    name = str(relation.stream.event_time)
    missing = Call("is_null", (Column("", name, relation.stream.schema.field(name).type),), pa.bool_())
    return (Call("not", (missing,), pa.bool_()),)


def labelled(chosen: Selection, label: str) -> Selection:
    """The selection as a predicate over the fields of tuples."""

    def name(node: Expr) -> Expr:
        return Column(label, node.name, node.type, node.span) if isinstance(node, Column) else node

    return tuple(transform(part, name) for part in chosen)


def either(chosen: Iterable[Selection]) -> Selection:
    """Rows that any of the selections wants."""
    wanted: list[Selection] = []
    for one in sorted(set(chosen), key=lambda parts: (len(parts), [*map(text_of, parts)])):
        if not any(implies(one, other) for other in wanted):
            wanted = [other for other in wanted if not implies(other, one)] + [one]
    if len(wanted) == 1:
        return wanted[0]
    sides = (parts[0] if len(parts) == 1 else Call("and", parts, pa.bool_()) for parts in wanted)
    return (Call("or", tuple(sides), pa.bool_()),)


def implies(chosen: Selection, other: Selection) -> bool:
    """Whether every row that passes a selection surely passes the other."""
    return all(any(_follows(part, given) for given in chosen) for part in other)


def _follows(part: Expr, given: Expr) -> bool:
    if text_of(part) == text_of(given):
        return True
    known = _comparison(given)
    if known is None:
        return False
    expr, op, value = known
    if isinstance(part, Call) and part.op == "not" and isinstance(part.args[0], Call) and part.args[0].op == "is_null":
        return text_of(part.args[0].args[0]) == text_of(expr)  # a comparison with NULL is not TRUE
    asked = _comparison(part)
    if asked is None or text_of(asked[0]) != text_of(expr) or type(asked[2]) is not type(value):
        return False
    needed = _IMPLIED.get(asked[1], {}).get(op)
    return needed is not None and bool(_COMPARE[needed](value, asked[2]))


def _comparison(expr: Expr) -> tuple[Expr, str, Any] | None:
    """An expression compared with a constant, as (expression, operator, constant)."""
    if not isinstance(expr, Call) or expr.op not in FLIP:
        return None
    (left, right), op = expr.args, expr.op
    if isinstance(left, Literal):
        left, right, op = right, left, FLIP[op]
    if not isinstance(right, Literal) or isinstance(left, Literal) or not _is_ordered(right.value):
        return None
    return left, op, right.value


def _is_ordered(value: object) -> bool:
    if isinstance(value, float):
        return not math.isnan(value)
    return isinstance(value, int | Decimal | dt.date) and not isinstance(value, bool)
