"""Range partitions for a query over two aliases: from a band or inequality predicate to where rows go.

The predicate must bound a column of one alias by a column of the other plus or minus a constant, from one side or
both.  A sample shows where many rows are.  It is never taken as proof that some range is empty, so a bad sample makes
the work uneven, but no answer wrong.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Literal as OneOf

import numpy as np
import pyarrow as pa

from weft.errors import PlanError
from weft.expr.model import Call, Column, Expr, Literal
from weft.kernels.numbers import has_numbers
from weft.optimizer.graph.predicates import limits
from weft.optimizer.ranges.grid import Band, Values
from weft.optimizer.ranges.route import RangePartition, RangeTable, range_partition
from weft.query.model import Query
from weft.stats.model import Statistics
from weft.topology.spread import Regions, Spread

SCHEMES: dict[str, OneOf["m-bucket", "equi-weight"]] = {
    "two-way:m-bucket": "m-bucket",
    "two-way:equi-weight": "equi-weight",
}


@dataclass(frozen=True, slots=True)
class Between:
    """low <= right - left <= high for two columns."""

    left: Column
    right: Column
    band: Band


def find_band(query: Query) -> Between | None:
    """Two columns that range predicates of the query compare, at best from both sides; None if there are none."""
    if len(query.relations) != 2:
        return None
    first, second = query.aliases
    found: dict[tuple[Column, Column], list[tuple[float, bool]]] = {}
    for predicate in query.joins:
        for limit in limits(predicate, frozenset({second})):
            known = _offset(limit.bound.expr)
            if known is not None and isinstance(limit.target, Column) and has_numbers(limit.target.type):
                column, offset = known
                if column.alias == first and column.type == limit.target.type:
                    found.setdefault((column, limit.target), []).append((offset, limit.low))
    if not found:
        return None
    (left, right), bounds = max(found.items(), key=lambda item: len({low for _, low in item[1]}))
    lows, highs = ([o for o, low in bounds if low is side] for side in (True, False))
    if lows and highs and max(lows) > min(highs):
        return None  # nothing matches; any plan will do
    return Between(left, right, Band(max(lows, default=None), min(highs, default=None)))


def _offset(expr: Expr) -> tuple[Column, float] | None:
    """A column plus a constant, in units of `plain_numbers`; strict bounds are taken as closed, which is wider."""
    if isinstance(expr, Column):
        return expr, 0
    if not isinstance(expr, Call) or expr.op not in ("+", "-") or not isinstance(expr.args[1], Literal):
        return None
    inner, amount = _offset(expr.args[0]), _number(expr.args[1])
    if inner is None or amount is None or pa.types.is_floating(expr.type):
        return None  # sums of floats are rounded, and a cut must be exact
    return inner[0], inner[1] + (amount if expr.op == "+" else -amount)


def _has_float_band(query: Query) -> bool:
    """Whether a range predicate compares floats of both aliases, with something added on either side."""
    if len(query.relations) != 2:
        return False
    found = (limit for predicate in query.joins for limit in limits(predicate, frozenset({query.aliases[1]})))
    return any(pa.types.is_floating(limit.target.type) for limit in found)


def _number(literal: Literal) -> int | None:
    if isinstance(literal.value, dt.timedelta):
        return literal.value // dt.timedelta(microseconds=1)
    whole = isinstance(literal.value, int) and not isinstance(literal.value, bool)
    return int(literal.value) if whole else None  # type: ignore[call-overload]


def regions(
    query: Query, statistics: Statistics | None, workers: int, strategy: str, sizes: tuple[float, float]
) -> tuple[RangePartition, dict[int, Spread]]:
    """The partition of a scheme, and where the rows of both aliases go; an error says what is missing."""
    held = find_band(query)
    if held is None:
        if _has_float_band(query):
            raise PlanError(
                f'strategy "{strategy}" does not cut a band over floats',
                detail="sums of floats are rounded, and a cut must be exact, or a result would be missing.",
                hint='use "auto", "flat" or "hypercube:random", which join by any predicate.',
            )
        raise PlanError(
            f'strategy "{strategy}" needs two aliases and a range between their columns',
            detail="no predicate bounds a column of one alias by a column of the other plus or minus a constant.",
            hint='use "auto", "flat" or "hypercube:random" for other joins.',
        )
    samples = [sample(query, column, statistics) for column in (held.left, held.right)]
    if samples[0] is None or samples[1] is None:
        raise PlanError(
            f'strategy "{strategy}" needs to know how {held.left.field} and {held.right.field} are spread',
            hint="call s.analyze() first.",
        )
    kind = SCHEMES[strategy]
    made = range_partition(
        samples[0],
        samples[1],
        held.band,
        workers,
        scheme=kind,
        left_size=sizes[0],
        right_size=sizes[1],
    )
    return made, {1: regions_of(held.left, made.left), 2: regions_of(held.right, made.right)}


def sample(query: Query, column: Column, statistics: Statistics | None) -> Values | None:
    """What is known of the values of a column, as a sample; None if nothing is."""
    if statistics is None:
        return None
    own = statistics.quantiles(column.alias, column.name)
    found = own if own is not None else statistics.quantiles(query.relation(column.alias).stream.name, column.name)
    floating = pa.types.is_floating(column.type)
    if found is None:
        return None
    ends = np.iinfo(np.int64)
    return np.array(found, np.float64) if floating else np.array([min(max(int(v), ends.min), ends.max) for v in found])


def regions_of(column: Column, side: RangeTable) -> Regions:
    """One side of a partition as a host routes it."""
    cuts = zip(side.cuts.values.tolist(), side.cuts.parts.tolist(), strict=True)
    return Regions(column, tuple(cuts), side.workers)
