"""Ways: what happens to a new tuple of each alias, hop by hop.

A hop is one look into one store.  A *line* is a start alias, hops, and an end: the tuple is a result, or a row of a
kept join.  A plan is a set of lines.  Every alias that can be the newest in a result has one line to the results.
Every place of a kept join has one line for each member that can be the newest in it.  So a row of an intermediate store
is made once, by the line of its newest member.  Lines that begin alike are the same up to where they differ: they have
the same `Hop` objects there, and the topology has one node for both.

A tree says where lines run: a tuple starts in the lowest operator above its alias and meets the siblings of its alias
there.  If the operator is kept, a line ends in its store.  The tuple meets the siblings of the operator next, and so
on up to the root.  A layout with lines says it directly.

Waves: a hop to a store on the tuple's own worker is made at once, any other in the next wave.  A hop to an intermediate
store waits until all rows that it may see are stored: those whose origin is stamped before the tuple's own.

Tables are read before all streams, so no row of a table is ever the newest in a result.  A table has lines only into
joins of tables.  What is joined with nothing but tables is not kept, since nobody looks into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from weft.errors import PlanError
from weft.expr.implied import Selection
from weft.expr.model import Call, Expr, aliases, columns, without_alias
from weft.optimizer.graph.equal import lead_classes
from weft.optimizer.graph.layout import Home, Layout, Target, names
from weft.optimizer.graph.predicates import Aliases, window_predicates
from weft.optimizer.graph.tree import Tree
from weft.optimizer.lower.labels import digest, sort_predicates, stamp_order
from weft.optimizer.lower.selections import find_selections
from weft.optimizer.lower.steps import Step, step
from weft.query.model import Query
from weft.query.timebounds import retention
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


class Steps:
    """Answers that all plans of a query share: each is worked out once."""

    def __init__(self, query: Query, together: Sequence[Expr] = ()) -> None:
        self.query, self.together = query, together
        self.joins = query.joins
        self.predicates = (*query.joins, *sort_predicates(query, window_predicates(query)))
        self.retention = retention(query)
        self.pairs = [aliases(p) for p in self.joins if len(aliases(p)) == 2]
        self.stamps = stamp_order(query)
        self.tables = sum(1 << place for place, relation in enumerate(query.relations) if relation.stream.table)
        self._steps: dict[tuple[Aliases, int], Step] = {}
        self._equal: dict[Aliases, dict[Expr, Expr]] = {}

    def step(self, bound: Aliases, store: int) -> Step:
        """The hop to a store from tuples that hold `bound`."""
        if (bound, store) not in self._steps:
            target = frozenset(names(self.query, store))
            self._steps[bound, store] = step(self.query, self.predicates, bound, target, self.together)
        return self._steps[bound, store]

    def equal(self, bound: Aliases) -> dict[Expr, Expr]:
        """Expression -> the leader of those that the equalities inside `bound` make equal to it."""
        if bound not in self._equal:
            self._equal[bound] = _classes(self.joins, bound)
        return self._equal[bound]

    def is_connected(self, bound: Aliases, target: Aliases) -> bool:
        """Whether a predicate over two aliases runs between two sets."""
        return any(pair & target and pair & bound for pair in self.pairs)


def ways(name: str, query: Query, layout: Layout, workers: int, steps: Steps | None = None) -> Ways:
    """The ways of all aliases under a layout."""
    planner = _Planner(steps or Steps(query, layout.ranges), layout, workers)
    if layout.lines:
        planner.follow_lines()
    else:
        planner.climb_tree()
    return Ways(name, query, layout, workers, planner.steps.retention, tuple(planner.lines), planner.steps.stamps)


@dataclass(frozen=True, slots=True)
class _Trip:
    """How far tuples of an alias have come."""

    alias: str
    bound: Aliases
    hops: tuple[Hop, ...] = ()
    wave: int = 1
    place: tuple[Home, int] | None = None
    """Where the tuple is: the worker that owns the values of these expressions, of this many.  None is unknown."""


class _Planner:
    def __init__(self, steps: Steps, layout: Layout, workers: int) -> None:
        self.steps, self.query, self.layout, self.workers = steps, steps.query, layout, workers
        self.local = workers == 1 or bool(layout.spread)
        """Whether all that joins is on one worker."""
        self.lines: list[Line] = []
        self.kept: dict[tuple[int, Home, str], int] = {}
        """(Intermediate store, its place, origin) -> the wave in which such rows are stored."""

    # ---------------------------------------------------------------------------------------- by lines

    def follow_lines(self) -> None:
        """The lines that the layout gives."""
        whole = (1 << len(self.query.relations)) - 1
        trips: dict[tuple[int, tuple[Target, ...]], _Trip] = {}
        for (goal, start), targets in sorted(self.layout.lines.items(), key=lambda line: _by_size(line[0])):
            trip = _begin(self.query.aliases[start.bit_length() - 1])
            for i, (store, home) in enumerate(targets, start=1):
                way = start, targets[:i]
                if way not in trips:
                    trips[way] = self._hop(trip, self.steps.step(trip.bound, store), store, home)
                trip = trips[way]
            if goal == whole:
                self._arrive(trip)
            else:
                self._keep(trip, goal)

    # ----------------------------------------------------------------------------------------- by tree

    def climb_tree(self) -> None:
        """The lines of a tree: through each operator after all operators below it."""
        trips = {alias: _begin(alias) for alias in self.query.aliases}
        asked, root = self._asked(), self.layout.tree
        for operator in root.operators:
            for child in operator.children:
                for alias in names(self.query, self._travelling(operator, child)):
                    trips[alias] = self._meet(trips[alias], operator, child)
                    if operator.relations in asked:
                        self._keep(trips[alias], operator.relations)
        for alias in names(self.query, root.relations & ~self.steps.tables or root.relations):
            self._arrive(trips[alias])

    def _travelling(self, operator: Tree, child: Tree) -> int:
        """The members of a child whose tuples look into its siblings.

        A table is read before all streams.  So where a stream takes part, no way starts from a table.
        """
        streams = operator.relations & ~self.steps.tables
        return child.relations & streams if streams else child.relations

    def _asked(self) -> set[int]:
        """The stores that tuples look into."""
        return {
            child.relations
            for operator in self.layout.tree.operators
            for child in operator.children
            if any(self._travelling(operator, other) for other in operator.children if other != child)
        }

    def _meet(self, trip: _Trip, operator: Tree, child: Tree) -> _Trip:
        rest = [sibling.relations for sibling in operator.children if sibling != child]
        order = self.layout.orders.get(child.relations)
        while rest:
            if order is not None:
                store = order[len(order) - len(rest)]
                best = self.steps.step(trip.bound, store)
            else:
                options = [(self.steps.step(trip.bound, store), store) for store in rest]
                best, store = min(options, key=lambda option: self._grade(trip, *option))
            trip = self._hop(trip, best, store, self.layout.placement.get(store, ()))
            rest.remove(store)
        return trip

    # -------------------------------------------------------------------------------------------- parts

    def _hop(self, trip: _Trip, s: Step, store: int, home: Home) -> _Trip:
        self._refuse_cross_product(trip, s)
        route, key, tasks = self._route(trip, s, store, home)
        # The first hop needs no wave of its own: the edge that brings a row to its store brings the tuple there too.
        arrival = trip.wave + (bool(trip.hops) and route != "local")
        wave = max(arrival, self._complete(store, home, trip.alias))
        # Matches are now on the worker where they were found.  After a broadcast that is the worker of the matched row,
        # which the key of its store names; a scattered store has none.  A local hop does not move the tuple.
        place = trip.place
        if route == "broadcast":
            place = (home, tasks) if home or tasks == 1 else None
        elif route == "key":
            place = (key, tasks)
        hop = Hop(s, store, home, route, key, tasks, wave)
        return _Trip(trip.alias, trip.bound | s.target, (*trip.hops, hop), wave, place)

    def _arrive(self, trip: _Trip) -> None:
        self.lines.append(Line(trip.alias, (1 << len(self.query.relations)) - 1, trip.hops))

    def _complete(self, store: int, home: Home, origin: str) -> int:
        """The first wave in which all rows of a store that a tuple of `origin` may see are stored."""
        if store.bit_count() == 1:
            return 1  # rows of a stream are stored in wave 1, before any probe runs
        stamps = self.steps.stamps
        older = [alias for alias in names(self.query, store) if stamps[alias] < stamps[origin]]
        return max((self.kept.get((store, home, alias), 1) for alias in older), default=1)

    def _keep(self, trip: _Trip, store: int) -> None:
        for home in self.layout.homes(store):
            tasks = self._tasks(store)
            if self.local or self._is_at(trip, (home, tasks)):
                route: Route = "local"
            else:
                route = "key" if home else "scatter"
            # Only a copy is sent to the store: the tuple itself goes on from where it is, so its place and wave stay.
            wave = trip.wave + (route != "local")
            self.kept[store, home, trip.alias] = wave
            keep = Keeping(store, home, route, home if route == "key" else (), tasks, wave)
            self.lines.append(Line(trip.alias, store, trip.hops, keep))

    # ----------------------------------------------------------------------------------------- places

    def _tasks(self, store: int) -> int:
        return min(self.workers, self.layout.tasks.get(store, self.workers))

    def _route(self, trip: _Trip, s: Step, store: int, home: Home) -> tuple[Route, tuple[Expr, ...], int]:
        tasks = self._tasks(store)
        if self.local:
            return "local", (), tasks
        if tasks == 1:
            return ("local" if self._is_at(trip, ((), 1)) else "broadcast"), (), 1
        known = {e.target: e.known for e in s.equalities}
        if not home or any(expr not in known for expr in home):
            return "broadcast", (), tasks
        key = tuple(known[expr] for expr in home)
        return ("local", (), tasks) if self._is_at(trip, (key, tasks)) else ("key", key, tasks)

    def _is_at(self, trip: _Trip, place: tuple[Home, int]) -> bool:
        """Whether the tuple is certainly on the worker that a place names.

        Two keys name the same worker if equalities that the tuple already satisfies make them equal.
        """
        if not trip.hops or trip.place is None or trip.place[1] != place[1]:
            return False
        if place[1] == 1:
            return True
        leader = self.steps.equal(trip.bound)
        mine, other = (tuple(leader.get(e, e) for e in exprs) for exprs in (trip.place[0], place[0]))
        return bool(mine) and mine == other

    # ----------------------------------------------------------------------------------------- orders

    def _grade(self, trip: _Trip, s: Step, store: int) -> tuple[int, tuple[int, str]]:
        """How good a store is as the next one where no order is given; less is better, ties go by label."""
        if s.equalities and not self.local and self._is_local(trip, s, store):
            kind = 0
        elif s.equalities:
            kind = 1
        elif self.steps.is_connected(trip.bound, s.target):
            kind = 2 if s.low and s.high else 3 if s.range is not None else 4
        else:
            kind = 5
        return kind, min(self.steps.stamps[alias] for alias in names(self.query, store))

    def _is_local(self, trip: _Trip, s: Step, store: int) -> bool:
        return self._route(trip, s, store, self.layout.placement.get(store, ()))[0] == "local"

    def _refuse_cross_product(self, trip: _Trip, s: Step) -> None:
        if self.query.cross_product or s.equalities or self.steps.is_connected(trip.bound, s.target):
            return
        raise PlanError(
            f'no predicate connects "{", ".join(sorted(s.target))}" with {", ".join(sorted(trip.bound))}',
            detail="joining them would be a cross product.",
            hint="add a join predicate over two aliases, or pass cross_product=True.",
        )


def _classes(joins: Sequence[Expr], bound: Aliases) -> dict[Expr, Expr]:
    """Expression -> the leader of those that the equalities inside `bound` make equal to it."""
    equalities = (p for p in joins if isinstance(p, Call) and p.op == "=" and aliases(p) <= bound)
    return lead_classes((p.args[0], p.args[1]) for p in equalities if p.args[0].type == p.args[1].type)


def _begin(alias: str) -> _Trip:
    return _Trip(alias, frozenset({alias}))


def kept_joins(lines: Iterable[Line]) -> list[Target]:
    """The kept joins that some lines fill, each with where its rows lie."""
    return [*dict.fromkeys((line.keep.store, line.keep.home) for line in lines if line.keep is not None)]


def _by_size(line: tuple[int, int]) -> tuple[int, int, int]:
    """Smaller joins first: a line into a join looks only into smaller ones."""
    goal, start = line
    return goal.bit_count(), goal, start


def _alias(field: str) -> str:
    return field.split(".", 1)[0]
