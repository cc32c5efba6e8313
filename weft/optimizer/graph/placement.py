"""Where the rows of a store may lie.

A tuple finds its partners in a keyed store on one worker iff an equality gives it the value of the key.  So candidates
for the key of a store are the expressions over it that the query sets equal to something outside of it.  The weight of
a key is how many rows come from the streams that know its value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from weft.expr.model import Expr, aliases
from weft.optimizer.graph.layout import names
from weft.optimizer.graph.predicates import equality
from weft.query.model import Query

Sizes = Mapping[str, float]
"""How much comes from each stream, in any unit; a stream that is missing counts as 1."""


def keys(query: Query, store: int, sizes: Sizes) -> dict[Expr, float]:
    """Expressions that may place a store, each with its weight."""
    mine = frozenset(names(query, store))
    weights: dict[Expr, float] = defaultdict(float)
    for predicate in query.joins:
        found = equality(predicate, mine) if aliases(predicate) & mine and aliases(predicate) - mine else None
        if found is not None:
            weights[found.target] += sum(sizes.get(query.relation(a).stream.name, 1.0) for a in aliases(found.known))
    return dict(weights)


def heaviest_key(weights: Mapping[Expr, float]) -> tuple[Expr, ...]:
    """The key with the largest weight; none where there is none, and rows are scattered."""
    return (max(weights, key=lambda expr: weights[expr]),) if weights else ()
