"""Search for a good choice without any solver: every flow its best way given what the others pay for, repeated.

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

from weft.optimizer.joint.network import Network
from weft.optimizer.joint.state import GAIN, State, empty, restore

NO_PLANS: Mapping[int, int] = {}


# ------------------------------------------------------------------------------------------------- starts


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
    state.refresh(r for r, count in enumerate(state.counts) if not count)
    state.settle(range(len(network.lanes)))
    state.tidy()
    return state


def _try_to_make(state: State, kept: int) -> None:
    before = state.copy()
    if not (state.is_free(kept) and state.make(kept)):
        restore(state, before)


def _begin_query(state: State, query: int) -> bool:
    """Flows where they exist, else the cheapest own plan."""
    before = state.copy()
    if all(map(state.start, state.network.lanes_of[query])):
        return True
    restore(state, before)
    plans = sorted(state.network.plans_of[query], key=lambda plan: state.network.own[plan].cost)
    return any(state.use_own(plan) for plan in plans)


def starts(network: Network, most: int, deadline: float = math.inf) -> list[State]:
    """Different first choices: each query by itself; nothing kept; everything kept; own plans wherever there are any.

    Where things exclude each other all of these may fail.  Then one of them is preferred after the other.
    """
    free = [0.0 if r >= network.steps else price for r, price in enumerate(network.prices)]
    tried = [separate(network, most, deadline), begin(network), begin(network, free, network.fillers), apart(network)]
    if not any(tried):
        tried = [_prefer(network, resource) for group, _ in network.groups for resource in group]
    return [state for state in tried if state is not None]


def apart(network: Network) -> State | None:
    """Own plans wherever there are any, the cheapest of each query; None if there are none at all."""
    cheapest = {q: min(plans, key=lambda i: network.own[i].cost) for q, plans in enumerate(network.plans_of) if plans}
    return begin(network, own=cheapest) if cheapest else None


def _prefer(network: Network, resource: int) -> State | None:
    """A first choice without all that excludes a resource."""
    banned = {r for group, _ in network.groups if resource in group for r in group} - {resource}
    weights = [math.inf if r in banned else price for r, price in enumerate(network.prices)]
    return begin(network, weights, [kept for kept in network.fillers if kept not in banned])


def separate(network: Network, most: int, deadline: float) -> State | None:
    """Each query's best by itself, put together: what queries happen to have in common is paid for once.

    None if a query has no plan, or if the plans exclude each other.
    """
    alone = [_alone(network, query, most, deadline) for query in range(len(network.queries))]
    found = [state for state in alone if state is not None]
    state = empty(network)
    kept = sorted({kept for one in found for kept in one.made}, key=network.depths.__getitem__)
    if len(found) < len(alone) or not all(state.is_free(one) and state.make(one) for one in kept):
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


def _alone(network: Network, query: int, most: int, deadline: float) -> State | None:
    state = begin(network, queries=[query]) or begin(network, keep=network.fillers, queries=[query])
    if state is not None:
        flips(state, _within(network, query), most, deadline=deadline)
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


# -------------------------------------------------------------------------------------------------- flips


def flips(state: State, order: Sequence[int], most: int, deadline: float = math.inf) -> None:
    """Try own plans and the resources in `order` both ways until nothing gains, or `most` arcs were looked at."""
    most += state.work
    tried_in_vain, position = 0, 0
    moves = [("own", plan) for plan in _offered(state)] + [("flip", r) for r in order]
    while moves and tried_in_vain < len(moves):
        if state.work > most or time.monotonic() > deadline:
            return
        kind, what = moves[position]
        gained = _try(state, kind, what)
        tried_in_vain = 0 if gained else tried_in_vain + 1
        position = (position + 1) % len(moves)


def _offered(state: State) -> list[int]:
    """Own plans of the queries that the state is about."""
    network = state.network
    about = {q for q, lanes in enumerate(network.lanes_of) if any(state.ways[lane] is not None for lane in lanes)}
    return [i for i, plan in enumerate(network.own) if plan.query in about | state.own.keys()]


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
    if resource in state.made:
        return state.unmake(resource) and _rebuild(state, resource)
    if state.counts[resource]:
        return _do_without(state, resource)
    if not _exclude(state, resource):
        return False
    if resource in state.network.fillers:
        return state.make(resource) and _rebuild(state, resource)
    return _give_away(state, resource)


def _exclude(state: State, resource: int) -> bool:
    """Do without all that excludes a resource."""
    rivals = state.rival.get(resource, ())
    if not all(state.unmake(other) for other in rivals if other in state.made):
        return False
    return _take_away(state, [other for other in rivals if other not in state.network.fillers])


def _rebuild(state: State, kept: int) -> bool:
    _unban(state)
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
    state.refresh(r for r in banned if not state.counts[r])
