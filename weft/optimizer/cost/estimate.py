"""From a query and statistics to a join graph.

This is the only place where an unknown number is replaced by an assumed one, which `Defaults` gives.

    size of an alias     rows of the alias; else rows of the stream times its selections; never more than its window
                         holds: rate times window.
    f_ij                 the pair's selectivity, by aliases or by streams; else the product over the predicates
                         between the two: a given selectivity, 1 / max(distinct counts) of an equality, or a default.
                         Bounds on the difference of two event times are one factor: about the width of the band by the
                         span of event time that the rows cover, rows / rate (`weft.optimizer.cost.timeband`).
    attributes           expressions that the query's equalities make equal; each class is named by its first member.

Predicates over three or more aliases make no edge and do not reduce sizes: they are checked only when the last of their
aliases is met, and by then most of the work is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from weft.expr.model import Expr, aliases
from weft.expr.render import to_sql
from weft.optimizer.cost.timeband import time_share
from weft.optimizer.graph.equal import lead_classes
from weft.optimizer.graph.joingraph import Base, JoinGraph
from weft.optimizer.graph.predicates import equality, limits
from weft.query.model import Query, Relation
from weft.query.timebounds import is_time_bound
from weft.stats.keys import key_names
from weft.stats.model import DEFAULTS, Defaults, Statistics
from weft.stats.names import share_of_all

Homes = Mapping[str, tuple[Expr, ...]]
"""Alias -> expressions whose values name the worker of a row."""


def estimate(
    query: Query,
    statistics: Statistics,
    *,
    parallelism: int | None = None,
    placement: Homes | None = None,
    defaults: Defaults = DEFAULTS,
) -> JoinGraph:
    """The join graph of a query, its relations in query order."""
    equal = classes(query)
    relations = []
    for relation in query.relations:
        size, alias = _size(query, relation, statistics, defaults), relation.alias
        relations.append(
            Base(
                alias,
                size,
                _rate(relation, size, statistics),
                parallelism,
                frozenset(name for expr, name in equal.items() if aliases(expr) == {alias}),
                tuple(equal.get(expr, to_sql(expr)) for expr in (placement or {}).get(alias, ())),
                _width(relation, statistics, defaults),
            )
        )
    tables = sum(1 << i for i, relation in enumerate(query.relations) if relation.stream.table)
    looked_up = sum(1 << i for i, relation in enumerate(query.relations) if relation.stream.is_looked_up)
    return JoinGraph(tuple(relations), _edges(query, statistics, defaults), tables, looked_up)


# ------------------------------------------------------------------------------------------------- sizes


def _size(query: Query, relation: Relation, statistics: Statistics, defaults: Defaults) -> float:
    kept = selected_share(query, relation.alias, statistics, defaults)
    own, stream = _own(statistics.rows, relation), statistics.rows(relation.stream.name)
    rows = own if own is not None else None if stream is None else stream * kept
    held = _window_rows(relation, statistics, kept)
    known = [number for number in (rows, held) if number is not None]
    return min(known) if known else defaults.rows * kept


def _own(ask: Callable[[str], float | None], relation: Relation) -> float | None:
    """What is known of the alias itself.  Under the name of its stream, a number holds before selections."""
    return None if relation.alias == relation.stream.name else ask(relation.alias)


def _window_rows(relation: Relation, statistics: Statistics, kept: float) -> float | None:
    """What the window holds, if it and a rate are known."""
    if relation.window is None:
        return None
    own, stream = _own(statistics.rate, relation), statistics.rate(relation.stream.name)
    rate = own if own is not None else None if stream is None else stream * kept
    return None if rate is None else rate * relation.window / 1e6


def _rate(relation: Relation, size: float, statistics: Statistics) -> float | None:
    """Rows per second; where a window holds `size` rows, size / window of them come per second."""
    if relation.window is not None:
        return size / (relation.window / 1e6)
    own = statistics.rate(relation.alias)
    return own if own is not None else statistics.rate(relation.stream.name)


def _width(relation: Relation, statistics: Statistics, defaults: Defaults) -> float:
    own, stream = statistics.width(relation.alias), statistics.width(relation.stream.name)
    return own if own is not None else stream if stream is not None else defaults.width


def selected_share(query: Query, alias: str, statistics: Statistics, defaults: Defaults) -> float:
    """The share of a stream's rows that passes the selections of an alias."""
    share = 1.0
    for predicate in query.selections(alias):
        known = share_of_all(statistics, [predicate])
        share *= defaults.selection if known is None else known
    return share


# ------------------------------------------------------------------------------------------------- edges


