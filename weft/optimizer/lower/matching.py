"""The last part of a query with subscriptions: its emit looks joined tuples up in a store of subscriptions.

All workers have all subscriptions, so that every tuple is looked up where it is made.  Conditions that compare a value
of joined tuples with parameters become dimensions; the others are checked on the subscriptions that dimensions leave.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from weft.expr.model import Call, Column, Expr, aliases, columns, text_of, transform
from weft.expr.safe import cannot_fail
from weft.kernels.codes import exact_equality, exact_order, has_codes
from weft.optimizer.lower.labels import digest
from weft.optimizer.lower.ways import Ways
from weft.query.model import BATCH, COPY
from weft.query.parameters import Subscribers, is_joined, unless_null
from weft.topology.matching import Dimension, End, Matching, Sieve
from weft.topology.model import NEVER_LATE, Edge, Emit, Route, Store
from weft.topology.spread import Axis, Cube

_FLIP = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def with_matching(emit: Emit, plan: Ways) -> Emit:
    """The emit of a query with whom its tuples are matched with."""
    asked = plan.query.subscribers
    if asked is None:
        return emit
    members = {output.name: tuple(sorted(aliases(output.expr))) for output in plan.query.outputs}
    dimensions, checks = _divide(asked.asked, members)
    made = Matching(
        store_name(plan), dimensions, (*checks, *asked.since), asked.outputs, shared=asked.strategy != "naive"
    )
    return replace(emit, matching=made)


def store_name(plan: Ways) -> str:
    """The name of the store of subscriptions."""
    asked = _subscribers(plan)
    return f"{asked.stream.name}-{digest(_columns(plan), asked.key, plan.workers)}"


def subscription_store(plan: Ways) -> Store:
    """The store of subscriptions: all of them on every worker."""
    asked, several = _subscribers(plan), plan.workers > 1
    return Store(
        store_name(plan), asked.stream.name, (), _columns(plan), (), (), (), "until they are removed",
        (f"{plan.name}.subscriptions",), plan.workers, spread=_spread(plan) if several else None,
        content=digest(asked.stream.name, asked.key, plan.workers), ended_by=asked.key,
    )  # fmt: skip


def subscription_edge(plan: Ways) -> Edge:
    """How subscriptions come to all workers."""
    name, several = store_name(plan), plan.workers > 1
    route: Route = "spread" if several else "scatter"
    return Edge(
        f"{name}>", _subscribers(plan).stream.name, (), _columns(plan), route, (), plan.workers, (NEVER_LATE,),
        (name,), (), _spread(plan) if several else None,
    )  # fmt: skip


def sieve_of(emit: Emit, plan: Ways, bound: Collection[str]) -> Sieve | None:
    """What tuples that hold some relations must pass, if they hold a whole dimension."""
    if emit.matching is None:
        return None
    values = {output.name: output.expr for output in plan.query.outputs}
    known = tuple(
        (place, transform(dimension.value, lambda node: _placed(node, values)))
        for place, dimension in enumerate(emit.matching.dimensions)
        if {*dimension.members} <= {*bound}
    )
    return Sieve(plan.name, known) if known else None


def _placed(node: Expr, values: Mapping[str, Expr]) -> Expr:
    return values[node.name] if isinstance(node, Column) else node


def _subscribers(plan: Ways) -> Subscribers:
    assert plan.query.subscribers is not None
    return plan.query.subscribers


def _columns(plan: Ways) -> tuple[str, ...]:
    return tuple(sorted({*_subscribers(plan).columns, BATCH, *([COPY] if plan.workers > 1 else [])}))


def _spread(plan: Ways) -> Cube:
    return Cube((Axis(plan.workers, "copy"),))


# ----------------------------------------------------------------------------------------------- dimensions

_Compared = tuple[Expr, str, Expr]
"""A value of joined tuples, how it is compared, and an expression over parameters."""


def _divide(
    asked: Sequence[Expr], members: Mapping[str, tuple[str, ...]]
) -> tuple[tuple[Dimension, ...], tuple[Expr, ...]]:
    """Dimensions, and the conditions that must be checked on what they leave."""
    found: dict[tuple[str, bool], Dimension] = {}
    checks: list[Expr] = []
    for predicate in asked:
        compared = _compare(predicate)
        if compared is not None:
            value, op, _ = compared
            key = text_of(value), op == "="
            found[key] = _with_end(found.get(key) or _dimension(value, op, members), compared)
        if compared is None or not _is_decided(compared):
            checks.append(unless_null(predicate))
    return tuple(found.values()), tuple(checks)


def _compare(predicate: Expr) -> _Compared | None:
    """The condition as a comparison that an index can decide, if it is one."""
    if not isinstance(predicate, Call) or predicate.op not in _FLIP:
        return None
    op, (left, right) = predicate.op, predicate.args
    if not all(map(is_joined, columns(left))):
        op, left, right = _FLIP[op], right, left
    apart = all(map(is_joined, columns(left))) and not any(map(is_joined, columns(right)))
    known = apart and bool(columns(left)) and bool(columns(right)) and left.type is not None
    fits = known and left.type == right.type and has_codes(left.type) and cannot_fail(left) and cannot_fail(right)
    return (left, op, right) if fits else None


def _dimension(value: Expr, op: str, members: Mapping[str, tuple[str, ...]]) -> Dimension:
    labels = {label for column in columns(value) for label in members[column.name]}
    return Dimension(value, (), (), op == "=", tuple(sorted(labels)))


def _with_end(dimension: Dimension, compared: _Compared) -> Dimension:
    _, op, expr = compared
    end = End(expr, op in ("<", ">"))
    low = (*dimension.low, end) if op in (">", ">=", "=") else dimension.low
    high = (*dimension.high, end) if op in ("<", "<=", "=") else dimension.high
    return replace(dimension, low=low, high=high)


def _is_decided(compared: _Compared) -> bool:
    """Whether codes alone decide the comparison."""
    value, op, end = compared
    assert value.type is not None
    exact = exact_equality([value.type]) if op == "=" else exact_order(value.type)
    return exact and isinstance(end, Column)
