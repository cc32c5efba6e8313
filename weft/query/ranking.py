"""Rows with a number: ROW_NUMBER, RANK and DENSE_RANK, QUALIFY, and ORDER BY with LIMIT.

    SELECT g, x, ROW_NUMBER() OVER (PARTITION BY g ORDER BY x DESC) AS n FROM a QUALIFY n <= 3

becomes three SELECTs, one inside the other: what is read, the same rows with a number, and what is shown of them.

    SELECT g, x, "#rank0" AS n FROM (
      SELECT *, number of the row in its group g AS "#rank0" FROM (SELECT g, x FROM a)
    ) WHERE "#rank0" <= 3

The SELECT in the middle is a derived stream whose groups keep rows (`weft.query.grouping.Ranking`).  Several numbers
are several such SELECTs.  ORDER BY ... LIMIT n is QUALIFY ROW_NUMBER() OVER (ORDER BY ...) <= n.

Before it is rewritten, a number is a call: see `weft.query.overcall`.

What must hold: only the last number may be cut off at the greatest one that is read, since rows that are cut off have
no part in numbers that are given later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from weft.errors import QueryError, Span
from weft.expr.model import Call, Column, Expr, Literal, Udf, columns, conjuncts, text_of, transform, walk
from weft.expr.spelling import Places, normal
from weft.expr.types import is_comparable, is_orderable, sql_name
from weft.expr.typing import add_types, require_type
from weft.query.aggregates import AGGREGATES, refuse_aggregates
from weft.query.derived import all_rows
from weft.query.draft import EVERY, Condition, Draft, Item, Ranked, Source, Star
from weft.query.gathering import IN_ORDER, KNOWN, ORDERED
from weft.query.grouping import Grouping, Ranking, RankKind, Sorted, argument_field, key_field, value_field
from weft.query.groups import Entry
from weft.query.model import Output, Query
from weft.query.names import find
from weft.query.opened import Opened
from weft.query.overcall import OverCall, SortKey, is_number, is_over
from weft.query.overs import LAST, ROWS, Over, is_edge, needs_number, with_columns
from weft.query.qualify import every

GROUPING = ("grouping", "grouping_id")
"""Functions that say which keys a group has: see `weft.query.sets`."""
_POSITION = "position"
"""Stands for an output by its number, in ORDER BY."""
_SHOWN = "shown"
"""Stands for an output by its name, when all outputs have names that differ; a column of that name is not meant."""
_WHOLE = ("exists", "in_query", "subquery", "filter")
"""Calls that are worked out before rows are numbered."""


def is_ranking(draft: Draft) -> bool:
    """Whether a SELECT numbers rows."""
    return bool(draft.qualify) or any(_has_number(item.expr) for item in draft.items)


def first_rows(
    draft: Draft, order: Sequence[SortKey], most: int | None, skipped: int, span: Span | None = None
) -> Draft:
    """The draft with ORDER BY, LIMIT and OFFSET; an order may be the number or the name of an output."""
    keys = tuple(replace(key, expr=_output(draft, key.expr)) for key in order)
    place = OverCall("row_number", (), keys).call(order[0].expr.span if order else span)
    tests = [] if most is None else [Call("<=", (place, Literal(most + skipped)))]
    tests += [Call(">", (place, Literal(skipped)))] if skipped else []
    return replace(draft, qualify=(*draft.qualify, *(Condition(test, draft.text) for test in tests)))


def without_limit(draft: Draft) -> Draft:
    """The draft without a LIMIT that leaves at least one row of those that are there."""
    if not draft.qualify or not all(_is_limit(_expr(one)) for one in draft.qualify):
        return draft
    rows, inner = replace(draft, qualify=()), draft.sources[0].derived if draft.sources else None
    return inner if inner is not None and rows == all_rows(inner, draft.text) else rows


def _is_limit(test: Expr) -> bool:
    """Whether it is the number of a row among all, at most as large as a constant that is not 0."""
    if not (isinstance(test, Call) and test.op == "<=" and is_number(test.args[0])):
        return False
    place, most = OverCall.read(test.args[0]), test.args[1]
    is_of_all = (place.kind, place.by) == ("row_number", ())
    return is_of_all and isinstance(most, Literal) and type(most.value) is int and most.value > 0


def first_of_groups(draft: Draft, by: Sequence[Expr], order: Sequence[SortKey]) -> Draft:
    """The draft with DISTINCT ON; a key may be the number or the name of an output, and so may an order."""
    keys = tuple(_output(draft, key) for key in by)
    sorted_ = tuple(replace(key, expr=_output(draft, key.expr)) for key in order)
    place = OverCall("row_number", keys, sorted_).call(by[0].span)
    first = Condition(Call("<=", (place, Literal(1))), draft.text)
    return replace(draft, qualify=(*draft.qualify, first))


def within_ties(draft: Draft, near: Sequence[Condition], ties: Sequence[Expr]) -> Draft:
    """The draft with numbers within the groups of more columns, which are selected too, behind all others."""

    def tied(node: Expr) -> Expr:
        if not is_over(node):
            return node
        asked = OverCall.read(node)
        return replace(asked, by=(*asked.by, *ties)).call(node.span)

    items = (
        item if isinstance(item.expr, Star | str) else replace(item, expr=transform(item.expr, tied))
        for item in draft.items
    )
    more = (Item(tie, f"#tie{at}", draft.text) for at, tie in enumerate(ties))
    qualify = tuple(replace(one, expr=transform(_expr(one), tied)) for one in draft.qualify)
    return replace(draft, conditions=tuple(near), items=(*items, *more), qualify=qualify)


def bound(inner: Draft, outer: Draft, source: Source) -> Draft:
    """A derived table with the conditions on its numbers that the SELECT around it states."""
    if inner.unions:
        return inner
    asked = [part for one in outer.conditions if isinstance(one.expr, Call) for part in conjuncts(one.expr)]
    known = {item.name.lower() for item in inner.items if item.name and is_number(item.expr)}
    more: list[Condition] = []
    for test in asked if known else ():
        column, least = _limit(test)
        if isinstance(column, Column) and column.name.lower() in known and _is_of(column, outer, source):
            shown = Call(_SHOWN, (Literal(column.name),))
            more.append(Condition(Call("<=", (shown, Literal(least))), inner.text))
    return replace(inner, qualify=(*inner.qualify, *more)) if more else inner


def _is_of(column: Column, outer: Draft, source: Source) -> bool:
    return column.alias.lower() == source.alias.lower() if column.alias else len(outer.sources) == 1


def _limit(test: Expr) -> tuple[Expr | None, int | None]:
    """What is compared with the greatest whole number that it may be; None if the test says no such thing."""
    if not isinstance(test, Call) or test.op not in ("<=", "<", "=", ">=", ">"):
        return None, None
    left, right = test.args
    op = test.op
    if isinstance(left, Literal):
        left, right, op = right, left, {"<=": ">=", "<": ">", "=": "=", ">=": "<=", ">": "<"}[op]
    if not isinstance(right, Literal) or type(right.value) is not int or op in (">=", ">"):
        return None, None
    return left, right.value - 1 if op == "<" else right.value


# --------------------------------------------------------------------------------------------- rewriting


def rank(draft: Draft, opened: Opened, places: Places, select: Callable[[Draft], Draft]) -> Draft:
    """The draft without numbers of rows, given the same with names looked up; `select` finishes what is inside."""
    over = _Rows(opened)
    shown = tuple(over.item(item) for item in opened.items)
    where = tuple(
        replace(condition, expr=over.put(normal(over.meant(_expr(condition)), places))) for condition in draft.qualify
    )
    tops = {column.name: most for test in where for column, most in [_top(test)] if column is not None}
    found = [over.over(call, name) for call, name in [*over.numbers.items()] if not is_number(call)]
    calls = {name: call for call, name in over.numbers.items() if is_number(call)}
    names = sorted(calls, key=lambda name: name in tops)
    levels = [over.level(calls[n], n, tops.get(n) if n == names[-1] and not found else None) for n in names]
    rows = replace(
        draft, items=over.base(), group_by=over.group_by(draft), qualify=(), named=(), distinct=False, text=draft.text
    )
    rows = select(rows)
    for level in levels:
        rows = Draft((_rows(rows),), (), (Item(Star(), text=draft.text),), text=draft.text, ranked=level)
    rows = with_columns(rows, found) if found else rows
    return Draft((_rows(rows),), where, shown, text=draft.text, named=draft.named, distinct=draft.distinct)


def _rows(draft: Draft) -> Source:
    return Source("the rows", ROWS, derived=draft)


def _top(test: Condition) -> tuple[Column | None, int | None]:
    column, most = _limit(_expr(test))
    return (column, most) if isinstance(column, Column) and column.name.startswith("#rank") else (None, None)


class _Rows:
    """What is read of the rows before they are numbered, while expressions around numbers are collected."""

    def __init__(self, opened: Opened) -> None:
        self.items, self.scope, self.are_groups = (items := opened.items), opened.scope, opened.has_aggregates
        self.read = {text_of(_expr(item)): str(item.name) for item in items if not _has_number(item.expr)}
        self.shown = [item for item in items if not _has_number(item.expr)]
        self.hidden: list[Item] = []
        self.numbers: dict[Call, str] = {}
        self.keys = {text_of(key.expr) for key in opened.group_by if not isinstance(key.expr, str)}

    def base(self) -> tuple[Item, ...]:
        """The SELECT list inside; it is never empty."""
        return (*self.shown, *self.hidden) or (Item(Literal(1), "#0"),)

    def group_by(self, draft: Draft) -> tuple[Condition, ...]:
        """Keys by position as the expressions that they mean: positions change."""
        places = dict(enumerate(self.items, 1))
        if any(key.expr == EVERY for key in draft.group_by):
            return every([item for item in self.items if not _has_number(item.expr)])
        return tuple(
            replace(key, expr=_expr(places[key.expr.value]))
            if isinstance(key.expr, Literal) and isinstance(key.expr.value, int) and key.expr.value in places
            else key
            for key in draft.group_by
        )

    def meant(self, expr: Expr) -> Expr:
        """A condition of QUALIFY, in which a bare name that is no column may be that of an output."""
        if isinstance(expr, Column) and not expr.alias and not self._is_column(expr):
            return self._output(expr.name) or self.scope.resolve(expr)
        if isinstance(expr, Call) and expr.op == _SHOWN:
            (name,) = expr.args
            assert isinstance(name, Literal)
            return self._output(str(name.value)) or expr
        if isinstance(expr, Call | Udf) and not is_over(expr):
            return replace(expr, args=tuple(map(self.meant, expr.args)))
        return self.scope.resolve(expr)

    def _is_column(self, name: Column) -> bool:
        """Whether a bare name is a column: of the rows, or, where these are groups, one of their keys."""
        return self.scope.has(name) and (not self.are_groups or text_of(self.scope.resolve(name)) in self.keys)

    def _output(self, name: str) -> Expr | None:
        """The output of a name."""
        named = {str(item.name): _expr(item) for item in self.items}
        found = find(name, named)
        return None if found is None else named[found]

    def item(self, item: Item) -> Item:
        """An output over the numbered rows."""
        if not _has_number(item.expr):
            return Item(Column(ROWS, str(item.name)), item.name, item.text)
        return replace(item, expr=self.put(_expr(item)))

    def put(self, expr: Expr) -> Expr:
        """An expression over the numbered rows."""
        if is_over(expr):
            assert isinstance(expr, Call)
            kind = "rank" if is_number(expr) else "over"
            name = self.numbers.setdefault(expr, f"#{kind}{len(self.numbers)}")
            return Column(ROWS, name, None, expr.span)
        if isinstance(expr, Literal):
            return expr
        if isinstance(expr, Column) or _is_worked_out(expr) or text_of(expr) in self.keys:
            return Column(ROWS, self.column(expr), None, expr.span)
        return replace(expr, args=tuple(map(self.put, expr.args)))

    def column(self, expr: Expr) -> str:
        """The column of the rows that has an expression."""
        if _has_number(expr):
            assert isinstance(expr, Call | Udf)
            place = "another one" if is_over(expr) else "an aggregate or a subquery"
            refuse_aggregates(next(node for node in walk(expr) if is_over(node)), place)
        if (known := self.read.get(text_of(expr))) is None:
            known = self.read[text_of(expr)] = f"#{len(self.hidden)}"
            self.hidden.append(Item(expr, known, self.items[0].text))
        return known

    def level(self, call: Call, name: str, most: int | None) -> Ranked:
        """How rows get one of their numbers."""
        asked = OverCall.read(call)
        assert asked.kind is not None
        keys = tuple(map(self._sorted, asked.order))
        return Ranked(tuple(self.column(self._at(one)) for one in asked.by), Ranking(asked.kind, keys, most), name)

    def over(self, call: Call, name: str) -> Over:
        """How rows get what is found among others."""
        asked = OverCall.read(call)
        assert asked.frame is not None
        counted = None
        edge = is_edge(asked.function, asked.args, asked.frame)
        if needs_number(asked.function, asked.args, asked.frame):
            is_last = edge and asked.function in LAST
            order = tuple(key.reversed() for key in asked.order) if is_last else asked.order
            kind: RankKind = "dense_rank" if asked.frame.unit == "groups" else "row_number"
            place = OverCall(kind, asked.by, order).call()
            counted = self.numbers.setdefault(place, f"#rank{len(self.numbers)}")
        args = tuple(map(self._argument, asked.args))
        if asked.function in IN_ORDER and not edge:
            args = self._in_order(args, asked.order, counted)
        test = None if asked.where is None else self._argument(asked.where)
        keys = tuple(self.column(self._at(one)) for one in asked.by)
        sorted_ = tuple(map(self._sorted, asked.order))
        return Over(name, asked.function, args, test, keys, sorted_, asked.frame, counted)

    def _in_order(self, args: tuple[Expr, ...], order: Sequence[SortKey], number: str | None) -> tuple[Expr, ...]:
        """The arguments in the order of the window, where they have none of their own."""
        first = args[0]
        keys = [replace(key, expr=Column(ROWS, self.column(self._at(key.expr)))) for key in order]
        if isinstance(first, Call) and first.op == "distinct":
            keys = keys if all(key.expr == first.args[0] for key in keys) else []
        elif number is not None:
            keys = [SortKey(Column(ROWS, number))]
        if not keys or (isinstance(first, Call) and first.op == ORDERED):
            return args
        return (Call(ORDERED, (*args, *(key.call() for key in keys)), None, first.span),)

    def _argument(self, expr: Expr) -> Expr:
        """An argument over columns of the rows."""
        if isinstance(expr, Literal):
            return expr
        if isinstance(expr, Call) and expr.op in ("distinct", "sorted", KNOWN, ORDERED):
            return replace(expr, args=tuple(map(self._argument, expr.args)))
        return Column(ROWS, self.column(expr), None, expr.span)

    def _at(self, written: Expr) -> Expr:
        """The output at a position or of a name, if one is written."""
        if isinstance(written, Call) and written.op == _SHOWN:
            return self.meant(written)
        if not isinstance(written, Call) or written.op != _POSITION:
            return written
        (place,) = written.args
        assert isinstance(place, Literal)
        if not isinstance(place.value, int) or not 1 <= place.value <= len(self.items):
            hint = "write the expression."
            raise QueryError(f"ORDER BY {place.value} means no output", hint=hint, span=written.span)
        return _expr(self.items[place.value - 1])

    def _sorted(self, key: SortKey) -> Sorted:
        return Sorted(self.column(self._at(key.expr)), key.descending, key.nulls_first)


def _is_worked_out(expr: Expr) -> bool:
    if isinstance(expr, Udf):
        return expr.name.lower() in (*AGGREGATES, *GROUPING)
    return isinstance(expr, Call) and expr.op in _WHOLE


def _has_number(written: object) -> bool:
    return isinstance(written, Call | Udf) and any(map(is_over, walk(written)))


def _output(draft: Draft, written: Expr) -> Expr:
    """What ORDER BY means by the name of an output; what a number means is known when * is."""
    if isinstance(written, Literal) and type(written.value) is int:
        return Call(_POSITION, (written,), None, written.span)
    named = {item.name: _expr(item) for item in draft.items if item.name}
    bare = written.name if isinstance(written, Column) and not written.alias else None
    name = None if bare is None else find(bare, [one for one in named if one])
    if name is None:
        return written
    is_made_of_others = any(
        not column.alias and find(column.name, named) is not None for column in columns(named[name])
    )
    return Call(_SHOWN, (Literal(name),), None, written.span) if is_made_of_others else named[name]


def _expr(written: Condition | Item) -> Expr:
    assert not isinstance(written.expr, str | Star)
    return written.expr


# --------------------------------------------------------------------------------------------- resolving


def ranked(query: Query, entries: Sequence[Entry], how: Ranked) -> Query:
    """The query whose rows have a number, given those without it."""
    typed = {entry.name: _typed(entry) for entry in entries}
    fields = {name: key_field(at) if name in how.by else argument_field(at) for at, name in enumerate(typed)}
    for entry in entries:
        _refuse(typed[entry.name], entry, how)
    order = tuple(replace(key, column=fields[key.column]) for key in how.ranking.order)
    made = tuple(Output(fields[name], expr) for name, expr in typed.items())
    shown = tuple(Output(name, Column("", fields[name], expr.type)) for name, expr in typed.items())
    place = Output(how.name, Column("", value_field(0), pa.int64()))
    keys = tuple(fields[name] for name in dict.fromkeys(how.by))
    grouping = Grouping(
        keys, (), (*shown, place), changing=query.is_changing, ranking=replace(how.ranking, order=order)
    )
    return replace(query, outputs=made, grouping=grouping)


def _typed(entry: Entry) -> Expr:
    refuse_aggregates(entry.expr, "a query without GROUP BY")
    return require_type(add_types(entry.expr))


def _refuse(expr: Expr, entry: Entry, how: Ranked) -> None:
    sorted_by = any(key.column == entry.name for key in how.ranking.order)
    if (sorted_by and not is_orderable(expr.type)) or (entry.name in how.by and not is_comparable(expr.type)):
        what = "ordered" if sorted_by else "grouped"
        raise QueryError(
            f"rows cannot be {what} by a {sql_name(expr.type)}", hint="take another column.", span=expr.span
        )
