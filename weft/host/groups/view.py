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

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.evaluate import Functions, evaluate
from weft.host.batch import State
from weft.host.groups.extremes import Extremes
from weft.host.groups.fold import fold
from weft.host.groups.groups import Grouped
from weft.host.groups.known import WAS, Known, add_up, same_rows
from weft.host.groups.measures import blank_measure, to_value
from weft.host.groups.shown import shown_before, to_store
from weft.host.hidden import Frame, cut
from weft.host.state.segment import Segment, SegmentRef
from weft.kernels.codes import Ints, group_codes
from weft.query.grouping import value_field
from weft.query.model import HASH, PAIR, TIME, WEIGHT
from weft.topology.measures import Part
from weft.topology.model import Topology
from weft.topology.node import Emit
from weft.topology.store import Store


@dataclass(frozen=True)
class View:
    """The groups of a query that a worker owns."""

    grouped: Grouped
    store: Store
    functions: Functions
    extremes: Extremes

    # ------------------------------------------------------------------------------------------ changes

    def changes(self, parts: Frame, segments: Sequence[Segment]) -> Frame:
        """The rows of the view that the parts of a batch change, given what earlier batches have."""
        before = Known.of(parts, HASH, self.store, segments)
        now = self.extremes.fill(add_up(before, parts))
        if self.grouped.groups.grouping.multiset:
            return self._counted(now, _positive(now, WEIGHT) - _positive(now, WAS))
        shown, was = self._in_view(now), self._was_in_view(now, before, parts)
        ops = pc.if_else(shown, pc.if_else(was, "update", "insert"), pc.if_else(was, "delete", None))
        wanted = pc.is_valid(ops)
        if self.grouped.groups.grouping.is_named:
            wanted = pc.and_(wanted, pc.not_equal(ops, "update"))
        return self.rows(now.filter(wanted), ops.filter(wanted))

    def _counted(self, groups: Frame, more: Ints) -> Frame:
        """Rows of groups, each as often as there are more of them now, or fewer."""
        groups, more = groups.filter(pa.array(more != 0)), more[more != 0]
        if self.grouped.groups.grouping.having is not None:
            wanted = self._passes(groups)
            groups, more = groups.filter(wanted), more[wanted.to_numpy(zero_copy_only=False)]
        places = pa.array(np.repeat(np.arange(groups.num_rows), np.abs(more)))
        ops = pa.array(np.where(more > 0, "insert", "delete"), pa.string())
        return self.rows(groups, ops).take(places)

    def deltas(self, parts: Frame, segments: Sequence[Segment], stored: dict[str, Frame]) -> Frame:
        """The changes as rows with weights: what a group showed before is taken back, what it shows now is added.

        `stored` gets what is to be remembered of them.
        """
        groups = self.grouped.groups
        before = Known.of(parts, HASH, self.store, segments)
        now = self.extremes.fill(add_up(before, parts))
        shown, added = self._in_view(now), self._outputs(now)
        gone, was = self._gone(now, before, parts, added)
        if groups.again and groups.shown:
            return _weighted(gone.filter(was), 1)
        same = pa.array(same_rows(gone, added)) if gone.schema == added.schema else pa.repeat(False, len(was))
        changed = pc.invert(pc.and_(same, pc.and_(shown, was)))
        was, shown = pc.and_(was, changed), pc.and_(shown, changed)
        if groups.shown:
            stored[groups.shown] = to_store(now, self._shown_store, gone, was, added, shown)
        if groups.grouping.grows is not None and gone.schema == added.schema:
            added, was = _grown(gone, added, pc.and_(was, shown), groups.grouping.grows), pc.and_not(was, shown)
        return pa.concat_batches(
            [
                _weighted(found.filter(mask), weight)
                for found, mask, weight in ((gone, was, -1), (added, shown, 1))
                if found.schema == added.schema
            ]
        )

    def _gone(self, now: Frame, before: Sequence[Known], parts: Frame, added: Frame) -> tuple[Frame, pa.Array]:
        """What the groups of some parts showed before, and which of them did."""
        groups = self.grouped.groups
        if not groups.shown:
            return self._outputs(self._as_before(before, parts)), self._was_in_view(now, before, parts)
        segments = self.extremes.open(groups.shown)
        return shown_before(now, groups.grouping.keys, added.schema.names, self._shown_store, segments)

    @property
    def _shown_store(self) -> Store:
        return self.extremes.topology.store(self.grouped.groups.shown)

    def _outputs(self, groups: Frame) -> Frame:
        finished, outputs = self.finish(groups), self.grouped.groups.grouping.outputs
        arrays = [evaluate(output.expr, finished, self.functions) for output in outputs]
        return pa.RecordBatch.from_arrays(arrays, names=[output.name for output in outputs])

    def _as_before(self, before: Sequence[Known], parts: Frame) -> Frame:
        """The groups of some parts as they were without them."""
        names = [name for name in parts.schema.names if name in self.store.columns]
        return self.extremes.fill(add_up(before, blank(self.grouped, parts.select(names))), fresh=False)

    def _was_in_view(self, now: Frame, before: Sequence[Known], parts: Frame) -> pa.Array:
        """Which of the groups had a row before."""
        grouping = self.grouped.groups.grouping
        if not grouping.keys and not before:
            return pa.array(np.zeros(now.num_rows, dtype=np.bool_))
        if grouping.keys and grouping.having is None:
            return pc.greater(now.column(WAS), 0)
        return self._in_view(self._as_before(before, parts))

    def _in_view(self, groups: Frame) -> pa.Array:
        """Which groups have a row: those that count, and pass HAVING."""
        grouping = self.grouped.groups.grouping
        there = pc.greater(groups.column(WEIGHT), 0) if grouping.keys else pa.repeat(True, groups.num_rows)
        if grouping.having is None:
            return there
        return pc.and_(there, self._passes(groups))

    def _passes(self, groups: Frame) -> pa.Array:
        """Which groups make HAVING true."""
        having = self.grouped.groups.grouping.having
        assert having is not None
        return pc.fill_null(evaluate(having, self.finish(groups), self.functions), False)

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
        groups = self.extremes.fill(fold(found))
        if self.grouped.groups.grouping.multiset:
            return self._counted(groups, _positive(groups, WEIGHT))
        groups = groups.filter(self._in_view(groups))
        return self.rows(groups, pa.array([op] * groups.num_rows, pa.string()))

    def rows(self, groups: Frame, ops: pa.Array) -> Frame:
        """The rows of groups as results."""
        grouping = self.grouped.groups.grouping
        finished = self.finish(groups)
        arrays = [evaluate(output.expr, finished, self.functions) for output in grouping.outputs]
        if not grouping.is_distinct and not self.grouped.emit.into:
            arrays += [*(groups.column(name) for name in grouping.named_by), ops.cast(pa.string())]
        return pa.RecordBatch.from_arrays(arrays, schema=self.grouped.emit.schema)

    def finish(self, groups: Frame) -> Frame:
        """The keys and the values of aggregates of some groups."""
        grouping, types = self.grouped.groups.grouping, self.grouped.types
        made = {name: groups.column(name) for name in grouping.keys}
        for place, aggregate in enumerate(grouping.aggregates):
            kind = types.get(aggregate.argument or "")
            value = to_value(aggregate, kind, groups, lambda row: self._say(groups, row), grouping.changing)
            made[value_field(place)] = value
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
    known = tuple(refs)

    def opened(store: str) -> list[Segment]:
        return [state.open(ref) for ref in known if ref.store == store]

    extremes = Extremes(grouped, topology, opened, functions)
    view = View(grouped, topology.store(grouped.groups.store), functions, extremes)
    rows = view.whole(opened(grouped.groups.store))
    return pa.Table.from_batches([rows])


