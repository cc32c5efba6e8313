"""Ways: what happens to a new tuple of each alias, hop by hop.

A hop is one look into one store.  A *line* is a start alias, hops, and an end: the tuple is a result, or a row of a
kept join.  A plan is a set of lines.  Every alias that can be the newest in a result has one line to the results.
Every place of a kept join has one line for each member that can be the newest in it.  So a row of an intermediate store
is made once, by the line of its newest member.  Lines that begin alike are the same up to where they differ: they have
the same `Hop` objects there, and the topology has one node for both.

`weft.optimizer.lower.trips` makes them of a layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from weft.expr.implied import Selection
from weft.expr.model import Expr, columns, without_alias
from weft.optimizer.graph.layout import Home, Layout, Target
from weft.optimizer.lower.labels import digest
from weft.optimizer.lower.selections import find_selections
from weft.optimizer.lower.steps import Step
from weft.query.model import Query
from weft.topology.clock import Clock
from weft.topology.node import Measure, Route
from weft.topology.spread import Spread, with_keys


@dataclass(frozen=True, slots=True)
class Hop:
    """A step, and how tuples get to the workers where it is made."""

    step: Step
    store: int
    home: Home
    """Where the rows of the store lie."""
    route: Route
    route_key: tuple[Expr, ...]
    tasks: int
    wave: int

    def fields(self, carry: Iterable[str]) -> set[str]:
        """Fields of the incoming tuple that are read by this hop or live on after it."""
        s = self.step
        exprs = [*self.route_key, *(e.known for e in s.equalities), *(b.expr for b in (*s.low, *s.high)), *s.residual]
        reads = {c.field for expr in exprs for c in columns(expr) if c.alias not in s.target}
        return reads | {f for f in carry if _alias(f) not in s.target}

    def found(self, carry: Iterable[str]) -> set[str]:
        """Fields of the rows met that are read by this hop or live on after it."""
        s = self.step
        exprs = (*(e.target for e in s.equalities), *s.ranges, *s.residual)
        reads = {c.field for expr in exprs for c in columns(expr) if c.alias in s.target}
        return reads | {f for f in carry if _alias(f) in s.target}


@dataclass(frozen=True, slots=True)
class Keeping:
    """Here tuples are stored as rows of an intermediate store."""

    store: int
    home: Home
    route: Route
    route_key: tuple[Expr, ...]
    tasks: int
    wave: int


@dataclass(frozen=True, slots=True)
class Line:
    """What new tuples of an alias do to become results, or rows of a kept join."""

    start: str
    goal: int
    """The relations that a tuple holds at the end."""
    hops: tuple[Hop, ...]
    keep: Keeping | None = None
    """None where tuples become results."""

    @property
    def waves(self) -> tuple[int, ...]:
        """The waves in which something happens on the line."""
        return (*(hop.wave for hop in self.hops), *((self.keep.wave,) if self.keep is not None else ()))


@dataclass(frozen=True)
class Ways:
    """How one query is answered.

    No slots: what putting queries together asks of a plan again and again is computed once.
    """

    name: str
    query: Query
    layout: Layout
    workers: int
    retention: dict[str, int | None]
    """Alias -> how long past its own time a row may find a partner; None is for ever."""
    lines: tuple[Line, ...]
    """Lines into kept joins first, smaller joins before larger ones; lines to the results last."""
    stamps: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Alias -> what orders the stamps of rows that come in one batch."""
    measures: Mapping[str, tuple[Measure, ...]] = field(default_factory=dict)
    """Alias -> numbers of its rows that travel with tuples, for an aggregate query."""

    @cached_property
    def clocked(self) -> bool:
        """Whether anything in this query ever expires, so that late rows have to be refused."""
        if self.query.late_by:
            return True
        return len(self.query.relations) > 1 and any(keep is not None for keep in self.retention.values())

    @cached_property
    def clock(self) -> Clock | None:
        """All streams of the query with an event time, if anything ever expires."""
        if not self.clocked:
            return None
        if self.query.late_by:
            return Clock(f"clock-{digest(self.query.late_by)}", self.query.late_by)
        timed = {r.stream.name: r.stream.lateness for r in self.query.relations if r.stream.event_time is not None}
        streams = tuple(sorted(timed.items()))
        return Clock(f"clock-{digest(streams)}", streams)

    @cached_property
    def selections(self) -> dict[str, Selection]:
        """Alias -> which rows of its stream it wants, in terms of the stream."""
        return find_selections(self.query, clocked=self.clocked)

    @cached_property
    def spreads(self) -> dict[str, Spread]:
        """Alias -> where copies of its rows go, in terms of the stream; for every alias or none."""
        spread = self.layout.spread
        found = ((alias, spread.get(1 << i)) for i, alias in enumerate(self.query.aliases))
        return {alias: with_keys(one, without_alias) for alias, one in found if one is not None}

    @property
    def results(self) -> dict[str, Line]:
        """Alias -> its line to the results; none for an alias that is never the newest."""
        return {line.start: line for line in self.lines if line.keep is None}

    def hops(self, alias: str) -> tuple[Hop, ...]:
        """All hops of an alias's tuples, each once; those on the line to the results first."""
        lines = sorted((line for line in self.lines if line.start == alias), key=lambda line: line.keep is not None)
        return tuple({id(hop): hop for line in lines for hop in line.hops}.values())

    def tasks(self, store: int) -> int:
        """On how many workers a store lies."""
        return min(self.workers, self.layout.tasks.get(store, self.workers))


def kept_joins(lines: Iterable[Line]) -> list[Target]:
    """The kept joins that some lines fill, each with where its rows lie."""
    return [*dict.fromkeys((line.keep.store, line.keep.home) for line in lines if line.keep is not None)]


def _alias(field: str) -> str:
    return field.split(".", 1)[0]
