"""The problem that is solved when many queries are planned together, and its solution, as plain data.

A *flow* is one way from a source to a sink in a graph without cycles.  Every way that a tuple takes to the results of a
query is a flow, and so is every way that fills an intermediate store.  What flows have in common is paid for once:

    Step    is done once however many flows take it
    Kept    is made if anything uses it: an intermediate store, or a copy of a store at another place.  If it has
            flows that fill it, all of them are needed as soon as it is made
    Own     a plan of its own for a query, instead of all flows of that query

The price of a solution is the sum over the steps taken, the things kept and the own plans used, plus `wave_price` for
every wave: there are as many waves as the longest flow has remote arcs.

What must hold: arcs form no cycle; what fills a kept thing does not use it, not even through others.  Then choosing is
all there is: any choice of one way per needed flow is a plan.  (CLASH, 002 section V, over sets instead of orders.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from weft.errors import PlanError

Id = Any
"""Steps, kept things, nodes, flows and queries are named by any hashable values."""

Ended = Literal["optimal", "gap", "time limit", "search"]
"""Proven best; within the gap asked for; out of time; or searched without a proof."""


@dataclass(frozen=True, slots=True)
class Step:
    """Work that is done once however many flows take it."""

    id: Id
    cost: float


@dataclass(frozen=True, slots=True)
class Kept:
    """Something that is made if anything uses it."""

    id: Id
    cost: float = 0.0
    """The charge for keeping it; what fills it is paid for by flows."""


@dataclass(frozen=True, slots=True)
class Arc:
    """A way from one node to another."""

    tail: Id
    head: Id
    step: Id | None = None
    """The step it takes; None costs nothing."""
    uses: tuple[Id, ...] = ()
    """All of these must be kept."""
    remote: bool = False
    """Whether tuples travel to other workers, which takes a wave."""


@dataclass(frozen=True, slots=True)
class Flow:
    """One unit from a source to any of some sinks."""

    id: Id
    source: Id
    sinks: frozenset[Id]
    query: Id | None = None
    """The query that needs it, unless it has a plan of its own; or"""
    fills: Id | None = None
    """the kept thing that needs it if it is made."""

    def __post_init__(self) -> None:
        if (self.query is None) == (self.fills is None):
            raise PlanError(f"flow {self.id!r} serves a query or fills something kept, one of both")


@dataclass(frozen=True, slots=True)
class Own:
    """A plan of its own for a query; a query may be offered several."""

    query: Id
    cost: float
    uses: tuple[Id, ...] = ()
    """What must be kept for it."""
    waves: int = 0


@dataclass(frozen=True, slots=True)
class AtMostOne:
    """Of some kept things at most one is made, as of the places of a store that has one."""

    kept: tuple[Id, ...]
    within: Id | None = None
    """They are made only if this is."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What there is to choose from."""

    steps: tuple[Step, ...]
    arcs: tuple[Arc, ...]
    flows: tuple[Flow, ...]
    kept: tuple[Kept, ...] = ()
    own: tuple[Own, ...] = ()
    at_most_one: tuple[AtMostOne, ...] = ()
    wave_price: float = 0.0

    def __post_init__(self) -> None:
        steps, kept = _prices("step", self.steps), _prices("kept thing", self.kept)
        queries = {flow.query for flow in self.flows if flow.query is not None}
        _known("flow", (flow.id for flow in self.flows))
        _need("step", steps, (arc.step for arc in self.arcs if arc.step is not None))
        _need("kept thing", kept, (use for arc in self.arcs for use in arc.uses))
        _need("kept thing", kept, (use for own in self.own for use in own.uses))
        _need("kept thing", kept, (flow.fills for flow in self.flows if flow.fills is not None))
        _need("kept thing", kept, (one for group in self.at_most_one for one in group.kept))
        _need("kept thing", kept, (group.within for group in self.at_most_one if group.within is not None))
        _need("query", queries, (own.query for own in self.own))
        for what, cost in (*(("an own plan", own.cost) for own in self.own), ("a wave", self.wave_price)):
            _check_cost(what, cost)


@dataclass(frozen=True, slots=True)
class Solution:
    """A choice, with what is known about how good it is."""

    ways: Mapping[Id, tuple[Arc, ...]]
    """Flow -> its arcs in order; flows that are not needed are left out."""
    kept: frozenset[Id]
    own: Mapping[Id, Own]
    """Queries with a plan of their own."""
    waves: int
    cost: float
    bound: float | None
    """No choice is cheaper; None if nothing was proven."""
    seconds: float
    ended: Ended
    variables: int = 0
    """Of the integer program; 0 if none was made."""

    @property
    def gap(self) -> float | None:
        """By how much of its cost it may miss the best."""
        if self.bound is None:
            return None
        return max(0.0, self.cost - self.bound) / self.cost if self.cost > 0 else 0.0


def price(problem: Problem, solution: Solution) -> float:
    """What a solution costs, counted from nothing but its choices."""
    steps = {step.id: step.cost for step in problem.steps}
    kept = {kept.id: kept.cost for kept in problem.kept}
    taken = {arc.step for way in solution.ways.values() for arc in way if arc.step is not None}
    work = math.fsum(steps[step] for step in taken) + math.fsum(kept[one] for one in solution.kept)
    return work + math.fsum(own.cost for own in solution.own.values()) + problem.wave_price * solution.waves


# -------------------------------------------------------------------------------------------------- checks


def _prices(kind: str, priced: tuple[Step, ...] | tuple[Kept, ...]) -> set[Id]:
    for one in priced:
        _check_cost(f"{kind} {one.id!r}", one.cost)
    return _known(kind, (one.id for one in priced))


def _known(kind: str, ids: Iterable[Id]) -> set[Id]:
    known: set[Id] = set()
    for one in ids:
        if one in known:
            raise PlanError(f"{kind} {one!r} is there twice")
        known.add(one)
    return known


def _need(kind: str, known: set[Id], ids: Iterable[Id]) -> None:
    for one in ids:
        if one not in known:
            raise PlanError(f"no {kind} {one!r}", detail=f"there are {len(known)} of them.")


def _check_cost(what: str, cost: float) -> None:
    if not (math.isfinite(cost) and cost >= 0):
        raise PlanError(f"{what} costs {cost!r}", detail="a cost is a number >= 0.")
