"""Derived tables, WITHs and views put in place, so that a query is one flat join.

    FROM a JOIN (SELECT * FROM b JOIN c ON ...) d ON ...    reads    a, d_b, d_c

A draft that is no plain join is read as a derived stream instead.  What must hold: all aliases of the flat join differ,
and the columns of a derived table stand for the expressions that it selects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from weft.errors import QueryError, placed
from weft.expr.lists import is_spread
from weft.expr.model import Call, Column, Expr, place_of
from weft.expr.types import normalize
from weft.expr.typing import add_types, require_type
from weft.query.aggregates import calls_aggregate, has_aggregate, refuse_aggregates
from weft.query.calls import FunctionSignature
from weft.query.clauses import Clauses
from weft.query.draft import Draft, Source, Within
from weft.query.groups import Entry
from weft.query.model import BATCH, Output, Query, Relation, Stream
from weft.query.names import find, suggestion
from weft.query.ranking import bound
from weft.query.reused import without_reuse
from weft.query.versions import history
from weft.query.views import Views, add_views
from weft.query.visible import Visible, numbered, unique_names


class Resolver(Protocol):
    """What an entry of FROM may need to know: see `weft.query.resolve`."""

    @property
    def streams(self) -> Mapping[str, Stream]:
        """Streams and tables by name."""

    @property
    def functions(self) -> Mapping[str, FunctionSignature]:
        """Registered functions by name."""

    @property
    def late_by(self) -> tuple[tuple[str, int], ...]:
        """How late rows of streams may come."""

    def plain(self, draft: Draft, views: Views, default: Within = None) -> Draft:
        """The draft without outer joins and subqueries."""

    def stream(self, draft: Draft, views: Views, default: Within) -> Stream:
        """What a draft gives as a derived stream."""

    def query(self, draft: Draft, views: Views, default: Within = None, *, united: bool = False) -> Query:
        """One SELECT."""


@dataclass(frozen=True, slots=True)
class Flat:
    """A draft with all derived tables, WITHs and views in it put in place."""

    relations: tuple[Relation, ...]
    predicates: tuple[Expr, ...]
    entries: tuple[Entry, ...]
    """What it selects, under names that differ."""
    clauses: Clauses
    is_grouped: bool


class Inliner:
    """Puts derived tables in place: their relations and predicates become those of the query around them.

    A relation of the outermost FROM keeps its alias.  A derived table of one relation gives it its own alias; one of
    several names them alias_inner.  A window belongs to the stream behind which it is written, or, behind a derived
    table, to all streams in it that have none.
    """

    def __init__(self, draft: Draft, resolver: Resolver) -> None:
        self.resolver = resolver
        self.taken = {source.alias for source in draft.sources}

    def flatten(self, draft: Draft, views: Views, prefix: str | None = None, default: Within = None) -> Flat:
        """The relations, predicates and outputs of a draft."""
        views = add_views(views, draft.named)
        default = default if draft.within is None else draft.within
        relations: tuple[Relation, ...] = ()
        predicates: tuple[Expr, ...] = ()
        tables: list[Visible] = []
        for source in draft.sources:
            name = self._name(draft, source, prefix)
            with placed(source.span):
                part = self._source(draft, source, views, name, default)
            relations, predicates = (*relations, *part.relations), (*predicates, *part.predicates)
            tables.append(part.table)
        clauses = Clauses(draft, tables, self.resolver.functions)
        predicates += tuple(part for using in draft.usings for part in clauses.merge(using))
        predicates += tuple(part for condition in draft.conditions for part in clauses.predicate(condition))
        items = without_reuse(draft.items, clauses.scope.has)
        found = [(output, item.text) for item in items for output in clauses.outputs(item)]
        names = unique_names(output.name for output, _ in found)
        entries = tuple(Entry(name, output.expr, text) for name, (output, text) in zip(names, found, strict=True))
        grouped = bool(draft.distinct or draft.group_by or draft.having) or any(has_aggregate(e.expr) for e in entries)
        return Flat(relations, predicates, entries, clauses, grouped)

    def visible(self, draft: Draft, source: Source, views: Views, default: Within) -> Visible:
        """What one entry of FROM shows."""
        return self._source(draft, source, views, source.alias, default).table

    def streams_of(self, draft: Draft, source: Source, views: Views, default: Within) -> list[Stream]:
        """What one entry of FROM reads."""
        part = self._source(draft, source, views, source.alias, default)
        return [relation.stream for relation in part.relations]

    def _name(self, draft: Draft, source: Source, prefix: str | None) -> str:
        if prefix is None:
            return source.alias
        if len(draft.sources) == 1:
            return prefix
        wanted = f"{prefix}_{source.alias}"
        name = next(name for name in numbered(wanted) if name not in self.taken)
        self.taken.add(name)
        return name

    def _source(self, draft: Draft, source: Source, views: Views, name: str, default: Within) -> _Part:
        inner, known, columns = source.derived, views, source.columns
        if inner is None and (named := find(source.stream, views)) is not None:
            view = views[named]
            inner, known, columns = view.draft, view.views, (*source.columns, *view.columns[len(source.columns) :])
        inherited = default if source.within is None else source.within
        if inner is not None:
            inner = self.resolver.plain(inner if columns else bound(inner, draft, source), known, inherited)
        if inner is not None and not _is_derived(inner):
            flat = self.flatten(inner, known, name, inherited)
            outputs = tuple(output(entry) for entry in flat.entries)
            table = replace(_visible(source, columns, outputs), came=_came(flat.relations))
            of = () if source.span is None else ((source.alias if source.derived else source.stream, name),)
            relations = tuple(replace(relation, inside=(*of, *relation.inside)) for relation in flat.relations)
            return _Part(relations, flat.predicates, table)
        if inner is not None:
            relation = Relation(name, self.resolver.stream(inner, known, inherited), span=source.span)
        else:
            relation = _relation(source, self.resolver.streams, (*views, *self.resolver.streams), name, default)
        if source.history is not None:
            log = relation.stream.made[0].relations[0].stream
            relation = replace(relation, stream=history(log, self.resolver.late_by, source.history))
        counts = relation.stream.weight if relation.stream.made else None
        fields = [field for field in relation.stream.schema if field.name != counts]
        outputs = tuple(Output(field.name, Column(name, field.name, normalize(field.type))) for field in fields)
        return _Part((relation,), (), replace(_visible(source, columns, outputs), came=_came((relation,))))


@dataclass(frozen=True, slots=True)
class _Part:
    """One entry of FROM put in place."""

    relations: tuple[Relation, ...]
    predicates: tuple[Expr, ...]
    table: Visible


def _is_derived(draft: Draft) -> bool:
    """Whether the rows of a draft are a stream of their own: they are no plain join that can be put in place."""
    asked = draft.unions or draft.distinct or draft.group_by or draft.having or draft.times or draft.closes
    made = (calls_aggregate(item.expr) or is_spread(item.expr) for item in draft.items)
    return bool(asked or draft.ranked or draft.versions) or any(made) or any(map(_is_met_once, draft.sources))


def _is_met_once(source: Source) -> bool:
    """Whether it is versions that are looked up when they are final: a query around reads what has met them."""
    versions = None if source.derived is None else source.derived.versions
    return source.history is not None or (versions is not None and versions.until is not None)


def _relation(
    source: Source, streams: Mapping[str, Stream], known: Collection[str], alias: str, default: Within
) -> Relation:
    name = find(source.stream, streams)
    if name is None:
        raise QueryError(
            f'there is no stream "{source.stream}"',
            detail=f"streams are: {', '.join(sorted(known)) or 'none yet'}.",
            hint=suggestion(source.stream, known) or 'declare it with s.stream("name", source).',
            span=source.span,
        )
    try:
        inherited = None if streams[name].table else default  # a table is in every window
        return Relation(alias, streams[name], _window(source.within, inherited), span=source.span)
    except QueryError as error:
        span = source.within_span or source.span
        hint = error.hint if source.within else f"{error.hint} Or write WITHIN UNBOUNDED after {source.alias}."
        raise QueryError(error.message, detail=error.detail, hint=hint, span=span) from None


def _came(relations: Iterable[Relation]) -> Expr | None:
    """The batch in which the last of some rows came."""
    found = [Column(relation.alias, BATCH, pa.int64()) for relation in relations if not relation.stream.table]
    return found[0] if len(found) == 1 else Call("greatest", tuple(found)) if found else None


def _window(own: Within, default: Within) -> int | None:
    within = default if own is None else own
    return within if isinstance(within, int) else None


def _visible(source: Source, columns: tuple[str, ...], outputs: tuple[Output, ...]) -> Visible:
    """The outputs, the first ones under new names."""
    if len(columns) > len(outputs):
        raise QueryError(
            f'"{source.alias}" has {len(outputs)} columns, and {len(columns)} names are given',
            hint="leave some names out.",
            span=source.span,
        )
    names = unique_names((*columns, *(output.name for output in outputs[len(columns) :])))
    return Visible(source.alias, dict(zip(names, (o.expr for o in outputs), strict=True)), source.span)


def output(entry: Entry, *, united: bool = False) -> Output:
    """The output with a type; where it is united with others, it may get one from them."""
    with placed(place_of(entry.expr)):
        refuse_aggregates(entry.expr, "a query without GROUP BY")
        typed = add_types(entry.expr)
        return Output(entry.name, typed if united else require_type(typed))
