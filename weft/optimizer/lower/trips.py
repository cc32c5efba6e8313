"""From a layout to the lines of a plan: a trip is how far the tuples of an alias have come.

A tree says where lines run: a tuple starts in the lowest operator above its alias and meets the siblings of its alias
there.  If the operator is kept, a line ends in its store.  The tuple meets the siblings of the operator next, and so
on up to the root.  A layout with lines says it directly.

Waves: a hop to a store on the tuple's own worker is made at once, any other in the next wave.  A hop to an intermediate
store waits until all rows that it may see are stored: those whose origin is stamped before the tuple's own.

Tables are read before all streams, so no row of a table is ever the newest in a result.  A table has lines only into
joins of tables.  What is joined with nothing but tables is not kept, since nobody looks into it.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.errors import PlanError
from weft.expr.model import Expr
from weft.optimizer.graph.layout import Home, Layout, Target, names
from weft.optimizer.graph.predicates import Aliases
from weft.optimizer.graph.tree import Tree
from weft.optimizer.lower.steps import Step, Steps
from weft.optimizer.lower.ways import Hop, Keeping, Line, Ways
from weft.query.model import Query
from weft.topology.node import Route


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


def _begin(alias: str) -> _Trip:
    return _Trip(alias, frozenset({alias}))


def _by_size(line: tuple[int, int]) -> tuple[int, int, int]:
    """Smaller joins first: a line into a join looks only into smaller ones."""
    goal, start = line
    return goal.bit_count(), goal, start