def _grown(gone: Frame, added: Frame, both: pa.Array, times: str) -> Frame:
    """The added rows; one that was there before counts as often as it is there more."""
    more = pc.if_else(both, pc.subtract(added.column(times), gone.column(times)), added.column(times))
    return added.set_column(added.schema.get_field_index(times), times, more)


def _between(times: pa.Array, first: int | None, end: int | None) -> pa.Array:
    mask = pc.is_valid(times)
    if first is not None:
        mask = pc.and_(mask, pc.greater_equal(times, first))
    return mask if end is None else pc.and_(mask, pc.less(times, end))


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
    """The values of an argument in a batch, to be stored, and parts of groups that count the new ones."""
    of_group = [name for name in store.columns if name not in (argument, PAIR)]
    values = fold([parts.filter(pc.is_valid(parts.column(argument))).select([*of_group, argument, WEIGHT])])
    keys = [values.column(name) for name in (*grouped.groups.grouping.keys, argument)]
    values = values.append_column(PAIR, pa.array(group_codes(keys, values.num_rows))).select([*store.columns, WEIGHT])
    both = add_up(Known.of(values, PAIR, store, segments), values)
    now, was = (pc.greater(both.column(name), 0).cast(pa.int64()) for name in (WEIGHT, WAS))
    counted = blank(grouped, values.select(of_group))
    if (at := counted.schema.get_field_index(name := Part("values", argument).name)) >= 0:
        counted = counted.set_column(at, name, pc.subtract(now, was))
    return values, counted


def _positive(groups: Frame, name: str) -> Ints:
    """How often groups count; what is owed counts nothing."""
    counts: Ints = np.maximum(groups.column(name).to_numpy(zero_copy_only=False), 0)
    return counts


def _weighted(rows: Frame, weight: int) -> Frame:
    return rows.append_column(WEIGHT, pa.array(np.full(rows.num_rows, weight, dtype=np.int64)))


def _zeros(frame: Frame) -> pa.Array:
    return pa.array(np.zeros(frame.num_rows, dtype=np.int64))
