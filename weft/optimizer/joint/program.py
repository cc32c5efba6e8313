"""The integer program of a network, as plain arrays.

Columns: one per resource that lanes share (y of a step, m of a kept thing), one per own plan (p), one per arc of a lane
(f, which need not be whole: once the others are, the cheapest ways are).  The price of a resource that only one lane
can use stands on its arcs, and it has no column.

Rows, for every lane: what leaves a node is what came to it; what leaves the source is 1 - sum of p for a query, or m of
the kept thing that it fills; and for every shared resource, the arcs that use it carry at most its column.  These rows
are taken together over all arcs of the lane, which is tighter, where no way uses the resource twice.
A query takes one of its own plans, or a way in each of its lanes.  So its own plans that use the resource stand in the
same rows.  That lifts the bound: a hundred queries of three streams are solved without branching, which took hundreds
of nodes before.
Further rows: own plans need what they use; of a group at most one is made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.optimizer.joint.network import Lane, Network
from weft.optimizer.joint.state import State

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
_Plans = dict[int, list[int]]
"""Resource -> columns of the own plans of a query that use it."""


@dataclass(frozen=True, slots=True)
class Program:
    """Minimize costs * x with lower <= rows * x <= upper, 0 <= x, and x <= 1 where x is whole."""

    costs: Floats
    whole: int
    """The first columns are whole numbers: resources, then own plans."""
    starts: Ints
    """Row -> its first entry; and the number of entries."""
    columns: Ints
    values: Floats
    lower: Floats
    upper: Floats
    resource_columns: dict[int, int]
    """Shared resource -> column."""
    first_kept: int
    """Column of the first kept thing; before it are the steps."""
    own_column: int
    """Column of the first own plan."""
    lane_columns: tuple[int, ...]
    """Lane -> column of its first arc."""

    @property
    def variables(self) -> int:
        """How many columns there are."""
        return len(self.costs)


class _Rows:
    """Rows under way."""

    def __init__(self) -> None:
        self.starts = [0]
        self.columns: list[int] = []
        self.values: list[float] = []
        self.lower: list[float] = []
        self.upper: list[float] = []

    def add(self, columns: Sequence[int], values: Sequence[float], lower: float, upper: float) -> None:
        self.columns += columns
        self.values += values
        self.starts.append(len(self.columns))
        self.lower.append(lower)
        self.upper.append(upper)

    def at_most(self, columns: Sequence[int], column: int) -> None:
        """The sum of some columns is at most another."""
        self.add([*columns, column], [1.0] * len(columns) + [-1.0], -np.inf, 0.0)


def program(network: Network) -> Program:
    """The integer program."""
    twice = [_used_twice(lane) for lane in network.lanes]
    shared = {r: column for column, r in enumerate(_shared(network, twice))}
    own = len(shared)
    costs = [network.prices[r] for r in shared] + [plan.cost for plan in network.own]
    whole = len(costs)
    plans = [_plans_by_use(network, query, own) for query in range(len(network.queries))]
    rows, firsts = _Rows(), []
    for lane, more_than_once in zip(network.lanes, twice, strict=True):
        firsts.append(len(costs))
        needing = plans[lane.query] if lane.query >= 0 else {}
        _add_lane(rows, network, lane, len(costs), shared, own, more_than_once, needing)
        costs += [sum(network.prices[r] for r in used if r not in shared) for _, _, used in lane.arcs]
    _add_rest(rows, network, shared, plans)
    return Program(
        np.array(costs, float),
        whole,
        np.array(rows.starts, np.int32),
        np.array(rows.columns, np.int32),
        np.array(rows.values, float),
        np.array(rows.lower, float),
        np.array(rows.upper, float),
        shared,
        sum(r < network.steps for r in shared),
        own,
        tuple(firsts),
    )


def values_of(program: Program, state: State) -> Floats:
    """A choice as values of all columns."""
    x = np.zeros(program.variables)
    for resource, column in program.resource_columns.items():
        x[column] = state.counts[resource] > 0 or resource in state.made
    for plan in state.own.values():
        x[program.own_column + plan] = 1.0
    for first, way in zip(program.lane_columns, state.ways, strict=True):
        for arc in way or ():
            x[first + arc] = 1.0
    return x


# --------------------------------------------------------------------------------------------------- rows


def _shared(network: Network, twice: Sequence[set[int]]) -> list[int]:
    """Resources that need a column: what more than one lane, an own plan or a group decides about."""
    needed = set(network.fillers).union(*twice, *(plan.uses for plan in network.own))
    needed |= {r for group, within in network.groups for r in (*group, within)} - {-1}
    return [r for r, users in enumerate(network.users) if len(users) > 1 or r in needed]


def _used_twice(lane: Lane) -> set[int]:
    """Resources that some way of a lane uses twice."""
    seen = [0] * lane.nodes
    found = 0
    for tail, head, resources in lane.arcs:
        bits = 0
        for r in resources:
            found |= bits & (1 << r)
            bits |= 1 << r
        found |= seen[tail] & bits
        seen[head] |= seen[tail] | bits
    return {r for r in range(found.bit_length()) if found >> r & 1}


def _add_lane(
    rows: _Rows,
    network: Network,
    lane: Lane,
    first: int,
    shared: dict[int, int],
    own: int,
    twice: set[int],
    plans: _Plans,
) -> None:
    out: list[list[int]] = [[] for _ in range(lane.nodes)]
    into: list[list[int]] = [[] for _ in range(lane.nodes)]
    used: dict[tuple[int, int], list[int]] = defaultdict(list)
    for column, (tail, head, resources) in enumerate(lane.arcs, first):
        out[tail].append(column)
        into[head].append(column)
        for r in resources:
            if r in shared:
                used[r, tail if r in twice else -1].append(column)
    if lane.goal:
        _add_source(rows, network, lane, out[0], shared, own)
    for node in range(1, lane.goal):
        rows.add(out[node] + into[node], [1.0] * len(out[node]) + [-1.0] * len(into[node]), 0.0, 0.0)
    for (r, _), columns in used.items():
        rows.at_most(columns + plans.get(r, []), shared[r])


def _add_source(rows: _Rows, network: Network, lane: Lane, out: list[int], shared: dict[int, int], own: int) -> None:
    if lane.fills >= 0:
        rows.add([*out, shared[lane.fills]], [1.0] * len(out) + [-1.0], 0.0, 0.0)
        return
    plans = [own + plan for plan in network.plans_of[lane.query]]
    rows.add(out + plans, [1.0] * (len(out) + len(plans)), 1.0, 1.0)


def _plans_by_use(network: Network, query: int, own: int) -> _Plans:
    found: _Plans = defaultdict(list)
    for i in network.plans_of[query]:
        for r in network.own[i].uses:
            found[r].append(own + i)
    return dict(found)


def _add_rest(rows: _Rows, network: Network, shared: dict[int, int], plans: Sequence[_Plans]) -> None:
    for mine in plans:
        for r, columns in mine.items():
            rows.at_most(columns, shared[r])
    for group, within in network.groups:
        columns = [shared[r] for r in group]
        if within >= 0:
            rows.at_most(columns, shared[within])
        else:
            rows.add(columns, [1.0] * len(columns), 0.0, 1.0)
