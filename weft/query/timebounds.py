"""How far apart in time the members of one result can be, and so how long a row must be kept.

A window on `a` says that every member of a result is less than W_a newer than its row of `a`:
time(b) - time(a) <= W_a - 1 for every b (times are whole microseconds; if a's row is the newest, the
difference is 0 or negative).  A predicate that compares event times linearly bounds the difference of
two members directly.  Bounds add up along paths, so the tightest ones are shortest paths.

A predicate that is not understood adds no bound: rows are then kept longer than needed, never shorter.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from itertools import permutations, product

import pyarrow as pa
from pyarrow import types as pt

from weft.expr.model import Call, Column, Expr, Literal
from weft.query.duration import format_duration
from weft.query.model import Query, Stream

Bounds = dict[tuple[str, str], int]
"""(a, b) -> the largest possible time(b) - time(a) in microseconds."""

_DAY = 86_400_000_000
_UNITS = {"s": 1_000_000, "ms": 1000, "us": 1}


def differences(query: Query) -> Bounds:
    """The tightest upper bound on time(b) - time(a) for every ordered pair; a missing pair is unbounded."""
    return _close(_stated_bounds(query), _timed_aliases(query))


def retention(query: Query) -> dict[str, int | None]:
    """How long past its own time a row of each alias can still find a new partner; None is for ever."""
    bounds = differences(query)
    return {alias: _retention(query, alias, bounds) for alias in query.aliases}


def expires(query: Query) -> bool:
    """Whether a row of the query ever expires, so that rows can be late for it."""
    return len(query.relations) > 1 and any(kept is not None for kept in retention(query).values())


def reason(query: Query, alias: str) -> str:
    """Why rows of `alias` are kept as long as they are."""
    bounds = differences(query)
    kept = _retention(query, alias, bounds)
    if kept is None:
        if query.relation(alias).stream.table:
            return "a table stays"
        untimed = [r.alias for r in query.relations if r.stream.event_time is None and not r.stream.table]
        return f"{untimed[0]} has no event time: its rows may come at any time" if untimed else "full history"
    window = query.relation(alias).window
    if window is not None and kept == window - 1:
        return f"window {format_duration(window)}"
    partner = max(_partners(query, alias), key=lambda other: bounds[alias, other])
    return f"time band with {partner}, {format_duration(kept)}"


def bounds_of(query: Query, predicate: Expr) -> Bounds:
    """What one predicate says: left op right, read as time(x) - time(y) + constant op 0."""
    if not isinstance(predicate, Call) or predicate.op not in ("<", "<=", ">", ">=", "="):
        return {}
    left, right = (_linear(arg, query) for arg in predicate.args)
    difference = left.minus(right) if left and right else None
    if difference is None or difference.scale is None or sorted(difference.aliases.values()) != [-1, 1]:
        return {}
    y, x = sorted(difference.aliases, key=lambda alias: difference.aliases[alias])
    constant, scale = difference.constant, difference.scale
    strict = 1 if predicate.op in ("<", ">") else 0
    bounds: Bounds = {}
    if predicate.op in ("<", "<=", "="):
        bounds[y, x] = (-constant - strict) * scale
    if predicate.op in (">", ">=", "="):
        bounds[x, y] = (constant - strict) * scale
    return bounds


def is_time_bound(query: Query, predicate: Expr) -> bool:
    """Whether a predicate bounds the difference of two event times from one side."""
    return len(bounds_of(query, predicate)) == 1


def step_of(stream: Stream) -> int:
    """The least difference between two event times of a stream, in microseconds."""
    kind = None if stream.event_time is None else stream.schema.field(stream.event_time).type
    if kind is None or pt.is_timestamp(kind):
        return 1
    return _DAY if pt.is_date(kind) else _UNITS[stream.unit]


def _retention(query: Query, alias: str, bounds: Bounds) -> int | None:
    relation = query.relation(alias)
    if any(r.stream.event_time is None and not r.stream.table for r in query.relations):
        return None  # rows of a stream without event time may come at any time and fit every window
    partners = _partners(query, alias)
    if relation.stream.table or (not partners and len(query.relations) > 1):
        return None  # a table stays; rows of streams look it up and are not kept for it
    if not partners:
        return None if relation.window is None else relation.window - 1
    found = [bounds.get((alias, other)) for other in partners]
    known = [bound for bound in found if bound is not None]
    return max(0, *known) if len(known) == len(found) else None


def _timed_aliases(query: Query) -> list[str]:
    return [relation.alias for relation in query.relations if relation.stream.event_time is not None]


def _partners(query: Query, alias: str) -> list[str]:
    return [other for other in _timed_aliases(query) if other != alias]


def _stated_bounds(query: Query) -> Bounds:
    bounds: Bounds = {}
    for a, b in permutations(_timed_aliases(query), 2):
        window = query.relation(a).window
        if window is not None:
            bounds[a, b] = window - 1
    for predicate in query.joins:
        for pair, bound in bounds_of(query, predicate).items():
            bounds[pair] = min(bound, bounds.get(pair, bound))
    return bounds


def _close(bounds: Bounds, timed: list[str]) -> Bounds:
    """All-pairs shortest paths (Floyd, Warshall)."""
    closed = dict(bounds)
    for middle, a, b in product(timed, repeat=3):
        if len({middle, a, b}) == 3 and (a, middle) in closed and (middle, b) in closed:
            through = closed[a, middle] + closed[middle, b]
            closed[a, b] = min(through, closed.get((a, b), through))
    return closed


@dataclass(frozen=True, slots=True)
class _Linear:
    """A sum of event times and a constant, in steps of `scale` microseconds; None is still open."""

    aliases: dict[str, int]
    constant: int
    scale: int | None

    def minus(self, other: _Linear | None) -> _Linear | None:
        return None if other is None else self.plus(other.negate())

    def negate(self) -> _Linear:
        return _Linear({alias: -times for alias, times in self.aliases.items()}, -self.constant, self.scale)

    def plus(self, other: _Linear | None) -> _Linear | None:
        if other is None or (self.scale and other.scale and self.scale != other.scale):
            return None
        total = {
            alias: self.aliases.get(alias, 0) + other.aliases.get(alias, 0)
            for alias in {**self.aliases, **other.aliases}
        }
        kept = {alias: times for alias, times in total.items() if times}
        return _Linear(kept, self.constant + other.constant, self.scale or other.scale)


def _linear(expr: Expr, query: Query) -> _Linear | None:
    """The expression as a sum, None if it is anything else."""
    if isinstance(expr, Column):
        return _event_time(expr, query)
    if isinstance(expr, Literal):
        return _constant(expr)
    if not isinstance(expr, Call):
        return None
    args = [_linear(arg, query) for arg in expr.args] if expr.op in ("+", "-", "neg", "cast") else []
    if not args or args[0] is None:
        return None
    if expr.op == "cast":
        return _cast(expr, args[0])
    if expr.op == "neg":
        return args[0].negate()
    return args[0].plus(args[1]) if expr.op == "+" else args[0].minus(args[1])


def _event_time(column: Column, query: Query) -> _Linear | None:
    stream = query.relation(column.alias).stream
    if column.name != stream.event_time:
        return None
    return _Linear({column.alias: 1}, 0, step_of(stream))


def _constant(literal: Literal) -> _Linear | None:
    if isinstance(literal.value, dt.timedelta):
        return _Linear({}, literal.value // dt.timedelta(microseconds=1), 1)
    whole = isinstance(literal.value, int) and not isinstance(literal.value, bool)
    return _Linear({}, literal.value, None) if whole and isinstance(literal.value, int) else None


def _cast(call: Call, inner: _Linear) -> _Linear | None:
    """Casts that keep the value: to a wider integer, and from a date to its midnight."""
    source, target = call.args[0].type, call.type
    if pt.is_integer(source) and pt.is_integer(target):
        return inner
    if pt.is_date(source) and target == pa.timestamp("us"):
        return _Linear(inner.aliases, inner.constant * _DAY, 1)
    return None
