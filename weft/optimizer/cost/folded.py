"""How few tuples an aggregate query needs: as many as its live columns have different values.

Tuples of an aggregate query with equal fields are one tuple, and rows of its kept joins are too.  The fields of a tuple
over some relations are the columns that something later reads: predicates with other relations, keys of groups, values
that are counted, and arguments that read several relations.  So there are at most as many tuples in a batch, and rows
in a store, as these columns have different values together: the product over columns that no equality makes equal, and
no more than the rows of a relation for all columns of that relation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

from weft.expr.model import Expr, aliases, columns
from weft.expr.safe import cannot_fail
from weft.optimizer.cost.estimate import classes, count_distinct
from weft.optimizer.cost.papers import Groups
from weft.optimizer.graph.joingraph import JoinGraph
from weft.optimizer.graph.predicates import equality
from weft.query.model import Query
from weft.stats.model import Statistics
from weft.topology.measures import valued


def count_groups(query: Query, graph: JoinGraph, statistics: Statistics) -> Groups | None:
    """For an aggregate query; None for others, whose tuples all count."""
    if query.grouping is None:
        return None
    names, sizes = classes(query), {base.name: base.size for base in graph.relations}

    @cache
    def groups(relations: int) -> float:
        inside = frozenset(alias for i, alias in enumerate(query.aliases) if relations >> i & 1)
        found: dict[str, dict[str, float]] = {}
        for expr in _live(query, inside):
            owner = min(aliases(expr))
            values = count_distinct(query, expr, statistics) or sizes[owner]
            found.setdefault(owner, {})[names.get(expr, repr(expr))] = values
        seen: set[str] = set()
        total = 1.0
        for owner, known in sorted(found.items(), key=lambda entry: math.prod(entry[1].values())):
            total *= min(sizes[owner], math.prod(n for name, n in known.items() if name not in seen))
            seen |= set(known)
        return min(graph.size(relations), max(1.0, total))

    return groups


def _live(query: Query, inside: frozenset[str]) -> Iterator[Expr]:
    """Expressions over single relations inside that something outside, or the end, reads."""
    for predicate in query.joins:
        if aliases(predicate) & inside and not aliases(predicate) <= inside:
            found = equality(predicate, inside & aliases(predicate))
            yield from (
                (found.target,) if found is not None and len(aliases(found.target)) == 1 else _split(predicate, inside)
            )
    assert query.grouping is not None
    whole = {*query.grouping.keys, *valued(query.grouping)}
    for output in query.outputs:
        if output.name in whole or len(aliases(output.expr)) > 1 or not cannot_fail(output.expr):
            yield from _split(output.expr, inside)


def _split(expr: Expr, inside: frozenset[str]) -> Iterator[Expr]:
    return (column for column in columns(expr) if column.alias in inside)
