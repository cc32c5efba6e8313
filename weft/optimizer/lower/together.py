"""Which ranges an index orders rows by together.

A hop may come with limits on several expressions of the rows it looks for.  An index by one of them leaves the others
to be checked on every pair; an index by several of them (`weft.kernels.boxes`) finds next to nothing but matches.  It
costs more to build and to walk, so it must save pairs.  For a tuple of one alias that looks for another one:

    rows    of the other alias, and with equal keys where there are equalities
    one     rows * share of the range that would be chosen alone
    many    rows * product of the shares of all ranges that exclude anything

Several are used where one - many is at least PAIRS.  Shares are those of a sample, or assumed (`cost.estimate`).
Equalities whose share is only assumed are taken to leave few rows: then one range is enough.

What must hold: the choice is part of the plan (`Layout.ranges`), so a checkpoint that was made with it goes on with it.
Windows alone are no reason: a store holds few rows that are outside of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import permutations

from weft.expr.model import Column, Expr, aliases, text_of
from weft.optimizer.cost.estimate import known_share, range_share
from weft.optimizer.graph.joingraph import JoinGraph
from weft.optimizer.graph.limited import limited
from weft.optimizer.graph.predicates import equality
from weft.optimizer.lower.labels import name_by_label
from weft.optimizer.lower.steps import best_single
from weft.query.grouping import FROM, TO
from weft.query.model import Query
from weft.stats.model import Statistics

PAIRS = 100.0
"""So many pairs must be saved for each tuple: to order a row by several ranges, and again when segments are merged, and
a walk by boxes take together about as long as checking so many."""
MET = 0.5
"""The share of versions that have begun, and of those that have not ended, at a time."""
EXCLUDES = 0.8
"""A range is worth a place in an index if its share is at most this."""


def choose_together(query: Query, graph: JoinGraph, statistics: Statistics) -> dict[Expr, float]:
    """Expressions to index together, each with the share of rows it lets through, those that exclude most first."""
    found: dict[Expr, float] = {}
    for known, target in permutations(range(len(query.relations)), 2):
        for expr, share in _worth(query, graph, statistics, known, target).items():
            found[expr] = min(share, found.get(expr, share))
    called = name_by_label(query)
    return dict(sorted(found.items(), key=lambda item: (item[1], text_of(called(item[0])))))


def _worth(query: Query, graph: JoinGraph, statistics: Statistics, known: int, target: int) -> dict[Expr, float]:
    """The ranges to use together where tuples of one relation look for another; none if one is enough."""
    a, b = query.relations[known], query.relations[target]
    ready = [p for p in query.joins if aliases(p) == {a.alias, b.alias}]
    ranges = limited(query, ready, frozenset({b.alias})) if len(ready) > 1 else {}
    if len(ranges) < 2:
        return {}
    if {FROM, TO} <= {*b.stream.schema.names}:  # of all versions that began before a time one has not ended
        return {expr: MET for expr in ranges if isinstance(expr, Column) and expr.name in (FROM, TO)}
    shares = {expr: range_share(query, a, b, [p for p, _ in limits], statistics) for expr, limits in ranges.items()}
    useful = {expr: share for expr, share in shares.items() if share <= EXCLUDES}
    rows = graph.relations[target].size * math.prod(_equal_shares(query, ready, b.alias, statistics))
    one, many = (rows * math.prod(shares[expr] for expr in some) for some in (best_single(ranges), useful))
    return useful if len(useful) > 1 and one - many >= PAIRS else {}


def _equal_shares(query: Query, ready: list[Expr], target: str, statistics: Statistics) -> Iterator[float]:
    for predicate in ready:
        if equality(predicate, frozenset({target})) is not None:
            share = known_share(query, predicate, target, statistics)
            yield 0.0 if share is None else share
