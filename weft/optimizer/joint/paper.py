"""Many queries in the papers' notation as one flow problem, counted as CLASH counts (002 sections IV and V).

The paper chooses among *orders*.  But what a tuple has joined so far is a set, a step costs the same however that set
was reached, and no set is worth reaching twice.  So nodes here are sets:

    node   (r, A)            tuples of relation r that are joined with the relations A, by the predicates inside A
    arc    (r, A) -> A + M   a probe of the store of M: an input, or an intermediate result (MIR) disjoint from A
    step   the same          size(A) / |A| * chi tuples are sent (Eq. 1)
    flows  (q, r)            from {r} to all relations of q;  (M, r): from {r} to M, if M is kept

Two sets are the same if they hold the same relations and the same predicates between them, whatever their query.

chi is 1 if the tuples sent say where the store's rows lie, else N.  If a store may lie by several attributes at a time,
one of them always fits, because a probe is an equality.  If it may not, there is an arc for each attribute that fits,
all of one step with chi = 1, and one with chi = N.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from weft.errors import PlanError
from weft.optimizer.graph.joingraph import Base, JoinGraph, bits
from weft.optimizer.joint.flows import Arc, AtMostOne, Flow, Id, Kept, Problem, Solution, Step
from weft.optimizer.joint.orders import Predicate, Probe, ProbeOrder

Placements = Literal["many", "one"]
"""How many attributes a store may lie by at a time (K-11)."""

_RELATION = re.compile(r"\s*(\w+)\s*\(([\w\s,]*)\)\s*(?:,|$)")


@dataclass(frozen=True, slots=True)
class Joined:
    """A set of relations with the predicates between them."""

    relations: tuple[str, ...]
    predicates: frozenset[Predicate]


@dataclass(frozen=True, slots=True)
class Posed:
    """Queries as a flow problem, with what its numbers stand for."""

    problem: Problem
    sets: tuple[Joined, ...]
    """Nodes, steps and kept things name sets by position here."""

    def orders(self, solution: Solution) -> tuple[ProbeOrder, ...]:
        """The probe orders of a solution, those of queries first."""
        flows = sorted(self.problem.flows, key=lambda flow: flow.query is None)
        return tuple(self._order(flow, solution.ways[flow.id]) for flow in flows if flow.id in solution.ways)

    def _order(self, flow: Flow, way: Sequence[Arc]) -> ProbeOrder:
        serves = "".join(self.sets[flow.fills[1]].relations) if flow.fills else flow.query
        return ProbeOrder(str(serves), flow.source[0], tuple(map(self._probe, way)))

    def _probe(self, arc: Arc) -> Probe:
        step: Any = arc.step
        _, before, target, after, whom = step
        tail, store, head = self.sets[before], self.sets[target], self.sets[after]
        between = head.predicates - store.predicates - tail.predicates
        known = min((attribute for _, attribute, _ in between), default=None)
        placed = [use[2] for use in arc.uses if use[0] == "place"]
        return Probe(store.relations, placed[0] if placed else None if whom == "all" else known, between)


def parse_query(
    text: str, sizes: float | Mapping[str, float] = 1.0, selectivity: float | Mapping[str, float] = 1.0
) -> JoinGraph:
    """A query in the papers' notation: relations that share an attribute name are joined by equality on it.

    Selectivities are given per pair of relations, as in {"RS": 0.01}, in the order of the text.

    >>> [edge[:2] for edge in parse_query("R(a), S(a,b), T(b)").edges]
    [(0, 1), (1, 2)]
    """
    found = _RELATION.findall(text)
    if not found or _RELATION.sub("", text).strip():
        raise PlanError(f'"{text}" is no query', hint="write relations with their attributes: R(a), S(a,b), T(b).")
    attributes = {name: frozenset(part.strip() for part in listed.split(",")) - {""} for name, listed in found}
    names = list(attributes)
    edges = tuple(
        (i, j, _given(selectivity, r + names[j]))
        for i, r in enumerate(names)
        for j in range(i + 1, len(names))
        if attributes[r] & attributes[names[j]]
    )
    return JoinGraph(tuple(Base(name, _given(sizes, name), attributes=attributes[name]) for name in names), edges)


def _given(numbers: float | Mapping[str, float], name: str) -> float:
    return numbers[name] if isinstance(numbers, Mapping) else numbers


def pose(
    queries: Mapping[str, JoinGraph],
    *,
    intermediates: bool = True,
    placements: Placements = "many",
    parallelism: int = 1,
    store_cost: float = 0.0,
) -> Posed:
    """The flow problem of some queries; `store_cost` is charged for each row of a kept intermediate result (K-12)."""
    draft = _Draft(parallelism, placements, store_cost)
    shapes = [_Shape(name, graph, draft, intermediates) for name, graph in queries.items()]
    if placements == "one":
        for shape in shapes:
            draft.add_places(shape)
    for shape in shapes:
        draft.add_query(shape)
    return draft.finish()


# ------------------------------------------------------------------------------------------------- queries


class _Shape:
    """A query's connected sets, and which of them can be probed by which."""

    def __init__(self, name: str, graph: JoinGraph, draft: _Draft, intermediates: bool) -> None:
        self.name, self.graph = name, graph
        if not graph.is_connected(graph.all):
            raise PlanError(f'query "{name}" has a cross product', hint="join all relations by predicates (K-35).")
        self.connected = list(graph.connected_subsets())
        self.numbers = {mask: draft.number(graph, mask) for mask in self.connected}
        self.stores = [m for m in self.connected if m.bit_count() == 1 or (intermediates and m != graph.all)]

    def probes(self) -> Iterator[tuple[int, int]]:
        """Connected sets A and the stores M that they can probe."""
        for covered in self.connected:
            near = self.graph.neighbours(covered)
            for store in self.stores:
                if not store & covered and store & near:
                    yield covered, store


