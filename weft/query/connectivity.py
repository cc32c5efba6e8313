"""Whether predicates connect all aliases of a query.

Only predicates over exactly two aliases connect.  A predicate over three can be checked only when all three have been
joined, and by then two of them were multiplied.
"""

from __future__ import annotations

from weft.errors import PlanError
from weft.expr.model import aliases
from weft.query.model import Query, Stream


def parts(query: Query) -> tuple[tuple[str, ...], ...]:
    """The aliases grouped by which are connected, groups and members in query order."""
    group = {alias: alias for alias in query.aliases}
    for predicate in query.joins:
        joined = aliases(predicate)
        if len(joined) == 2:
            keep, gone = (group[alias] for alias in joined)
            group = {alias: keep if leader == gone else leader for alias, leader in group.items()}
    leaders = dict.fromkeys(group[alias] for alias in query.aliases)
    return tuple(tuple(alias for alias in query.aliases if group[alias] == leader) for leader in leaders)


def require_connected(query: Query) -> None:
    """Refuse a query that multiplies parts no predicate connects."""
    found = parts(query)
    if len(found) > 1:
        names = " and ".join("{" + ", ".join(part) + "}" for part in found)
        raise PlanError(
            "the query is a cross product",
            detail=f"no predicate over two aliases connects {names}.",
            hint="add a join condition, or pass cross_product=True if every combination is wanted.",
            span=query.relation(found[1][0]).span,
        )


def adds_single_rows(query: Query) -> bool:
    """Whether all parts but one are single rows, as an aggregate without GROUP BY is: nothing is multiplied then."""
    found = parts(query)
    many = [part for part in found if not all(_is_single(query.relation(alias).stream) for alias in part)]
    return len(found) > 1 and len(many) <= 1


def _is_single(stream: Stream) -> bool:
    made = [query.grouping for query in stream.made]
    return len(made) == 1 and made[0] is not None and not made[0].keys
