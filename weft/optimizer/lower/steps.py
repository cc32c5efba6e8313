"""One hop of a probe order: which index answers it, and what is left to check.

A hop takes a tuple that holds the aliases in `bound` to one store; its matches hold the aliases in `target` too: one
alias, or those of an intermediate result.  All predicates that can be decided now are split into equalities and limits,
which an index over the store answers, and residuals, which are checked on each pair.  One range column is chosen for
the index: a band beats a window, a window beats a single bound.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from weft.expr.model import Column, Expr, aliases, without_alias
from weft.kernels.codes import exact_equality
from weft.optimizer.graph.predicates import Aliases, Equality, Limit, equality, limits
from weft.query.model import Query
from weft.topology.model import TIME, Bound, Key


@dataclass(frozen=True, slots=True)
class Step:
    """How `target` is found."""

    target: Aliases
    equalities: tuple[Equality, ...]
    range: Expr | None
    low: tuple[Bound, ...]
    high: tuple[Bound, ...]
    residual: tuple[Expr, ...]

    @property
    def key(self) -> Key:
        """The index the store of `target` needs."""
        return Key(
            tuple(self.own(e.target) for e in self.equalities), None if self.range is None else self.own(self.range)
        )

    def own(self, expr: Expr) -> Expr:
        """The expression over the store's own columns."""
        return without_alias(expr) if len(self.target) == 1 else expr


def step(query: Query, predicates: Sequence[Expr], bound: Aliases, target: Aliases) -> Step:
    """The hop to `target` from tuples that hold `bound`."""
    ready = [p for p in predicates if aliases(p) & bound and aliases(p) & target and aliases(p) <= bound | target]
    equalities = {p: e for p in ready if (e := equality(p, target)) is not None}
    ranges = _ranges(query, ready, target)
    column = max(ranges, key=lambda expr: _rank(expr, ranges[expr]), default=None)
    chosen = ranges[column] if column is not None else []
    sure = {p for p in equalities if exact_equality([e.target.type for e in equalities.values()])}
    sure |= {p for p, limit in chosen if limit.exact and _is_decided(p, chosen)}
    return Step(
        target,
        tuple(dict.fromkeys(equalities.values())),
        column,
        tuple(limit.bound for _, limit in chosen if limit.low),
        tuple(limit.bound for _, limit in chosen if not limit.low),
        tuple(p for p in ready if p not in sure),
    )


def _ranges(query: Query, ready: Sequence[Expr], target: Aliases) -> dict[Expr, list[tuple[Expr, Limit]]]:
    """Limits of all predicates by the expression they bound."""
    found: dict[Expr, list[tuple[Expr, Limit]]] = defaultdict(list)
    for predicate in ready:
        for limit in limits(predicate, target):
            found[_canonical(query, limit.target)].append((predicate, limit))
    return found


def _canonical(query: Query, expr: Expr) -> Expr:
    """An event time that is a timestamp and `#t` are the same number, so their bounds are kept together."""
    if isinstance(expr, Column) and expr.name == query.relation(expr.alias).stream.event_time:
        timed = pa.types.is_timestamp(expr.type) and query.relation(expr.alias).window is not None
        return Column(expr.alias, TIME, pa.int64()) if timed else expr
    return expr


def _rank(expr: Expr, found: Sequence[tuple[Expr, Limit]]) -> tuple[bool, bool]:
    two_sided = len({limit.low for _, limit in found}) == 2
    is_window = isinstance(expr, Column) and expr.name == TIME
    return two_sided, not is_window


def _is_decided(predicate: Expr, chosen: Sequence[tuple[Expr, Limit]]) -> bool:
    """Whether all limits that came from the predicate are exact."""
    return all(limit.exact for p, limit in chosen if p == predicate)