@dataclass(slots=True)
class _Draft:
    """A flow problem under way."""

    parallelism: int
    placements: Placements
    store_cost: float
    sets: dict[Joined, int] = field(default_factory=dict)
    sizes: list[float] = field(default_factory=list)
    steps: dict[Id, Step] = field(default_factory=dict)
    arcs: dict[Id, Arc] = field(default_factory=dict)
    kept: dict[Id, Kept] = field(default_factory=dict)
    places: dict[int, dict[str, None]] = field(default_factory=dict)
    """Set -> attributes that its store may lie by."""
    flows: list[Flow] = field(default_factory=list)

    def number(self, graph: JoinGraph, mask: int) -> int:
        """The number of a set; equal sets of two queries have one."""
        relations = sorted(bits(mask), key=lambda i: graph.relations[i].name)
        inside = frozenset(p for i, j, _ in graph.edges if mask >> i & mask >> j & 1 for p in predicates(graph, i, j))
        joined = Joined(tuple(graph.relations[i].name for i in relations), inside)
        found = self.sets.setdefault(joined, len(self.sets))
        if found == len(self.sizes):
            self.sizes.append(graph.size(mask))
        elif not math.isclose(self.sizes[found], graph.size(mask), rel_tol=1e-9):
            raise PlanError(
                f"two queries differ about the size of {'-'.join(joined.relations)}",
                detail=f"it is {self.sizes[found]:g} in one and {graph.size(mask):g} in another.",
            )
        return found

    def add_places(self, shape: _Shape) -> None:
        """Attributes of stores that join with a relation outside (C18)."""
        for mask in shape.stores:
            outside = shape.graph.attributes(shape.graph.all & ~mask)
            common = sorted(shape.graph.attributes(mask) & outside)
            self.places.setdefault(shape.numbers[mask], {}).update(dict.fromkeys(common))

    def add_query(self, shape: _Shape) -> None:
        """All that a query can do, and what it needs."""
        for mask in shape.stores:
            if mask.bit_count() > 1:
                self._keep(shape, mask)
        for covered, store in shape.probes():
            self._probe(shape, covered, store)
        for i, base in enumerate(shape.graph.relations):
            sinks = frozenset([(base.name, shape.numbers[shape.graph.all])])
            self.flows.append(Flow((shape.name, base.name), (base.name, shape.numbers[1 << i]), sinks, shape.name))

    def _keep(self, shape: _Shape, mask: int) -> None:
        number = shape.numbers[mask]
        store = "store", number
        if store in self.kept:
            return
        self.kept[store] = Kept(store, self.store_cost * self.sizes[number])
        for i in bits(mask):
            name = shape.graph.relations[i].name
            sinks = frozenset([(name, number)])
            self.flows.append(Flow((store, name), (name, shape.numbers[1 << i]), sinks, fills=store))

    def _probe(self, shape: _Shape, covered: int, store: int) -> None:
        graph, tail = shape.graph, shape.numbers[covered]
        target, head = shape.numbers[store], shape.numbers[covered | store]
        uses = (("store", target),) if store.bit_count() > 1 else ()
        sent = self.sizes[tail] / covered.bit_count()
        fitting: list[str | None] = [None]
        if self.placements == "one":
            common = graph.attributes(covered) & graph.attributes(store)
            fitting = [attribute for attribute in self.places[target] if attribute in common]
        for i in bits(covered):
            ends = (graph.relations[i].name, tail), (graph.relations[i].name, head)
            self._add(
                ends, target, "one", sent, [uses if a is None else (*uses, ("place", target, a)) for a in fitting]
            )
            if self.placements == "one":
                self._add(ends, target, "all", sent * self.parallelism, [uses])

    def _add(
        self,
        ends: tuple[tuple[str, int], tuple[str, int]],
        target: int,
        whom: str,
        cost: float,
        variants: Sequence[tuple[Id, ...]],
    ) -> None:
        (start, tail), (_, head) = ends
        step = start, tail, target, head, whom
        if step not in self.steps:
            self.steps[step] = Step(step, cost)
            for uses in variants:
                self.arcs[step, uses] = Arc(*ends, step, uses)

    def finish(self) -> Posed:
        """The flow problem."""
        groups = []
        for number, attributes in self.places.items():
            names = tuple(("place", number, attribute) for attribute in attributes)
            self.kept.update((name, Kept(name)) for name in names)
            store = "store", number
            groups.append(AtMostOne(names, store if store in self.kept else None))
        problem = Problem(
            tuple(self.steps.values()),
            tuple(self.arcs.values()),
            tuple(self.flows),
            tuple(self.kept.values()),
            at_most_one=tuple(groups),
        )
        return Posed(problem, tuple(self.sets))


def predicates(graph: JoinGraph, i: int, j: int) -> Iterator[Predicate]:
    """The equalities between two relations; an edge without common attributes is one predicate without a name."""
    one, other = graph.relations[i], graph.relations[j]
    first, second = sorted((one.name, other.name))
    for attribute in sorted(one.attributes & other.attributes) or [""]:
        yield first, attribute, second
