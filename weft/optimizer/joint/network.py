"""A flow problem in numbers: what the search and the integer program both work on.

Steps, kept things and waves become *resources*: first all steps, then all kept things, then the waves.  A resource has
a price and is paid for once.  A *lane* is what a flow can take: the arcs between its source and its sinks, with nodes
numbered so that arcs lead from smaller to larger ones, the source 0, all sinks together the last.

A wave is a resource too: where waves have a price, a node is split by the remote arcs taken to it, and an arc that ends
a flow after h of them uses the waves 1 to h.  So neither the search nor the program needs to know about waves.

Flows from one source to the same sinks need the same tuples.  If one of them is needed in any case, the others take
its way for nothing: they share its lane.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from weft.errors import PlanError
from weft.optimizer.joint.flows import Arc, Flow, Id, Problem


@dataclass(frozen=True, slots=True)
class Lane:
    """What a flow, or some flows together, can take."""

    flows: tuple[int, ...]
    """Flows by position in the problem."""
    arcs: tuple[tuple[int, int, tuple[int, ...]], ...]
    """Tail, head and resources, ordered by tail."""
    origins: tuple[int, ...]
    """Each arc's position in the problem."""
    nodes: int
    query: int
    """The query that needs it; -1: something kept does."""
    fills: int
    """The resource that needs it; -1: a query does."""

    @property
    def goal(self) -> int:
        """Where it ends."""
        return self.nodes - 1


@dataclass(frozen=True, slots=True)
class OwnPlan:
    """A query's own plan, by numbers."""

    query: int
    cost: float
    uses: tuple[int, ...]
    origin: int


