"""The view of an aggregate query on the worker that owns some of its groups.

After a batch, the view has one row for every group that passes HAVING.  A batch brings parts of groups.  They are
appended to the counted store.  What the store already has of the same groups is added to them, which gives the new rows
of the groups that have changed.  Rows of the store that have the same hash by chance belong to other groups; they are
told apart by their keys.

What must hold: the parts of a batch are appended once, in one wave.  The changes of a batch say, for every group whose
parts came, whether its row is new, other than before, or gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.evaluate import Functions, evaluate
from weft.host.batch import State
from weft.host.groups.fold import fold, too_large, unite
from weft.host.groups.groups import Grouped
from weft.host.groups.measures import blank_measure, to_value
from weft.host.hidden import Frame, cut
from weft.host.state.segment import Segment, SegmentRef
from weft.kernels.codes import Ints, group_codes
from weft.kernels.index import probe
from weft.query.grouping import value_field
from weft.topology.measures import Part
from weft.topology.model import HASH, MEASURE, PAIR, TIME, WEIGHT, Emit, Store, Topology

WAS = "#was"
"""How often a group counted before."""
CHUNK = 1 << 20


@dataclass(frozen=True)
class View:
    """The groups of a query that a worker owns."""

    grouped: Grouped
    store: Store
    functions: Functions

    # ------------------------------------------------------------------------------------------ changes

    def changes(self, parts: Frame, segments: Sequence[Segment]) -> Frame:
        """The rows of the view that the parts of a batch change, given what earlier batches have."""
        before = Known.of(parts, HASH, self.store, segments)
        now = add_up(before, parts)
        shown, was = self._in_view(now), self._was_in_view(now, before, parts)
        ops = pc.if_else(shown, pc.if_else(was, "update", "insert"), pc.if_else(was, "delete", None))
        wanted = pc.is_valid(ops)
        if self.grouped.groups.grouping.is_distinct:
            wanted = pc.equal(ops, "insert")
        return self.rows(now.filter(wanted), ops.filter(wanted))

    def deltas(self, parts: Frame, segments: Sequence[Segment]) -> Frame:
        """The same as rows with weights: what a group showed before is taken back, what it shows now is added."""
        before = Known.of(parts, HASH, self.store, segments)
        now, old = add_up(before, parts), add_up(before, self._blank(parts))
        shown, was = self._in_view(now), self._was_in_view(now, before, parts)
        added, gone = self._outputs(now), self._outputs(old)
        same = pa.array(_same_keys(gone, added))
        changed = pc.invert(pc.and_(same, pc.and_(shown, was)))
        rows = ((gone, pc.and_(was, changed), -1), (added, pc.and_(shown, changed), 1))
        return pa.concat_batches([_weighted(found.filter(mask), weight) for found, mask, weight in rows])

    def _outputs(self, groups: Frame) -> Frame:
        finished, outputs = self.finish(groups), self.grouped.groups.grouping.outputs
        arrays = [evaluate(output.expr, finished, self.functions) for output in outputs]
        return pa.RecordBatch.from_arrays(arrays, names=[output.name for output in outputs])

    def _blank(self, parts: Frame) -> Frame:
        """Parts of the same groups that count nothing."""
        return blank(self.grouped, parts.select([name for name in parts.schema.names if name in self.store.columns]))

    def _was_in_view(self, now: Frame, before: Sequence[Known], parts: Frame) -> pa.Array:
        """Which of the groups had a row before."""
        grouping = self.grouped.groups.grouping
        if not grouping.keys and not before:
            return pa.array(np.zeros(now.num_rows, dtype=np.bool_))
        if grouping.keys and grouping.having is None:
            return pc.greater(now.column(WAS), 0)
        return self._in_view(add_up(before, self._blank(parts)))

    def _in_view(self, groups: Frame) -> pa.Array:
        """Which groups have a row: those that count, and pass HAVING."""
        grouping = self.grouped.groups.grouping
        there = pc.greater(groups.column(WEIGHT), 0 if grouping.keys else -1)
        if grouping.having is None:
            return there
        return pc.and_(there, pc.fill_null(evaluate(grouping.having, self.finish(groups), self.functions), False))

    # --------------------------------------------------------------------------------------------- rows

    def closed(self, segments: Iterable[Segment], after: int | None, before: int) -> Frame:
        """The final rows of windows that have closed: their last moment is not before `after`, but before `before`."""
        return self._rows(segments, "final", lambda times: _between(times, after, before))

    def whole(self, segments: Iterable[Segment], since: int | None = None) -> Frame:
        """All rows of the view; of windows, those whose last moment is not before `since`."""
        return self._rows(segments, "insert", lambda times: _between(times, since, None))

    def _rows(self, segments: Iterable[Segment], op: str, chosen: Callable[[pa.Array], pa.Array]) -> Frame:
        found = [cut(segment.rows, self.store.columns) for segment in segments]
        if TIME in self.store.columns:
            found = [rows.filter(chosen(rows.column(TIME))) for rows in found]
        if not any(rows.num_rows for rows in found):
            return pa.RecordBatch.from_pylist([], schema=self.grouped.emit.schema)
        groups = fold(found)
        groups = groups.filter(self._in_view(groups))
        return self.rows(groups, pa.array([op] * groups.num_rows, pa.string()))

    def rows(self, groups: Frame, ops: pa.Array) -> Frame:
        """The rows of groups as results."""
        grouping = self.grouped.groups.grouping
        finished = self.finish(groups)
        arrays = [evaluate(output.expr, finished, self.functions) for output in grouping.outputs]
        if not grouping.is_distinct:
            arrays += [*(groups.column(name) for name in grouping.keys), ops.cast(pa.string())]
        return pa.RecordBatch.from_arrays(arrays, schema=self.grouped.emit.schema)

    def finish(self, groups: Frame) -> Frame:
        """The keys and the values of aggregates of some groups."""
        grouping, types = self.grouped.groups.grouping, self.grouped.types
        made = {name: groups.column(name) for name in grouping.keys}
        for place, aggregate in enumerate(grouping.aggregates):
            kind = types.get(aggregate.argument or "")
            made[value_field(place)] = to_value(aggregate, kind, groups, lambda row: self._say(groups, row))
        made[WEIGHT] = groups.column(WEIGHT)  # rows are counted by a column, even if there is no other
        return pa.RecordBatch.from_arrays(list(made.values()), names=list(made))

    def _say(self, groups: Frame, row: int) -> str:
        keys = [str(groups.column(name)[row].as_py()) for name in self.grouped.groups.grouping.keys]
        return f"group ({', '.join(keys)})" if keys else "the only group"


def read_view(
    emit: Emit, topology: Topology, functions: Functions, refs: Iterable[SegmentRef], state: State
) -> pa.Table:
    """All rows of a view, read from the state."""
    grouped = Grouped.of(emit)
    view = View(grouped, topology.store(grouped.groups.store), functions)
    rows = view.whole([state.open(ref) for ref in refs if ref.store == grouped.groups.store])
    return pa.Table.from_batches([rows])


def _between(times: pa.Array, first: int | None, end: int | None) -> pa.Array:
    mask = pc.is_valid(times)
    if first is not None:
        mask = pc.and_(mask, pc.greater_equal(times, first))
    return mask if end is None else pc.and_(mask, pc.less(times, end))


@dataclass(frozen=True)
class Known:
    """What earlier batches have of the groups of some parts: rows of segments, and the parts that they belong to."""

    rows: Frame
    parts: Ints

    @staticmethod
    def of(parts: Frame, code: str, store: Store, segments: Sequence[Segment]) -> list[Known]:
        """From each segment that has any; a segment has at most one row of a group."""
        codes: Ints = parts.column(code).to_numpy(zero_copy_only=False)
        keys = [name for name in store.columns if name not in (code, HASH, TIME)]
        found = []
        for segment in segments:
            index = segment.indexes[store.indexes[0].name]
            for mine, rows in probe(index, len(codes), codes, None, None, None, CHUNK):
                met = cut(segment.rows.take(pa.array(rows)), store.columns)
                same = _same_keys(parts.select(keys).take(pa.array(mine)), met)
                found.append(Known(met.filter(pa.array(same)), mine[same].astype(np.int64)))
        return [known for known in found if len(known.parts)]


def _same_keys(parts: Frame, rows: Frame) -> npt.NDArray[np.bool_]:
    """Which rows have the keys of the parts beside them: a hash may be the same by chance."""
    same = np.ones(parts.num_rows, dtype=np.bool_)
    for name in parts.schema.names:
        one, other = parts.column(name), rows.column(name)
        if pa.types.is_floating(one.type):
            one, other = (c.view(pa.int64() if c.type.bit_width == 64 else pa.int32()) for c in (one, other))
        equal = pc.fill_null(pc.equal(one, other), False)
        if one.null_count or other.null_count:
            equal = pc.or_(equal, pc.and_(pc.is_null(one), pc.is_null(other)))
        same &= equal.to_numpy(zero_copy_only=False)
    return same


def add_up(known: Sequence[Known], parts: Frame) -> Frame:
    """The parts with all that earlier batches have of their groups; and how often the groups counted then."""
    ids = np.concatenate([np.arange(parts.num_rows), *(found.parts for found in known)]).astype(np.int32)
    made, was = [], _zeros(parts)
    for name in parts.schema.names:
        column = parts.column(name)
        if known and (name == WEIGHT or name.startswith(MEASURE)):
            every = pa.concat_arrays([column, *(found.rows.column(name) for found in known)])
            column = unite(name, every, ids, parts.num_rows, partial(_largest, parts, name, ids, every))
        made.append(column)
    if known:
        before = pa.concat_arrays([_zeros(parts), *(found.rows.column(WEIGHT) for found in known)])
        was = unite(WEIGHT, before, ids, parts.num_rows)
    return pa.RecordBatch.from_arrays([*made, was], names=[*parts.schema.names, WAS])


def _largest(parts: Frame, name: str, ids: npt.NDArray[np.int32], numbers: pa.Array) -> str:
    """Names the group whose sum is the largest."""
    sizes = np.bincount(ids, np.abs(numbers.to_numpy(zero_copy_only=False).astype(np.float64)))
    return too_large(parts.slice(int(sizes.argmax()), 1), name)


def blank(grouped: Grouped, groups: Frame) -> Frame:
    """Parts of groups that count nothing."""
    groups = groups.append_column(WEIGHT, _zeros(groups))
    for part in grouped.parts:
        groups = groups.append_column(part.name, blank_measure(part, grouped.types[part.argument], groups.num_rows))
    return groups


def start_group(grouped: Grouped) -> Frame:
    """The only group of a query without GROUP BY, before anything was joined."""
    return blank(grouped, pa.RecordBatch.from_arrays([pa.array(group_codes([], 1))], names=[HASH]))


def count_values(
    grouped: Grouped, argument: str, store: Store, parts: Frame, segments: Sequence[Segment]
) -> tuple[Frame, Frame]:
    """For COUNT(DISTINCT argument): the values of a batch to be stored, and parts of groups that count the new ones."""
    of_group = [name for name in store.columns if name not in (argument, PAIR)]
    values = fold([parts.filter(pc.is_valid(parts.column(argument))).select([*of_group, argument, WEIGHT])])
    keys = [values.column(name) for name in (*grouped.groups.grouping.keys, argument)]
    values = values.append_column(PAIR, pa.array(group_codes(keys, values.num_rows))).select([*store.columns, WEIGHT])
    both = add_up(Known.of(values, PAIR, store, segments), values)
    now, was = (pc.greater(both.column(name), 0).cast(pa.int64()) for name in (WEIGHT, WAS))
    counted = blank(grouped, values.select(of_group))
    name = Part("values", argument).name
    return values, counted.set_column(counted.schema.get_field_index(name), name, pc.subtract(now, was))


def _weighted(rows: Frame, weight: int) -> Frame:
    return rows.append_column(WEIGHT, pa.array(np.full(rows.num_rows, weight, dtype=np.int64)))


def _zeros(frame: Frame) -> pa.Array:
    return pa.array(np.zeros(frame.num_rows, dtype=np.int64))
