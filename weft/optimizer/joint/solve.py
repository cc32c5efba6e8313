"""How a flow problem is solved: relax, dive, search, and only then prove.

1. The relaxation of the integer program gives a bound, and says which resources it likes.
2. Dives give choices near it; they are settled and flipped.  The best of them is usually within a percent of the bound.
3. If it is not, branching proves it, or finds a better one: HiGHS's own where the program is small, else `branch.py`.

Without time for a solver there is the search alone, started from each query's best by itself.
The best choice found is returned with the best bound known.  Equal problems have equal solutions, unless time runs out.
"""

from __future__ import annotations

import math
import time

from weft.errors import PlanError
from weft.optimizer.joint.branch import EFFORT, Proof
from weft.optimizer.joint.flows import Arc, Ended, Id, Problem, Solution
from weft.optimizer.joint.highs import Answer, Solver
from weft.optimizer.joint.network import Network, number
from weft.optimizer.joint.program import program, values_of
from weft.optimizer.joint.rounding import WHOLE, Rule, dive, likings, read
from weft.optimizer.joint.search import apart, flips, starts
from weft.optimizer.joint.state import State

DIVES: tuple[Rule, ...] = ("boldest", "surest")
LARGE = 20_000
"""Entries of an integer program from which on HiGHS's own branching is slower."""
RELAXING = 0.7
"""The share of the time that the relaxation may take; the rest is for a search if it does not end."""
EXACT = 1e-7
"""Gaps up to this are rounding errors."""


def solve(problem: Problem, *, time_limit: float = 2.0, gap: float = 0.01) -> Solution:
    """The cheapest choice, or one whose price is proven to be within the gap of the cheapest, or the best in time.

    With a time limit of 0 no integer program is made: the choice is searched, and nothing is known about its gap.
    """
    began = time.monotonic()
    network = number(problem)
    if time_limit > 0:
        return _proved(network, began, time_limit, gap)
    return _solution(network, searched(network), None, time.monotonic() - began, "search", 0)


def searched(network: Network, deadline: float = math.inf) -> State | None:
    """A good choice, found without a solver; None if none was found."""
    found = starts(network, EFFORT, deadline)
    for state in found:
        flips(state, _order(network, None), EFFORT // len(found), deadline=deadline)
    return min(found, key=lambda state: state.cost, default=None)


def _proved(network: Network, began: float, time_limit: float, gap: float) -> Solution:
    deadline, posed = began + time_limit, program(network)
    proof = Proof(network, posed, Solver(posed), gap, deadline)
    relaxed = proof.solver.relax({}, None, math.inf, began + time_limit * RELAXING)
    best: State | None = None
    bound: float | None = None
    if relaxed.values is not None:
        proof.order = _order(network, likings(network, posed, relaxed.values))
        best, bound = _improve(proof, relaxed, _rounded(proof, relaxed))
    elif relaxed.bound < math.inf:
        best = searched(network, deadline)
    return _solution(network, best, bound, time.monotonic() - began, _ended(best, bound, gap), posed.variables)


def _improve(proof: Proof, relaxed: Answer, best: State | None) -> tuple[State | None, float]:
    """A choice that is near enough, and the proof of it."""
    if proof.is_near(best, relaxed.bound) or time.monotonic() > proof.deadline:
        return best, relaxed.bound
    if len(proof.posed.columns) > LARGE or proof.network.groups:
        return proof.run(relaxed, best)
    start = None if best is None else values_of(proof.posed, best)
    answer = proof.solver.solve(start, proof.gap, proof.deadline)
    found = None if answer.values is None else read(proof.network, proof.posed, answer.values)
    if found is not None and (best is None or found.cost < best.cost):
        best = found
    return best, max(relaxed.bound, answer.bound)


def _rounded(proof: Proof, relaxed: Answer) -> State | None:
    """The best of some choices near the relaxation; no more are tried once one is near enough.

    It is never dearer than own plans wherever there are any, whatever time is left.
    """
    best = apart(proof.network)
    for rule in DIVES:
        if proof.is_near(best, relaxed.bound) or time.monotonic() > proof.deadline:
            break
        limit = math.inf if best is None else best.cost
        whole = dive(proof.solver, proof.posed, relaxed, rule, limit, proof.deadline)
        if whole is not None:
            best = proof.better(best, whole)
    return best or searched(proof.network, proof.deadline)


def _order(network: Network, likes: list[float] | None) -> list[int]:
    """What to flip: kept things first, those of which the relaxation is least sure in front."""
    doubt = [0.0] * len(network.prices) if likes is None else [min(like, 1 - like) for like in likes]
    shared = [r for r, users in enumerate(network.users) if len(users) > 1 or r in network.fillers]
    kept = sorted((r for r in shared if r >= network.steps), key=lambda r: -doubt[r])
    steps = sorted((r for r in shared if r < network.steps), key=lambda r: -doubt[r])
    return kept + [r for r in steps if likes is None or doubt[r] > WHOLE]


def _ended(best: State | None, bound: float | None, gap: float) -> Ended:
    if bound is None:
        return "time limit"
    missing = (best.cost - bound) / best.cost if best is not None and best.cost > 0 else 0.0
    return "optimal" if missing <= EXACT else "gap" if missing <= gap * (1 + EXACT) else "time limit"


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
