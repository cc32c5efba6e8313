"""What inequalities limit: the expressions over some aliases that an index may order rows by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import pyarrow as pa

from weft.expr.model import Column, Expr, aliases
from weft.optimizer.graph.layout import names
from weft.optimizer.graph.predicates import Aliases, Limit, limits
from weft.query.model import TIME, Query

Limited = dict[Expr, list[tuple[Expr, Limit]]]
"""Expression over the target -> the predicates that limit it, each with its limit."""


def limited(query: Query, predicates: Sequence[Expr], target: Aliases) -> Limited:
    """Limits of some predicates by the expression they limit."""
    found: Limited = defaultdict(list)
    for predicate in predicates:
        for limit in limits(predicate, target):
            found[_canonical(query, limit.target)].append((predicate, limit))
    return found


def limited_in(query: Query, stores: Iterable[int]) -> tuple[Expr, ...]:
    """All expressions over one of some stores that the rest of the query limits."""
    found: dict[Expr, None] = {}
    for store in stores:
        target = frozenset(names(query, store))
        outward = [p for p in query.joins if aliases(p) & target and aliases(p) - target]
        found |= dict.fromkeys(limited(query, outward, target))
    return tuple(found)


def _canonical(query: Query, expr: Expr) -> Expr:
    """An event time that is a timestamp and `#t` are the same number, so their bounds are kept together."""
    if isinstance(expr, Column) and expr.name == query.relation(expr.alias).stream.event_time:
        timed = pa.types.is_timestamp(expr.type) and query.relation(expr.alias).window is not None
        return Column(expr.alias, TIME, pa.int64()) if timed else expr
    return expr
