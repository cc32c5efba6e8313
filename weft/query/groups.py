"""From the SELECT list, GROUP BY and HAVING to a join and what is made of its rows.

The expressions come with names looked up and without types.  A sub-expression that is written like a key stands for
it; an aggregate stands for its value; what is left must not read a column of the join.  Equal keys, equal arguments
and equal aggregates are one: expressions are equal if they are written alike once their names are looked up.

SELECT DISTINCT without aggregates groups by its outputs.  With GROUP BY it changes nothing if every key is an output.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyarrow import types as pt

from weft.errors import QueryError, placed
from weft.expr.model import Call, Column, Expr, Literal, Udf, place_of, text_of
from weft.expr.render import to_sql
from weft.expr.rules import condition as require_condition
from weft.expr.safe import cannot_fail
from weft.expr.spelling import Places, normal
from weft.expr.types import is_comparable, sql_name
from weft.expr.typing import add_types, require_type
from weft.query.aggregates import (
    has_aggregate,
    is_aggregate,
    is_window,
    is_window_part,
    read_call,
    refuse_aggregates,
    refuse_marks,
)
from weft.query.closing import find_closing
from weft.query.draft import Closes
from weft.query.grouping import Aggregate, Grouping, TimeWindow, argument_field, key_field, value_field
from weft.query.model import Output, Query
from weft.query.names import find
from weft.query.overcall import is_over
from weft.query.windowing import bound_of, read_window

ABSENT = "absent"
"""The call that stands for a key in the groups of a set without it: NULL, of the type of the key."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the SELECT list, a key or a condition: names looked up, no types yet."""

    name: str
    expr: Expr
    text: str
    """The text that the spans in it point into."""


def spelled(entries: Iterable[Entry], places: Places) -> tuple[Entry, ...]:
    """Entries in their one spelling."""
    return tuple(replace(entry, expr=normal(entry.expr, places)) for entry in entries)


def find_entry(written: Expr, entries: Sequence[Entry]) -> Entry | None:
    """The entry of the SELECT list that GROUP BY means by a number; None if it is no number."""
    if not isinstance(written, Literal) or type(written.value) is not int:
        return None
    if not 1 <= written.value <= len(entries):
        raise QueryError(
            f"GROUP BY {written.value} means no output",
            detail=f"the SELECT list has {len(entries)}.",
            hint="write the expression.",
            span=written.span,
        )
    return entries[written.value - 1]


def find_named(written: Expr, entries: Sequence[Entry]) -> Entry | None:
    """The entry that a bare name means, if there is one."""
    if not isinstance(written, Column) or written.alias:
        return None
    name = find(written.name, [entry.name for entry in entries])
    return next((entry for entry in entries if entry.name == name), None)


def group(
    query: Query,
    entries: Sequence[Entry],
    keys: Sequence[Entry],
    having: Sequence[Entry],
    *,
    distinct: bool,
    united: bool = False,
    closes: Closes | None = None,
) -> Query:
    """The join with its outputs, and the groups that are made of them; if `united`, outputs get types from others."""
    if distinct and not keys and not having and not any(has_aggregate(entry.expr) for entry in entries):
        keys = entries
    groups = _Groups(query)
    for key in keys:
        with placed(place_of(key.expr)):
            groups.add_key(key.expr)
    outputs = tuple(_output(groups, entry, united=united) for entry in entries)
    kept = sorted((_condition(groups, entry) for entry in having), key=lambda one: not cannot_fail(one))
    one = reduce(lambda left, right: add_types(Call("and", (left, right))), kept) if kept else None
    closing = None if closes is None else find_closing(query, groups.keys, outputs, closes)
    grouping = Grouping(
        tuple(groups.keys), tuple(groups.aggregates), outputs, one, groups.window, query.is_changing, closing=closing
    )
    return replace(query, outputs=tuple(groups.outputs()), grouping=grouping)


def _output(groups: _Groups, entry: Entry, *, united: bool) -> Output:
    with placed(place_of(entry.expr)):
        expr = groups.finish(entry.expr)
        return Output(entry.name, expr if united else require_type(expr))


def _condition(groups: _Groups, entry: Entry) -> Expr:
    with placed(place_of(entry.expr)):
        return require_condition(groups.finish(entry.expr))


def shows_groups(query: Query, entries: Sequence[Entry]) -> bool:
    """Whether rows of different groups differ in what is selected."""
    made = query.grouping
    assert made is not None
    shown = {output.expr.name for output in made.outputs if isinstance(output.expr, Column)}
    if made.window is not None and any(is_window_part(entry.expr) for entry in entries):
        shown.add(made.window.key)
    return shown.issuperset(made.keys)


