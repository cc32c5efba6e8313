"""Ways: what happens to a new tuple of each alias, hop by hop.

A hop is one look into one store.  A tuple starts in the lowest operator above its alias, meets the siblings of its
alias there, and so becomes a row of that operator.  If the operator is kept, the row goes into its store and at the
same time on to the siblings of the operator, and so on up to the root, where it is a result.  So every alias has one
way: a line of hops, with a keep wherever a kept operator is complete.  Every row of an intermediate store is made by
the way of its newest member.

Waves: a hop to a store on the tuple's own worker is made at once, any other in the next wave.  A hop to an intermediate
store waits until all rows that it may see are stored: those whose origin is stamped before the tuple's own.

Tables are read before all streams, so no row of a table is ever the newest in a result.  A table has a way only through
joins of tables.  What is joined with nothing but tables is not kept, since nobody looks into it.

Fields: backwards from the results, every hop carries what any later part of the way reads.  An intermediate store holds
what its probers read or hand on, and the event times that say when a row may go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from weft.errors import PlanError
from weft.expr.model import Call, Expr, aliases, columns
from weft.optimizer.graph.equal import lead_classes
from weft.optimizer.graph.layout import Layout, names
from weft.optimizer.graph.predicates import Aliases, time_of, window_predicates
from weft.optimizer.graph.tree import Tree
from weft.optimizer.lower.labels import sort_predicates, stamp_order
from weft.optimizer.lower.steps import Step, step
from weft.query.model import Query
from weft.query.timebounds import retention
from weft.topology.model import Route


@dataclass(frozen=True, slots=True)
class Hop:
    """A step, and how tuples get to the workers where it is made."""

    step: Step
    store: int
    route: Route
    route_key: tuple[Expr, ...]
    tasks: int
    wave: int
    operator: int
    """The join that the tuple becomes a row of, once it has met all siblings."""
    carry: tuple[str, ...] = ()

    def with_carry(self, fields: set[str]) -> Hop:
        """The hop with what lives on after it."""
        carry = tuple(sorted(fields))
        return Hop(self.step, self.store, self.route, self.route_key, self.tasks, self.wave, self.operator, carry)

    @property
    def fields(self) -> frozenset[str]:
        """Fields of the incoming tuple that are read by this hop or live on after it."""
        s = self.step
        exprs = [*self.route_key, *(e.known for e in s.equalities), *(b.expr for b in (*s.low, *s.high)), *s.residual]
        reads = {c.field for expr in exprs for c in columns(expr) if c.alias not in s.target}
        return frozenset(reads | {f for f in self.carry if _alias(f) not in s.target})

    @property
    def found(self) -> frozenset[str]:
        """Fields of the rows met that are read by this hop or live on after it."""
        s = self.step
        ranges = () if s.range is None else (s.range,)
        reads = {
            c.field
            for expr in (*(e.target for e in s.equalities), *ranges, *s.residual)
            for c in columns(expr)
            if c.alias in s.target
        }
        return frozenset(reads | {f for f in self.carry if _alias(f) in s.target})


@dataclass(frozen=True, slots=True)
class Keeping:
    """Here the tuple is stored as a row of an intermediate store."""

    store: int
    route: Route
    route_key: tuple[Expr, ...]
    tasks: int
    wave: int

    @property
    def operator(self) -> int:
        """The join that is kept."""
        return self.store


@dataclass(frozen=True, slots=True)
class Ways:
    """How one query is answered."""

    name: str
    query: Query
    layout: Layout
    workers: int
    retention: dict[str, int | None]
    """Alias -> how long past its own time a row may find a partner; None is for ever."""
    paths: dict[str, tuple[Hop | Keeping, ...]]
    fields: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Store -> fields that its rows must hold; nothing before :func:`fill_in`."""
    stamps: Mapping[str, tuple[bool, str]] = field(default_factory=dict)
    """Alias -> what orders the stamps of rows that come in one batch."""

    @property
    def clocked(self) -> bool:
        """Whether anything in this query ever expires, so that late rows have to be refused."""
        return len(self.query.relations) > 1 and any(keep is not None for keep in self.retention.values())

    def hops(self, alias: str) -> tuple[Hop, ...]:
        """The hops of an alias's tuples, in order."""
        return tuple(part for part in self.paths[alias] if isinstance(part, Hop))

    def tasks(self, store: int) -> int:
        """On how many workers a store lies."""
        return min(self.workers, self.layout.tasks.get(store, self.workers))

    def start_fields(self, alias: str) -> frozenset[str]:
        """Fields a tuple of `alias` needs when it starts."""
        if hops := self.hops(alias):
            return hops[0].fields
        return frozenset(_outputs(self.query) or {_anchor(self.query, alias)})


