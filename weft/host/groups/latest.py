"""The present row of every key: what new rows of some keys change.

The store has the present rows, as a counted store: a row that another one replaces is taken back, and goes when
segments are merged.  Of several rows of a key in a batch the last one counts, by the order in which they came.

What must hold: after every batch the store has at most one row of a key, and none of a key whose last row says that it
is gone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.evaluate import Functions, evaluate
from weft.host.groups.fold import fold, group_rows, without_gone
from weft.host.groups.groups import Grouped
from weft.host.groups.known import Known
from weft.host.hidden import Frame
from weft.host.state.segment import Segment
from weft.host.weights import attach_weights
from weft.query.changes import GONE, ORDER
from weft.query.model import HASH, WEIGHT
from weft.topology.store import Store


def replace_rows(grouped: Grouped, store: Store, rows: Frame, segments: Sequence[Segment]) -> Frame:
    """What is added to the store and taken back from it, as rows with weights."""
    if ORDER not in rows.schema.names:  # a migration brings present rows of another store
        return without_gone(fold([rows.select([*store.columns, WEIGHT])]))
    keys = grouped.groups.grouping.keys
    last = _last(rows, keys)
    old = [known.rows for known in Known.of(last, HASH, store, segments, keys)]
    new = last.filter(pc.invert(last.column(GONE))).select(list(store.columns))
    delta = [attach_weights(new, _times(1, new.num_rows))]
    if old:
        here = fold(old)
        delta.append(here.set_column(here.schema.get_field_index(WEIGHT), WEIGHT, pc.negate(here.column(WEIGHT))))
    return without_gone(fold([frame.select([*store.columns, WEIGHT]) for frame in delta]))


def _last(rows: Frame, keys: Sequence[str]) -> Frame:
    """The last row of every key."""
    ids, _ = group_rows(rows, keys)
    order = np.lexsort((rows.column(ORDER).to_numpy(zero_copy_only=False), ids))
    ends = np.flatnonzero(np.diff(ids[order], append=-1))
    return rows.take(pa.array(order[ends]))


def shown(grouped: Grouped, delta: Frame, functions: Functions) -> Frame:
    """Rows of the store as rows of the stream, with their weights."""
    outputs = grouped.groups.grouping.outputs
    columns = [evaluate(output.expr, delta, functions) for output in outputs]
    found = pa.RecordBatch.from_arrays(columns, names=[output.name for output in outputs])
    return attach_weights(found, delta.column(WEIGHT))


def _times(weight: int, count: int) -> pa.Array:
    return pa.array(np.full(count, weight, dtype=np.int64))
