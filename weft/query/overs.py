"""Aggregates and neighbours of rows: SUM(x) OVER (...), LAG(x) OVER (...), FIRST_VALUE(x) OVER (...).

Rows get one more column by joins of the rows with themselves; nothing of it is a new operator.

    SUM(x) OVER (PARTITION BY g)                rows JOIN (SELECT g, SUM(x) FROM rows GROUP BY g)
    SUM(x) OVER (PARTITION BY g ORDER BY o)     rows JOIN (SELECT g, o, SUM(x) FROM (g, o) JOIN rows up to o ...)
    ... RANGE BETWEEN 5 PRECEDING AND ...       the same with rows from o - 5 on
    ... ROWS BETWEEN 2 PRECEDING AND ...        the same with the number of a row in place of o; GROUPS with that of o
    LAG(x, n) OVER (PARTITION BY g ORDER BY o)  rows JOIN (all rows, and all rows n places before with NULL for x, UNION
                                                ALL, GROUP BY g and the place) ON the place is the row's number - n
    FIRST_VALUE(x) OVER (...)                   rows JOIN rows ON the number of the other is 1; in a frame that may lack
                                                the row it is an aggregate, like LAST_VALUE and NTH_VALUE

What must hold: NULL and NaN are values of g and o like any other.  A place meets the rows at it even where these are
not in its frame, so that no group is missing; FILTER keeps them out then.  All of these are inner joins, of one row
each, so that many functions are one flat join.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from weft.expr.model import Call, Column, Expr, Literal, Udf
from weft.query.draft import Condition, Draft, Item, Source, Star
from weft.query.gathering import KNOWN, ORDERED
from weft.query.grouping import Sorted

ROWS = "rows"
_OTHERS, _EACH, _BESIDE = "others", "each", "beside"
_VALUE, _THERE = "#value", "#there"
LAST = ("last_value",)
NEIGHBOURS = ("lag", "lead")
EDGES = ("first_value", *LAST)


Bound = int | timedelta | None
"""How far a frame goes; before the row it is negative, and None is the end of the group."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Which rows of its group a row looks at, from a place to a place."""

    unit: str
    """rows, groups (of rows at one place), all, or range: up to the row's place, or by values of the one key."""
    low: Bound = None
    high: Bound = 0

    def __str__(self) -> str:
        return f"{self.unit} {_written(self.low)} {_written(self.high)}"

    @classmethod
    def read(cls, text: str) -> Frame:
        """The frame that is written so."""
        unit, low, high = text.split()
        return cls(unit, _read(low), _read(high))

    @property
    def has_row(self) -> bool:
        """Whether a row is in its own frame."""
        return (self.low is None or not _is_behind(self.low)) and (self.high is None or not _is_behind(-self.high))

    @property
    def is_by_value(self) -> bool:
        """Whether it is said by values of the order how far the frame goes."""
        return self.unit == "range" and (self.low, self.high) != (None, 0)


def _is_behind(bound: int | timedelta) -> bool:
    return bound > timedelta(0) if isinstance(bound, timedelta) else bound > 0


def _written(bound: Bound) -> str:
    if isinstance(bound, timedelta):
        return f"{bound // timedelta(microseconds=1)}us"
    return "-" if bound is None else str(bound)


def _read(text: str) -> Bound:
    if text.endswith("us"):
        return timedelta(microseconds=int(text[:-2]))
    return None if text == "-" else int(text)


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


def needs_number(function: str, args: Sequence[Expr], frame: Frame) -> bool:
    """Whether rows must be numbered first."""
    return function in NEIGHBOURS or is_edge(function, args, frame) or frame.unit in ("rows", "groups")


def is_edge(function: str, args: Sequence[Expr], frame: Frame) -> bool:
    """Whether the row itself says which one is asked for: the first of a frame that holds it, the last of all."""
    if function not in EDGES or any(isinstance(arg, Call) and arg.op in (KNOWN, ORDERED) for arg in args):
        return False
    if function in LAST:
        return frame.unit == "all"
    return frame.has_row and frame.unit != "groups" and not frame.is_by_value


def with_columns(rows: Draft, overs: Sequence[Over]) -> Draft:
    """The rows with the columns; all of them are joined at once."""
    found = [_beside(rows, over, f"{_BESIDE}{place}") for place, over in enumerate(overs)]
    return Draft(
        (_source(rows, ROWS), *(one.source for one in found)),
        tuple(Condition(test) for one in found for test in one.on),
        (Item(Star(ROWS)), *(Item(one.value, over.name) for one, over in zip(found, overs, strict=True))),
        text=rows.text,
        crossed=True,
    )


@dataclass(frozen=True, slots=True)
class _Beside:
    """What is joined to the rows, and the column that is taken of it."""

    source: Source
    on: tuple[Expr, ...]
    value: Expr


def _beside(rows: Draft, over: Over, alias: str) -> _Beside:
    if is_edge(over.function, over.args, over.frame):
        return _edge(rows, over, alias)
    if over.function in NEIGHBOURS:
        return _neighbour(rows, over, alias)
    if over.frame.unit == "all":
        names, groups = over.by, _groups(rows, over)
    else:
        names, groups = tuple(dict.fromkeys((*over.by, *_places(over)))), _running(rows, over)
    return _Beside(_source(groups, alias), tuple(_alike(ROWS, alias, names)), Column(alias, over.name))


