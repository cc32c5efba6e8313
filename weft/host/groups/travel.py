"""Measures that travel with tuples: worked out where a row is first met, and multiplied where rows are joined.

A tuple stands for as many joined rows as its weight says.  A measure of it is the sum over these rows of a number of
one member.  So the measure of a joined tuple is that of the side that has it, times the weight of the other side.
Least and greatest values do not depend on how often a row counts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.evaluate import Functions, evaluate
from weft.host.groups.fold import refuse_overflow
from weft.host.groups.measures import to_numbers
from weft.host.hidden import Frame
from weft.host.weights import product, weight_of
from weft.kernels.boxes import Places
from weft.kernels.codes import Ints
from weft.query.model import LATE, MEASURE, WEIGHT
from weft.topology.measures import united_by
from weft.topology.model import Start
from weft.topology.node import Measure


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a join: a frame, and the rows of it that were joined."""

    frame: Frame
    rows: pa.Array

    @property
    def measures(self) -> list[str]:
        """The measures that it brings."""
        return [name for name in self.frame.schema.names if name.startswith(MEASURE)]

    @property
    def weights(self) -> pa.Array | None:
        """How often the rows count; None if once each."""
        return self.take(weights) if (weights := weight_of(self.frame)) is not None else None

    def take(self, column: pa.Array) -> pa.Array:
        """The values of a column of the rows that were joined."""
        return pc.take(column, self.rows, boundscheck=False)


def measured(frame: Frame, start: Start, functions: Functions) -> Frame:
    """Tuples that begin their way, with their measures."""
    if not start.measures:
        return frame
    weights = weight_of(frame)
    counts = _ones(frame.num_rows) if weights is None else weights
    for measure in start.measures:
        numbers = to_numbers(measure.number, evaluate(measure.expr, frame, functions), counts)
        frame = frame.append_column(measure.name, numbers)
    return frame


def join_measures(
    joined: Frame, mine: Side, other: Side, measures: Sequence[Measure], found: Frame, functions: Functions
) -> Frame:
    """Joined tuples with the measures of both sides, and those of the rows that are met here."""
    if not (measures or mine.measures or other.measures):
        return joined
    weights = mine.weights, other.weights
    for name in mine.measures:
        joined = joined.append_column(name, _times(name, mine.take(mine.frame.column(name)), weights[1]))
    for name in other.measures:
        joined = joined.append_column(name, _times(name, other.take(other.frame.column(name)), weights[0]))
    counts = _ones(joined.num_rows) if weights[1] is None else weights[1]
    for measure in measures:
        numbers = to_numbers(measure.number, evaluate(measure.expr, found, functions), counts)
        joined = joined.append_column(measure.name, _times(measure.name, numbers, weights[0]))
    return joined


def can_add_up(rows: Frame) -> bool:
    """Whether what rows carry can be added up as differences of prefix sums: whole numbers, and nothing else."""
    names = [name for name in rows.schema.names if name.startswith(MEASURE)]
    exact = all(united_by(name) == "sum" and pa.types.is_integer(rows.schema.field(name).type) for name in names)
    return exact and not any(name.startswith(LATE) for name in rows.schema.names)


def measured_rows(rows: Frame, label: str, measures: Sequence[Measure], functions: Functions) -> Frame | None:
    """Rows of a relation with their measures; None if these are not whole numbers that can be added up."""
    named = pa.RecordBatch.from_arrays(rows.columns, names=[f"{label}.{name}" for name in rows.schema.names])
    weights = weight_of(rows)
    counts = _ones(rows.num_rows) if weights is None else weights
    for measure in measures:
        if united_by(measure.name) != "sum" or measure.number in ("float", "finite"):
            return None
        numbers = to_numbers(measure.number, evaluate(measure.expr, named, functions), counts)
        rows = rows.append_column(measure.name, numbers)
    return rows


def add_up_rows(met: Frame, rows: Frame, order: Places, begin: Ints, end: Ints) -> Frame:
    """Tuples joined with runs of rows, which are neighbours in some order: each run counts as one row."""
    counts = _sums(weight_of(rows), order, begin, end)
    own = weight_of(met)
    made = met.select([name for name in met.schema.names if not name.startswith(MEASURE) and name != WEIGHT])
    made = made.append_column(WEIGHT, counts if own is None else product(own, counts))
    for name in (name for name in met.schema.names if name.startswith(MEASURE)):
        made = made.append_column(name, _times(name, met.column(name), counts))
    for name in (name for name in rows.schema.names if name.startswith(MEASURE)):
        made = made.append_column(name, _times(name, _sums(rows.column(name), order, begin, end), own))
    return made


def _sums(column: pa.Array | None, order: Places, begin: Ints, end: Ints) -> pa.Array:
    """The sum of a column over each run of rows; of ones if there is none."""
    if column is None:
        return pa.array(end - begin)
    refuse_overflow(column)
    values = column.to_numpy(zero_copy_only=False)[order]
    before = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
    return pa.array(before[end] - before[begin])


def without_measures(frame: Frame, wanted: Collection[str]) -> Frame:
    """The frame without measures that nobody wants any more."""
    names = frame.schema.names
    kept = [name for name in names if not name.startswith(MEASURE) or name in wanted]
    return frame if len(kept) == len(names) else frame.select(kept)


def _times(name: str, numbers: pa.Array, weights: pa.Array | None) -> pa.Array:
    if weights is None or united_by(name) != "sum":
        return numbers
    return product(numbers, weights)


def _ones(count: int) -> pa.Array:
    return pa.array(np.ones(count, dtype=np.int64))
