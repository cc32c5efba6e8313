"""The last part of a query with subscriptions: its emit looks joined tuples up in a store of subscriptions.

All workers have all subscriptions, so that every tuple is looked up where it is made.  Conditions that compare a value
of joined tuples with parameters become dimensions; the others are checked on the subscriptions that dimensions leave.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from weft.expr.model import Column, Expr, transform
from weft.optimizer.lower.labels import digest
from weft.optimizer.lower.ways import Ways
from weft.query.model import BATCH, COPY
from weft.query.parameters import Subscribers
from weft.topology.clock import NEVER_LATE
from weft.topology.dimensions import divide
from weft.topology.matching import Matching, Sieve
from weft.topology.model import Edge
from weft.topology.node import Emit, Route
from weft.topology.spread import Axis, Cube
from weft.topology.store import Store


def with_matching(emit: Emit, plan: Ways) -> Emit:
    """The emit of a query with whom its tuples are matched with."""
    asked = plan.query.subscribers
    if asked is None:
        return emit
    dimensions, checks = divide(plan.query)
    naive = plan.layout.subscriptions == "naive"
    made = Matching(store_name(plan), dimensions, (*checks, *asked.since), asked.outputs, shared=not naive)
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
