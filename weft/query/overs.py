"""Aggregates and neighbours of rows: SUM(x) OVER (...), LAG(x) OVER (...), FIRST_VALUE(x) OVER (...).

Rows get one more column by joins of the rows with themselves; nothing of it is a new operator.

    SUM(x) OVER (PARTITION BY g)                rows JOIN (SELECT g, SUM(x) FROM rows GROUP BY g)
    SUM(x) OVER (PARTITION BY g ORDER BY o)     rows JOIN (SELECT g, o, SUM(x) FROM each (g, o) JOIN rows up to o GROUP BY g, o)
    ... ROWS BETWEEN 2 PRECEDING AND ...        the same with the number of a row in place of o
    LAG(x, 2) OVER (PARTITION BY g ORDER BY o)  rows LEFT JOIN rows ON the number of the one is that of the other less 2
    FIRST_VALUE(x) OVER (...)                   rows JOIN rows ON the number of the other is 1

What must hold: NULL is a value of g and o like any other.  A row has itself in its frame, so that no group is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weft.expr.model import Call, Column, Expr, Literal, Udf
from weft.query.draft import Condition, Draft, Item, Join, Source, Star
from weft.query.grouping import Sorted

ROWS = "rows"
_OTHERS, _EACH = "others", "each"
LAST = ("last_value",)
NEIGHBOURS = ("lag", "lead")
EDGES = ("first_value", *LAST)


@dataclass(frozen=True, slots=True)
class Frame:
    """Which rows of its group a row looks at, from a place to a place; None is the end of the group."""

    unit: str
    """rows, range, or all."""
    low: int | None = None
    high: int | None = 0

    def __str__(self) -> str:
        return f"{self.unit} {'-' if self.low is None else self.low} {'-' if self.high is None else self.high}"

    @classmethod
    def read(cls, text: str) -> Frame:
        """The frame that is written so."""
        unit, low, high = text.split()
        return cls(unit, None if low == "-" else int(low), None if high == "-" else int(high))


@dataclass(frozen=True, slots=True)
class Over:
    """One more column of rows; everything is named by columns of the rows."""

    name: str
    function: str
    args: tuple[Expr, ...]
    where: Expr | None
    by: tuple[str, ...]
    order: tuple[Sorted, ...]
    frame: Frame
    number: str | None
    """The column with the number of a row in its group, where it is needed."""


def needs_number(function: str, frame: Frame) -> bool:
    """Whether rows must be numbered first."""
    return function in (*NEIGHBOURS, *EDGES) or frame.unit == "rows"


def with_column(rows: Draft, over: Over) -> Draft:
    """The rows with the column."""
    if over.function in NEIGHBOURS:
        return _neighbour(rows, over)
    if over.function in EDGES:
        return _edge(rows, over)
    return _aggregated(rows, over, _groups(rows, over) if over.frame.unit == "all" else _running(rows, over))


def at(alias: str, expr: Expr) -> Expr:
    """An expression over columns of the rows, under another alias."""
    if isinstance(expr, Column):
        return Column(alias, expr.name, None, expr.span)
    if isinstance(expr, Call):
        return Call(expr.op, tuple(at(alias, arg) for arg in expr.args), expr.type, expr.span)
    return expr


def _call(over: Over, alias: str) -> Expr:
    call: Expr = Udf(over.function, tuple(at(alias, arg) for arg in over.args))
    return call if over.where is None else Call("filter", (call, at(alias, over.where)))


def _groups(rows: Draft, over: Over) -> Draft:
    """One row for each group."""
    keys = tuple(Column(ROWS, name) for name in over.by)
    items = (*(Item(key, key.name) for key in keys), Item(_call(over, ROWS), over.name))
    return Draft((_source(rows, ROWS),), (), items, text=rows.text, group_by=tuple(map(Condition, keys)))


def _running(rows: Draft, over: Over) -> Draft:
    """One row for each place in the order of each group."""
    places = tuple(dict.fromkeys((*over.by, *_places(over))))
    each = Draft((_source(rows, ROWS),), (), tuple(_items(ROWS, places)), text=rows.text, distinct=True)
    keys = tuple(Column(_EACH, name) for name in places)
    items = (*(Item(key, key.name) for key in keys), Item(_call(over, _OTHERS), over.name))
    on = (*_alike(_EACH, _OTHERS, over.by), *_inside(over))
    return Draft(
        (_source(each, _EACH), _source(rows, _OTHERS)),
        tuple(map(Condition, on)),
        items,
        text=rows.text,
        group_by=tuple(map(Condition, keys)),
        crossed=True,
    )


def _places(over: Over) -> tuple[str, ...]:
    return (over.number,) if over.number is not None else tuple(key.column for key in over.order)


def _aggregated(rows: Draft, over: Over, groups: Draft) -> Draft:
    names = over.by if over.frame.unit == "all" else tuple(dict.fromkeys((*over.by, *_places(over))))
    return Draft(
        (_source(rows, ROWS), _source(groups, "groups")),
        tuple(map(Condition, _alike(ROWS, "groups", names))),
        (Item(Star(ROWS)), Item(Column("groups", over.name), over.name)),
        text=rows.text,
        crossed=True,
    )


def _inside(over: Over) -> Iterator[Expr]:
    """Whether another row is in the frame of a place."""
    if over.number is None:
        yield _not_after(over.order)
        return
    mine, other = Column(_EACH, over.number), Column(_OTHERS, over.number)
    if over.frame.low is not None:
        yield Call(">=", (other, Call("+", (mine, Literal(over.frame.low)))))
    if over.frame.high is not None:
        yield Call("<=", (other, Call("+", (mine, Literal(over.frame.high)))))


def _not_after(order: Sequence[Sorted]) -> Expr:
    """Whether another row stands before a place, or at it."""
    same = list(_alike(_EACH, _OTHERS, [key.column for key in order]))
    ways: list[Expr] = [
        Call("and", (*same[:place], _before(key))) if place else _before(key) for place, key in enumerate(order)
    ]
    ways.append(Call("and", tuple(same)) if len(same) > 1 else same[0])
    return Call("or", tuple(ways))


def _before(key: Sorted) -> Expr:
    mine, other = Column(_EACH, key.column), Column(_OTHERS, key.column)
    first, last = (other, mine) if not key.nulls_first else (mine, other)
    unknown = Call("and", (Call("not", (Call("is_null", (first,)),)), Call("is_null", (last,))))
    return Call("or", (Call(">" if key.descending else "<", (other, mine)), unknown))


def _neighbour(rows: Draft, over: Over) -> Draft:
    """The row that stands some places before or behind."""
    value, *more = over.args
    steps, otherwise = (*more, *[Literal(1), None][len(more) :])
    number = str(over.number)
    sign = "-" if over.function == "lag" else "+"
    there = Call("=", (Column(_OTHERS, number), Call(sign, (Column(ROWS, number), at(ROWS, steps or Literal(1))))))
    found = at(_OTHERS, value)
    if otherwise is not None:
        found = Call("case", (Call("is_null", (Column(_OTHERS, number),)), at(ROWS, otherwise), found))
    on = tuple(map(Condition, (*_alike(ROWS, _OTHERS, over.by), there)))
    items = (Item(Star(ROWS)), Item(found, over.name))
    sources = (_source(rows, ROWS), _source(rows, _OTHERS))
    return Draft(sources, (), items, text=rows.text, tree=Join("left", 0, 1, on))


def _edge(rows: Draft, over: Over) -> Draft:
    """The first row of the group."""
    first = Call("=", (Column(_OTHERS, str(over.number)), Literal(1)))
    return Draft(
        (_source(rows, ROWS), _source(rows, _OTHERS)),
        tuple(map(Condition, (*_alike(ROWS, _OTHERS, over.by), first))),
        (Item(Star(ROWS)), Item(at(_OTHERS, over.args[0]), over.name)),
        text=rows.text,
        crossed=True,
    )


def _alike(one: str, other: str, names: Sequence[str]) -> Iterator[Expr]:
    return (Call("same", (Column(one, name), Column(other, name))) for name in names)


def _items(alias: str, names: Sequence[str]) -> Iterator[Item]:
    return (Item(Column(alias, name), name) for name in names)


def _source(draft: Draft, alias: str) -> Source:
    return Source("the rows", alias, derived=draft)
