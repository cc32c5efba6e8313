"""From a draft to a query: names looked up, types found, everything checked.

Names are looked up exactly first and then ignoring case, if only one fits.  A column without alias belongs to the
only alias that has it.  After this step a query is known to be valid.  Errors point at the SQL text where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyarrow import types as pt

from weft.errors import InternalError, QueryError
from weft.expr.functions import NAMED, SYNONYMS
from weft.expr.model import Call, Column, Expr, Span, Udf, conjuncts, text_of, transform
from weft.expr.rules import condition as require_condition
from weft.expr.types import ExprError, normalize
from weft.expr.typing import add_types
from weft.query.aggregates import AGGREGATES, NOT_DONE, PARTS, WINDOW, has_aggregate, refuse_aggregates
from weft.query.caret import locate_error, pointing_into
from weft.query.connectivity import require_connected
from weft.query.draft import Condition, Draft, Item, Source, Star, Within
from weft.query.groups import Entry, find_entry, find_named, group
from weft.query.model import Output, Query, Relation, Stream
from weft.query.names import find, suggestion


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
) -> Query:
    """The query that `draft` states over `streams`."""
    relations = tuple(_relation(draft, source, streams) for source in draft.sources)
    scope = _Scope(relations, functions)
    predicates = tuple(part for condition in draft.conditions for part in scope.predicate(condition))
    entries = tuple(Entry(o.name, o.expr, item.text) for item in draft.items for o in scope.outputs(item))
    query = Query(relations, predicates, (), cross_product)
    if draft.distinct or draft.group_by or draft.having or any(has_aggregate(entry.expr) for entry in entries):
        keys = tuple(scope.key(condition, entries) for condition in draft.group_by)
        having = tuple(scope.having(condition, entries, keys) for condition in draft.having)
        query = group(query, entries, keys, having, distinct=draft.distinct)
    else:
        query = replace(query, outputs=tuple(_output(entry) for entry in entries))
    if not cross_product:
        require_connected(query)
    return query


def _relation(draft: Draft, source: Source, streams: Mapping[str, Stream]) -> Relation:
    name = find(source.stream, streams)
    if name is None:
        raise locate_error(
            f'there is no stream "{source.stream}"',
            draft.text,
            source.span,
            detail=f"streams are: {', '.join(sorted(streams)) or 'none yet'}.",
            hint=suggestion(source.stream, streams) or 'declare it with s.stream("name", source).',
        )
    try:
        default = None if streams[name].table else draft.within  # a table is in every window
        return Relation(source.alias, streams[name], _window(source.within, default))
    except QueryError as error:
        span = source.within_span or source.span
        hint = error.hint if source.within else f"{error.hint} Or write WITHIN UNBOUNDED after {source.alias}."
        raise locate_error(error.message, draft.text, span, detail=error.detail, hint=hint) from None


def _window(own: Within, default: Within) -> int | None:
    within = default if own is None else own
    return within if isinstance(within, int) else None


class _Scope:
    """The names one query can see."""

    def __init__(self, relations: tuple[Relation, ...], functions: Mapping[str, FunctionSignature]) -> None:
        self.relations = {relation.alias: relation for relation in relations}
        self.functions = functions

    def predicate(self, condition: Condition) -> tuple[Expr, ...]:
        """The conjuncts of one condition, resolved and typed."""
        if isinstance(condition.expr, str):
            raise InternalError("a fragment of SQL was not parsed before it was resolved")
        expr = condition.expr
        return self._point_errors(
            condition.text, lambda: tuple(require_condition(self._add_types(part)) for part in conjuncts(expr))
        )

    def outputs(self, item: Item) -> Iterator[Output]:
        """The columns one entry of the SELECT list stands for, names looked up."""
        if isinstance(item.expr, str):
            raise InternalError("a fragment of SQL was not parsed before it was resolved")
        if isinstance(item.expr, Star):
            yield from self._star(item.expr, item.text)
            return
        expr = item.expr
        resolved = self._point_errors(item.text, lambda: (self._look_up(expr),))[0]
        name = item.name or (resolved.name if isinstance(resolved, Column) else item.source)
        yield Output(name, resolved)

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
            return self._column(node)
        return self._function(node) if isinstance(node, Udf) else node

    def _star(self, star: Star, text: str) -> Iterator[Output]:
        alias = (
            self._point_errors(text, lambda: (Column(self._alias(star.alias, star.span), ""),))[0]
            if star.alias
            else None
        )
        chosen = [alias.alias] if isinstance(alias, Column) else list(self.relations)
        for name in chosen:
            for field in self.relations[name].stream.schema:
                yield Output(field.name, Column(name, field.name, normalize(field.type)))

    def _alias(self, name: str, span: Span | None) -> str:
        alias = find(name, self.relations)
        if alias is None:
            raise ExprError(
                f'there is no alias "{name}"',
                detail=f"aliases are: {', '.join(self.relations)}.",
                hint=suggestion(name, self.relations),
                span=span,
            )
        return alias

    def _column(self, column: Column) -> Column:
        if self._is_window_part(column):
            return replace(column, alias=WINDOW, name=column.name.lower())
        alias = self._alias(column.alias, column.span) if column.alias else self._owner(column)
        schema = self.relations[alias].stream.schema
        name = find(column.name, schema.names)
        if name is None:
            raise ExprError(
                f'"{alias}" has no column "{column.name}"',
                detail=f"its columns are: {', '.join(schema.names)}.",
                hint=suggestion(column.name, schema.names),
                span=column.span,
            )
        return replace(column, alias=alias, name=name, type=normalize(schema.field(name).type))

    def _is_window_part(self, column: Column) -> bool:
        named = column.alias.lower() == WINDOW and column.name.lower() in PARTS
        return named and find(column.alias, self.relations) is None

    def _owner(self, column: Column) -> str:
        """The only alias with a column of this name."""
        owners = [alias for alias, relation in self.relations.items() if column.name in relation.stream.schema.names]
        owners = owners or [
            a for a, relation in self.relations.items() if find(column.name, relation.stream.schema.names)
        ]
        if len(owners) == 1:
            return owners[0]
        if owners:
            raise ExprError(
                f'column "{column.name}" is ambiguous',
                detail=f"these aliases have one: {', '.join(owners)}.",
                hint=f"write {owners[0]}.{column.name}.",
                span=column.span,
            )
        every = [
            f"{alias}.{name}" for alias, relation in self.relations.items() for name in relation.stream.schema.names
        ]
        raise ExprError(
            f'there is no column "{column.name}"',
            detail=f"columns are: {', '.join(every)}.",
            hint=suggestion(column.name, [name.partition(".")[2] for name in every]),
            span=column.span,
        )

    def _function(self, call: Udf) -> Expr:
        name = find(call.name, self.functions)
        if name is not None:
            return replace(call, name=name, type=normalize(self.functions[name].returns))
        builtin = call.name.lower()
        builtin = SYNONYMS.get(builtin, builtin)
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
        raise ExprError(
            f'there is no function "{call.name}"',
            hint=suggestion(call.name, [*NAMED, *SYNONYMS, *self.functions])
            or "register a Python function of that name.",
            span=call.span,
        )


def _output(entry: Entry) -> Output:
    with pointing_into(entry.text):
        refuse_aggregates(entry.expr, "a query without GROUP BY")
        return Output(entry.name, _require_type(add_types(entry.expr)))


def _require_type(expr: Expr) -> Expr:
    """An output without type (a bare NULL) has no column to go to."""
    if pt.is_null(expr.type) or pt.is_interval(expr.type):
        raise ExprError("this output has no type of its own", hint="write CAST(NULL AS type).", span=expr.span)
    return expr