@dataclass(frozen=True, slots=True)
class Network:
    """A flow problem in numbers."""

    problem: Problem
    prices: tuple[float, ...]
    steps: int
    """Resources below this are steps."""
    lanes: tuple[Lane, ...]
    own: tuple[OwnPlan, ...]
    queries: tuple[Id, ...]
    groups: tuple[tuple[tuple[int, ...], int], ...]
    """Resources of which at most one is used, and the one they depend on or -1."""
    fillers: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Kept resource -> lanes that fill it; those without are left out."""
    users: tuple[tuple[int, ...], ...] = ()
    """Resource -> lanes that may use it."""

    lanes_of: tuple[tuple[int, ...], ...] = ()
    """Query -> its lanes."""
    plans_of: tuple[tuple[int, ...], ...] = ()
    """Query -> its own plans."""
    depths: dict[int, int] = field(default_factory=dict)
    """Kept resource with fillers -> how many others may have to be made before it."""


def number(problem: Problem) -> Network:
    """The problem in numbers."""
    kept = {one.id: len(problem.steps) + i for i, one in enumerate(problem.kept)}
    queries = {query: i for i, query in enumerate(dict.fromkeys(f.query for f in problem.flows if f.fills is None))}
    graph = _Graph(problem, kept)
    lanes = tuple(_lanes(problem, graph, kept, queries))
    waves = 0 if problem.wave_price == 0 else max([graph.waves, *(own.waves for own in problem.own)])
    prices = (*(s.cost for s in problem.steps), *(k.cost for k in problem.kept), *[problem.wave_price] * waves)
    groups = tuple(
        (tuple(kept[one] for one in group.kept), -1 if group.within is None else kept[group.within])
        for group in problem.at_most_one
    )
    own = tuple(
        OwnPlan(queries[o.query], o.cost, (*(kept[use] for use in o.uses), *graph.wave_resources(o.waves)), i)
        for i, o in enumerate(problem.own)
    )
    return Network(
        problem,
        prices,
        len(problem.steps),
        lanes,
        own,
        tuple(queries),
        groups,
        fillers=_fillers(lanes),
        users=_users(lanes, len(prices)),
        lanes_of=_by_query([lane.query for lane in lanes], len(queries)),
        plans_of=_by_query([plan.query for plan in own], len(queries)),
        depths=_depths(lanes, kept, problem),
    )


# --------------------------------------------------------------------------------------------------- lanes


class _Graph:
    """The arcs by the numbers of their ends; nodes are numbered so that arcs lead to larger ones."""

    def __init__(self, problem: Problem, kept: dict[Id, int]) -> None:
        self.rank = _ranks(problem.arcs)
        self.into: dict[int, list[int]] = defaultdict(list)
        self.out_of: dict[int, list[int]] = defaultdict(list)
        self.ends: list[tuple[int, int]] = []
        steps = {step.id: i for i, step in enumerate(problem.steps)}
        for i, arc in enumerate(problem.arcs):
            tail, head = self.rank[arc.tail], self.rank[arc.head]
            self.ends.append((tail, head))
            self.into[head].append(i)
            self.out_of[tail].append(i)
        self.resources = [
            (*(() if arc.step is None else (steps[arc.step],)), *(kept[use] for use in arc.uses))
            for arc in problem.arcs
        ]
        self.counted = problem.wave_price > 0
        self.remote = [arc.remote and self.counted for arc in problem.arcs]
        self.first_wave = len(problem.steps) + len(problem.kept)
        self.waves = 0

    def wave_resources(self, count: int) -> tuple[int, ...]:
        """The waves 1 to `count`."""
        return tuple(range(self.first_wave, self.first_wave + count)) if self.counted else ()

    def between(self, flow: Flow, banned: int) -> list[int]:
        """Arcs on ways from the source of a flow to its sinks, without those that use `banned`; tails in order."""
        sinks = {self.rank[sink] for sink in flow.sinks if sink in self.rank}
        source = self.rank.get(flow.source, -1)
        if source in sinks:
            return []
        back = self._reaching(sinks, source)
        found, reached = [], {source}
        for node in sorted(back):
            if node not in reached or node in sinks:
                continue
            for arc in self.out_of[node]:
                if self.ends[arc][1] in back and banned not in self.resources[arc]:
                    found.append(arc)
                    reached.add(self.ends[arc][1])
        return found

    def _reaching(self, sinks: set[int], source: int) -> set[int]:
        seen, todo = set(sinks), list(sinks)
        while todo:
            for arc in self.into[todo.pop()]:
                tail = self.ends[arc][0]
                if tail >= source and tail not in seen:
                    seen.add(tail)
                    todo.append(tail)
        return seen


def _lanes(problem: Problem, graph: _Graph, kept: dict[Id, int], queries: dict[Id, int]) -> Iterable[Lane]:
    """Flows that are needed in any case first; the others join them where they can."""
    optional = {own.query for own in problem.own}
    drafts: list[tuple[list[int], list[int], int, int]] = []
    needed: dict[tuple[Id, frozenset[Id]], tuple[list[int], set[int]]] = {}
    for i in sorted(range(len(problem.flows)), key=lambda i: _is_optional(problem.flows[i], optional)):
        flow = problem.flows[i]
        query = -1 if flow.query is None else queries[flow.query]
        fills = -1 if flow.fills is None else kept[flow.fills]
        members, used = needed.get((flow.source, flow.sinks), ([], set()))
        if members and fills not in used:
            members.append(i)
            continue
        arcs = graph.between(flow, fills)
        drafts.append(([i], arcs, query, fills))
        if not _is_optional(flow, optional):
            needed[flow.source, flow.sinks] = drafts[-1][0], {r for arc in arcs for r in graph.resources[arc]}
    for members, arcs, query, fills in drafts:
        yield _lane(problem, graph, members, arcs, query, fills)


def _is_optional(flow: Flow, queries: set[Id]) -> bool:
    return flow.fills is not None or flow.query in queries


def _lane(problem: Problem, graph: _Graph, members: list[int], arcs: list[int], query: int, fills: int) -> Lane:
    flow = problem.flows[members[0]]
    sinks = {graph.rank[sink] for sink in flow.sinks if sink in graph.rank}
    there = flow.source in flow.sinks
    split = _split_by_waves(graph, graph.rank.get(flow.source, -1), arcs, sinks)
    names = {name: i for i, name in enumerate(sorted({(graph.rank.get(flow.source, -1), 0), *(s[0] for s in split)}))}
    goal = 0 if there else len(names)
    numbered = tuple(
        (names[tail], goal if head is None else names[head], resources) for tail, head, resources, _ in split
    )
    return Lane(tuple(members), numbered, tuple(s[3] for s in split), goal + 1, query, fills)


_Split = tuple[tuple[int, int], tuple[int, int] | None, tuple[int, ...], int]
"""Tail and head as (node, remote arcs so far), None for the goal; resources; the arc."""


def _split_by_waves(graph: _Graph, source: int, arcs: list[int], sinks: set[int]) -> list[_Split]:
    reached: dict[int, set[int]] = {source: {0}}
    found: list[_Split] = []
    for arc in arcs:
        tail, head = graph.ends[arc]
        for before in sorted(reached.get(tail, ())):
            after = before + graph.remote[arc]
            if head in sinks:
                graph.waves = max(graph.waves, after)
                found.append(((tail, before), None, (*graph.resources[arc], *graph.wave_resources(after)), arc))
            else:
                reached.setdefault(head, set()).add(after)
                found.append(((tail, before), (head, after), graph.resources[arc], arc))
    return sorted(found, key=lambda split: split[0]) if graph.counted else found


def _ranks(arcs: Sequence[Arc]) -> dict[Id, int]:
    """A number for each node, such that every arc leads to a larger one."""
    after: dict[Id, list[Id]] = {}
    waits: dict[Id, int] = {}
    for arc in arcs:
        after.setdefault(arc.tail, []).append(arc.head)
        after.setdefault(arc.head, [])
        waits[arc.head] = waits.get(arc.head, 0) + 1
    ready = [node for node in after if node not in waits]
    for node in ready:
        for head in after[node]:
            waits[head] -= 1
            if not waits[head]:
                ready.append(head)
    if len(ready) < len(after):
        raise PlanError("arcs of a flow problem form a cycle", detail=f"{len(after) - len(ready)} nodes are on it.")
    return {node: i for i, node in enumerate(ready)}


# ------------------------------------------------------------------------------------------------- indexes


def _fillers(lanes: Sequence[Lane]) -> dict[int, tuple[int, ...]]:
    found: dict[int, list[int]] = defaultdict(list)
    for i, lane in enumerate(lanes):
        if lane.fills >= 0:
            found[lane.fills].append(i)
    return {kept: tuple(fillers) for kept, fillers in found.items()}


def _users(lanes: Sequence[Lane], resources: int) -> tuple[tuple[int, ...], ...]:
    found: list[list[int]] = [[] for _ in range(resources)]
    for i, lane in enumerate(lanes):
        for resource in {resource for _, _, used in lane.arcs for resource in used}:
            found[resource].append(i)
    return tuple(map(tuple, found))


def _by_query(owners: Sequence[int], queries: int) -> tuple[tuple[int, ...], ...]:
    found: list[list[int]] = [[] for _ in range(queries)]
    for i, query in enumerate(owners):
        if query >= 0:
            found[query].append(i)
    return tuple(map(tuple, found))


def _depths(lanes: Sequence[Lane], kept: dict[Id, int], problem: Problem) -> dict[int, int]:
    """How deep kept things rest on others; what fills one must not need it through others."""
    needs: dict[int, set[int]] = defaultdict(set)
    for lane in lanes:
        used = {resource for _, _, resources in lane.arcs for resource in resources}
        for flow in lane.flows:
            if (fills := problem.flows[flow].fills) is not None:
                needs[kept[fills]] |= used
    depths: dict[int, int] = {}
    while ready := [r for r, need in needs.items() if r not in depths and (need & needs.keys()) <= depths.keys()]:
        depths |= dict.fromkeys(ready, max(depths.values(), default=-1) + 1)
    if stuck := [r for r in needs if r not in depths]:
        name = problem.kept[stuck[0] - len(problem.steps)].id
        raise PlanError(f"what fills {name!r} may need {name!r}", detail=f"{len(stuck)} kept things need each other.")
    return depths
