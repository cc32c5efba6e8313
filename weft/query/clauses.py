"""The clauses of a SELECT, their names looked up in what its FROM shows.

A name is looked up exactly first and then ignoring case, if only one fits.  A column without alias belongs to the
only alias that has it.  Conditions get types here.  Outputs and keys stay without types until it is known whether the
rows are grouped.  Errors point at the text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pyarrow import types as pt

from weft.errors import InternalError
from weft.expr.factor import factored
from weft.expr.model import Call, Column, Expr, Literal, Span, Udf, columns, conjuncts, text_of, transform
from weft.expr.rules import condition as require_condition
from weft.expr.types import ExprError
from weft.expr.typing import add_types
from weft.query.aggregates import AGGREGATES, PARTS, WINDOW, has_aggregate, refuse_aggregates
from weft.query.calls import FunctionSignature, called
from weft.query.caret import locate_error, pointing_into
from weft.query.draft import EVERY, Condition, Draft, Item, Star, Using
from weft.query.groups import Entry, find_entry, find_named
from weft.query.model import BATCH, Output
from weft.query.names import find, suggestion
from weft.query.parameters import PARAMETERS, REMOVED
from weft.query.scope import ALIAS_HINT, MOMENTS, left_out
from weft.query.visible import Visible


class Clauses:
    """The clauses of one SELECT over what its FROM shows."""

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

    def keys(self, condition: Condition, entries: Sequence[Entry]) -> Iterable[Entry]:
        """What one key of GROUP BY stands for; ALL is every output without aggregates that reads a column."""
        if condition.expr != EVERY:
            return (self._key(condition, entries),)
        return (entry for entry in entries if columns(entry.expr) and not has_aggregate(entry.expr))

    def _key(self, condition: Condition, entries: Sequence[Entry]) -> Entry:
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
            return (
                called(Udf(node.name, (), None, node.span), self.functions)
                if self._is_moment(node)
                else self._column(node)
            )
        if isinstance(node, Call) and node.op == "row":
            raise ExprError("a row of values can only be compared", hint="name the values one by one.", span=node.span)
        return called(node, self.functions) if isinstance(node, Udf) else node

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
            hint=suggestion(column.name, [name.partition(".")[2] for name in every]),
            span=column.span,
        )


def _no_column(alias: str, column: Column, columns: Collection[str]) -> ExprError:
    shown = [name for name in columns if name != REMOVED]
    if alias == PARAMETERS:
        message, detail = f'there is no parameter ":{column.name}"', "columns of the parameters are"
    else:
        message, detail = f'"{alias}" has no column "{column.name}"', "its columns are"
    return ExprError(
        message, detail=f"{detail}: {', '.join(shown)}.", hint=suggestion(column.name, shown), span=column.span
    )
