"""Which selections follow from others.

A selection is a conjunction; the empty one lets everything through.  What must hold: if one selection implies another,
every row that passes the first passes the second.  Not every implication is found: equal parts, alternatives, and
comparisons of one expression with constants, are.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from weft.expr.model import Call, Expr, Literal, conjuncts, text_of

Selection = tuple[Expr, ...]

_TURNED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_IMPLIED: dict[str, dict[str, str]] = {
    ">": {">": ">=", ">=": ">", "=": ">"},
    ">=": {">": ">=", ">=": ">=", "=": ">="},
    "<": {"<": "<=", "<=": "<", "=": "<"},
    "<=": {"<": "<=", "<=": "<=", "=": "<="},
    "<>": {">": ">=", ">=": ">", "<": "<=", "<=": "<", "=": "<>"},
}
"""x `op` w -> what x `other` v needs v and w to be: x > w follows from x >= v if v > w."""
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    ">": lambda v, w: v > w, ">=": lambda v, w: v >= w, "<": lambda v, w: v < w, "<=": lambda v, w: v <= w,
    "<>": lambda v, w: v != w,
}  # fmt: skip


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
    return all(_follows(part, chosen) for part in other)


def _follows(part: Expr, chosen: Selection) -> bool:
    if any(_follows_from(part, given) for given in chosen):
        return True
    if isinstance(part, Call) and part.op in ("or", "and"):
        return (any if part.op == "or" else all)(_follows(arm, chosen) for arm in part.args)
    return False


def _follows_from(part: Expr, given: Expr) -> bool:
    if text_of(part) == text_of(given):
        return True
    if isinstance(given, Call) and given.op == "or":
        return all(implies(conjuncts(arm), (part,)) for arm in given.args)
    known = _comparison(given)
    if known is None:
        return False
    expr, op, literal = known
    if isinstance(part, Call) and part.op == "not" and isinstance(part.args[0], Call) and part.args[0].op == "is_null":
        return text_of(part.args[0].args[0]) == text_of(expr)  # a comparison with NULL is not TRUE
    asked = _comparison(part)
    if asked is None or text_of(asked[0]) != text_of(expr) or asked[2].type != literal.type:
        return False
    needed = _IMPLIED.get(asked[1], {}).get(op)
    return needed is not None and bool(_COMPARE[needed](literal.value, asked[2].value))


def _comparison(expr: Expr) -> tuple[Expr, str, Literal] | None:
    """An expression compared with a constant, as (expression, operator, constant)."""
    if not isinstance(expr, Call) or expr.op not in _TURNED:
        return None
    (left, right), op = expr.args, expr.op
    if isinstance(left, Literal):
        left, right, op = right, left, _TURNED[op]
    if not isinstance(right, Literal) or isinstance(left, Literal) or not _is_ordered(right.value):
        return None
    return left, op, right


def _is_ordered(value: object) -> bool:
    if isinstance(value, float):
        return not math.isnan(value)
    return isinstance(value, int | Decimal | dt.date) and not isinstance(value, bool)
