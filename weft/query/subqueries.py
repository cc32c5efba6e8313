"""Subqueries in expressions as joins.

    WHERE EXISTS (SELECT ... FROM b WHERE b.k = a.k)       a semi join; NOT EXISTS an anti join
    WHERE a.x IN (SELECT y FROM b WHERE p)                 a semi join on p and a.x = y
    WHERE a.x NOT IN (SELECT y FROM b WHERE p)             an anti join on p and (a.x = y or one of them is NULL)
    elsewhere, such as below OR                            a mark: a column that says whether there is a partner
    (SELECT MAX(y) FROM b WHERE b.k = a.k)                 a LEFT JOIN of the aggregate, grouped by b.k
    (SELECT y FROM b WHERE b.k = a.k)                      the same with MAX and COUNT; a count above 1 is an error

What must hold: a subquery sees the query around it, so names are looked up inside first.  One that groups rows may
refer to the query around it by comparisons (`weft.query.groupedsub`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from weft.errors import QueryError
from weft.expr.model import Call, Column, Expr, Literal, Udf, children, columns, transform
from weft.query.aggregates import AGGREGATES, calls_aggregate
from weft.query.derived import all_rows, branches, different_rows, in_place
from weft.query.draft import SUBQUERIES, Condition, Draft, Item, Source, has_subquery, subqueries
from weft.query.groupedsub import grouped, tied
from weft.query.lifted import is_combined, lifted
from weft.query.nulls import fold, is_null, null
from weft.query.onerow import ROW
from weft.query.onlyrow import compared, has_one_row, without_having
from weft.query.opened import Kind, Node, Opened, Part, conditions_of, sources_of
from weft.query.qualify import Reader
from weft.query.ranking import is_ranking, without_limit
from weft.query.tied import (
    Tie,
    expr_of,
    many_columns,
    maybe,
    null_test,
    one_column,
    surely,
)

_MARK = "#found"


def unnest(reader: Reader, opened: Opened) -> Opened:
    """The same query with its subqueries in the tree of joins."""
    part, asking = _hoisted(opened.part)
    opened = replace(opened, where=(*opened.where, *asking))
    for one in opened.group_by:
        _refuse(one, "GROUP BY", "write it in a derived table, and group around it.")
    return _Unnester(reader, replace(opened, part=_Joins(reader, opened).part(part))).run()


def _hoisted(part: Part) -> tuple[Part, tuple[Condition, ...]]:
    """A part without the conditions of inner joins that have a subquery, and these: they may as well stand in WHERE."""
    if not isinstance(part, Node):
        return part, ()
    left, asking = _hoisted(part.left)
    if part.kind not in ("inner", "where") or part.asof:
        both = part.kind in ("left", "semi", "anti", "mark") and not part.asof
        return (replace(part, left=left), asking) if both and asking else (part, ())
    right, more = (None, ()) if part.right is None else _hoisted(part.right)
    mine = tuple(one for one in part.on if has_subquery(one.expr))
    on = tuple(one for one in part.on if one not in mine)
    return replace(part, left=left, right=right, on=on), (*asking, *more, *mine)


def _refuse(written: Condition | Item, place: str, hint: str) -> None:
    if has_subquery(written.expr):
        span = next(subqueries(written.expr)).span
        raise QueryError(f"a subquery cannot stand in {place}", hint=hint, span=span)


@dataclass(frozen=True, slots=True)
class _Joins:
    """Takes subqueries out of the conditions of joins.

    One that reads the side of a LEFT JOIN that is padded chooses the rows of that side.  Elsewhere a side gets a column
    with what the subquery says, and the condition reads that.  No subquery reads both sides (`weft.query.qualify`).
    """

    reader: Reader
    opened: Opened

    def part(self, part: Part) -> Part:
        """The part without subqueries in it."""
        if isinstance(part, Source):
            return part
        if part.scope is not None:
            return _Joins(self.reader, replace(self.opened, scope=part.scope)).join(part)
        return self.join(part)

    def join(self, part: Node) -> Part:
        """A join whose conditions see what the query sees."""
        left, right = self.part(part.left), None if part.right is None else self.part(part.right)
        asking = [one for one in part.on if has_subquery(one.expr)]
        part = replace(part, left=left, right=right, on=tuple(one for one in part.on if one not in asking))
        if part.asof:
            for one in asking:
                _refuse(one, "ON of an ASOF JOIN", "write it in WHERE, or in a derived table that is joined.")
        if part.kind in ("inner", "where") or right is None:
            return self._filtered(part, asking)
        for one in asking:
            part = self._asked(part, one)
        return part

    def _asked(self, join: Node, one: Condition) -> Node:
        assert join.right is not None
        reads = self.reader.reads(expr_of(one), self.opened.scope)
        if join.kind != "full" and not reads & {source.alias for source in sources_of(join.left)}:
            return replace(join, right=self._filtered(join.right, [one]))
        sides = {"left": self._beside(join.left, one), "right": self._beside(join.right, one)}
        theirs = {source.alias for source in sources_of(join.right)}

        def put(expr: Expr) -> Expr:
            if isinstance(expr, Call) and expr.op in SUBQUERIES:
                side = sides["right" if self.reader.reads(expr, self.opened.scope) & theirs else "left"]
                return side.column(expr)
            return replace(expr, args=tuple(map(put, expr.args))) if isinstance(expr, Call | Udf) else expr

        on = (*join.on, replace(one, expr=put(expr_of(one))))
        return replace(join, left=sides["left"].part, right=sides["right"].part, on=on)

    def _beside(self, part: Part, one: Condition) -> _Unnester:
        found = _Unnester(self.reader, replace(self.opened, part=part))
        found.text = one.text
        return found

    def _filtered(self, part: Part, asking: Sequence[Condition]) -> Part:
        """The rows of a part for which the conditions hold."""
        if not asking:
            return part
        found = _Unnester(self.reader, replace(self.opened, part=part))
        where = tuple(left for one in asking for left in found.condition(one))
        return Node("where", found.part, None, where) if where else found.part


@dataclass(frozen=True, slots=True)
class _Joined:
    """A subquery that can be joined: its tables, its conditions, and what it selects."""

    part: Part
    on: tuple[Condition, ...]
    items: tuple[Expr, ...]


class _Unnester:
    """Puts the subqueries of one SELECT into its tree."""

    def __init__(self, reader: Reader, opened: Opened) -> None:
        self.reader, self.opened = reader, opened
        self.part = opened.part
        self.text = ""

    def run(self) -> Opened:
        """Conditions without subqueries come first: they hold before partners are counted."""
        opened, mine = self.opened, {source.alias for source in sources_of(self.part)}
        asking = [one for one in opened.where if has_subquery(one.expr)]
        near = [one for one in opened.where if one not in asking and {c.alias for c in columns(expr_of(one))} <= mine]
        if near and (asking or any(has_subquery(item.expr) for item in opened.items)):
            self.part = Node("where", self.part, None, tuple(near))
        else:
            near = []
        where = [one for one in opened.where if one not in near and one not in asking]
        for condition in asking:
            where += self.condition(condition)
        items = tuple(self._item(item) for item in opened.items)
        return replace(opened, part=self.part, where=tuple(where), items=items)

    def condition(self, condition: Condition) -> list[Condition]:
        """Let a condition with subqueries hold; what is left of it is a condition without any."""
        assert isinstance(condition.expr, Call | Udf)
        self.text = condition.text
        expr: Expr = condition.expr
        negated = False
        while isinstance(expr, Call) and expr.op == "not":
            expr, negated = expr.args[0], not negated
        asks = isinstance(expr, Call) and expr.op in ("exists", "in_query") and not any(map(has_subquery, expr.args))
        if asks and isinstance(expr, Call) and not has_one_row(_draft(expr)) and not self._parts(expr):
            self._filter(expr, negated)
            return []
        return [replace(condition, expr=self._values(condition.expr))]

    def column(self, call: Call) -> Expr:
        """What a subquery says of each row."""
        return self._values(call)

    def _item(self, item: Item) -> Item:
        if not has_subquery(item.expr):
            return item
        assert isinstance(item.expr, Call | Udf)
        self.text = item.text
        return replace(item, expr=self._values(item.expr))

    # ---------------------------------------------------------------------------------- semi and anti joins

    def _filter(self, call: Call, negated: bool) -> None:
        """EXISTS or IN as a condition of its own."""
        found = self._open(call)
        kind: Kind = "anti" if negated else "semi"
        if call.op == "exists":
            self._join(kind, found, found.on)
            return
        pairs = self._compared(found, call)
        asked = maybe(pairs, call) if negated else surely(pairs, call)
        self._join(kind, found, (*found.on, *(Condition(one, self.text) for one in asked)))

    def _join(self, kind: Kind, found: _Joined, on: tuple[Condition, ...]) -> None:
        self.part = Node(kind, self.part, found.part, on)

    # -------------------------------------------------------------------------------------- marks and values

    def _values(self, expr: Expr) -> Expr:
        """The expression with a column in place of every subquery."""
        if not isinstance(expr, Call | Udf):
            return expr
        args = tuple(self._values(arg) for arg in expr.args)
        expr = replace(expr, args=args)
        if isinstance(expr, Call) and expr.op in ("exists", "in_query") and has_one_row(draft := _draft(expr)):
            return self._values(compared(expr, draft))
        if isinstance(expr, Call) and expr.op in ("exists", "in_query") and (parts := self._parts(expr)):
            return self._values(Call("or", parts, None, expr.span))
        if isinstance(expr, Call) and expr.op in SUBQUERIES:
            return {"exists": self._exists, "in_query": self._in, "subquery": self._value}[expr.op](expr)
        return expr

    def _exists(self, call: Call) -> Expr:
        found = self._open(call)
        return self._mark(found, found.on)

    def _in(self, call: Call) -> Expr:
        """TRUE, FALSE, or NULL where a NULL on either side leaves it open."""
        found, again = self._open(call), self._open(call)
        sure, open_ = surely(self._compared(found, call), call), maybe(self._compared(again, call), call)
        equal = self._mark(found, (*found.on, *(Condition(one, self.text) for one in sure)))
        is_open = self._mark(again, (*again.on, *(Condition(one, self.text) for one in open_)))
        return Call("case", (equal, Literal(True), is_open, Literal(None), Literal(False)), None, call.span)

    def _parts(self, call: Call) -> tuple[Call, ...]:
        """EXISTS or IN of each SELECT of a UNION that has no meaning without the query around it."""
        selects = _united(_draft(call))
        if len(selects) < 2:
            return ()
        try:
            self.reader.known.columns(Source("", "alone", derived=_draft(call)))
        except QueryError:
            return tuple(replace(call, args=(*call.args[:-1], Literal(one))) for one in selects)
        return ()

    def _mark(self, found: _Joined, on: tuple[Condition, ...]) -> Column:
        source = next(iter(sources_of(found.part)))
        mark = Column(f"{_MARK} {source.alias}", f"{_MARK} {source.alias}")
        self.part = Node("mark", self.part, found.part, on, mark)
        return mark

    def _value(self, call: Call) -> Expr:
        """A scalar subquery: one aggregate."""
        draft = _whole(_draft(call))
        draft = without_having(draft) if has_one_row(draft) else draft
        opened = self.reader.open(draft, self.opened.scope, self.opened.draft.within)
        _refuse_outer_aggregates(opened)
        if len(opened.items) != 1:
            raise one_column(call)
        if draft.sources[0].stream == ROW and not (opened.where or opened.is_grouped):
            return self._values(expr_of(opened.items[0]))
        if not calls_aggregate(expr_of(opened.items[0])) or opened.group_by:
            return self._only(opened, call)
        try:
            derived, ties = grouped(_with_there(opened), call, self.part, self.text)
        except QueryError:
            found = self._aggregate_of_each(opened)
            if found is None:
                raise
            return found
        source, shown = self.reader.place(derived)
        values = [one.value for one in shown.columns]
        keys, value = values[: len(ties)], values[len(ties)]
        self.part = Node("left" if keys else "inner", self.part, source, self._equal(keys, ties, call))
        empty = fold(_over_nothing(expr_of(opened.items[0])))
        if not keys or is_null(empty):
            return value
        there = values[-1] if len(values) > len(ties) + 1 else keys[0]
        return Call("case", (null_test(there), empty, value), None, call.span)

    def _aggregate_of_each(self, opened: Opened) -> Expr | None:
        """An aggregate that is worked out for all different values that it reads around it."""
        if opened.having or not all(_is_of_rows(expr_of(item)) for item in opened.items):
            return None
        asked = replace(opened.draft, items=(*opened.draft.items, Item(Literal(1), "#there")))
        try:
            found = lifted(self.reader, Source("subquery", "subquery"), asked, self.opened.scope, sparse=True)
        except QueryError:
            return None
        assert found.part is not None
        value, there = (one.value for one in found.scope.columns)
        self.part = Node("left", self.part, found.part, found.on)
        empty = fold(_over_nothing(expr_of(opened.items[0])))
        return value if is_null(empty) else Call("case", (null_test(there), empty, value))

    def _only(self, opened: Opened, call: Call) -> Expr:
        """A scalar subquery that is no aggregate: its value, if there is one; more than one is an error."""
        mine = {source.alias for source in sources_of(opened.part)}
        item, is_many = expr_of(opened.items[0]), opened.is_grouped
        is_far = any(c.alias not in mine for c in columns(item))
        if not is_far and all(c.alias in mine for one in opened.where for c in columns(expr_of(one))):
            whole = Source("subquery", "whole", derived=opened.draft, columns=("only",))
            inner = Draft((whole,), (), _at_most_one([Column("whole", "only")]), text=opened.draft.text)
            derived, ties = Source("subquery", "subquery", derived=inner), list[Tie]()
        elif is_many:
            raise QueryError(
                "a subquery that is a value, and is tied to the query around it, must be an aggregate or a plain join",
                detail="it may have at most one row, whatever rows come.",
                hint="aggregate it, as in (SELECT MAX(x) FROM ...), or join the stream.",
                span=call.span,
            )
        else:
            read = sorted((c for c in columns(item) if c.alias in mine), key=lambda c: c.field) if is_far else [item]
            derived, ties = tied(replace(opened, items=_at_most_one(read)), call, self.part, self.text)
        source, shown = self.reader.place(derived)
        keys, values, count = shown.columns[: len(ties)], shown.columns[len(ties) : -1], shown.columns[-1].value
        self.part = Node(
            "left" if keys else "inner", self.part, source, self._equal([one.value for one in keys], ties, call)
        )
        value = values[0].value if values else Literal(None)
        if is_far:
            there = dict(zip(read, (one.value for one in values), strict=True))
            found = transform(item, lambda node: there.get(node, node) if isinstance(node, Column) else node)
            value = Call("case", (Call(">", (count, Literal(0))), found, Literal(None)), None, call.span)
        # What it is compared with keeps it from being asked of groups that no row needs.
        return Call("only", (value, count, *(tie.outer for tie in ties)), None, call.span)

    # ------------------------------------------------------------------------------------------ subqueries

    def _open(self, call: Call) -> _Joined:
        """The tables, conditions and items of EXISTS or IN."""
        draft = _whole(_draft(call))
        opened = self.reader.open(draft, self.opened.scope, self.opened.draft.within)
        _refuse_outer_aggregates(opened)
        if not (opened.group_by or opened.having) and not _aggregates(opened):
            inner = unnest(self.reader, opened) if _has_more(opened) else opened
            if self._is_far(inner):
                return self._each(opened, call)
            return _Joined(inner.part, inner.where, tuple(expr_of(item) for item in inner.items))
        derived, ties = grouped(opened, call, self.part, self.text)
        source, shown = self.reader.place(derived)
        values = [one.value for one in shown.columns]
        keys = values[: len(ties)]
        return _Joined(source, self._equal(keys, ties, call), tuple(values[len(ties) :]))

    def _equal(self, keys: Sequence[Expr], ties: Sequence[Tie], call: Call) -> tuple[Condition, ...]:
        pairs = zip(keys, ties, strict=True)
        return tuple(Condition(tie.compared(key, call.span), self.text) for key, tie in pairs)

    def _is_far(self, inner: Opened) -> bool:
        """Whether a condition of a join inside, or of a subquery there, refers to the query around."""
        mine = {source.alias for source in sources_of(inner.part)}
        return any(
            c.alias not in mine and not c.alias.startswith(_MARK)
            for condition in conditions_of(inner.part)
            for c in columns(expr_of(condition))
        )

    def _each(self, opened: Opened, call: Call) -> _Joined:
        """A subquery that is worked out for all different values that it reads around it."""
        if call.op == "exists":  # what it selects does not matter
            opened = replace(opened, draft=replace(opened.draft, items=(Item(Literal(1), "one"),)))
        source = Source("subquery", "subquery", span=call.span)
        found = lifted(self.reader, source, opened.draft, self.opened.scope)
        assert found.part is not None
        return _Joined(found.part, found.on, tuple(one.value for one in found.scope.columns))

    def _compared(self, found: _Joined, call: Call) -> list[tuple[Expr, Expr]]:
        """What IN, ANY or ALL compares: a value, or a row of values, with the columns of the subquery."""
        value = call.args[0]
        values = value.args if isinstance(value, Call) and value.op == "row" else (value,)
        if len(found.items) != len(values):
            raise one_column(call) if len(values) == 1 else many_columns(call, len(values))
        return list(zip(values, found.items, strict=True))


def _at_most_one(values: Sequence[Expr]) -> tuple[Item, ...]:
    shown = (Item(Udf("max", (value,)), f"value{place}") for place, value in enumerate(values))
    return (*shown, Item(Udf("count", ()), "count"))


def _is_of_rows(expr: Expr) -> bool:
    """Whether every column stands in an aggregate: what is beside them must not be asked where there are no rows."""
    if (isinstance(expr, Udf) and expr.name.lower() in AGGREGATES) or (isinstance(expr, Call) and expr.op == "filter"):
        return True
    return not isinstance(expr, Column) and all(map(_is_of_rows, children(expr)))


def _refuse_outer_aggregates(opened: Opened) -> None:
    """Refuse an aggregate whose columns are all of the query around: it is one over the rows of that query."""
    mine = {source.alias for source in sources_of(opened.part)}
    written: tuple[Condition | Item, ...] = (*opened.items, *opened.having)
    for node in (found for one in written for found in _aggregate_calls(expr_of(one))):
        if (read := columns(node)) and all(column.alias not in mine for column in read):
            raise QueryError(
                "an aggregate of columns of the query around cannot stand in a subquery",
                detail="SQL takes it over the rows of that query, not over those of the subquery.",
                hint="work it out in a derived table, and join that; or aggregate a column of the subquery.",
                span=node.span,
            )


def _aggregate_calls(expr: Expr) -> Iterator[Expr]:
    """The aggregates in an expression, each with its FILTER."""
    if (isinstance(expr, Udf) and expr.name.lower() in AGGREGATES) or (isinstance(expr, Call) and expr.op == "filter"):
        yield expr
        return
    for child in children(expr):
        yield from _aggregate_calls(child)


def _has_more(opened: Opened) -> bool:
    written: tuple[Condition | Item, ...] = (*opened.where, *opened.items, *conditions_of(opened.part))
    return any(has_subquery(one.expr) for one in written)


def _aggregates(opened: Opened) -> bool:
    return any(calls_aggregate(expr_of(item)) for item in opened.items)


def _draft(call: Call) -> Draft:
    constant = call.args[-1]
    assert isinstance(constant, Literal)
    assert isinstance(constant.value, Draft)
    draft = in_place(constant.value)
    draft = without_limit(draft) if call.op == "exists" else draft
    draft = replace(draft, items=tuple(_named(item, place) for place, item in enumerate(draft.items)))
    return all_rows(draft, draft.text) if is_ranking(draft) or draft.sets else draft


def _whole(draft: Draft) -> Draft:
    """SELECTs that are joined by UNION, EXCEPT or INTERSECT as one derived table."""
    return all_rows(draft, draft.text) if is_combined(draft) else draft


def _with_there(opened: Opened) -> Opened:
    """An aggregate with a column that is never NULL, where NULL may be what it is tied by."""
    if not any(isinstance(one.expr, Call) and one.expr.op == "same" for one in opened.where):
        return opened
    return replace(opened, items=(*opened.items, Item(Literal(1), "#there")))


def _named(item: Item, place: int) -> Item:
    """An item whose name does not tell how it is written: nobody sees the names of a subquery."""
    is_worked_out = item.name is None and isinstance(item.expr, Call | Udf | Literal)
    return replace(item, name=f"#value{place}") if is_worked_out else item


def _united(draft: Draft) -> tuple[Draft, ...]:
    """The SELECTs of a UNION, whether or not equal rows are one."""
    whole = draft.sources[0].derived if draft.distinct and len(draft.sources) == 1 else None
    if whole is not None and draft == different_rows(in_place(whole), draft.sources[0].stream):
        return _united(in_place(whole))
    return branches(draft)


def _over_nothing(expr: Expr) -> Expr:
    """An expression over aggregates where there are no rows: a count is 0, every other aggregate NULL."""
    if isinstance(expr, Udf) and expr.name.lower() in AGGREGATES:
        return Literal(0) if AGGREGATES[expr.name.lower()] in ("count", "distinct") else null(None)
    if isinstance(expr, Call) and expr.op == "filter":
        return _over_nothing(expr.args[0])
    return replace(expr, args=tuple(map(_over_nothing, expr.args))) if isinstance(expr, Call | Udf) else expr
