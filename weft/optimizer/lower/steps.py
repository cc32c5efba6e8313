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

from weft.expr.model import Column, Expr, aliases, without_alias
from weft.kernels.codes import exact_equality
from weft.optimizer.graph.limited import Limited, limited
from weft.optimizer.graph.predicates import Aliases, Equality, Limit, equality
from weft.query.model import TIME, Query
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