def _edges(query: Query, statistics: Statistics, defaults: Defaults) -> tuple[tuple[int, int, float], ...]:
    between: dict[tuple[int, int], list[Expr]] = {}
    for predicate in query.joins:
        if len(aliases(predicate)) == 2:
            i, j = sorted(query.position(alias) for alias in aliases(predicate))
            between.setdefault((i, j), []).append(predicate)
    return tuple((i, j, _share(query, i, j, found, statistics, defaults)) for (i, j), found in sorted(between.items()))


def _share(
    query: Query, i: int, j: int, predicates: Sequence[Expr], statistics: Statistics, defaults: Defaults
) -> float:
    a, b = query.relations[i], query.relations[j]
    known = statistics.selectivity(a.alias, b.alias)
    if known is None and a.stream.name != b.stream.name:
        known = statistics.selectivity(a.stream.name, b.stream.name)
    if known is not None:
        return known
    times = [p for p in predicates if is_time_bound(query, p)]
    band = _band(query, a, b, times, statistics)
    share = 1.0 if band is None else band
    for predicate in predicates if band is None else (p for p in predicates if p not in times):
        share *= _predicate(query, predicate, b.alias, statistics, defaults)
    return share


def _band(query: Query, a: Relation, b: Relation, times: Sequence[Expr], statistics: Statistics) -> float | None:
    """The share of all time bounds together; None if it is unknown, or if the shares of all bounds are given.

    Where only some shares are given, all bounds together let through no more than the least of them.
    """
    known = [share for predicate in times if (share := share_of_all(statistics, [predicate])) is not None]
    found = time_share(query, a, b, times, statistics) if len(known) < len(times) else None
    return None if found is None else min([found, *known])


def _predicate(query: Query, predicate: Expr, target: str, statistics: Statistics, defaults: Defaults) -> float:
    known = known_share(query, predicate, target, statistics)
    if known is not None:
        return known
    if equality(predicate, frozenset({target})) is not None:
        return defaults.equality
    return _assumed([predicate], target, defaults)


def known_share(query: Query, predicate: Expr, target: str, statistics: Statistics) -> float | None:
    """The share of pairs that a predicate lets through, given, measured or from distinct counts; None is unknown."""
    known = share_of_all(statistics, [predicate])
    found = equality(predicate, frozenset({target})) if known is None else None
    if found is None:
        return known
    counts = [count_distinct(query, side, statistics) for side in (found.target, found.known)]
    values = max((count for count in counts if count), default=None)
    return None if values is None else min(1.0, 1 / values)


def range_share(query: Query, a: Relation, b: Relation, predicates: Sequence[Expr], statistics: Statistics) -> float:
    """The share of pairs that satisfies all of some predicates that bound one expression over `b`.

    The two ends of a band are not independent: their own shares only say that both together let through no more.
    """
    together = share_of_all(statistics, predicates)
    if together is not None:
        return together
    known = [share for p in predicates if (share := share_of_all(statistics, [p])) is not None]
    times = [p for p in predicates if is_time_bound(query, p)]
    band = time_share(query, a, b, times, statistics) if len(times) == len(predicates) else None
    if band is None and len(known) < len(predicates):
        band = _assumed(predicates, b.alias, DEFAULTS)
    elif band is None and len(predicates) > 1:
        band = DEFAULTS.band
    return min([*known, *([] if band is None else [band])])


def _assumed(predicates: Sequence[Expr], target: str, defaults: Defaults) -> float:
    sides = {limit.low for predicate in predicates for limit in limits(predicate, frozenset({target}))}
    return {0: defaults.other, 1: defaults.inequality, 2: defaults.band}[len(sides)]


def count_distinct(query: Query, expr: Expr, statistics: Statistics) -> float | None:
    """How many values a key has; what is known of an alias comes before what is known of its stream."""
    if len(aliases(expr)) != 1:
        return None
    alias = min(aliases(expr))
    owners = (alias, query.relation(alias).stream.name)
    known = (statistics.distinct(owner, name) for owner in owners for name in key_names(expr))
    return next((count for count in known if count is not None), None)


# -------------------------------------------------------------------------------------------- attributes


def classes(query: Query) -> dict[Expr, str]:
    """Expression over one alias -> name of the class of those equal to it."""
    pairs = [p for p in query.joins if len(aliases(p)) == 2]
    found = (equality(p, frozenset({min(aliases(p))})) for p in pairs)
    leader = lead_classes((e.known, e.target) for e in found if e is not None)
    return {expr: to_sql(led) for expr, led in leader.items()}
