"""From joined tuples to parts of groups, on the worker that made them, before they are sent to the owner of the group.

A part of a group is a row with the keys of the group, its weight and its measures.  Rows that fall into a window of
event time that is closed are late; they are dropped and counted.  For COUNT(DISTINCT x) the values of x travel along:
they tell rows apart until the owner has seen them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from weft.expr.evaluate import Functions, evaluate
from weft.host.batch import Watermarks
from weft.host.groups.measures import to_numbers
from weft.host.hidden import Frame
from weft.host.weights import weight_of
from weft.kernels.codes import group_codes
from weft.query.grouping import START, Closing
from weft.query.model import HASH, TIME, WEIGHT
from weft.topology.measures import Part, parts, travelling_name
from weft.topology.node import Emit, Groups

MICROSECONDS = START


@dataclass(frozen=True)
class Grouped:
    """An aggregate query at work: what its emit makes of tuples."""

    emit: Emit
    groups: Groups

    @staticmethod
    def of(emit: Emit) -> Grouped:
        """For an emit that has groups."""
        assert emit.groups is not None
        return Grouped(emit, emit.groups)

    @cached_property
    def types(self) -> Mapping[str, pa.DataType]:
        """Output of the join -> its type."""
        return {output.name: output.expr.type for output in self.emit.outputs}

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """All numbers of a group."""
        return parts(self.groups.grouping, self.types)

    @cached_property
    def travelling(self) -> Mapping[Part, str]:
        """Number of a group -> the hidden column in which tuples may bring it."""
        exprs = {output.name: output.expr for output in self.emit.outputs}
        return {part: travelling_name(part.number, exprs[part.argument]) for part in self.parts}

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """Arguments whose different values are counted."""
        return tuple(name for name, _ in self.groups.values)

    @cached_property
    def carried(self) -> tuple[str, ...]:
        """Outputs of the join that stay as they are, where groups keep rows: all but the keys."""
        grouping = self.groups.grouping
        return tuple(name for name in self.types if name not in grouping.keys) if grouping.keeps_rows else ()

    def split(self, frame: Frame, functions: Functions, watermarks: Watermarks) -> tuple[Frame, int]:
        """The parts of groups that tuples make, and how many rows came too late for their window."""
        weights = weight_of(frame)
        found = {WEIGHT: pa.array(np.ones(frame.num_rows, dtype=np.int64)) if weights is None else weights}
        brought = {part.name: name for part, name in self.travelling.items() if name in frame.schema.names}
        found |= {name: frame.column(column) for name, column in brought.items()}
        rest = {part.argument for part in self.parts if part.name not in brought}
        wanted = {*self.groups.grouping.keys, *self.arguments, *rest, *self.carried}
        found |= {o.name: evaluate(o.expr, frame, functions) for o in self.emit.outputs if o.name in wanted}
        rows = pa.RecordBatch.from_arrays(list(found.values()), names=list(found))
        late = 0
        if self.groups.grouping.window is not None:
            rows, late = self._windows(rows, watermarks.get(self.groups.clock))
        if self.groups.grouping.closing is not None:
            rows, late = self._open(rows, self.groups.grouping.closing, watermarks.get(self.groups.clock))
        return self._measure(rows), late

    def _measure(self, rows: Frame) -> Frame:
        grouping = self.groups.grouping
        keys = {name: _as_key(rows.column(name)) for name in (*grouping.keys, *self.arguments, *self.carried)}
        made = {name: keys[name] for name in grouping.keys}
        made[HASH] = pa.array(group_codes([*made.values()], rows.num_rows))
        if grouping.window is not None:
            made[TIME] = self._last_moment(made[grouping.window.key])
        if grouping.closing is not None:
            made[TIME] = _last_time(made[grouping.closing.key], grouping.closing)
        made |= keys
        weights = rows.column(WEIGHT)
        made[WEIGHT] = weights
        for part in self.parts:
            is_there = part.name in rows.schema.names
            made[part.name] = (
                rows.column(part.name) if is_there else to_numbers(part.number, rows.column(part.argument), weights)
            )
        return pa.RecordBatch.from_arrays(list(made.values()), names=list(made))

    def _last_moment(self, starts: pa.Array) -> pa.Array:
        """The last microsecond of each window: once the watermark is later, the window is closed."""
        assert self.groups.grouping.window is not None
        return pa.array(_numbers(starts) + self.groups.grouping.window.length - 1)

    def _open(self, rows: Frame, closing: Closing, mark: int | None) -> tuple[Frame, int]:
        """The rows of groups that are not final yet, and how many were."""
        rows = rows.filter(pc.is_valid(rows.column(closing.key)))
        if mark is None:
            return rows, 0
        is_open = pc.greater_equal(_last_time(rows.column(closing.key), closing), mark)
        found = rows.filter(is_open)
        return found, rows.num_rows - found.num_rows

    def _windows(self, rows: Frame, mark: int | None) -> tuple[Frame, int]:
        """The rows once for each of their windows that is not closed, and how many windows were."""
        window = self.groups.grouping.window
        assert window is not None
        rows = rows.filter(pc.is_valid(rows.column(window.key)))
        times = _numbers(rows.column(window.key))
        last = np.floor_divide(times, window.slide) * window.slide
        many = -(-window.length // window.slide)
        starts = (last[:, None] - np.arange(many)[None, :] * window.slide).reshape(-1)
        places = np.repeat(np.arange(rows.num_rows), many)
        inside = starts + window.length > times[places]
        is_open = inside if mark is None else inside & (starts + window.length > mark)
        made = rows.take(pa.array(places[is_open]))
        at = made.schema.get_field_index(window.key)
        key = pa.array(starts[is_open]).cast(MICROSECONDS)
        return made.set_column(at, window.key, key), int(np.count_nonzero(inside) - np.count_nonzero(is_open))


def _numbers(times: pa.Array) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[np.int64] = times.cast(MICROSECONDS).view(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers


def _last_time(times: pa.Array, closing: Closing) -> pa.Array:
    """The last event time at which rows can come to each group."""
    if pt.is_timestamp(times.type):
        steps = times.cast(MICROSECONDS).view(pa.int64())
    else:
        steps = times.view(pa.int32()).cast(pa.int64()) if pt.is_date32(times.type) else times.cast(pa.int64())
    return pc.add(pc.multiply(steps, closing.step), closing.length)


def _as_key(column: pa.Array) -> pa.Array:
    """Values that are equal in SQL with equal bits: -0.0 becomes 0.0, and there is one NaN."""
    if not pt.is_floating(column.type):
        return column
    values = pc.fill_null(column, 0).to_numpy(zero_copy_only=False) + 0.0
    values[np.isnan(values)] = np.nan
    return pa.array(values, column.type, mask=pc.is_null(column).to_numpy(zero_copy_only=False))
