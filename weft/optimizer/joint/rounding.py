"""From values that need not be whole to choices.

The relaxation *likes* a resource as much as its column says.  A choice follows its likings when liked resources seem
cheap while ways are chosen, and kept things that are liked more than not are made beforehand.

Rounding all columns at once does badly: kept things stand and fall with others.  So `dive` fixes a few, relaxes again,
and goes on until the rest is whole.  That is quick, because the solver starts each time from where it was, and once the
kept things are whole little else is left to decide.
"""

from __future__ import annotations

import math
from typing import Literal

from weft.optimizer.joint.highs import Answer, Solver
from weft.optimizer.joint.network import Network
from weft.optimizer.joint.program import Floats, Program
from weft.optimizer.joint.search import begin
from weft.optimizer.joint.state import State

WHOLE = 1e-6
"""Values that differ by less from 0 or 1 are whole."""

Rule = Literal["boldest", "surest"]
"""What a dive fixes next: the largest value, to 1; or the values that are nearest to whole, a quarter of them."""


def follow(network: Network, posed: Program, values: Floats) -> State | None:
    """The choice that follows the likings of some values."""
    likes = likings(network, posed, values)
    weights = [price * (1 - like) for price, like in zip(network.prices, likes, strict=True)]
    keep = [r for r in network.fillers if likes[r] > 0.5]
    return begin(network, weights, keep, _own(network, posed, values))


def read(network: Network, posed: Program, values: Floats) -> State | None:
    """The choice that whole values stand for."""
    weights = list(network.prices)
    for resource, column in posed.resource_columns.items():
        weights[resource] = 0.0 if values[column] > 0.5 else math.inf
    keep = [r for r in network.fillers if weights[r] == 0.0]
    return begin(network, weights, keep, _own(network, posed, values))


def likings(network: Network, posed: Program, values: Floats) -> list[float]:
    """How much each resource is liked, from 0 to 1."""
    likes = [0.0] * len(network.prices)
    for resource, column in posed.resource_columns.items():
        likes[resource] = min(1.0, max(0.0, float(values[column])))
    return likes


def _own(network: Network, posed: Program, values: Floats) -> dict[int, int]:
    return {plan.query: i for i, plan in enumerate(network.own) if values[posed.own_column + i] > 0.5}


# ------------------------------------------------------------------------------------------------ diving


def dive(solver: Solver, posed: Program, relaxed: Answer, rule: Rule, limit: float, deadline: float) -> Floats | None:
    """Whole values near those of the relaxation; None if they cost more than the limit, or time is up."""
    fixed: dict[int, float] = {}
    answer = relaxed
    while answer.values is not None and (chosen := _next(posed, answer.values, rule)):
        fixed |= chosen
        answer = solver.relax(fixed, answer.basis, limit, deadline)
    return answer.values


def _next(posed: Program, values: Floats, rule: Rule) -> dict[int, float]:
    """Columns to fix, with their values."""
    open_ = doubtful(posed, values)
    if rule == "boldest" and open_ and open_[0] >= posed.first_kept:
        return {max(open_, key=lambda column: values[column]): 1.0}
    surest = sorted(open_, key=lambda column: min(values[column], 1 - values[column]))
    return {column: float(values[column] >= 0.5) for column in surest[: -(-len(surest) // 4)]}


def doubtful(posed: Program, values: Floats) -> list[int]:
    """Columns that are not whole: kept things and own plans; where all of these are, steps."""
    for columns in (range(posed.first_kept, posed.whole), range(posed.first_kept)):
        if found := [column for column in columns if WHOLE < values[column] < 1 - WHOLE]:
            return found
    return []
