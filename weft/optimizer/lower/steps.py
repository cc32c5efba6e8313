"""One hop of a probe order: which index answers it, and what is left to check.

A hop takes a tuple that holds the aliases in `bound` to one store; its matches hold the aliases in `target` too: one
alias, or those of an intermediate result.  All predicates that can be decided now are split into equalities and limits,
which an index over the store answers, and residuals, which are checked on each pair.  Where the plan says that two or
more of the limited expressions are indexed together (`lower.together`), these are the ranges of the index.  Otherwise
one is chosen: a band beats a window, a window beats a single bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from weft.expr.model import Call, Column, Expr, aliases, without_alias
from weft.kernels.codes import exact_equality
from weft.optimizer.graph.equal import lead_classes
from weft.optimizer.graph.layout import names
from weft.optimizer.graph.limited import Limited, limited
from weft.optimizer.graph.predicates import Aliases, Equality, Limit, equality, window_predicates
from weft.optimizer.lower.labels import sort_predicates, stamp_order
from weft.query.model import TIME, Query
from weft.query.timebounds import retention
from weft.topology.node import Bound
from weft.topology.store import Key


@dataclass(frozen=True, slots=True)
class Step:
    """How `target` is found."""

    target: Aliases
    equalities: tuple[Equality, ...]
    range: Expr | None
    low: tuple[Bound, ...]
    high: tuple[Bound, ...]
    residual: tuple[Expr, ...]
    also: tuple[Expr, ...] = ()
    """Further ranges of the index, beside `range`."""

    @property
    def ranges(self) -> tuple[Expr, ...]:
        """All ranges of the index."""
        return () if self.range is None else (self.range, *self.also)

    @property
    def key(self) -> Key:
        """The index the store of `target` needs."""
        return Key(
            tuple(self.own(e.target) for e in self.equalities),
            None if self.range is None else self.own(self.range),
            tuple(map(self.own, self.also)),
        )

    def own(self, expr: Expr) -> Expr:
        """The expression over the store's own columns."""
        return without_alias(expr) if len(self.target) == 1 else expr


def step(
    query: Query, predicates: Sequence[Expr], bound: Aliases, target: Aliases, together: Sequence[Expr] = ()
) -> Step:
    """The hop to `target` from tuples that hold `bound`; `together` are expressions that are indexed together."""
    ready = [p for p in predicates if aliases(p) & bound and aliases(p) & target and aliases(p) <= bound | target]
    equalities = {p: e for p in ready if (e := equality(p, target)) is not None}
    ranges = limited(query, ready, target)
    dimensions = [expr for expr in together if expr in ranges]
    if len(dimensions) < 2:
        dimensions = best_single(ranges)
    chosen = [(p, _on_dimension(limit, d)) for d, expr in enumerate(dimensions) for p, limit in ranges[expr]]
    sure = {p for p in equalities if exact_equality([e.target.type for e in equalities.values()])}
    sure |= {p for p, limit in chosen if limit.exact and _is_decided(p, chosen)}
    return Step(
        target,
        tuple(dict.fromkeys(equalities.values())),
        dimensions[0] if dimensions else None,
        tuple(limit.bound for _, limit in chosen if limit.low),
        tuple(limit.bound for _, limit in chosen if not limit.low),
        tuple(p for p in ready if p not in sure),
        tuple(dimensions[1:]),
    )


def best_single(ranges: Limited) -> list[Expr]:
    """The one expression that an index is ordered by, if there is any; what a plan does without `together`."""
    return [max(ranges, key=lambda expr: _rank(expr, ranges[expr]))] if ranges else []


def _on_dimension(limit: Limit, dimension: int) -> Limit:
    """The same limit on a range of the index."""
    return replace(limit, bound=replace(limit.bound, dimension=dimension)) if dimension else limit


def _rank(expr: Expr, found: Sequence[tuple[Expr, Limit]]) -> tuple[bool, bool]:
    two_sided = len({limit.low for _, limit in found}) == 2
    is_window = isinstance(expr, Column) and expr.name == TIME
    return two_sided, not is_window


def _is_decided(predicate: Expr, chosen: Sequence[tuple[Expr, Limit]]) -> bool:
    """Whether all limits that came from the predicate are exact."""
    return all(limit.exact for p, limit in chosen if p == predicate)


class Steps:
    """Answers that all plans of a query share: each is worked out once."""

    def __init__(self, query: Query, together: Sequence[Expr] = ()) -> None:
        self.query, self.together = query, together
        self.joins = query.joins
        self.predicates = (*query.joins, *sort_predicates(query, window_predicates(query)))
        self.retention = retention(query)
        self.pairs = [aliases(p) for p in self.joins if len(aliases(p)) == 2]
        self.stamps = stamp_order(query)
        self.tables = sum(1 << place for place, relation in enumerate(query.relations) if relation.stream.table)
        self._steps: dict[tuple[Aliases, int], Step] = {}
        self._equal: dict[Aliases, dict[Expr, Expr]] = {}

    def step(self, bound: Aliases, store: int) -> Step:
        """The hop to a store from tuples that hold `bound`."""
        if (bound, store) not in self._steps:
            target = frozenset(names(self.query, store))
            self._steps[bound, store] = step(self.query, self.predicates, bound, target, self.together)
        return self._steps[bound, store]

    def equal(self, bound: Aliases) -> dict[Expr, Expr]:
        """Expression -> the leader of those that the equalities inside `bound` make equal to it."""
        if bound not in self._equal:
            self._equal[bound] = _classes(self.joins, bound)
        return self._equal[bound]

    def is_connected(self, bound: Aliases, target: Aliases) -> bool:
        """Whether a predicate over two aliases runs between two sets."""
        return any(pair & target and pair & bound for pair in self.pairs)


def _classes(joins: Sequence[Expr], bound: Aliases) -> dict[Expr, Expr]:
    """Expression -> the leader of those that the equalities inside `bound` make equal to it."""
    equalities = (p for p in joins if isinstance(p, Call) and p.op == "=" and aliases(p) <= bound)
    return lead_classes((p.args[0], p.args[1]) for p in equalities if p.args[0].type == p.args[1].type)
