"""How often rows that join are inside each other's windows.

Rows that belong together often come together: a line soon after its order.  So the share of joining pairs that windows
let through is far larger than times alone would say.  It is measured on sampled pairs that join, and known under the
text of both windows, as a predicate is.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import pyarrow as pa

from weft.expr.model import Call, Column, Expr, Literal
from weft.query.duration import format_duration
from weft.query.model import TIME, Query, Relation
from weft.stats.names import between


def window_bounds(query: Query, a: str, b: str) -> tuple[Expr, ...]:
    """The windows of two aliases as predicates over their event times; none if they have no windows or no times."""
    one, other = query.relation(a), query.relation(b)
    if one.stream.event_time is None or other.stream.event_time is None:
        return ()
    sides = ((one, other), (other, one))
    return tuple(_inside(old, new, old.window) for old, new in sides if old.window is not None)


def _inside(old: Relation, new: Relation, window: int) -> Expr:
    times = tuple(Column(relation.alias, TIME, pa.int64()) for relation in (new, old))
    age = Call("-", times, pa.int64())
    return Call("<", (age, Literal(window, pa.int64())), pa.bool_())


def window_text(query: Query, a: str, b: str) -> str:
    """The name under which statistics know the share of joining pairs that is inside the windows of two aliases."""
    first, second = (query.relation(alias) for alias in sorted((a, b)))
    return " AND ".join(
        f"{relation.alias} WITHIN {'UNBOUNDED' if relation.window is None else format_duration(relation.window)}"
        for relation in (first, second)
    )


def windowed_pairs(query: Query) -> Iterator[tuple[str, str]]:
    """Pairs of aliases that are joined, at least one of them within a window, if other aliases have none.

    Where all have windows, the model counts by the second, and needs no such share.
    """
    if all(relation.window is not None for relation in query.relations):
        return
    for r, s in combinations(query.relations, 2):
        a, b = sorted((r.alias, s.alias))
        if between(query, a, b) and window_bounds(query, a, b):
            yield a, b
