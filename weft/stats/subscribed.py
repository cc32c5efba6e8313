"""Whom tuples are for: how many subscriptions their dimensions leave, from samples of streams and of parameters.

For each set of relations whose dimensions a tuple may know on its way, two shares are measured, and stored as those of
predicates, under texts that no predicate has:

    alerts-subscriptions wanted by t, w    of the tuples over t and w, those for which a subscription is left
    alerts-subscriptions left by t, w      of all subscriptions, those that such a tuple leaves, on average

Rows of different relations are put together at random: whether they join is not asked.  So shares over one relation are
exact up to the sample, and those over several take what partners have in common as chance.
A subscription that was not sampled is taken to want nothing of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np
import pyarrow as pa

from weft.expr.evaluate import Functions
from weft.expr.model import Column, columns
from weft.kernels.codes import Bools, Ints
from weft.query.model import Query
from weft.stats.model import Statistics
from weft.stats.side import Side
from weft.topology.dimensions import Boxes, boxes, divide, points
from weft.topology.matching import Dimension

TUPLES = 128
"""Tuples that are compared with all sampled subscriptions."""


def wanted_text(query: Query, aliases: Iterable[str]) -> str:
    """The name of the share of tuples for which a subscription is left."""
    return f"{_whose(query)} wanted by {', '.join(sorted(aliases))}"


def left_text(query: Query, aliases: Iterable[str]) -> str:
    """The name of the share of subscriptions that a tuple leaves."""
    return f"{_whose(query)} left by {', '.join(sorted(aliases))}"


def _whose(query: Query) -> str:
    assert query.subscribers is not None
    return query.subscribers.stream.name


def measure_wanted(
    query: Query,
    sides: Mapping[str, Side],
    parameters: pa.RecordBatch,
    functions: Functions,
    random: np.random.Generator,
) -> Statistics:
    """The shares of a query, from sampled rows of all its aliases and sampled subscriptions."""
    joined = _put_together(query, sides, random)
    known = [dimension for dimension in divide(query)[0] if _is_known(dimension, joined)]
    if not known or not parameters.num_rows or not joined.num_rows:
        return Statistics()
    parts = _compare(known, boxes(parameters, known, functions), *points(joined, known, functions))
    shares: dict[str, float] = {}
    for aliases in _sets(known):
        mine = [left for members, left in parts.items() if {*members} <= {*aliases}]
        if mine:
            left = np.logical_and.reduce(mine)
            shares[wanted_text(query, aliases)] = float(left.any(axis=1).mean())
            shares[left_text(query, aliases)] = float(left.mean())
    return Statistics(predicates=shares)


def _put_together(query: Query, sides: Mapping[str, Side], random: np.random.Generator) -> pa.RecordBatch:
    """Some tuples over all relations, with those columns of joined rows that samples have."""
    count = TUPLES if all(len(side) for side in sides.values()) else 0
    rows = {alias: pa.array(random.integers(0, max(1, len(side)), count)) for alias, side in sides.items()}
    found = {
        output.name: sides[output.expr.alias].batch.column(output.expr.field).take(rows[output.expr.alias])
        for output in query.outputs
        if isinstance(output.expr, Column) and output.expr.field in sides[output.expr.alias].batch.schema.names
    }
    if not found:
        return pa.RecordBatch.from_arrays([], names=[])
    return pa.RecordBatch.from_arrays([*found.values()], names=[*found])


def _is_known(dimension: Dimension, joined: pa.RecordBatch) -> bool:
    return {column.name for column in columns(dimension.value)} <= {*joined.schema.names}


def _sets(known: Sequence[Dimension]) -> list[tuple[str, ...]]:
    """All sets of relations that some dimension is of."""
    every = sorted({alias for dimension in known for alias in dimension.members})
    return [some for size in range(1, len(every) + 1) for some in combinations(every, size)]


def _compare(
    known: Sequence[Dimension], stored: Boxes, codes: Ints, valid: Bools | None
) -> dict[tuple[str, ...], Bools]:
    """Relations of some dimensions -> for each tuple the subscriptions that these leave."""
    found: dict[tuple[str, ...], Bools] = {}
    for place, dimension in enumerate(known):
        least, most, mine = stored.low[:, place].copy(), stored.high[:, place].copy(), codes[:, place, np.newaxis]
        left = (least <= mine) & (mine <= most)
        if valid is not None:
            left = np.where(valid[:, place, np.newaxis], left, stored.free[:, place])
        left &= stored.valid
        before = found.get(dimension.members)
        found[dimension.members] = left if before is None else before & left
    return found