class Steps:
    """Answers that all plans of a query share: each is worked out once."""

    def __init__(self, query: Query) -> None:
        self.query = query
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
            self._steps[bound, store] = step(self.query, self.predicates, bound, target)
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
    """The ways of all aliases under a layout, without what they carry: enough to know what they cost."""
    planner = _Planner(steps or Steps(query), layout, workers)
    for operator in layout.tree.operators:
        planner.extend(operator)
    paths = {alias: tuple(trip.parts) for alias, trip in planner.trips.items()}
    return Ways(name, query, layout, workers, planner.steps.retention, paths, stamps=planner.steps.stamps)


# -------------------------------------------------------------------------------------------- the way there


class _Trip:
    """The way of one alias while it is being made."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.bound: Aliases = frozenset({alias})
        self.parts: list[Hop | Keeping] = []
        self.wave = 1
        self.place: tuple[tuple[Expr, ...], int] | None = None
        """Where the tuple is: the worker that owns the values of these expressions, of this many.  None is unknown."""
        self.started = False


class _Planner:
    def __init__(self, steps: Steps, layout: Layout, workers: int) -> None:
        self.steps, self.query, self.layout, self.workers = steps, steps.query, layout, workers
        self.trips = {alias: _Trip(alias) for alias in self.query.aliases}
        self.local = workers == 1 or bool(layout.spread)
        """Whether all that joins is on one worker."""
        self.asked = self._asked()
        self.kept: dict[tuple[int, str], int] = {}
        """(Intermediate store, origin) -> the wave in which such rows are stored."""

    def extend(self, operator: Tree) -> None:
        """Extend the ways of all members through one operator, after all operators below it."""
        for child in operator.children:
            for alias in names(self.query, self._travelling(operator, child)):
                trip = self.trips[alias]
                self._meet(trip, operator, child)
                if operator.relations in self.asked:
                    self._keep(trip, operator)

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

    def _meet(self, trip: _Trip, operator: Tree, child: Tree) -> None:
        rest = [sibling.relations for sibling in operator.children if sibling != child]
        order = self.layout.orders.get(child.relations)
        while rest:
            if order is not None:
                store = order[len(order) - len(rest)]
                best = self.steps.step(trip.bound, store)
            else:
                options = [(self.steps.step(trip.bound, store), store) for store in rest]
                best, store = min(options, key=lambda option: self._grade(trip, *option))
            self._refuse_cross_product(trip, best)
            trip.parts.append(self._hop(trip, best, store, operator))
            rest.remove(store)

    def _hop(self, trip: _Trip, s: Step, store: int, operator: Tree) -> Hop:
        route, key, tasks = self._route(trip, s, store)
        # The first hop needs no wave of its own: the edge that brings a row to its store brings the tuple there too.
        arrival = trip.wave + (trip.started and route != "local")
        trip.wave = max(arrival, self._complete(store, trip.alias))
        trip.bound |= s.target
        trip.started = True
        home = self.layout.placement.get(store, ())
        # Matches are now on the worker where they were found.  After a broadcast that is the worker of the matched row,
        # which the key of its store names; a scattered store has none.  A local hop does not move the tuple.
        if route == "broadcast":
            trip.place = (home, tasks) if home or tasks == 1 else None
        elif route == "key":
            trip.place = (key, tasks)
        return Hop(s, store, route, key, tasks, trip.wave, operator.relations)

    def _complete(self, store: int, origin: str) -> int:
        """The first wave in which all rows of a store that a tuple of `origin` may see are stored."""
        if store.bit_count() == 1:
            return 1  # rows of a stream are stored in wave 1, before any probe runs
        stamps = self.steps.stamps
        older = [alias for alias in names(self.query, store) if stamps[alias] < stamps[origin]]
        return max((self.kept.get((store, alias), 1) for alias in older), default=1)

    def _keep(self, trip: _Trip, operator: Tree) -> None:
        store = operator.relations
        home, tasks = self.layout.placement.get(store, ()), self._tasks(store)
        if self.local or self._is_at(trip, (home, tasks)):
            route: Route = "local"
        else:
            route = "key" if home else "scatter"
        # Only a copy is sent to the store: the tuple itself goes on from where it is, so its place and wave stay.
        wave = trip.wave + (route != "local")
        self.kept[store, trip.alias] = wave
        trip.parts.append(Keeping(store, route, home if route == "key" else (), tasks, wave))

    # ----------------------------------------------------------------------------------------- places

    def _tasks(self, store: int) -> int:
        return min(self.workers, self.layout.tasks.get(store, self.workers))

    def _route(self, trip: _Trip, s: Step, store: int) -> tuple[Route, tuple[Expr, ...], int]:
        tasks = self._tasks(store)
        if self.local:
            return "local", (), tasks
        if tasks == 1:
            return ("local" if self._is_at(trip, ((), 1)) else "broadcast"), (), 1
        known = {e.target: e.known for e in s.equalities}
        home = self.layout.placement.get(store, ())
        if not home or any(expr not in known for expr in home):
            return "broadcast", (), tasks
        key = tuple(known[expr] for expr in home)
        return ("local", (), tasks) if self._is_at(trip, (key, tasks)) else ("key", key, tasks)

    def _is_at(self, trip: _Trip, place: tuple[tuple[Expr, ...], int]) -> bool:
        """Whether the tuple is certainly on the worker that a place names.

        Two keys name the same worker if equalities that the tuple already satisfies make them equal.
        """
        if not trip.started or trip.place is None or trip.place[1] != place[1]:
            return False
        if place[1] == 1:
            return True
        leader = self.steps.equal(trip.bound)
        mine, other = (tuple(leader.get(e, e) for e in exprs) for exprs in (trip.place[0], place[0]))
        return bool(mine) and mine == other

    # ----------------------------------------------------------------------------------------- orders

    def _grade(self, trip: _Trip, s: Step, store: int) -> tuple[int, tuple[bool, str]]:
        """How good a store is as the next one where no order is given; less is better, ties go by label."""
        if s.equalities and not self.local and self._route(trip, s, store)[0] == "local":
            kind = 0
        elif s.equalities:
            kind = 1
        elif self.steps.is_connected(trip.bound, s.target):
            kind = 2 if s.low and s.high else 3 if s.range is not None else 4
        else:
            kind = 5
        return kind, min(self.steps.stamps[alias] for alias in names(self.query, store))

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


# ----------------------------------------------------------------------------------------------- the fields


def fill_in(plan: Ways) -> Ways:
    """The ways with what every hop carries and what every store holds.

    Operators go from the root down, and each way backwards: what a hop must carry depends on what comes after it, and
    what a store must hold depends on all hops that look into it.
    """
    query, tree, kept = plan.query, plan.layout.tree, plan.retention
    held: dict[int, set[str]] = defaultdict(set)
    keeps = {part.store for parts in plan.paths.values() for part in parts if isinstance(part, Keeping)}
    wanted: dict[str, set[str]] = {alias: set() for alias in query.aliases}
    done: dict[str, list[Hop | Keeping]] = {alias: [] for alias in query.aliases}
    for operator in reversed([*tree.operators]):
        store = operator.relations
        if store in keeps:
            held[store] |= {time_of(a).field for a in names(query, store) if kept[a] is not None}
            held[store] |= set() if held[store] else {_anchor(query, names(query, store)[0])}
        made = _outputs(query) if operator == tree else held[store]
        for alias in names(query, store):
            mine = [part for part in plan.paths[alias] if part.operator == store]
            live = wanted[alias] | made if mine else set()  # the way of a table ends where streams join in
            parts: list[Hop | Keeping] = []
            for part in reversed(mine):
                if isinstance(part, Hop):
                    part = _carry(part, live, _anchor(query, alias))
                    live = set(part.fields)
                    held[part.store] |= part.found
                parts.insert(0, part)
            wanted[alias] = live
            done[alias] = parts + done[alias]
    for i, alias in enumerate(query.aliases):
        held[1 << i] |= set() if held[1 << i] else {_anchor(query, alias)}
    return replace(
        plan,
        paths={alias: tuple(parts) for alias, parts in done.items()},
        fields={store: tuple(sorted(fields)) for store, fields in held.items()},
    )


def _carry(hop: Hop, live: set[str], anchor: str) -> Hop:
    """The hop with the fields that live on after it; at least one field on either side, so that rows are counted."""
    carrying = hop.with_carry(live or {anchor})
    return carrying if carrying.fields else hop.with_carry({*live, anchor})


def _outputs(query: Query) -> set[str]:
    return {c.field for output in query.outputs for c in columns(output.expr)}


def _anchor(query: Query, alias: str) -> str:
    """A field to carry where none is needed."""
    return f"{alias}.{query.relation(alias).stream.schema.names[0]}"


def _alias(field: str) -> str:
    return field.split(".", 1)[0]
