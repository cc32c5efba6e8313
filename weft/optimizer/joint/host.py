"""Many queries as one flow problem, weighed as the host's bill weighs them (`optimizer.bill`).

    node   (label, set, place)   tuples that began with a relation, what they have joined, and where they are
    arc                          a probe of a store in a place; it sends, looks up, matches and checks
    kept   join                  an intermediate store in a place
    kept   part                  an edge: rows of a stream sent to a place, for a store there, a first probe or both;
                                 the rows stored there; and all other parts of whole plans that a query is offered
    flows                        (query, label) to all relations of the query; (join, label) into a kept join

All prices are seconds of the whole cluster, as in a bill: work on the fullest worker, divided by the workers.

A join with narrower windows is not filled where the same with wider ones may be kept: `wider` says which one is looked
into instead.

What is left out: a tuple that waits for a join to be complete is sent again; a store may lie on fewer workers.
So the bill of the topology that comes of a solution may differ a little from the price of the solution.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from weft.expr.model import Column, Expr, transform, without_alias
from weft.optimizer.candidate import Candidate
from weft.optimizer.cost.prices import Prices
from weft.optimizer.graph.joingraph import bits
from weft.optimizer.graph.layout import Home, Target
from weft.optimizer.joint.flows import Arc, Flow, Id, Kept, Own, Problem, Solution, Step
from weft.optimizer.joint.shape import HomeName, SetName, Shape
from weft.topology.node import Route

START: HomeName = ("at the start",)
NOWHERE: HomeName = ("unknown",)
Look = tuple[tuple[str, ...], HomeName]
"""The labels of a store, and the place where it is looked into."""


@dataclass(frozen=True, slots=True)
class _At:
    """Where tuples are on their way."""

    mask: int
    place: HomeName
    key: Home = ()
    """Expressions of the query that name the place."""


@dataclass
class Draft:
    """A flow problem under way."""

    prices: Prices
    workers: int
    mixed: bool = False
    """Whether queries may differ in what they expect of the same tuples; the largest number counts."""
    steps: dict[Id, float] = field(default_factory=dict)
    arcs: dict[Id, Arc] = field(default_factory=dict)
    kept: dict[Id, float] = field(default_factory=dict)
    flows: dict[Id, Flow] = field(default_factory=dict)
    offered: dict[Own, Candidate] = field(default_factory=dict)
    """Whole plans for a query."""
    looks: dict[Id, Look] = field(default_factory=dict)
    """Step -> what it looks into."""
    homes: dict[Id, dict[HomeName, Home]] = field(default_factory=dict)
    """Store -> places it may have; expressions over the columns of a stream, or over labels."""
    given: set[Id] = field(default_factory=set)
    """Steps and kept things that are there whatever is chosen."""
    filled: dict[tuple[Id, str], tuple[Look, ...]] = field(default_factory=dict)
    """(Kept join, label) -> how it is filled already."""
    wider: Mapping[SetName, SetName] = field(default_factory=dict)
    """Join -> the same join with wider windows."""
    _sets: dict[Id, int] = field(default_factory=dict)
    _scale: dict[str, float] = field(default_factory=dict)

    # ------------------------------------------------------------------------------------------- names

    def number(self, shape: Shape, mask: int) -> int:
        """The number of a set; equal sets of two queries have one."""
        return self._sets.setdefault(shape.set_name(mask), len(self._sets))

    def store(self, shape: Shape, mask: int) -> Id:
        """The name of a store."""
        if mask.bit_count() == 1:
            return "rows", shape.inputs[mask.bit_length() - 1]
        name = shape.set_name(mask)
        return "join", self._sets.setdefault(self.wider.get(name, name), len(self._sets))

    def find_homes(self, shape: Shape, stores: Iterable[int]) -> None:
        """Note where a query could use its stores."""
        for mask in stores:
            known = self.homes.setdefault(self.store(shape, mask), {})
            for name, home in shape.homes(mask).items():
                known.setdefault(name, _unnamed(shape, mask, home))

    # ------------------------------------------------------------------------------------------ queries

    def add(self, shape: Shape, joins: Sequence[int], scale: float) -> None:
        """All that a query can do, and what it needs."""
        self._scale[shape.name] = scale
        stores = [*(1 << i for i in range(len(shape.labels))), *joins]
        places = {mask: self._places(shape, mask) for mask in stores}
        for i in bits(shape.streams(shape.whole)):
            reached = self._explore(shape, 1 << i, places)
            label = shape.labels[i]
            ends = frozenset((label, self.number(shape, shape.whole), at.place) for at in reached[shape.whole])
            source = label, self.number(shape, 1 << i), START
            self.flows[shape.name, label] = Flow((shape.name, label), source, ends, query=shape.name)
            for mask in joins:
                if mask >> i & 1:
                    self._fill(shape, 1 << i, mask, reached.get(mask, ()))

    def offer(self, shape: Shape, plan: Candidate, parts: Mapping[str, float], waves: int) -> None:
        """A whole plan for a query: its parts, by names that other plans may have too, with their prices."""
        for name, cost in parts.items():
            self._keep(("part", name), cost * self._scale[shape.name])
        self.offered.setdefault(Own(shape.name, 0.0, tuple(("part", name) for name in parts), waves), plan)

    def give(self, shape: Shape, scale: float, parts: Iterable[str]) -> None:
        """A query whose plan is fixed: all that it does costs nothing more."""
        self._scale[shape.name] = scale
        for part in parts:
            self._keep(("part", part), 0.0)
            self.given.add(("part", part))
        if shape.choice.chosen.layout.spread:
            return  # lines do not lead into a cube
        for line in shape.choice.chosen.ways.lines:
            at, looks = _At(shape.mask([shape.label(line.start)]), START), list[Look]()
            for hop in line.hops:
                if hop.tasks < self.workers:
                    return  # such stores are not shared
                name = shape.home_name(hop.store, hop.home)
                store = self.store(shape, hop.store)
                self.homes.setdefault(store, {}).setdefault(name, _unnamed(shape, hop.store, hop.home))
                step, at = self._probe(shape, shape.mask([shape.label(line.start)]), at, hop.store, name, hop.home)
                self.given |= {step, *self.arcs[step].uses}
                looks.append((shape.names(hop.store), name))
            if line.keep is not None:
                join = (*self.store(shape, line.goal), shape.home_name(line.goal, line.keep.home))
                self._keep(join, 0.0)
                self.given.add(join)
                self.filled[join, shape.label(line.start)] = tuple(looks)

    def _places(self, shape: Shape, mask: int) -> list[tuple[HomeName, Home]]:
        """The places of a store that any query may want, in terms of this one."""
        return [(name, _named(shape, mask, home)) for name, home in self.homes[self.store(shape, mask)].items()]

    def _explore(
        self, shape: Shape, start: int, places: Mapping[int, Sequence[tuple[HomeName, Home]]]
    ) -> dict[int, list[_At]]:
        """All ways of the tuples of a relation; set -> where they can be when they have joined it."""
        reached: dict[int, dict[HomeName, _At]] = {start: {START: _At(start, START)}}
        for mask in shape.connected:
            near = shape.model.graph.neighbours(mask)
            for at in [*reached.get(mask, {}).values()]:
                for store in (store for store in places if not store & mask and store & near):
                    for name, home in places[store]:
                        _, after = self._probe(shape, start, at, store, name, home)
                        reached.setdefault(after.mask, {}).setdefault(after.place, after)
        return {mask: [*found.values()] for mask, found in reached.items()}

    # -------------------------------------------------------------------------------------------- probes

    def _probe(self, shape: Shape, start: int, at: _At, store: int, name: HomeName, home: Home) -> tuple[Id, _At]:
        """Look into a store from somewhere: the step, and where its matches are."""
        first, after = at.place == START, at.mask | store
        known = {e.target: e.known for e in shape.steps.step(shape.members(at.mask), store).equalities}
        key = tuple(known[expr] for expr in home) if home and all(expr in known for expr in home) else None
        if self.workers == 1:
            route: Route = "local"
            there = _At(after, NOWHERE)
        elif key is None:
            route, there = "broadcast", _at(shape, after, home) if home else _At(after, NOWHERE)
        elif not first and shape.place(at.mask, key) == at.place:
            route, there = "local", _at(shape, after, at.key)
        else:
            route, there = "key", _at(shape, after, key)
        label = shape.labels[start.bit_length() - 1]
        tail, head = (label, self.number(shape, at.mask), at.place), (label, self.number(shape, after), there.place)
        target = self.store(shape, store)
        step = (*tail, target, name, head[1])
        if step not in self.steps or self.mixed:
            uses = [*self._copy(shape, store, target, name, home)]
            if first and route != "local":
                uses.append(self._edge(shape, start, route, key or ()))
            remote = route != "local" and not first
            copies = self.workers if route == "broadcast" else 1
            price = self._price(shape, start, at, store, there, copies=copies, remote=remote)
            self.steps[step] = max(price, self.steps.get(step, 0.0))
            self.arcs[step] = Arc(tail, head, step, tuple(dict.fromkeys(uses)), remote)
            self.looks[step] = shape.names(store), name
        return step, there

    def _price(self, shape: Shape, start: int, at: _At, store: int, there: _At, *, copies: int, remote: bool) -> float:
        p, s = self.prices, shape.steps.step(shape.members(at.mask), store)
        tuples = shape.model.count_started(start, at.mask) * copies
        found = shape.model.count_started(start, there.mask)
        indexed = bool(s.equalities) or s.range is not None
        pairs = found if indexed else tuples * shape.model.graph.size(store) / self.workers
        work = tuples * p.probed + found * p.matched + (pairs * p.checked if s.residual or not indexed else 0.0)
        return self._wall(shape, work + (tuples * p.sent if remote else 0.0), there.key)

    def _wall(self, shape: Shape, work: float, key: Home) -> float:
        """Seconds of the cluster; the fullest worker decides."""
        busy = shape.choice.maker.imbalance(key, self.workers) if key else 1.0
        return work * busy / self.workers * self._scale[shape.name]

    # -------------------------------------------------------------------------------------------- stores

    def _copy(self, shape: Shape, mask: int, store: Id, name: HomeName, home: Home) -> Iterable[Id]:
        """What must be kept so that a store can be looked into in a place."""
        if mask.bit_count() > 1:
            self._keep((*store, name), 0.0)  # what fills it costs
            return ((*store, name),)
        edge = self._edge(shape, mask, "key" if home else "scatter", home)
        copy = "part", rows_of(edge[1], shape.query.relations[mask.bit_length() - 1].since)
        if copy not in self.kept or self.mixed:
            rows = shape.model.count_started(mask, mask)
            self._keep(copy, self._wall(shape, rows * self.prices.stored, home))
        return copy, edge

    def _edge(self, shape: Shape, mask: int, route: Route, key: Home) -> tuple[str, str]:
        edge = "part", shape.edge(mask.bit_length() - 1, route, key)
        if edge not in self.kept or self.mixed:
            sent = shape.model.count_started(mask, mask) * (self.workers if route == "broadcast" else 1)
            self._keep(edge, self._wall(shape, sent * self.prices.sent if self.workers > 1 else 0.0, key))
        return edge

    def _keep(self, name: Id, cost: float) -> None:
        self.kept[name] = max(cost, self.kept.get(name, 0.0))

    def _fill(self, shape: Shape, start: int, mask: int, reached: Iterable[_At]) -> None:
        """How tuples of a relation become rows of a kept join, in every place it may have."""
        store, label = self.store(shape, mask), shape.labels[start.bit_length() - 1]
        if not shape.streams(mask) & start or shape.set_name(mask) in self.wider:
            return
        tuples = shape.model.count_started(start, mask)
        for name, home in self._places(shape, mask):
            join = (*store, name)
            self.kept.setdefault(join, 0.0)
            if (join, label) in self.flows or (join, label) in self.filled:
                continue
            end = "kept", join, label
            source = label, self.number(shape, start), START
            self.flows[join, label] = Flow((join, label), source, frozenset([end]), fills=join)
            for at in reached:
                here = self.workers == 1 or (bool(home) and shape.place(mask, home) == at.place)
                work = tuples * (self.prices.stored + (0.0 if here else self.prices.sent))
                step = "keep", label, join, at.place
                self.steps[step] = self._wall(shape, work, home)
                self.arcs[step] = Arc((label, self.number(shape, mask), at.place), end, step, (), not here)

    def finish(self, wave_price: float, known: float) -> Problem:
        """The flow problem, in units of a plan that is known.

        What costs more than that plan is in no better one, and is left out, where there are other plans.
        """
        unit = known or 1.0
        if not self.offered:
            unit = max([unit, *self.steps.values(), *self.kept.values()])

        def price(cost: float, name: Id = None) -> float:
            return 0.0 if name in self.given else min(cost / unit, 2.0)

        steps = {name: price(cost, name) for name, cost in self.steps.items()}
        return Problem(
            tuple(Step(name, cost) for name, cost in steps.items() if cost <= 1.0),
            tuple(arc for name, arc in self.arcs.items() if steps[name] <= 1.0),
            tuple(self.flows.values()),
            tuple(Kept(name, price(cost, name)) for name, cost in self.kept.items()),
            tuple(self.offered),
            wave_price=price(wave_price),
        )

    # ----------------------------------------------------------------------------------------- solutions

    def lines(self, shape: Shape, solution: Solution) -> dict[tuple[int, int], tuple[Target, ...]]:
        """The lines of a query in a solution: to its results, and into all joins that these look into."""
        found: dict[tuple[int, int], tuple[Target, ...]] = {}
        goals: list[tuple[int, HomeName | None]] = [(shape.whole, None)]
        for goal, home in goals:  # grows while it is read
            for i in bits(shape.streams(goal)):
                looks = self._looks(shape, shape.labels[i], goal, home, solution)
                targets = [(shape.mask(labels), name) for labels, name in looks]
                found[goal, 1 << i] = tuple((mask, self._home(shape, mask, name)) for mask, name in targets)
                known = {mask for mask, _ in goals}
                goals += [(mask, name) for mask, name in targets if mask.bit_count() > 1 and mask not in known]
        return found

    def _looks(
        self, shape: Shape, label: str, goal: int, home: HomeName | None, solution: Solution
    ) -> tuple[Look, ...]:
        flow: Id = (shape.name, label) if home is None else ((*self.store(shape, goal), home), label)
        if flow in self.filled:
            return self.filled[flow]
        return tuple(self.looks[arc.step] for arc in solution.ways[flow] if arc.step in self.looks)

    def _home(self, shape: Shape, mask: int, name: HomeName) -> Home:
        return _named(shape, mask, self.homes[self.store(shape, mask)][name])


def rows_of(edge: str, since: int) -> str:
    """The name of the rows that an edge takes to a store: that of the store itself depends on who else uses it."""
    return f"rows of {edge} since {since}"


def _at(shape: Shape, mask: int, key: Home) -> _At:
    return _At(mask, shape.place(mask, key), key)


def _unnamed(shape: Shape, mask: int, home: Home) -> Home:
    """A place over the columns of a stream, or over labels."""
    return tuple(without_alias(expr) if mask.bit_count() == 1 else shape.rename(expr) for expr in home)


def _named(shape: Shape, mask: int, home: Home) -> Home:
    """The same in terms of a query."""
    called = dict(zip(shape.labels, shape.query.aliases, strict=True))
    if mask.bit_count() == 1:
        called = {"": shape.query.aliases[mask.bit_length() - 1]}

    def rename(node: Expr) -> Expr:
        return Column(called[node.alias], node.name, node.type) if isinstance(node, Column) else node

    return tuple(transform(expr, rename) for expr in home)
