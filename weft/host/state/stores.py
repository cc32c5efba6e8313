"""The stores of a worker: new rows become segments, old segments are merged.

What must hold: after a batch, the live segments of a store hold exactly the rows that were live before, minus
expired ones, plus this batch's rows.  Names of files depend on store, worker, batch and run, so a repeated task
replaces its own files and no others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.evaluate import Functions, evaluate
from weft.host.batch import Batch, Report, State
from weft.host.crash import reach
from weft.host.envelope import Frame, gather, join
from weft.host.groups.fold import fold, without_gone
from weft.host.hidden import carry_over, cut
from weft.host.marks import refuse
from weft.host.state.compaction import MOST_BYTES, counted_groups, groups, horizon
from weft.host.state.segment import Segment, SegmentRef
from weft.host.subscriptions.ended import purge, settle
from weft.host.weights import weight_of
from weft.kernels.codes import Ints, equality_codes, order_codes
from weft.kernels.index import Index, build
from weft.observe.counters import bump
from weft.query.model import HASH, TIME
from weft.topology.label import stream_of
from weft.topology.model import Topology
from weft.topology.node import ROWS
from weft.topology.store import Key, Store

LATEST = np.iinfo(np.int64).max


class Stores:
    """The stores of one worker in one batch."""

    def __init__(
        self, topology: Topology, worker: int, batch: Batch, state: State, functions: Functions, report: Report
    ) -> None:
        self.topology, self.worker, self.batch = topology, worker, batch
        self.state, self.functions, self.report = state, functions, report

    def keep(self, name: str, origin: str, frames: Sequence[Frame], label: str = "") -> list[SegmentRef]:
        """Write this batch's rows of a store, as one segment if they fit into one."""
        store = self.topology.store(name)
        mine = (refuse(frame, store.clocks) for frame in frames)
        parts = gather([own_rows(store, frame) for frame in mine if frame.num_rows], MOST_BYTES)
        parts = [part for part in (_add_up(store, part) for part in parts) if part.num_rows]
        if store.ended_by:
            parts = [left for part in parts if (left := self._settle(store, part)).num_rows]
        label = f"{self.batch.number:012d}{self.batch.run}{_mark(store, origin)}{label}"
        return [
            self._write(
                store, part, f"{label}-{i}", self.batch.level or 0, self.batch.number, self.batch.number, origin
            )
            for i, part in enumerate(parts)
        ]

    def _settle(self, store: Store, rows: Frame) -> Frame:
        """Rows that have not ended.  A migration brings those of many batches, in any order."""
        if self.batch.level is None:
            return settle(rows, store.ended_by)
        return purge(rows, store.ended_by, is_oldest=False)

    def tidy(self, old: Mapping[str, Sequence[SegmentRef]], delta: Sequence[SegmentRef], stores: Sequence[str]) -> None:
        """Merge the segments that are due in some stores, and report new and removed segments to the driver."""
        added = {ref.name: ref for ref in delta if ref.store in stores}
        for name in sorted(stores):
            store = self.topology.store(name)
            refs = [*old.get(name, ()), *(ref for ref in delta if ref.store == name)]
            for number, group in enumerate(self._due(store, refs)):
                is_oldest = self.batch.barrier is None and group[0] is refs[0]
                self.report.removed.extend(ref.name for ref in group if added.pop(ref.name, None) is None)
                merged = self._merge(store, group, number, is_oldest)
                if merged is not None:
                    added[merged.name] = merged
        self.report.added.extend(asdict(ref) for ref in added.values())

    def _due(self, store: Store, refs: Sequence[SegmentRef]) -> list[list[SegmentRef]]:
        """Groups of segments that are due to be merged, on either side of the barrier."""
        barrier, sides = self.batch.barrier, [refs]
        if barrier is not None:
            sides = [[r for r in refs if r.last_batch <= barrier], [r for r in refs if r.last_batch > barrier]]
        due = counted_groups if store.counted or store.ended_by or self._shrinks(store) else groups
        return [group for side in sides for group in due(side, store.retention)]

    def _shrinks(self, store: Store) -> bool:
        """Whether rows are kept for ever and may be taken back: then merging is what removes them."""
        names = [stream_of(label) for label in store.members] or [store.stream]
        streams = (*self.topology.streams, *self.topology.derived)
        changing = {stream.name for stream in streams if stream.changes is not None}
        return store.retention is None and not changing.isdisjoint(names)

    def _merge(self, store: Store, group: Sequence[SegmentRef], number: int, is_oldest: bool) -> SegmentRef | None:
        rows = join([cut(self.state.open(ref).rows, store.columns) for ref in group])
        given = self.batch.before if self.batch.job and store.counted == "groups" else self.batch.watermarks
        limit = horizon(store, given)  # a migration gives no final rows out
        if limit is not None:
            rows = rows.filter(pc.greater_equal(rows.column(TIME), limit))
        rows = refuse(rows, store.clocks)
        rows = _add_up(store, rows)
        if store.ended_by:
            rows = purge(rows, store.ended_by, is_oldest=is_oldest)
        if rows.num_rows == 0:
            return None
        level = group[0].level + 1
        label = f"{self.batch.number:012d}{self.batch.run}-m{level}-{group[0].first_batch}-{number}"
        return self._write(store, rows, label, level, group[0].first_batch, group[-1].last_batch)

    def _write(
        self, store: Store, rows: Frame, label: str, level: int, first: int, last: int, origin: str = ROWS
    ) -> SegmentRef:
        indexes = {key.name: index_rows(rows, key, self.functions) for key in store.indexes}
        name = f"{store.id}/{self.worker}/{label}.seg"
        size, checksum = self.state.write(
            name,
            Segment.of(rows, indexes),
            lambda: reach(self.batch.crash, "segment write", self.batch.number),
        )
        span = pc.min_max(rows.column(TIME)).as_py() if TIME in store.columns else {"min": None, "max": None}
        if level == 0:
            bump(self.report.stored, store.id, rows.num_rows)
            bump(self.report.load, str(self.worker), rows.num_rows)
        return SegmentRef(
            name,
            store.id,
            self.worker,
            rows.num_rows,
            size,
            level,
            first,
            last,
            span["min"],
            span["max"],
            checksum,
            origin,
        )


