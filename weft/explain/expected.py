"""How many results a query has over the whole history, if some of its aliases have windows and others have none.

The cost model counts such a query by what windows hold at one time, since that is what stores cost.  Over the whole
history every row of a windowed alias has its turn:

    results = rows of all aliases * selectivities * share of joining pairs that are inside the windows

That share is measured on samples (`weft.stats.windows`).  Where it is not, event times are taken as independent of what
joins: a pair is inside if its times are close enough, by the length of time that the rows cover.
"""

from __future__ import annotations

import math

from weft.optimizer.choose import Choice
from weft.optimizer.cost.estimate import selected_share
from weft.query.model import Query, Relation
from weft.stats.model import DEFAULTS, Statistics
from weft.stats.windows import window_text, windowed_pairs


def is_mixed(choice: Choice) -> bool:
    """Whether the model counts what windows hold at one time, though the query is counted over the whole history."""
    return choice.model.arrival == "history" and any(r.window is not None for r in choice.query.relations)


def expected_results(choice: Choice) -> float | None:
    """Results over the whole history; None if that cannot be said."""
    known, query, graph = choice.known.statistics, choice.query, choice.model.graph
    if known is None:
        return None
    estimate = graph.size(graph.all)
    for relation, base in zip(query.relations, graph.relations, strict=True):
        rows = _rows(query, relation, known)
        if rows is None or not base.size:
            return None
        estimate *= rows / base.size
    shares = [_inside(query, a, b, known) for a, b in windowed_pairs(query)]
    return None if None in shares else estimate * math.prod(share for share in shares if share is not None)


def _rows(query: Query, relation: Relation, known: Statistics) -> float | None:
    """All rows of an alias that pass its selections."""
    own = None if relation.alias == relation.stream.name else known.rows(relation.alias)
    stream = known.rows(relation.stream.name)
    if own is not None or stream is None:
        return own
    return stream * selected_share(query, relation.alias, known, DEFAULTS)


def _inside(query: Query, a: str, b: str, known: Statistics) -> float | None:
    measured = known.predicate(window_text(query, a, b))
    if measured is not None:
        return measured
    spans = [_span(query.relation(alias), known) for alias in (a, b)]
    span = max((found for found in spans if found is not None), default=None)
    return None if not span else min(1.0, sum(_half(query.relation(alias).window, span) for alias in (a, b)))


def _span(relation: Relation, known: Statistics) -> float | None:
    """Seconds of event time that the rows of a stream cover."""
    rows, rate = known.rows(relation.stream.name), known.rate(relation.stream.name)
    return None if rows is None or not rate else rows / rate


def _half(window: int | None, span: float) -> float:
    """The share of pairs in which this alias is the older one, and young enough."""
    return 0.5 if window is None else min(0.5, window / 1e6 / span)
