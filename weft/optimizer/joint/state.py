"""A choice under way: a way for every lane that is needed, and what each resource would add.

The weight of a resource is what using it would add: nothing if something uses it already, its price otherwise, infinity
where it may not be used.  So the best answer of one lane to all others is a shortest way, and `settle` repeats that
until no lane can gain.

What must hold: a resource is counted once for each way and own plan that uses it, and of two things that exclude each
other at most one is used.  After a method that returns False some lane has no way, and the state is to be restored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from weft.optimizer.joint.network import Lane, Network

GAIN = 1e-9
"""Smaller differences, relative to the price of the whole, count as none."""

Way = tuple[int, ...]
"""Arcs of a lane, by position in it."""


def empty(network: Network) -> State:
    """Nothing chosen yet."""
    weights = [math.inf if r in network.fillers else price for r, price in enumerate(network.prices)]
    rival: dict[int, list[int]] = {}
    for group, _ in network.groups:
        for r in group:
            rival.setdefault(r, []).extend(other for other in group if other != r)
    return State(network, [0] * len(weights), weights, [None] * len(network.lanes), {}, set(), rival=rival)


def restore(state: State, before: State) -> None:
    """Make a state what it was before; `before` must not be used any more."""
    for name in ("counts", "weights", "ways", "own", "made", "cost", "banned"):
        setattr(state, name, getattr(before, name))


@dataclass(slots=True)
class State:
    """A choice under way."""

    network: Network
    counts: list[int]
    """Resource -> ways and own plans that use it."""
    weights: list[float]
    """Resource -> what using it would add."""
    ways: list[Way | None]
    """Lane -> its way; None where it is not needed."""
    own: dict[int, int]
    """Query -> its own plan."""
    made: set[int]
    """Kept things that have fillers and are made."""
    cost: float = 0.0
    work: int = 0
    """Arcs looked at so far."""
    rival: dict[int, list[int]] = field(default_factory=dict)
    """Resource -> those that exclude it."""
    banned: frozenset[int] = frozenset()
    """Resources that may not be used for now."""

    # ------------------------------------------------------------------------------------------ counts

    def take(self, resources: Iterable[int]) -> list[int]:
        """Use some resources; returns those that were not used before."""
        new = []
        for r in resources:
            self.counts[r] += 1
            if self.counts[r] == 1:
                new.append(r)
                if r not in self.network.fillers:
                    self.cost += self.network.prices[r]
                    self.weights[r] = 0.0
                    self._exclude_rivals(r)
        return new

    def release(self, resources: Iterable[int]) -> None:
        """Use some resources no more."""
        for r in resources:
            self.counts[r] -= 1
            if self.counts[r] == 0 and r not in self.network.fillers:
                self.cost -= self.network.prices[r]
                self.refresh((r, *self.rival.get(r, ())))

    def refresh(self, resources: Iterable[int]) -> None:
        """Give resources that nothing uses their weight again."""
        for r in resources:
            if r not in self.network.fillers:
                self.weights[r] = self.network.prices[r] if self.is_free(r) and r not in self.banned else math.inf

    def is_free(self, resource: int) -> bool:
        """Whether nothing is used that excludes a resource."""
        return not any(other in self.made or self.counts[other] for other in self.rival.get(resource, ()))

    def _exclude_rivals(self, resource: int) -> None:
        for other in self.rival.get(resource, ()):
            self.weights[other] = math.inf

    def resources(self, lane: int, way: Way) -> list[int]:
        """What a way uses."""
        arcs = self.network.lanes[lane].arcs
        return [r for i in way for r in arcs[i][2]]

    def put(self, lane: int, way: Way | None) -> list[int]:
        """Give a lane another way; returns resources that are used now and were not before."""
        old = self.ways[lane]
        if old is not None:
            self.release(self.resources(lane, old))
        self.ways[lane] = way
        return [] if way is None else self.take(self.resources(lane, way))

    # ------------------------------------------------------------------------------------------- ways

    def shortest(self, lane: int) -> tuple[float, Way]:
        """The cheapest way of a lane at the weights of now."""
        where = self.network.lanes[lane]
        self.work += len(where.arcs)
        length, way = shortest_way(where, self.weights)
        return self._without_rivals(lane, length, way) if self.rival else (length, way)

    def _without_rivals(self, lane: int, length: float, way: Way) -> tuple[float, Way]:
        """The cheapest way that does not use two things of which only one may be made."""
        used = set(self.resources(lane, way))
        clash = [r for r in sorted(used) if used.intersection(self.rival.get(r, ()))][:2]
        found = []
        for r in clash:
            weight, self.weights[r] = self.weights[r], math.inf
            found.append(self.shortest(lane))
            self.weights[r] = weight
        return min(found) if found else (length, way)

    def improve(self, lane: int) -> list[int] | None:
        """Give a lane its best way; None if it has that already, else the resources that are used from now on."""
        old = self.ways[lane]
        if old is None:
            return None
        before = self.cost
        self.put(lane, None)
        length, way = self.shortest(lane)
        if way == old or not self.cost + length < before - GAIN * (1 + before):
            self.put(lane, old)
            return None
        return self.put(lane, way)

    def settle(self, lanes: Iterable[int]) -> None:
        """Improve lanes, and those that what they use has become cheaper for, until none gains."""
        todo = list(dict.fromkeys(lanes))
        waiting = set(todo)
        for lane in todo:
            waiting.discard(lane)
            new = self.improve(lane)
            for other in dict.fromkeys(user for r in new or () for user in self.network.users[r]):
                if other not in waiting and other != lane and self.ways[other] is not None:
                    waiting.add(other)
                    todo.append(other)

    def start(self, lane: int) -> bool:
        """Give a lane its best way; False if it has none."""
        length, way = self.shortest(lane)
        if length < math.inf:
            self.put(lane, way)
        return length < math.inf

    def rebuild(self, lanes: Iterable[int]) -> bool:
        """Choose ways anew, as if none of these lanes had one; lanes that share what is dear only change together."""
        active = [lane for lane in lanes if self.ways[lane] is not None]
        for lane in active:
            self.put(lane, None)
        if not all(map(self.start, active)):
            return False
        self.settle(active)
        return True

    # ------------------------------------------------------------------------------------- kept things

    def make(self, kept: int) -> bool:
        """Make a kept thing and fill it; False if that cannot be done now."""
        self.made.add(kept)
        self.weights[kept] = 0.0
        self._exclude_rivals(kept)
        self.cost += self.network.prices[kept]
        return all(map(self.start, self.network.fillers[kept]))

    def unmake(self, kept: int) -> bool:
        """Give up a kept thing; False if something cannot do without."""
        self.made.discard(kept)
        self.weights[kept] = math.inf
        self.cost -= self.network.prices[kept]
        for lane in self.network.fillers[kept]:
            self.put(lane, None)
        self.refresh(self.rival.get(kept, ()))
        return self.reroute(kept)

    def reroute(self, resource: int) -> bool:
        """Give other ways to all that use a resource; False if one has none."""
        for lane in self.network.users[resource]:
            way = self.ways[lane]
            if way is not None and resource in self.resources(lane, way):
                self.put(lane, None)
                if not self.start(lane):
                    return False
        return self.counts[resource] == 0

    def tidy(self) -> None:
        """Give up what was made and is not used."""
        while unused := [kept for kept in sorted(self.made) if not self.counts[kept]]:
            for kept in unused:
                self.unmake(kept)

    # ---------------------------------------------------------------------------------------- own plans

    def use_own(self, plan: int) -> bool:
        """Give a query its own plan."""
        own = self.network.own[plan]
        for lane in self.network.lanes_of[own.query]:
            self.put(lane, None)
        if any(self.weights[use] == math.inf for use in own.uses):
            return False
        self.own[own.query] = plan
        self.cost += own.cost
        self.take(own.uses)
        return True

    def drop_own(self, query: int) -> bool:
        """Give a query flows instead of its own plan."""
        own = self.network.own[self.own.pop(query)]
        self.cost -= own.cost
        self.release(own.uses)
        return all(map(self.start, self.network.lanes_of[query]))

    # ------------------------------------------------------------------------------------------ copies

    def total(self) -> float:
        """The price of the whole, added up anew."""
        prices, fillers = self.network.prices, self.network.fillers
        used = [prices[r] for r, count in enumerate(self.counts) if count and r not in fillers]
        return math.fsum(
            [*used, *(prices[r] for r in self.made), *(self.network.own[i].cost for i in self.own.values())]
        )

    def copy(self) -> State:
        """A state that can go its own way."""
        return State(
            self.network,
            self.counts[:],
            self.weights[:],
            self.ways[:],
            dict(self.own),
            set(self.made),
            self.cost,
            self.work,
            self.rival,
        )


def shortest_way(lane: Lane, weights: Sequence[float]) -> tuple[float, Way]:
    """The cheapest way of a lane, and its length; no way has infinite length."""
    inf = math.inf
    reached = [inf] * lane.nodes
    reached[0] = 0.0
    came = [-1] * lane.nodes
    for i, (tail, head, resources) in enumerate(lane.arcs):
        length = reached[tail]
        for r in resources:
            length += weights[r]
        if length < reached[head]:
            reached[head] = length
            came[head] = i
    way, node = [], lane.goal
    while node and reached[node] < inf:
        way.append(came[node])
        node = lane.arcs[came[node]][0]
    return reached[lane.goal], tuple(reversed(way))
