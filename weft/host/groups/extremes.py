"""All values of groups, and the least and greatest ones where rows may be taken back.

The values of an argument are kept in a counted store, as for COUNT(DISTINCT).  When the least one of a group goes, the
next is found there: all values of the group are added up, and of those that still count the least is taken.

What must hold: the values of a group lie on the worker that owns the group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.evaluate import Functions
from weft.host.groups.fold import fold, unite
from weft.host.groups.groups import Grouped
from weft.host.groups.known import Known
from weft.host.groups.measures import orderable
from weft.host.hidden import Frame
from weft.host.state.segment import Segment
from weft.host.state.stores import index_rows
from weft.query.model import HASH, WEIGHT
from weft.topology.measures import Part, extremes
from weft.topology.model import Topology
from weft.topology.store import Store

Opener = Callable[[str], Sequence[Segment]]
"""Gives the segments of a store."""


@dataclass(frozen=True)
class Extremes:
    """Finds least and greatest values of the groups of a query."""

    grouped: Grouped
    topology: Topology
    open: Opener
    functions: Functions
    fresh: Mapping[str, Frame] = field(default_factory=dict)
    """Store -> rows of this batch, which are in no segment yet."""

    def fill(self, groups: Frame, *, fresh: bool = True) -> Frame:
        """The groups with their least and greatest values; `fresh` says whether this batch counts."""
        stores = dict(self.grouped.groups.values)
        for part in extremes(self.grouped.groups.grouping):
            store = self.topology.store(stores[part.argument])
            segments = [*self.open(store.id), *(self._fresh(store) if fresh else ())]
            values = self._values(groups, part.argument, store, segments)
            groups = groups.append_column(part.name, _found(part, values, groups.num_rows))
        return groups

    def _fresh(self, store: Store) -> list[Segment]:
        rows = self.fresh.get(store.id)
        if rows is None or rows.num_rows == 0:
            return []
        return [Segment.of(rows, {key.name: index_rows(rows, key, self.functions) for key in store.indexes})]

    def _values(self, groups: Frame, argument: str, store: Store, segments: Sequence[Segment]) -> Frame:
        """The values that count, each with the place of its group; every group has one that is NULL."""
        kind = self.grouped.types[argument]
        none = {"id": pa.array(range(groups.num_rows), pa.int32()), argument: pa.nulls(groups.num_rows, kind)}
        found = [pa.RecordBatch.from_pydict({**none, WEIGHT: pa.array([1] * groups.num_rows, pa.int64())})]
        keys = self.grouped.groups.grouping.keys
        for known in Known.of(groups, HASH, store, segments, keys):
            columns = [pa.array(known.parts).cast(pa.int32()), known.rows.column(argument), known.rows.column(WEIGHT)]
            found.append(pa.RecordBatch.from_arrays(columns, names=["id", argument, WEIGHT]))
        values = fold(found)
        return values.filter(pc.greater(values.column(WEIGHT), 0))


def _found(part: Part, values: Frame, groups: int) -> pa.Array:
    """What is asked of the values of each group."""
    ids = values.column("id").to_numpy(zero_copy_only=False)
    if part.number != "list":
        return unite(part.name, orderable(values.column(part.argument)), ids, groups)
    there = pc.is_valid(values.column(part.argument)).to_numpy(zero_copy_only=False)
    times = np.where(there, values.column(WEIGHT).to_numpy(zero_copy_only=False), 0)
    order = np.argsort(ids, kind="stable")
    rows = np.repeat(order, times[order])
    counts = np.bincount(ids[rows], minlength=groups)
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, values.column(part.argument).take(pa.array(rows)))