class _Groups:
    """What is collected while the expressions of a query are read."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.keys: dict[str, Expr] = {}
        """Field -> expression over the join, with types."""
        self.arguments: dict[str, tuple[str, Expr]] = {}
        """Text of an argument -> its field, and the expression over the join."""
        self.aggregates: dict[Aggregate, str] = {}
        """Aggregate -> the field of its value."""
        self.window: TimeWindow | None = None
        self._written: dict[str, Column] = {}
        """Text of a key as it is written -> its field."""

    def outputs(self) -> list[Output]:
        """What the join gives."""
        return [Output(name, expr) for name, expr in (*self.keys.items(), *self.arguments.values())]

    def source(self, key: str) -> str:
        """A key for people."""
        return to_sql(self.keys[key])

    def add_key(self, written: Expr) -> None:
        """Group by one more expression."""
        if is_window(written):
            self._add_window(written)
            return
        refuse_aggregates(written, "GROUP BY")
        typed = add_types(written)
        if pt.is_null(typed.type) or not is_comparable(typed.type):
            hint = (
                "write CAST(NULL AS type), or group by another column."
                if pt.is_null(typed.type)
                else "group by another column."
            )
            raise QueryError(f"rows cannot be grouped by a {sql_name(typed.type)}", hint=hint, span=written.span)
        windowed = self.window.key if self.window else None
        same = (name for name, expr in self.keys.items() if name != windowed and text_of(expr) == text_of(typed))
        name = next(same, key_field(len(self.keys)))
        self.keys[name] = typed
        self._written[text_of(written)] = Column("", name, typed.type)

    def _add_window(self, written: Expr) -> None:
        time, length, slide = read_window(written, self.query)
        window = TimeWindow(key_field(len(self.keys)), length, slide)
        if self.window is not None:
            if (self.keys[self.window.key], self.window.length, self.window.slide) == (time, length, slide):
                return
            hint = "write a query for each window."
            raise QueryError("a query has at most one window of event time", hint=hint, span=written.span)
        self.keys[window.key] = time
        self.window = window

    def finish(self, written: Expr) -> Expr:
        """An expression over the finished columns of a group, with types."""
        return add_types(self._over_groups(written))

    def _over_groups(self, node: Expr) -> Expr:
        found = self._written.get(text_of(node))
        if found is not None:
            return replace(found, span=node.span)
        if is_window_part(node) or is_window(node):
            return self._window_part(node)
        refuse_marks(node)
        if isinstance(node, Call) and node.op == ABSENT:
            return Literal(None, add_types(node.args[0]).type, node.span)
        if is_over(node):
            refuse_aggregates(node, "HAVING or an aggregate")
        if is_aggregate(node) or (isinstance(node, Call) and node.op == "filter"):
            return self._value(node)
        if isinstance(node, Column):
            raise self._ungrouped(node)
        if isinstance(node, Call | Udf):
            return replace(node, args=tuple(self._over_groups(arg) for arg in node.args))
        return node

    def _window_part(self, node: Expr) -> Expr:
        if self.window is None:
            hint = "write GROUP BY window(time, '10 minutes')."
            raise QueryError("the query has no window of event time", hint=hint, span=node.span)
        if not isinstance(node, Column):
            hint = "write window.start or window.end."
            raise QueryError("a window is no value", hint=hint, span=node.span)
        return bound_of(self.window, node.name, self.keys[self.window.key], node.span)

    def _value(self, call: Expr) -> Expr:
        kind, argument, gives, made = read_call(call)
        field = None if argument is None else self._argument(argument)
        aggregate = Aggregate(kind, field, gives)
        name = self.aggregates.setdefault(aggregate, value_field(len(self.aggregates)))
        value = Column("", name, gives, call.span)
        return Call("gather", (value, *made), None, call.span) if made else value

    def _argument(self, argument: Expr) -> str:
        new = (argument_field(len(self.arguments)), argument)
        return self.arguments.setdefault(text_of(argument), new)[0]

    def _ungrouped(self, column: Column) -> QueryError:
        if not self.keys:
            hint = f"group by it: GROUP BY {column.field}, or aggregate it: MAX({column.field})."
        else:
            hint = f"add it to GROUP BY, or aggregate it: MAX({column.field})."
        return QueryError(
            f"{column.field} is neither grouped nor aggregated",
            detail="a group may have many values of it.",
            hint=hint,
            span=column.span,
        )
