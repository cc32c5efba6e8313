"""How a flow problem is solved: relax, round, search, and only then prove.

1. The relaxation of the integer program gives a bound, and says which resources it likes.
2. Choices that follow its likings are settled and flipped; the best of them is usually within a percent of the bound.
3. If it is not, the integer program is solved, started from the best so far.

Without time for a solver there is the search alone, started from each query's best by itself.
The best choice found is returned with the best bound known.  Equal problems have equal solutions, unless time runs out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

from weft.errors import PlanError
from weft.optimizer.joint.flows import Arc, Ended, Id, Problem, Solution
from weft.optimizer.joint.highs import Solver
from weft.optimizer.joint.network import Network, number
from weft.optimizer.joint.program import Floats, Program, program, values_of
from weft.optimizer.joint.search import State, begin, flips, starts

EFFORT = 2_000_000
"""Arcs that one search looks at before it stops."""
THRESHOLDS = (0.9, 0.5, 0.2)
"""How much the relaxation must like a kept thing for it to be made beforehand."""
EXACT = 1e-7
"""Gaps up to this are rounding errors."""


def solve(problem: Problem, *, time_limit: float = 2.0, gap: float = 0.01, threads: int = 1, seed: int = 0) -> Solution:
    """The cheapest choice, or one whose price is proven to be within the gap of the cheapest, or the best in time.

    With a time limit of 0 no integer program is made: the choice is searched, and nothing is known about its gap.
    """
    began = time.monotonic()
    network = number(problem)
    if time_limit > 0:
        return _proved(network, began, time_limit, gap, threads, seed)
    return _solution(network, searched(network), None, time.monotonic() - began, "search", 0)


def searched(network: Network) -> State | None:
    """A good choice, found without a solver; None if none was found."""
    found = starts(network, EFFORT)
    for state in found:
        flips(state, _order(network, None), EFFORT // len(found))
    return min(found, key=lambda state: state.cost, default=None)


def _proved(network: Network, began: float, time_limit: float, gap: float, threads: int, seed: int) -> Solution:
    deadline = began + time_limit
    posed = program(network)
    solver = Solver(posed, threads=threads, seed=seed)
    relaxed = solver.relax(deadline - time.monotonic())
    bound = max(0.0, relaxed.bound)
    best = _rounded(network, posed, relaxed.values, bound / (1 - gap), deadline)
    if (best is None or best.cost > bound / (1 - gap)) and time.monotonic() < deadline:
        answer = solver.solve(deadline - time.monotonic(), gap, None if best is None else values_of(posed, best))
        bound = max(bound, answer.bound)
        read = _read(network, posed, answer.values)
        best = min((state for state in (read, best) if state is not None), key=lambda state: state.cost, default=None)
    return _solution(network, best, bound, time.monotonic() - began, _ended(best, bound, gap), posed.variables)


def _ended(best: State | None, bound: float, gap: float) -> Ended:
    missing = (best.cost - bound) / best.cost if best is not None and best.cost > 0 else 0.0
    return "optimal" if missing <= EXACT else "gap" if missing <= gap * (1 + EXACT) else "time limit"


# ------------------------------------------------------------------------------------------------ rounding


def _rounded(network: Network, posed: Program, values: Floats | None, enough: float, deadline: float) -> State | None:
    """The best of some choices that follow the relaxation."""
    if values is None:
        return searched(network)
    likes = _likes(network, posed, values)
    weights = [price * (1 - like) for price, like in zip(network.prices, likes, strict=True)]
    tried = [begin(network, weights, keep) for keep in _keeps(network, likes)]
    best = min((state for state in tried if state is not None), key=lambda state: state.cost, default=None)
    if best is None:
        return searched(network)
    flips(best, _order(network, likes), EFFORT, enough, deadline)
    return best


def _keeps(network: Network, likes: list[float]) -> Iterator[list[int]]:
    """Sets of kept things to begin with, each once."""
    seen: set[tuple[int, ...]] = set()
    for threshold in THRESHOLDS:
        keep = tuple(r for r in network.fillers if likes[r] >= threshold)
        if keep not in seen:
            seen.add(keep)
            yield list(keep)


def _likes(network: Network, posed: Program, values: Floats) -> list[float]:
    likes = [0.0] * len(network.prices)
    for resource, column in posed.resource_columns.items():
        likes[resource] = min(1.0, max(0.0, float(values[column])))
    return likes


def _order(network: Network, likes: list[float] | None) -> list[int]:
    """What to flip: kept things first, those of which the relaxation is least sure in front."""
    doubt = [0.0] * len(network.prices) if likes is None else [min(like, 1 - like) for like in likes]
    shared = [r for r, users in enumerate(network.users) if len(users) > 1 or r in network.fillers]
    kept = sorted((r for r in shared if r >= network.steps), key=lambda r: -doubt[r])
    steps = sorted((r for r in shared if r < network.steps), key=lambda r: -doubt[r])
    return kept + [r for r in steps if likes is None or doubt[r] > EXACT]


def _read(network: Network, posed: Program, values: Floats | None) -> State | None:
    """The choice that whole values stand for."""
    if values is None:
        return None
    weights = list(network.prices)
    for resource, column in posed.resource_columns.items():
        weights[resource] = 0.0 if values[column] > 0.5 else math.inf
    keep = [r for r in network.fillers if weights[r] == 0.0]
    own = {plan.query: i for i, plan in enumerate(network.own) if values[posed.own_column + i] > 0.5}
    return begin(network, weights, keep, own)


# ------------------------------------------------------------------------------------------------ solutions


def _solution(
    network: Network, state: State | None, bound: float | None, seconds: float, ended: Ended, variables: int
) -> Solution:
    if state is None:
        raise PlanError("a flow has no way to any of its sinks", hint="offer an arc, or a plan of its own.")
    problem = network.problem
    ways: dict[Id, tuple[Arc, ...]] = {}
    own = {network.queries[query]: problem.own[network.own[plan].origin] for query, plan in state.own.items()}
    kept = frozenset(one.id for r, one in enumerate(problem.kept, network.steps) if _is_kept(state, r))
    for lane, way in zip(network.lanes, state.ways, strict=True):
        for flow in (problem.flows[i] for i in lane.flows):
            if way is not None and flow.query not in own and (flow.fills is None or flow.fills in kept):
                ways[flow.id] = tuple(problem.arcs[lane.origins[i]] for i in way)
    waves = max([plan.waves for plan in own.values()] + [sum(arc.remote for arc in way) for way in ways.values()] + [0])
    return Solution(ways, kept, own, waves, state.total(), bound, seconds, ended, variables)


def _is_kept(state: State, resource: int) -> bool:
    return resource in state.made or (resource not in state.network.fillers and state.counts[resource] > 0)
