"""From a draft to a query: names looked up, types found, everything checked.

Names are looked up exactly first and then ignoring case, if only one fits.  A column without alias belongs to the
only alias that has it.  Derived tables, WITHs and views that are plain joins are put in place: a query is one flat
join.  Others become derived streams.  After this step it is known to be valid.  Errors point at the SQL text where
there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import pyarrow as pa
from pyarrow import types as pt

from weft.errors import InternalError, QueryError
from weft.expr.factor import factored
from weft.expr.functions import NAMED, SYNONYMS
from weft.expr.lists import UNNEST, is_spread
from weft.expr.model import Call, Column, Expr, Literal, Span, Udf, columns, conjuncts, text_of, transform
from weft.expr.rules import condition as require_condition
from weft.expr.types import TIMESTAMP, ExprError, normalize
from weft.expr.typing import add_types
from weft.query.aggregates import AGGREGATES, NOT_DONE, PARTS, WINDOW, calls_aggregate, has_aggregate, refuse_aggregates
from weft.query.caret import locate_error, pointing_into
from weft.query.closing import has_closing, timed_streams
from weft.query.connectivity import adds_single_rows, require_connected
from weft.query.derived import Derived, all_rows, branches, derive
from weft.query.draft import EVERY, Condition, Draft, Item, Named, Source, Star, Using, Within
from weft.query.groups import Entry, find_entry, find_named, group
from weft.query.model import BATCH, Output, Query, Relation, Stream
from weft.query.moment import fix_now
from weft.query.names import COLUMN_HINT, find, suggestion
from weft.query.onerow import with_rows
from weft.query.parameters import PARAMETERS, REMOVED
from weft.query.qualify import EventTime
from weft.query.ranking import GROUPING, bound, ranked
from weft.query.rewrite import is_plain, rewrite
from weft.query.scope import ALIAS_HINT, MOMENTS, left_out
from weft.query.tables import refuse_changes_beside_tables
from weft.query.timebounds import retention, step_of
from weft.query.versions import history, keep_versions
from weft.query.visible import Visible, numbered, unique_names

_MOMENTS = {"current_date": pa.date32(), "today": pa.date32(), "localtimestamp": TIMESTAMP}
"""Other forms of now()."""
_FORMS = frozenset(
    ["cast", "try_cast", "extract", "exists", "if", "interval", "case", "position", "row", "struct_pack"]
)


def is_built_in(name: str) -> bool:
    """Whether SQL has a function of this name."""
    return name.lower() in {*NAMED, *SYNONYMS, *AGGREGATES, *NOT_DONE, *_FORMS, *_MOMENTS}


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """A registered Python function as queries see it."""

    name: str
    returns: pa.DataType


def resolve(
    draft: Draft,
    streams: Mapping[str, Stream],
    functions: Mapping[str, FunctionSignature],
    cross_product: bool = False,
    views: Views = MappingProxyType({}),
    derived: Iterable[Derived] = (),
) -> Query:
    """The query that `draft` states over `streams`, `views` and derived streams, which may use those before them."""
    views = add_views(views, (one.named for one in derived))
    filled = with_rows(draft, streams, views)
    if filled is None:
        raise _reads_nothing(draft)
    draft = filled
    resolver = _Resolver(streams, functions, cross_product)
    draft = resolver.plain(draft, views)
    whole = all_rows(draft, draft.text) if draft.unions else draft
    query = resolver.query(whole, views)
    if has_closing(query):
        query = _Resolver(streams, functions, cross_product, timed_streams(query)).query(whole, views)
    return query


@dataclass(frozen=True)
class _Resolver:
    """What drafts are resolved with."""

    streams: Mapping[str, Stream]
    functions: Mapping[str, FunctionSignature]
    cross_product: bool
    late_by: tuple[tuple[str, int], ...] = ()
    known: dict[tuple[int, int, Within], tuple[Draft, Views, Stream]] = field(default_factory=dict)
    """Derived streams by the draft they are made of: one that is read at several places is made once."""

    def query(self, draft: Draft, views: Views, default: Within = None, *, united: bool = False) -> Query:
        """One SELECT; where it is united with others, its columns get types from them."""
        flat = _Inliner(draft, self).flatten(draft, views, default=default)
        if not flat.relations:
            raise _reads_nothing(draft)
        crossed = self.cross_product or draft.crossed
        query = Query(flat.relations, flat.predicates, (), crossed, late_by=self.late_by)
        query = replace(query, cross_product=crossed or adds_single_rows(query))
        if draft.ranked is not None:
            query = ranked(query, flat.entries, draft.ranked)
        elif draft.versions is not None:
            with pointing_into(draft.text):
                query = keep_versions(query, tuple(map(_output, flat.entries)), draft.versions)
        elif flat.is_grouped:
            keys = tuple(key for condition in draft.group_by for key in _keys(flat, condition))
            having = tuple(flat.scope.having(condition, flat.entries, keys) for condition in draft.having)
            query = group(
                query, flat.entries, keys, having, distinct=draft.distinct, united=united, closes=draft.closes
            )
            if draft.grows and query.grouping is not None:
                query = replace(query, grouping=replace(query.grouping, grows=draft.times))
        else:
            query = replace(query, outputs=tuple(_output(entry, united=united) for entry in flat.entries))
        if not query.cross_product:
            require_connected(query)
        refuse_changes_beside_tables(query)
        with pointing_into(draft.text):
            return fix_now(query)

    def plain(self, draft: Draft, views: Views, default: Within = None) -> Draft:
        """The draft without outer joins and subqueries."""
        if is_plain(draft):
            return draft
        return rewrite(draft, lambda part: _Known(self, part, add_views(views, part.named), default))

    def stream(self, draft: Draft, views: Views, default: Within) -> Stream:
        """What a draft gives as a derived stream."""
        place = id(draft), id(views), default
        if place not in self.known:
            self.known[place] = draft, views, self._stream(draft, views, default)
        return self.known[place][2]

    def _stream(self, draft: Draft, views: Views, default: Within) -> Stream:
        parts = branches(draft)
        made = [self.query(part, views, default, united=len(parts) > 1) for part in parts]
        with pointing_into(draft.text):
            return derive(made, draft.times)


@dataclass(frozen=True)
class _Known:
    """What the sources of a SELECT are: see `weft.query.qualify.Known`."""

    resolver: _Resolver
    draft: Draft
    views: Views
    default: Within

    def columns(self, source: Source) -> dict[str, pa.DataType]:
        """Name -> type."""
        found = _Inliner(self.draft, self.resolver).visible(self.draft, source, self.views, self.default)
        return {name: expr.type for name, expr in found.columns.items()}

    def event_time(self, source: Source) -> EventTime | None:
        """Of a stream; columns of others may have other names."""
        stream = None if source.columns else self._stream(source)
        if stream is None or stream.event_time is None:
            return None
        whole = pt.is_integer(stream.schema.field(stream.event_time).type)
        return EventTime(stream.event_time, step_of(stream) if whole else None)

    def versions_by(self, source: Source) -> pa.DataType | None:
        """The type of the event time of a table that has versions."""
        stream = self._stream(source)
        log = stream.made[0].relations[0].stream if stream is not None and stream.table and stream.made else None
        return None if log is None or log.event_time is None else log.schema.field(log.event_time).type

    def is_now(self, sources: tuple[Source, ...], expr: Expr) -> bool:
        """Whether it is now(), or a column that a view or a derived table makes of it."""
        draft = Draft(sources, (), (Item(expr, "t", self.draft.text),), text=self.draft.text)
        found = _Inliner(draft, self.resolver).flatten(draft, self.views, default=self.default).entries[0].expr
        while isinstance(found, Call) and found.op == "cast":
            found = found.args[0]
        return isinstance(found, Call) and found.op == "now"

    def is_table(self, source: Source) -> bool:
        """Whether it is a table, or made of tables alone."""
        return all(stream.table for stream in self._streams(source))

    def is_fixed(self, source: Source) -> bool:
        """Whether it is a table that never changes."""
        return all(stream.is_fixed for stream in self._streams(source))

    def is_looked_up(self, source: Source) -> bool:
        """Whether it has a table that changes."""
        return any(stream.is_looked_up for stream in self._streams(source))

    def _streams(self, source: Source) -> list[Stream]:
        """All streams and tables that a source reads itself; a derived stream is one."""
        if (stream := self._stream(source)) is not None:
            return [stream]
        return _Inliner(self.draft, self.resolver).streams_of(self.draft, source, self.views, self.default)

    def _stream(self, source: Source) -> Stream | None:
        named = source.derived is None and find(source.stream, self.views) is None
        name = find(source.stream, self.resolver.streams) if named else None
        return None if name is None else self.resolver.streams[name]

    def reach(self, draft: Draft, alias: str) -> int | None:
        """As long as a row is kept for new partners."""
        query = self.resolver.query(draft, self.views, self.default, united=True)
        return retention(query)[alias]


@dataclass(frozen=True, slots=True)
class View:
    """A draft under a name, and the names that it can use itself."""

    draft: Draft
    columns: tuple[str, ...]
    views: Mapping[str, View]


Views = Mapping[str, View]


def add_views(views: Views, named: Iterable[Named]) -> Views:
    """The views with more of them; each may use those before it."""
    for one in named:
        views = {**views, one.name: View(one.draft, one.columns, views)}
    return views


@dataclass(frozen=True, slots=True)
class _Flat:
    """A draft with all derived tables, WITHs and views in it put in place."""

    relations: tuple[Relation, ...]
    predicates: tuple[Expr, ...]
    entries: tuple[Entry, ...]
    """What it selects, under names that differ."""
    scope: _Scope
    is_grouped: bool


class _Inliner:
    """Puts derived tables in place: their relations and predicates become those of the query around them.

    A relation of the outermost FROM keeps its alias.  A derived table of one relation gives it its own alias; one of
    several names them alias_inner.  A window belongs to the stream behind which it is written, or, behind a derived
    table, to all streams in it that have none.
    """

    def __init__(self, draft: Draft, resolver: _Resolver) -> None:
        self.resolver, self.streams, self.functions = resolver, resolver.streams, resolver.functions
        self.taken = {source.alias for source in draft.sources}

    def flatten(self, draft: Draft, views: Views, prefix: str | None = None, default: Within = None) -> _Flat:
        """The relations, predicates and outputs of a draft."""
        views = add_views(views, draft.named)
        default = default if draft.within is None else draft.within
        relations: tuple[Relation, ...] = ()
        predicates: tuple[Expr, ...] = ()
        tables: list[Visible] = []
        for source in draft.sources:
            name = self._name(draft, source, prefix)
            part = self._source(draft, source, views, name, default)
            relations, predicates = (*relations, *part.relations), (*predicates, *part.predicates)
            tables.append(part.table)
        scope = _Scope(draft, tables, self.functions)
        predicates += tuple(part for using in draft.usings for part in scope.merge(using))
        predicates += tuple(part for condition in draft.conditions for part in scope.predicate(condition))
        found = [(output, item.text) for item in draft.items for output in scope.outputs(item)]
        names = unique_names(output.name for output, _ in found)
        entries = tuple(Entry(name, output.expr, text) for name, (output, text) in zip(names, found, strict=True))
        grouped = bool(draft.distinct or draft.group_by or draft.having) or any(has_aggregate(e.expr) for e in entries)
        return _Flat(relations, predicates, entries, scope, grouped)

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
            outputs = tuple(_output(entry) for entry in flat.entries)
            table = replace(_visible(draft, source, columns, outputs), came=_came(flat.relations))
            return _Part(flat.relations, flat.predicates, table)
        if inner is not None:
            relation = Relation(name, self.resolver.stream(inner, known, inherited))
        else:
            relation = _relation(draft, source, self.streams, (*views, *self.streams), name, default)
        if source.history is not None:
            log = relation.stream.made[0].relations[0].stream
            relation = replace(relation, stream=history(log, self.resolver.late_by, source.history))
        counts = relation.stream.weight if relation.stream.made else None
        fields = [field for field in relation.stream.schema if field.name != counts]
        outputs = tuple(Output(field.name, Column(name, field.name, normalize(field.type))) for field in fields)
        return _Part((relation,), (), replace(_visible(draft, source, columns, outputs), came=_came((relation,))))


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
    return bool(asked or draft.ranked or draft.versions) or any(made)


def _relation(
    draft: Draft, source: Source, streams: Mapping[str, Stream], known: Collection[str], alias: str, default: Within
) -> Relation:
    name = find(source.stream, streams)
    if name is None:
        raise locate_error(
            f'there is no stream "{source.stream}"',
            draft.text,
            source.span,
            detail=f"streams are: {', '.join(sorted(known)) or 'none yet'}.",
            hint=suggestion(source.stream, known) or 'declare it with s.stream("name", source).',
        )
    try:
        inherited = None if streams[name].table else default  # a table is in every window
        return Relation(alias, streams[name], _window(source.within, inherited))
    except QueryError as error:
        span = source.within_span or source.span
        hint = error.hint if source.within else f"{error.hint} Or write WITHIN UNBOUNDED after {source.alias}."
        raise locate_error(error.message, draft.text, span, detail=error.detail, hint=hint) from None


def _came(relations: Iterable[Relation]) -> Expr | None:
    """The batch in which the last of some rows came."""
    found = [Column(relation.alias, BATCH, pa.int64()) for relation in relations if not relation.stream.table]
    return found[0] if len(found) == 1 else Call("greatest", tuple(found)) if found else None


def _window(own: Within, default: Within) -> int | None:
    within = default if own is None else own
    return within if isinstance(within, int) else None


def _visible(draft: Draft, source: Source, columns: tuple[str, ...], outputs: tuple[Output, ...]) -> Visible:
    """The outputs, the first ones under new names."""
    if len(columns) > len(outputs):
        raise locate_error(
            f'"{source.alias}" has {len(outputs)} columns, and {len(columns)} names are given',
            draft.text,
            source.span,
            hint="leave some names out.",
        )
    names = unique_names((*columns, *(output.name for output in outputs[len(columns) :])))
    return Visible(source.alias, dict(zip(names, (o.expr for o in outputs), strict=True)), source.span)


class _Scope:
    """The names one SELECT can see."""

    def __init__(self, draft: Draft, tables: Sequence[Visible], functions: Mapping[str, FunctionSignature]) -> None:
        self.text, self.order, self.functions = draft.text, tables, functions
        self.tables: dict[str, Visible] = {}
        self.hidden: set[tuple[str, str]] = set()
        """(Alias, column) that USING has merged into a column further left."""
        for table in tables:
            if table.alias in self.tables:
                hint = "give each alias a name of its own with AS."
                raise locate_error(f"duplicate alias {table.alias!r}", draft.text, table.span, hint=hint)
            self.tables[table.alias] = table

    def merge(self, using: Using) -> tuple[Expr, ...]:
        """USING and NATURAL: equal columns of both sides, of which one stays visible."""
        left, right = ([self.order[at].alias for at in side] for side in (using.left, using.right))
        names = using.columns
        if names is None:
            names = tuple(n for a in right for n in self._shown(a) if any(find(n, self._shown(b)) for b in left))
        if not names:
            hint = "write ON with the columns to compare, or CROSS JOIN."
            raise locate_error("both sides of NATURAL JOIN have no column in common", self.text, using.span, hint=hint)
        return tuple(self._merge(using, name, left, right) for name in names)

    def _merge(self, using: Using, name: str, left: Sequence[str], right: Sequence[str]) -> Expr:
        sought = Column("", name, None, using.span)

        def merged() -> tuple[Expr, ...]:
            (a, mine), (b, other) = self._owner(sought, left), self._owner(sought, right)
            self.hidden.add((b, other))
            equal = Call("=", (self._value(a, mine, using.span), self._value(b, other, using.span)), None, using.span)
            return (add_types(equal),)

        return self._point_errors(self.text, merged)[0]

    def _shown(self, alias: str) -> list[str]:
        return [name for name in self.tables[alias].columns if (alias, name) not in self.hidden]

    def _value(self, alias: str, name: str, span: Span | None) -> Expr:
        """What a column stands for, as if it were written where its name is."""
        return transform(self.tables[alias].columns[name], lambda node: replace(node, span=span))

    def predicate(self, condition: Condition) -> tuple[Expr, ...]:
        """The conjuncts of one condition, resolved and typed."""
        if isinstance(condition.expr, str):
            raise InternalError("a fragment of SQL was not parsed before it was resolved")
        expr = condition.expr
        return self._point_errors(condition.text, lambda: tuple(self._conjuncts(expr)))

    def _conjuncts(self, expr: Expr) -> Iterator[Expr]:
        """Types may turn one condition into several."""
        for part in conjuncts(expr):
            for typed in conjuncts(require_condition(self._add_types(part))):
                yield from factored(typed)

    def outputs(self, item: Item) -> Iterator[Output]:
        """The columns one entry of the SELECT list stands for, names looked up."""
        if isinstance(item.expr, str):
            raise InternalError("a fragment of SQL was not parsed before it was resolved")
        if isinstance(item.expr, Star):
            yield from self._star(item.expr, item.text)
            return
        expr = item.expr
        resolved = self._point_errors(item.text, lambda: (self._look_up(expr),))[0]
        yield Output(item.name or self._output_name(expr) or item.source, resolved)

    def _output_name(self, expr: Expr) -> str | None:
        """A column keeps its name, and so does a field of one."""
        if isinstance(expr, Call) and expr.op == "struct_extract" and isinstance(expr.args[1], Literal):
            return str(expr.args[1].value)
        if not isinstance(expr, Column):
            return None
        if self._is_window_part(expr):
            return expr.name.lower()
        _, name, inner = self._find(expr)
        return inner or name

    def key(self, condition: Condition, entries: Sequence[Entry]) -> Entry:
        """One key of GROUP BY: an expression, or the position or the name of an output."""
        assert not isinstance(condition.expr, str)
        with pointing_into(condition.text):
            try:
                named = find_entry(condition.expr, entries)
                return named or Entry("", self._look_up(condition.expr), condition.text)
            except ExprError:
                if (named := find_named(condition.expr, entries)) is not None:
                    return named
                raise

    def having(self, condition: Condition, entries: Sequence[Entry], keys: Sequence[Entry]) -> Entry:
        """One condition of HAVING; a name that is no key may be that of an output."""
        assert not isinstance(condition.expr, str)
        with pointing_into(condition.text):
            return Entry("", self._over_groups(condition.expr, entries, keys), condition.text)

    def _over_groups(self, node: Expr, entries: Sequence[Entry], keys: Sequence[Entry]) -> Expr:
        named = find_named(node, entries)
        if named is not None and not self._is_key(node, keys):
            return named.expr
        aggregate = isinstance(node, Udf) and node.name.lower() in AGGREGATES
        if not isinstance(node, Call | Udf) or aggregate:
            return self._look_up(node)
        inner = replace(node, args=tuple(self._over_groups(arg, entries, keys) for arg in node.args))
        return self._resolve_node(inner)

    def _is_key(self, node: Expr, keys: Sequence[Entry]) -> bool:
        try:
            return any(text_of(self._look_up(node)) == text_of(key.expr) for key in keys)
        except ExprError:
            return False

    def _point_errors(self, text: str, work: Callable[[], tuple[Expr, ...]]) -> tuple[Expr, ...]:
        try:
            return work()
        except ExprError as error:
            raise locate_error(error.message, text, error.span, detail=error.detail, hint=error.hint) from None

    def _add_types(self, expr: Expr) -> Expr:
        found = self._look_up(expr)
        refuse_aggregates(found, "WHERE or ON")
        return add_types(found)

    def _look_up(self, expr: Expr) -> Expr:
        """The expression with all names looked up; aggregates stay as they are."""
        return transform(expr, self._resolve_node)

    def _resolve_node(self, node: Expr) -> Expr:
        if isinstance(node, Column):
            return self._function(Udf(node.name, (), None, node.span)) if self._is_moment(node) else self._column(node)
        if isinstance(node, Call) and node.op == "row":
            raise ExprError("a row of values can only be compared", hint="name the values one by one.", span=node.span)
        return self._function(node) if isinstance(node, Udf) else node

    def _is_moment(self, column: Column) -> bool:
        """Whether this is CURRENT_DATE or the like, written without parentheses."""
        if column.alias or column.name.lower() not in MOMENTS:
            return False
        return not any(find(column.name, self._shown(alias)) for alias in self.tables)

    def _star(self, star: Star, text: str) -> Iterator[Output]:
        with pointing_into(text):
            shown = self._starred(star)
            left = left_out(star, shown)
        yield from (
            Output(name, self._value(alias, name, star.span)) for alias, name in shown if (alias, name) not in left
        )

    def _starred(self, star: Star) -> list[tuple[str, str]]:
        """(Alias, column) that * or alias.* stands for."""
        if star.alias:
            alias = self._alias(star.alias, star.span)
            return [(alias, name) for name in self.tables[alias].columns]
        tables = (table for table in self.order if table.alias != PARAMETERS)
        return [(table.alias, name) for table in tables for name in self._shown(table.alias)]

    def _alias(self, name: str, span: Span | None) -> str:
        alias = find(name, self.tables)
        if alias is None and name == PARAMETERS:
            raise ExprError(
                "parameters are for subscriptions",
                detail="a row of parameters is a subscription; a query, or a SELECT inside another, has none.",
                hint="use s.subscriptions(name, sql, parameters=...), or put the value into the text.",
                span=span,
            )
        if alias is None:
            raise ExprError(
                f'there is no alias "{name}"',
                detail=f"aliases are: {', '.join(self.tables)}.",
                hint=suggestion(name, self.tables) or ALIAS_HINT,
                span=span,
            )
        return alias

    def _column(self, column: Column) -> Expr:
        if self._is_window_part(column):
            return replace(column, alias=WINDOW, name=column.name.lower())
        if column.name == BATCH and (came := self.tables[column.alias].came) is not None:
            return came
        alias, name, inner = self._find(column)
        value = self._value(alias, name, column.span)
        return value if inner is None else Call("struct_extract", (value, Literal(inner)), None, column.span)

    def _find(self, column: Column) -> tuple[str, str, str | None]:
        """Alias and column, and a field of it: `a.b` may also be field b of a column a."""
        if not column.alias:
            return *self._owner(column, [alias for alias in self.tables if alias != PARAMETERS]), None
        if find(column.alias, self.tables) is None and (owner := self._struct(column.alias)) is not None:
            return *owner, column.name
        alias = self._alias(column.alias, column.span)
        columns = self.tables[alias].columns
        found = find(column.name, columns)
        if found is None:
            raise _no_column(alias, column, columns)
        return alias, found, None

    def _is_window_part(self, column: Column) -> bool:
        named = column.alias.lower() == WINDOW and column.name.lower() in PARTS
        return named and find(column.alias, self.tables) is None

    def _struct(self, name: str) -> tuple[str, str] | None:
        """The only column of this name, if it is a struct."""
        owners = [(alias, found) for alias in self.tables if (found := find(name, self._shown(alias))) is not None]
        is_struct = len(owners) == 1 and pt.is_struct(self.tables[owners[0][0]].columns[owners[0][1]].type)
        return owners[0] if is_struct else None

    def _owner(self, column: Column, among: Sequence[str]) -> tuple[str, str]:
        """The only alias with a column of this name, and the name."""
        owners = [(alias, column.name) for alias in among if column.name in self._shown(alias)]
        owners = owners or [(a, found) for a in among if (found := find(column.name, self._shown(a))) is not None]
        if len(owners) == 1:
            return owners[0]
        if owners:
            raise ExprError(
                f'column "{column.name}" is ambiguous',
                detail=f"these aliases have one: {', '.join(alias for alias, _ in owners)}.",
                hint=f"write {owners[0][0]}.{column.name}.",
                span=column.span,
            )
        every = [f"{alias}.{name}" for alias in among for name in self._shown(alias)]
        raise ExprError(
            f'there is no column "{column.name}"',
            detail=f"columns are: {', '.join(every)}.",
            hint=suggestion(column.name, [name.partition(".")[2] for name in every]) or COLUMN_HINT,
            span=column.span,
        )

    def _function(self, call: Udf) -> Expr:
        name = find(call.name, self.functions)
        if name is not None:
            return replace(call, name=name, type=normalize(self.functions[name].returns))
        builtin = call.name.lower()
        builtin = SYNONYMS.get(builtin, builtin)
        if builtin in _MOMENTS and not call.args:
            return Call("cast", (Call("now", (), None, call.span),), _MOMENTS[builtin], call.span)
        if builtin in NAMED or builtin == "%":
            return Call(builtin, call.args, None, call.span)
        if builtin in AGGREGATES or builtin == WINDOW:
            return replace(call, name=builtin)
        if builtin in NOT_DONE:
            raise ExprError(
                f'"{call.name}" is not supported',
                detail=f"aggregates are: {', '.join(AGGREGATES)}.",
                hint="aggregate the result where it is read.",
                span=call.span,
            )
        if builtin in GROUPING:
            hint = "write it beside GROUP BY GROUPING SETS, ROLLUP or CUBE."
            raise ExprError("GROUPING says which keys a group has", hint=hint, span=call.span)
        if builtin == UNNEST:
            hint = "write it in FROM: FROM t, UNNEST(t.list) AS u (x)."
            raise ExprError("UNNEST stands in FROM", hint=hint, span=call.span)
        raise ExprError(
            f'there is no function "{call.name}"',
            hint=suggestion(call.name, [*NAMED, *SYNONYMS, *self.functions])
            or "register a Python function of that name.",
            span=call.span,
        )


def _keys(flat: _Flat, condition: Condition) -> Iterable[Entry]:
    """What one key of GROUP BY stands for; ALL is every output without aggregates that reads a column."""
    if condition.expr != EVERY:
        return (flat.scope.key(condition, flat.entries),)
    return (entry for entry in flat.entries if columns(entry.expr) and not has_aggregate(entry.expr))


def _no_column(alias: str, column: Column, columns: Collection[str]) -> ExprError:
    shown = [name for name in columns if name != REMOVED]
    if alias == PARAMETERS:
        message, detail = f'there is no parameter ":{column.name}"', "columns of the parameters are"
    else:
        message, detail = f'"{alias}" has no column "{column.name}"', "its columns are"
    return ExprError(
        message,
        detail=f"{detail}: {', '.join(shown)}.",
        hint=suggestion(column.name, shown) or COLUMN_HINT,
        span=column.span,
    )


def _reads_nothing(draft: Draft) -> QueryError:
    span = draft.sources[0].span if draft.sources else None
    hint = "a query reads FROM at least one stream; rows that never change are a table: s.table(name, source)."
    return locate_error("this query reads no stream", draft.text, span, hint=hint)


def _output(entry: Entry, *, united: bool = False) -> Output:
    with pointing_into(entry.text):
        refuse_aggregates(entry.expr, "a query without GROUP BY")
        typed = add_types(entry.expr)
        return Output(entry.name, typed if united else _require_type(typed))


def _require_type(expr: Expr) -> Expr:
    """An output without type (a bare NULL) has no column to go to."""
    if pt.is_null(expr.type) or pt.is_interval(expr.type):
        raise ExprError("this output has no type of its own", hint="write CAST(... AS type).", span=expr.span)
    return expr