def _add_up(store: Store, rows: Frame) -> Frame:
    """Equal rows become one if they are counted; what was taken back goes.  Rows that all count once stay as they are.

    The only group of a query without GROUP BY stays, whatever it counts: it says that there was a batch.
    """
    if rows.num_rows == 0 or not (store.counted or weight_of(rows) is not None):
        return rows
    folded = fold([rows])
    return folded if store.counted == "groups" and set(store.columns) == {HASH} else without_gone(folded)


def _mark(store: Store, origin: str) -> str:
    """Tells segments of different origins apart, in few letters: names of files are short."""
    return f"-o{store.members.index(origin)}" if origin else ""


def own_rows(store: Store, frame: Frame) -> Frame:
    """The columns of a store.  A row of an intermediate store also gets a time.

    A user does not need the row any more as soon as one of its members may go: at the least time(k) + retention(k) over
    its members k.  The row may go when the last user does not need it.  All rows of a store have the same retention, so
    the time is that moment minus the retention of the store.
    """
    if not store.ends or store.retention is None:
        return cut(frame, store.columns)
    moments = [
        np.minimum.reduce([_later(frame.column(f"{label}.{TIME}"), kept) for label, kept in ends])
        for ends in store.ends
    ]
    time = pa.array(np.maximum.reduce(moments) - store.retention)
    arrays = [time if name == TIME else frame.column(name) for name in store.columns]
    return carry_over(pa.RecordBatch.from_arrays(arrays, names=list(store.columns)), frame)


def _later(times: pa.Array, by: int) -> Ints:
    """Times plus a retention, at most the largest time there is."""
    moments = times.to_numpy(zero_copy_only=False)
    moved: Ints = moments + np.minimum(by, LATEST - np.maximum(moments, 0))
    return moved


def index_rows(rows: Frame, key: Key, functions: Functions) -> Index:
    """An index of the rows by a key."""
    codes = equality_codes([evaluate(expr, rows, functions) for expr in key.equal]) if key.equal else None
    ranges = [order_codes(evaluate(expr, rows, functions)) for expr in key.ranges]
    masks = [part.valid for part in (codes, *ranges) if part is not None and part.valid is not None]
    valid = np.logical_and.reduce(masks) if masks else None
    return build(rows.num_rows, codes.values if codes else None, [part.values for part in ranges], valid)