def at(alias: str, expr: Expr) -> Expr:
    """An expression over columns of the rows, under another alias."""
    if isinstance(expr, Column):
        return Column(alias, expr.name, None, expr.span)
    if isinstance(expr, Call):
        return Call(expr.op, tuple(at(alias, arg) for arg in expr.args), expr.type, expr.span)
    return expr


def _call(over: Over, alias: str, inside: Sequence[Expr] = ()) -> Expr:
    call: Expr = Udf(over.function, tuple(at(alias, arg) for arg in over.args))
    tests = (*inside, *(() if over.where is None else (at(alias, over.where),)))
    return Call("filter", (call, _all(tests))) if tests else call


def _all(tests: Sequence[Expr]) -> Expr:
    return tests[0] if len(tests) == 1 else Call("and", tuple(tests))


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
    inside, here = tuple(_inside(over)), tuple(_alike(_EACH, _OTHERS, _places(over)))
    met = inside if over.frame.has_row else (Call("or", (_all(inside), _all(here))),)
    call = _call(over, _OTHERS, () if over.frame.has_row else inside)
    items = (*(Item(key, key.name) for key in keys), Item(call, over.name))
    on = (*_alike(_EACH, _OTHERS, over.by), *met)
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


def _inside(over: Over) -> Iterator[Expr]:
    """Whether another row is in the frame of a place."""
    frame = over.frame
    if frame.is_by_value:
        if frame.low is not None:
            yield _within(over.order[0], frame.low, upper=False)
        if frame.high is not None:
            yield _within(over.order[0], frame.high, upper=True)
        return
    if over.number is None:
        yield _not_after(over.order)
        return
    mine, other = Column(_EACH, over.number), Column(_OTHERS, over.number)
    if frame.low is not None:
        yield Call(">=", (other, Call("+", (mine, Literal(frame.low)))))
    if frame.high is not None:
        yield Call("<=", (other, Call("+", (mine, Literal(frame.high)))))


def _within(key: Sorted, bound: int | timedelta, *, upper: bool) -> Expr:
    """Whether a row is not before the lower bound of a frame, or not behind the upper one; NULL is one place."""
    mine, other = Column(_EACH, key.column), Column(_OTHERS, key.column)
    far = -bound if key.descending else bound
    end: Expr = Call("+", (mine, Literal(far))) if bound else mine
    before = Call("before", (other, end) if upper != key.descending else (end, other))
    unknown = Call("is_null", (other if upper == key.nulls_first else mine,))
    return Call("or", (before, Call("same", (other, end)), unknown))


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
    return Call("or", (Call("before", (mine, other) if key.descending else (other, mine)), unknown))


def _neighbour(rows: Draft, over: Over, alias: str) -> _Beside:
    """What stands some places before or behind each row; how many, each row says for itself."""
    value, *more = over.args
    number, steps = str(over.number), at(ROWS, more[0]) if more else Literal(1)
    wanted = Call("-" if over.function == "lag" else "+", (Column(ROWS, number), steps))
    on = (*_alike(ROWS, alias, over.by), Call("same", (wanted, Column(alias, number))))
    found: Expr = Column(alias, _VALUE)
    if len(more) > 1:
        is_there = Call("=", (Column(alias, _THERE), Literal(1)))
        found = Call("case", (is_there, found, Call("is_null", (steps,)), Literal(None), at(ROWS, more[1])))
    return _Beside(_source(_with_places(rows, over, wanted, at(ROWS, value)), alias), on, found)


def _with_places(rows: Draft, over: Over, wanted: Expr, value: Expr) -> Draft:
    """The value at each place, and NULL at each one that is wanted: all rows, and all rows without their values."""
    number, by = str(over.number), tuple(_items(ROWS, over.by))
    there = (*by, Item(Column(ROWS, number), number), Item(value, _VALUE), Item(Literal(1), _THERE))
    asked = (*by, Item(wanted, number), Item(Literal(None), _VALUE), Item(Literal(0), _THERE))
    source = _source(rows, ROWS)
    both = Draft((source,), (), there, text=rows.text, unions=(Draft((source,), (), asked, text=rows.text),))
    keys = tuple(Column(ROWS, name) for name in (*over.by, number))
    found = (Item(Udf("max", (Column(ROWS, name),)), name) for name in (_VALUE, _THERE))
    items = (*(Item(key, key.name) for key in keys), *found)
    return Draft((_source(both, ROWS),), (), items, text=rows.text, group_by=tuple(map(Condition, keys)))


def _edge(rows: Draft, over: Over, alias: str) -> _Beside:
    """The first row of the frame."""
    mine, other = Column(ROWS, str(over.number)), Column(alias, str(over.number))
    low = over.frame.low
    place: Expr = Literal(1) if low is None else Call("greatest", (Call("+", (mine, Literal(low))), Literal(1)))
    on = (*_alike(ROWS, alias, over.by), Call("=", (other, place)))
    return _Beside(_source(rows, alias), on, at(alias, over.args[0]))


def _alike(one: str, other: str, names: Sequence[str]) -> Iterator[Expr]:
    return (Call("same", (Column(one, name), Column(other, name))) for name in names)


def _items(alias: str, names: Sequence[str]) -> Iterator[Item]:
    return (Item(Column(alias, name), name) for name in names)


def _source(draft: Draft, alias: str) -> Source:
    return Source("the rows", alias, derived=draft)
