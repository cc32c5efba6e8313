"""The clauses of a SELECT, their names looked up in what its FROM shows.

Conditions get types here.  Outputs and keys stay without types until it is known whether the rows are grouped.
Errors point at the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from weft.errors import InternalError, QueryError, placed
from weft.expr.factor import factored
from weft.expr.model import Call, Column, Expr, Udf, columns, conjuncts, place_of, text_of, transform
from weft.expr.rules import condition as require_condition
from weft.expr.typing import add_types
from weft.query.aggregates import AGGREGATES, has_aggregate, refuse_aggregates
from weft.query.calls import FunctionSignature, called
from weft.query.draft import EVERY, Condition, Draft, Item, Star, Using
from weft.query.groups import Entry, find_entry, find_named
from weft.query.model import BATCH, Output
from weft.query.scope import Scope, merge
from weft.query.visible import Visible


class Clauses:
    """The clauses of one SELECT over what its FROM shows."""

    def __init__(self, draft: Draft, tables: Sequence[Visible], functions: Mapping[str, FunctionSignature]) -> None:
        self.text, self.tables, self.functions = draft.text, tables, functions
        self.scope = Scope(())
        for table in tables:
            if table.alias in self.scope.aliases:
                hint = "give each alias a name of its own with AS."
                raise QueryError(f"duplicate alias {table.alias!r}", hint=hint, span=table.span)
            self.scope = self.scope.beside(Scope.of_table(table))

    def merge(self, using: Using) -> tuple[Expr, ...]:
        """USING and NATURAL: equal columns of both sides, of which one stays visible."""
        left, right = (self.scope.only([self.tables[at].alias for at in side]) for side in (using.left, using.right))
        merged, equal = merge("inner", left, right, using)
        self.scope = self.scope.without(merged.merged)
        return tuple(map(add_types, equal))

    def predicate(self, condition: Condition) -> tuple[Expr, ...]:
        """The conjuncts of one condition, resolved and typed."""
        if isinstance(condition.expr, str):
            raise InternalError("a fragment of SQL was not parsed before it was resolved")
        with placed(place_of(condition.expr)):
            return tuple(self._conjuncts(condition.expr))

    def _conjuncts(self, expr: Expr) -> Iterator[Expr]:
        """Types may turn one condition into several."""
        for part in conjuncts(expr):
            for typed in conjuncts(require_condition(self._add_types(part))):
                yield from factored(typed)

    def outputs(self, item: Item) -> list[Output]:
        """The columns one entry of the SELECT list stands for, names looked up."""
        if isinstance(item.expr, str):
            raise InternalError("a fragment of SQL was not parsed before it was resolved")
        if isinstance(item.expr, Star):
            return [Output(one.name, one.value) for one in self.scope.star(item.expr)]
        with placed(place_of(item.expr)):
            found = self._look_up(item.expr)
        return [Output(item.name or self.scope.name_of(item.expr) or item.source, found)]

    def keys(self, condition: Condition, entries: Sequence[Entry]) -> Iterable[Entry]:
        """What one key of GROUP BY stands for; ALL is every output without aggregates that reads a column."""
        if condition.expr != EVERY:
            return (self._key(condition, entries),)
        return (entry for entry in entries if columns(entry.expr) and not has_aggregate(entry.expr))

    def _key(self, condition: Condition, entries: Sequence[Entry]) -> Entry:
        """One key of GROUP BY: an expression, or the position or the name of an output."""
        assert not isinstance(condition.expr, str)
        try:
            named = find_entry(condition.expr, entries)
            return named or Entry("", self._look_up(condition.expr), condition.text)
        except QueryError:
            if (named := find_named(condition.expr, entries)) is not None:
                return named
            raise

    def having(self, condition: Condition, entries: Sequence[Entry], keys: Sequence[Entry]) -> Entry:
        """One condition of HAVING; a name that is no key may be that of an output."""
        assert not isinstance(condition.expr, str)
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
        except QueryError:
            return False

    def _add_types(self, expr: Expr) -> Expr:
        found = self._look_up(expr)
        refuse_aggregates(found, "WHERE or ON")
        return add_types(found)

    def _look_up(self, expr: Expr) -> Expr:
        """The expression with all names looked up; aggregates stay as they are."""
        return transform(expr, self._resolve_node)

    def _resolve_node(self, node: Expr) -> Expr:
        if isinstance(node, Column):
            node = self._column(node)
        if isinstance(node, Call) and node.op == "row":
            raise QueryError("a row of values can only be compared", hint="name the values one by one.", span=node.span)
        return called(node, self.functions) if isinstance(node, Udf) and node.type is None else node

    def _column(self, column: Column) -> Expr:
        came = [table.came for table in self.tables if column.name == BATCH and table.alias == column.alias]
        return came[0] if came and came[0] is not None else self.scope.meant(column)
