"""The fluent builder: queries in Python instead of SQL.

    from_(rel("orders", "o", within="10 minutes"), rel("lineitem", "l"))
        .where(col("l.l_orderkey") == col("o.o_orderkey"), "l.l_price > o.o_limit")
        .select("o.o_orderkey", price=col("l.l_price") * 2)

It makes the same Draft that SQL text does, so both give equal queries.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from weft.errors import QueryError
from weft.expr.model import Call, Column, Expr, Literal, Udf, chained, walk
from weft.expr.render import to_sql
from weft.query.draft import Condition, Draft, Item, Join, JoinKind, Source, Star, Tree, Within, is_inner, joins
from weft.query.duration import parse_duration

__all__ = [
    "Condition",
    "Draft",
    "Item",
    "Source",
    "Star",
    "Term",
    "col",
    "count",
    "exists",
    "fn",
    "from_",
    "lit",
    "rel",
    "value_of",
    "window",
]

Length = str | dt.timedelta | int | None
"""A window as users give it; "unbounded" is full history, None leaves it open."""


class Term:
    """An expression under construction, with Python's operators."""

    __slots__ = ("expr",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    def __repr__(self) -> str:
        return f"Term({to_sql(self.expr)})"

    def __bool__(self) -> bool:
        raise QueryError(
            f"{to_sql(self.expr)} has no truth value before the query runs",
            hint="join conditions with & and |, not with `and` and `or`; use .between() instead of a chain.",
        )

    def __eq__(self, other: object) -> Term:  # type: ignore[override]
        return _call("=", self, other)

    def __ne__(self, other: object) -> Term:  # type: ignore[override]
        return _call("<>", self, other)

    def __lt__(self, other: object) -> Term:
        return _call("<", self, other)

    def __le__(self, other: object) -> Term:
        return _call("<=", self, other)

    def __gt__(self, other: object) -> Term:
        return _call(">", self, other)

    def __ge__(self, other: object) -> Term:
        return _call(">=", self, other)

    def __add__(self, other: object) -> Term:
        return _call("+", self, other)

    def __radd__(self, other: object) -> Term:
        return _call("+", other, self)

    def __sub__(self, other: object) -> Term:
        return _call("-", self, other)

    def __rsub__(self, other: object) -> Term:
        return _call("-", other, self)

    def __mul__(self, other: object) -> Term:
        return _call("*", self, other)

    def __rmul__(self, other: object) -> Term:
        return _call("*", other, self)

    def __truediv__(self, other: object) -> Term:
        return _call("/", self, other)

    def __rtruediv__(self, other: object) -> Term:
        return _call("/", other, self)

    def __floordiv__(self, other: object) -> Term:
        return _call("div", self, other)

    def __mod__(self, other: object) -> Term:
        return _call("%", self, other)

    def __neg__(self) -> Term:
        return _call("neg", self)

    def __and__(self, other: object) -> Term:
        return Term(Call("and", chained("and", self.expr, _expr(other))))

    def __or__(self, other: object) -> Term:
        return Term(Call("or", chained("or", self.expr, _expr(other))))

    def __invert__(self) -> Term:
        return _call("not", self)

    def between(self, low: object, high: object) -> Term:
        """Whether the value lies between the two, both included."""
        return (self >= low) & (self <= high)

    def like(self, pattern: str, escape: str | None = None) -> Term:
        """SQL's LIKE."""
        return _call("like", self, pattern, *([] if escape is None else [escape]))

    def is_in(self, values: Sequence[object] | Draft) -> Term:
        """Whether the value is one of `values`, or one that a query selects."""
        return _call("in_query", self, values) if isinstance(values, Draft) else _call("in", self, *values)

    def is_null(self) -> Term:
        """Whether the value is NULL."""
        return _call("is_null", self)

    def filter(self, condition: object) -> Term:
        """SQL's FILTER: the aggregate over the rows of which the condition is true."""
        return _call("filter", self, condition)


def _call(op: str, *args: object) -> Term:
    return Term(Call(op, tuple(_expr(arg) for arg in args)))


def _expr(value: object) -> Expr:
    if isinstance(value, Term):
        return value.expr
    if isinstance(value, Column | Literal | Call | Udf):
        return value
    return Literal(value)


def col(name: str) -> Term:
    """A column: "alias.name", or "name" alone where only one alias has it."""
    alias, dot, column = name.partition(".")
    return Term(Column(alias, column) if dot else Column("", name))


def lit(value: object) -> Term:
    """A constant."""
    return Term(Literal(value))


def fn(name: str, *args: object) -> Term:
    """A call of a function, built in or registered."""
    return Term(Udf(name, tuple(_expr(arg) for arg in args)))


def count(value: object = None, *, distinct: bool = False) -> Term:
    """The number of rows, of values that are not NULL, or of distinct ones."""
    args = () if value is None else (_expr(value),)
    return Term(Udf("count", (Call("distinct", args),) if distinct else args))


def exists(query: Draft) -> Term:
    """Whether a query has a row; its conditions may name columns of the query around it."""
    return _call("exists", query)


def value_of(query: Draft) -> Term:
    """The value of a query that is one aggregate."""
    return _call("subquery", query)


def window(time: object, length: str | dt.timedelta | int, slide: str | dt.timedelta | int | None = None) -> Term:
    """Windows of event time to group by; its bounds are col("window.start") and col("window.end")."""
    lengths = (length,) if slide is None else (length, slide)
    return fn("window", time, *(dt.timedelta(microseconds=parse_duration(one)) for one in lengths))


def rel(stream: str, alias: str | None = None, *, within: Length = None, as_of: str | Term | None = None) -> Source:
    """A stream taking part in a join, under an alias and within a window; of a table, the version as of a time."""
    return Source(stream, alias or stream, _within(within), as_of=None if as_of is None else _condition(as_of))


def _within(length: Length) -> Within:
    if length is None:
        return None
    if isinstance(length, str) and length.strip().lower() == "unbounded":
        return "unbounded"
    return parse_duration(length)


@dataclass(frozen=True, slots=True)
class Builder:
    """A join that is being described; every method returns a new one."""

    draft: Draft

    def where(self, *conditions: str | Term) -> Builder:
        """The join restricted to rows that satisfy all the conditions."""
        return Builder(replace(self.draft, conditions=(*self.draft.conditions, *map(_condition, conditions))))

    def join(self, source: Source, *on: str | Term) -> Builder:
        """The join with one more source, on conditions."""
        return self._join("inner", source, on)

    def left_join(self, source: Source, *on: str | Term) -> Builder:
        """LEFT JOIN: rows so far that have no partner stay, with NULLs."""
        return self._join("left", source, on)

    def right_join(self, source: Source, *on: str | Term) -> Builder:
        """RIGHT JOIN: rows of the new source that have no partner stay, with NULLs."""
        return self._join("right", source, on)

    def full_join(self, source: Source, *on: str | Term) -> Builder:
        """FULL JOIN: rows of both sides stay."""
        return self._join("full", source, on)

    def semi_join(self, source: Source, *on: str | Term) -> Builder:
        """Rows so far that have a partner."""
        return self._join("semi", source, on)

    def anti_join(self, source: Source, *on: str | Term) -> Builder:
        """Rows so far that have no partner."""
        return self._join("anti", source, on)

    def asof_join(self, source: Source, *on: str | Term) -> Builder:
        """Each row with the nearest row of `source`: equal keys, and one of >=, >, <= and < between times."""
        return self._join("inner", source, on, asof=True)

    def asof_left_join(self, source: Source, *on: str | Term) -> Builder:
        """The same; a row without such a partner is padded with NULLs."""
        return self._join("left", source, on, asof=True)

    def _join(self, kind: JoinKind, source: Source, on: Sequence[str | Term], *, asof: bool = False) -> Builder:
        draft, places = self.draft, list[Tree](range(len(self.draft.sources)))
        left = draft.tree if draft.tree is not None else reduce(lambda a, b: Join("inner", a, b), places)
        tree = Join(kind, left, len(places), tuple(map(_condition, on)), asof=asof or source.as_of is not None)
        return Builder(replace(draft, sources=(*draft.sources, source), tree=tree))

    def group_by(self, *keys: str | Term) -> Builder:
        """One row for every combination of the keys."""
        return Builder(replace(self.draft, group_by=(*self.draft.group_by, *map(_condition, keys))))

    def having(self, *conditions: str | Term) -> Builder:
        """The groups restricted to those that satisfy all the conditions."""
        return Builder(replace(self.draft, having=(*self.draft.having, *map(_condition, conditions))))

    def distinct(self) -> Builder:
        """Equal rows made one."""
        return Builder(replace(self.draft, distinct=True))

    def select(self, *items: str | Term, **named: str | Term) -> Draft:
        """The finished query: its output columns, by position or under a name."""
        listed = [_item(item, None) for item in items]
        draft = replace(self.draft, items=(*listed, *(_item(item, name) for name, item in named.items())))
        if draft.tree is None or not is_inner(draft.tree):
            return draft
        on = tuple(condition for join in joins(draft.tree) for condition in join.on)
        return replace(draft, conditions=(*on, *draft.conditions), tree=None)


def _condition(written: str | Term) -> Condition:
    return Condition(written, written) if isinstance(written, str) else Condition(_expr(written))


def _item(item: str | Term, name: str | None) -> Item:
    if isinstance(item, str):
        return Item(item, name, item, item)
    expr = _expr(item)
    asks = any(isinstance(node, Literal) and isinstance(node.value, Draft) for node in walk(expr))
    return Item(expr, name, "", "subquery" if asks else to_sql(expr))


def from_(*sources: Source, within: Length = None) -> Builder:
    """Begin a join of `sources`; `within` is the window of sources without their own."""
    if not sources:
        raise QueryError("from_() needs at least one relation", hint='write from_(rel("orders", "o"), ...).')
    return Builder(Draft(tuple(sources), (), (), _within(within)))
