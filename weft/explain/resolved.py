"""Stage "resolved": the queries after names and types are known, and how long each alias must be kept."""

from __future__ import annotations

from weft.explain.pages.resolved import (
    KnownGroups,
    KnownJoin,
    KnownOutput,
    KnownQuery,
    KnownRelation,
    ResolvedPage,
    TypedName,
)
from weft.explain.subject import Subject
from weft.explain.subscriptions import say_asked
from weft.explain.words import duration, expressions, is_exclusive
from weft.expr.model import Column, Expr, aliases, columns
from weft.expr.render import to_sql
from weft.expr.types import sql_name
from weft.query.derived import hidden
from weft.query.grouping import value_field
from weft.query.model import Query, Relation
from weft.query.timebounds import reason, retention
from weft.query.unfold import keys, unfold


def page(subject: Subject) -> ResolvedPage:
    """The page."""
    mine, inner = subject.queries, hidden(subject.queries)
    parts = [_query(name, mine[name]) for name in sorted(mine)] + [_query(name, inner[name]) for name in inner]
    return ResolvedPage("resolved", tuple(parts))


def _query(name: str, query: Query) -> KnownQuery:
    kept = retention(query)
    return KnownQuery(
        name,
        query.cross_product,
        tuple(_relation(query, relation, kept[relation.alias]) for relation in query.relations),
        _joins(query),
        _outputs(query),
        _groups(query),
    )


def _outputs(query: Query) -> tuple[KnownOutput, ...]:
    if query.subscribers is not None:
        shown = query.subscribers.outputs
        return tuple(KnownOutput(o.name, type_name(o.expr), say_asked(o.expr, query)) for o in shown)
    if query.grouping is None:
        return tuple(KnownOutput(o.name, type_name(o.expr), to_sql(o.expr)) for o in query.outputs)
    shown = query.grouping.outputs
    return tuple(KnownOutput(o.name, type_name(o.expr), to_sql(unfold(query, o.expr))) for o in shown)


def _groups(query: Query) -> KnownGroups | None:
    grouping = query.grouping
    if grouping is None:
        return None
    values = [Column("", value_field(at), one.type) for at, one in enumerate(grouping.aggregates)]
    return KnownGroups(
        expressions(keys(query)),
        expressions(unfold(query, value) for value in values),
        None if grouping.having is None else to_sql(unfold(query, grouping.having)),
        query.is_view,
    )


def _relation(query: Query, relation: Relation, kept: int | None) -> KnownRelation:
    alone = len(query.relations) == 1
    because = reason(query, relation.alias)
    age = kept if kept is None else kept + is_exclusive(because)
    return KnownRelation(
        relation.alias,
        relation.stream.name,
        tuple(TypedName(column.name, type_name(column)) for column in _columns_read(query, relation.alias)),
        relation.stream.event_time,
        relation.stream.lateness,
        relation.window,
        "full history" if relation.window is None else duration(relation.window),
        expressions(query.selections(relation.alias)),
        0 if alone else age,
        "not kept" if alone else duration(age),
        "it is joined with nothing" if alone else because,
    )


def _columns_read(query: Query, alias: str) -> list[Column]:
    """Columns of an alias that the query reads, in the order of its stream."""
    exprs = (*query.predicates, *(output.expr for output in query.outputs))
    found = {column.name: column for expr in exprs for column in columns(expr) if column.alias == alias}
    order = query.relation(alias).stream.schema.names
    return [found[name] for name in order if name in found]


def _joins(query: Query) -> tuple[KnownJoin, ...]:
    found: dict[tuple[str, ...], list[Expr]] = {}
    for predicate in query.joins:
        over = tuple(alias for alias in query.aliases if alias in aliases(predicate))
        found.setdefault(over, []).append(predicate)
    order = sorted(found, key=lambda over: (len(over), [query.position(alias) for alias in over]))
    return tuple(KnownJoin(over, expressions(found[over])) for over in order)


def type_name(expr: Expr) -> str:
    """The type of an expression as SQL says it."""
    return "?" if expr.type is None else sql_name(expr.type)
