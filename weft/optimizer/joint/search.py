"""Search for a good choice without any solver: every flow its best way given what the others pay for, repeated.

A state is a way for every lane that is needed.  The weight of a resource is what using it would add: nothing if
something uses it already, its price otherwise, infinity where it may not be used.  So the best answer of one lane to
all others is a shortest way, and `settle` repeats that until no lane can gain.

That alone gets stuck where several lanes would have to change together.  So `flips` tries each kept thing both ways,
and each step that lanes could share: it is given away for nothing, or taken away; all lanes settle; and the change
stays only if the whole has become cheaper.

What must hold: the result is a function of the network and the arguments alone.  Work is limited by counted arcs,
never by a clock, except for the deadline that the caller may give.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from weft.optimizer.joint.network import Lane, Network

GAIN = 1e-9
"""Smaller differences, relative to the price of the whole, count as none."""

NO_PLANS: Mapping[int, int] = {}

Way = tuple[int, ...]
"""Arcs of a lane, by position in it."""


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
                    for other in self.rival.get(r, ()):
                        self.weights[other] = math.inf
        return new

    def release(self, resources: Iterable[int]) -> None:
        """Use some resources no more."""
        for r in resources:
            self.counts[r] -= 1
            if self.counts[r] == 0 and r not in self.network.fillers:
                self.cost -= self.network.prices[r]
                self.weights[r] = self.fresh_weight(r)
                for other in self.rival.get(r, ()):
                    if other not in self.network.fillers:
                        self.weights[other] = self.fresh_weight(other)

    def fresh_weight(self, resource: int) -> float:
        """What using a resource that nothing uses would add; not for things that must be filled."""
        excluded = any(self.counts[other] for other in self.rival.get(resource, ()))
        return math.inf if excluded or resource in self.banned else self.network.prices[resource]

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
        self.cost += self.network.prices[kept]
        return all(map(self.start, self.network.fillers[kept]))

    def unmake(self, kept: int) -> bool:
        """Give up a kept thing; False if something cannot do without."""
        self.made.discard(kept)
        self.weights[kept] = math.inf
        self.cost -= self.network.prices[kept]
        for lane in self.network.fillers[kept]:
            self.put(lane, None)
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


# ------------------------------------------------------------------------------------------------- starts


def empty(network: Network) -> State:
    """Nothing chosen yet."""
    weights = [math.inf if r in network.fillers else price for r, price in enumerate(network.prices)]
    rival: dict[int, list[int]] = {}
    for group, _ in network.groups:
        for r in group:
            rival.setdefault(r, []).extend(other for other in group if other != r)
    return State(network, [0] * len(weights), weights, [None] * len(network.lanes), {}, set(), rival=rival)


def begin(
    network: Network,
    weights: Sequence[float] | None = None,
    keep: Iterable[int] = (),
    own: Mapping[int, int] = NO_PLANS,
    queries: Iterable[int] | None = None,
) -> State | None:
    """A first choice: lane after lane its best way; None if none was found.

    `weights` stand for prices while choosing; `keep` are kept things that are made beforehand, and `own` the queries
    that get plans of their own.  Other queries than those in `queries` are left out.
    """
    state = empty(network)
    if weights is not None:
        state.weights = [math.inf if r in network.fillers else weight for r, weight in enumerate(weights)]
    for kept in sorted(keep, key=network.depths.__getitem__):
        _try_to_make(state, kept)
    for query in range(len(network.queries)) if queries is None else queries:
        if not (state.use_own(own[query]) if query in own else _begin_query(state, query)):
            return None
    for r in range(len(network.prices)):
        if not state.counts[r] and r not in network.fillers:
            state.weights[r] = state.fresh_weight(r)
    state.settle(range(len(network.lanes)))
    state.tidy()
    return state


def _try_to_make(state: State, kept: int) -> None:
    before = state.copy()
    if not (_is_free(state, kept) and state.make(kept)):
        restore(state, before)


def _begin_query(state: State, query: int) -> bool:
    """Flows where they exist, else the cheapest own plan."""
    before = state.copy()
    if all(map(state.start, state.network.lanes_of[query])):
        return True
    restore(state, before)
    plans = sorted(state.network.plans_of[query], key=lambda plan: state.network.own[plan].cost)
    return any(state.use_own(plan) for plan in plans)


def starts(network: Network, most: int) -> list[State]:
    """Different first choices: each query by itself; nothing kept; everything kept.

    Where things exclude each other all of these may fail.  Then one of them is preferred after the other.
    """
    free = [0.0 if r >= network.steps else price for r, price in enumerate(network.prices)]
    tried = [separate(network, most), begin(network), begin(network, free, network.fillers)]
    if not any(tried):
        tried = [begin(network, _prefer(network, r), network.fillers) for group, _ in network.groups for r in group]
    return [state for state in tried if state is not None]


def _prefer(network: Network, resource: int) -> list[float]:
    banned = {r for group, _ in network.groups if resource in group for r in group} - {resource}
    return [math.inf if r in banned else price for r, price in enumerate(network.prices)]


def separate(network: Network, most: int) -> State | None:
    """Each query's best by itself, put together: what queries happen to have in common is paid for once.

    None if a query has no plan, or if the plans exclude each other.
    """
    alone = [_alone(network, query, most) for query in range(len(network.queries))]
    found = [state for state in alone if state is not None]
    state = empty(network)
    kept = sorted({kept for one in found for kept in one.made}, key=network.depths.__getitem__)
    if len(found) < len(alone) or not all(_is_free(state, one) and state.make(one) for one in kept):
        return None
    if not all(_add(state, one) for one in found):
        return None
    state.settle(range(len(network.lanes)))
    state.tidy()
    return state


def _add(state: State, alone: State) -> bool:
    """Take over the ways of a query, or its own plan; False if something excludes them."""
    if not all(state.use_own(plan) for plan in alone.own.values()):
        return False
    for lane, way in enumerate(alone.ways):
        if way is not None and state.network.lanes[lane].query >= 0:
            if any(state.weights[r] == math.inf for r in state.resources(lane, way)):
                return False
            state.put(lane, way)
    return True


def _is_free(state: State, kept: int) -> bool:
    return not any(other in state.made or state.counts[other] for other in state.rival.get(kept, ()))


def _alone(network: Network, query: int, most: int) -> State | None:
    state = begin(network, queries=[query]) or begin(network, keep=network.fillers, queries=[query])
    if state is not None:
        flips(state, _within(network, query), most)
    return state


def _within(network: Network, query: int) -> list[int]:
    """Kept things that a query may use, also through others."""
    lanes, found = list(network.lanes_of[query]), set[int]()
    for lane in lanes:
        for r in {r for _, _, used in network.lanes[lane].arcs for r in used if r >= network.steps}:
            if r not in found:
                found.add(r)
                lanes += network.fillers.get(r, ())
    return sorted(found)


def restore(state: State, before: State) -> None:
    """Make a state what it was before; `before` must not be used any more."""
    work, state.banned = state.work, frozenset()
    for name in ("counts", "weights", "ways", "own", "made", "cost"):
        setattr(state, name, getattr(before, name))
    state.work = work


# -------------------------------------------------------------------------------------------------- flips


def flips(state: State, order: Sequence[int], most: int, enough: float = -math.inf, deadline: float = math.inf) -> None:
    """Try own plans and the resources in `order` both ways until nothing gains, or `most` arcs were looked at.

    Stops early when the whole costs no more than `enough`.
    """
    most += state.work
    tried_in_vain, position = 0, 0
    moves = [("own", plan) for plan in range(len(state.network.own))] + [("flip", r) for r in order]
    while moves and tried_in_vain < len(moves):
        if state.cost <= enough or state.work > most or time.monotonic() > deadline:
            return
        kind, what = moves[position]
        gained = _try(state, kind, what)
        tried_in_vain = 0 if gained else tried_in_vain + 1
        position = (position + 1) % len(moves)


def _try(state: State, kind: str, what: int) -> bool:
    before = state.copy()
    done = _switch_own(state, what) if kind == "own" else _flip(state, what)
    if done and state.cost < before.cost - GAIN * (1 + before.cost):
        return True
    restore(state, before)
    return False


def _switch_own(state: State, plan: int) -> bool:
    query = state.network.own[plan].query
    if state.own.get(query) == plan:
        done = state.drop_own(query)
    else:
        done = (query not in state.own or state.drop_own(query)) and state.use_own(plan)
    state.tidy()
    return done


def _flip(state: State, resource: int) -> bool:
    if resource in state.network.fillers:
        return _flip_filled(state, resource)
    if state.counts[resource]:
        return _do_without(state, resource)
    return _take_away(state, state.rival.get(resource, ())) and _give_away(state, resource)


def _flip_filled(state: State, kept: int) -> bool:
    if kept in state.made:
        if not state.unmake(kept):
            return False
    else:
        for other in state.rival.get(kept, ()):
            if other in state.made and not state.unmake(other):
                return False
        if not state.make(kept):
            return False
    if not state.rebuild(state.network.users[kept]):
        return False
    state.tidy()
    return True


def _give_away(state: State, resource: int) -> bool:
    """All lanes settle while a resource costs nothing, and once more when it costs what it does."""
    users = state.network.users[resource]
    state.weights[resource] = 0.0
    if resource < state.network.steps:
        state.settle(users)
    elif not state.rebuild(users):
        return False
    if not state.counts[resource]:
        return False
    _unban(state)
    state.settle(users)
    state.tidy()
    return True


def _take_away(state: State, resources: Sequence[int]) -> bool:
    """Give other ways to all that use some resources, which stay banned."""
    state.banned = frozenset(resources)
    for r in resources:
        state.weights[r] = math.inf
    return all(state.reroute(r) for r in resources if state.counts[r])


def _do_without(state: State, resource: int) -> bool:
    """All lanes settle without a resource, and then may use it again."""
    if not _take_away(state, [resource]):
        return False
    state.settle(state.network.users[resource])
    _unban(state)
    state.settle(state.network.users[resource])
    state.tidy()
    return True


def _unban(state: State) -> None:
    banned, state.banned = state.banned, frozenset()
    for r in banned:
        if not state.counts[r] and r not in state.network.fillers:
            state.weights[r] = state.fresh_weight(r)
