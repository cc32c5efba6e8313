"""What an index can do for a predicate.

Given a join predicate and the aliases `target` that are looked up together while its other aliases are known, the
predicate may be an equality (target side = known side), or bound one expression over the target from below
or above.  Constants and known terms are moved to the known side where that is exact (integers,
timestamps, durations).  For floats rounding makes it inexact: the bound is widened, and the predicate stays a
residual.  Everything that fits neither form is a residual.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import pyarrow as pa

from weft.expr.model import Call, Column, Expr, Literal, aliases
from weft.kernels.codes import exact_order, has_codes
from weft.query.model import TIME, Query
from weft.topology.node import Bound

FLIP = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
SLACK = {"double": (1e-300, 1e-14), "float": (1e-37, 1e-5)}
"""Type -> absolute and relative widening of a bound; several units in the last place."""


Aliases = frozenset[str]


@dataclass(frozen=True, slots=True)
class Equality:
    """`target` (over the target's aliases) equals `known` (over the others)."""

    target: Expr
    known: Expr


@dataclass(frozen=True, slots=True)
class Limit:
    """`target` lies above (`low`) or below the bound; `exact` if nothing else needs checking."""

    target: Expr
    bound: Bound
    low: bool
    exact: bool


def window_predicates(query: Query, of: AbstractSet[str] | None = None) -> tuple[Expr, ...]:
    """The window rule as join predicates: for every a with a window and every other b, b.#t < a.#t + window.

    `of` are the aliases whose windows count; None is all.
    """
    timed = [relation for relation in query.relations if relation.stream.event_time is not None]
    return tuple(
        Call("<", (time_of(b.alias), _plus(time_of(a.alias), a.window)), pa.bool_())
        for a in timed
        if a.window is not None and (of is None or a.alias in of)
        for b in timed
        if b.alias != a.alias
    )


def time_of(alias: str) -> Column:
    """The event time of an alias in microseconds."""
    return Column(alias, TIME, pa.int64())


def equality(predicate: Expr, target: Aliases) -> Equality | None:
    """The predicate as an equality between the target and the others, if it is one."""
    if not isinstance(predicate, Call) or predicate.op != "=":
        return None
    for mine, other in (predicate.args, predicate.args[::-1]):
        if _is_within(mine, target) and aliases(other) and not aliases(other) & target and has_codes(mine.type):
            return Equality(mine, other)
    return None


def _is_within(expr: Expr, target: Aliases) -> bool:
    return bool(aliases(expr)) and aliases(expr) <= target


def limits(predicate: Expr, target: Aliases) -> tuple[Limit, ...]:
    """All bounds the predicate sets on an expression over the target."""
    if not isinstance(predicate, Call) or predicate.op not in FLIP or predicate.op == "=":
        return ()
    left, right = predicate.args
    op = predicate.op
    if _is_distance(left) and not aliases(right) and op in ("<", "<="):
        return _band(left.args[0], right, op, target)  # type: ignore[union-attr]
    if _is_distance(right) and not aliases(left) and op in (">", ">="):
        return _band(right.args[0], left, FLIP[op], target)  # type: ignore[union-attr]
    return _side(left, right, op, target) or _side(right, left, FLIP[op], target)


def _band(difference: Expr, width: Expr, op: str, target: Aliases) -> tuple[Limit, ...]:
    """abs(x - y) < w as two bounds: x - y < w and x - y > -w."""
    low = Call("neg", (width,), width.type)
    return _side(difference, width, op, target) + _side(difference, low, FLIP[op], target)


def _side(mine: Expr, other: Expr, op: str, target: Aliases) -> tuple[Limit, ...]:
    """`mine op other`, with everything but the target's own expression moved to the other side."""
    exact = True
    while True:
        moved = _move(mine, other, op, target)
        if moved is None:
            break
        mine, other, op, clean = moved
        exact = exact and clean
    if not _is_within(mine, target) or aliases(other) & target or not has_codes(mine.type) or mine.type != other.type:
        return ()
    low = op in (">", ">=")
    strict = op in (">", "<")
    if not exact:
        other, strict = _widen(other, low), False
    return (Limit(mine, Bound(other, strict, loose=not exact), low, exact and exact_order(mine.type)),)


def _move(mine: Expr, other: Expr, op: str, target: Aliases) -> tuple[Expr, Expr, str, bool] | None:
    """Take one term of a sum or difference to the other side, or None if nothing can be moved."""
    if not isinstance(mine, Call) or mine.op not in ("+", "-") or len(mine.args) != 2:
        return None
    first, second = mine.args
    clean = not (pa.types.is_floating(mine.type) or pa.types.is_decimal(mine.type))
    if not clean and not aliases(mine) - target:
        return None  # an index on the float expression itself is exact
    if aliases(first) & target and not aliases(second) & target:
        inverse = "-" if mine.op == "+" else "+"
        return _allow_move(first, Call(inverse, (other, second), first.type), op, clean)
    if aliases(second) & target and not aliases(first) & target:
        if mine.op == "+":
            return _allow_move(second, Call("-", (other, first), second.type), op, clean)
        return _allow_move(second, Call("-", (first, other), second.type), FLIP[op], clean)
    return None


def _allow_move(mine: Expr, other: Call, op: str, clean: bool) -> tuple[Expr, Expr, str, bool] | None:
    """Only moves whose arithmetic has a known type on both sides are made."""
    kinds = {str(mine.type), *(str(arg.type) for arg in other.args)}
    same = len(kinds) == 1 and (pa.types.is_integer(mine.type) or pa.types.is_floating(mine.type))
    moment = pa.types.is_timestamp(mine.type) and kinds == {str(mine.type), str(pa.duration("us"))}
    if not (same or moment):
        return None
    return mine, other, op, clean


def _widen(bound: Expr, low: bool) -> Expr:
    """The float bound moved outwards by more than rounding can have moved it inwards."""
    kind = bound.type
    tiny, share = SLACK[str(kind)]
    size: Expr = Literal(tiny, kind)
    for term in _terms(bound):
        size = Call("+", (size, Call("abs", (term,), kind)), kind)
    slack = Call("*", (size, Literal(share, kind)), kind)
    return Call("-" if low else "+", (bound, slack), kind)


def _terms(expr: Expr) -> tuple[Expr, ...]:
    if isinstance(expr, Call) and expr.op in ("+", "-"):
        return tuple(term for arg in expr.args for term in _terms(arg))
    return (expr,)


def _is_distance(expr: Expr) -> bool:
    return isinstance(expr, Call) and expr.op == "abs" and isinstance(expr.args[0], Call) and expr.args[0].op == "-"


def _plus(expr: Expr, amount: int) -> Expr:
    return Call("+", (expr, Literal(amount, pa.int64())), pa.int64())
