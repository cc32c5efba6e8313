"""The rows that groups have shown to those who read them, where these cannot be worked out again.

A sum of floats depends on the order in which it is added up, and merging segments changes the order.  A row that is
taken back must be equal to the one that was given, bit by bit.  So such rows are kept beside the groups: the row that a
group shows now counts once there, and all that it has shown before adds up to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.host.groups.fold import fold
from weft.host.groups.known import Known
from weft.host.hidden import Frame
from weft.host.state.segment import Segment
from weft.query.model import HASH, WEIGHT
from weft.topology.node import SHOWN
from weft.topology.store import Store

_PLACE = "#place"


def shown_before(
    parts: Frame, keys: Sequence[str], outputs: Sequence[str], store: Store, segments: Sequence[Segment]
) -> tuple[Frame, pa.Array]:
    """The rows that the groups of some parts showed before, one beside each part, and which of them did."""
    columns = [f"{SHOWN}{place}" for place in range(len(outputs))]
    found = [
        known.rows.select([*columns, WEIGHT]).append_column(_PLACE, pa.array(known.parts))
        for known in Known.of(parts, HASH, store, segments, keys)
    ]
    places = np.full(parts.num_rows, -1, dtype=np.int64)
    types = [segments[0].rows.schema.field(column).type if segments else pa.null() for column in columns]
    rows = fold(found) if found else None
    if rows is not None:
        rows = rows.filter(pc.greater(rows.column(WEIGHT), 0))
        places[rows.column(_PLACE).to_numpy(zero_copy_only=False)] = np.arange(rows.num_rows)
    was = pa.array(places >= 0)
    taken = pa.array(places, mask=places < 0)
    arrays = [
        pa.nulls(parts.num_rows, kind) if rows is None else rows.column(column).take(taken)
        for column, kind in zip(columns, types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(outputs)), was


def to_store(groups: Frame, store: Store, gone: Frame, was: pa.Array, added: Frame, shown: pa.Array) -> Frame:
    """What changes in the store: rows that were shown count no more, rows that are shown now do."""
    names = [name for name in groups.schema.names if name in store.columns]
    made = []
    for rows, mask, weight in ((gone, was, -1), (added, shown, 1)):
        frame = groups.select(names).filter(mask)
        for place, column in enumerate(rows.filter(mask).columns):
            frame = frame.append_column(f"{SHOWN}{place}", column)
        made.append(frame.append_column(WEIGHT, pa.array(np.full(frame.num_rows, weight, dtype=np.int64))))
    return pa.concat_batches([frame for frame in made if frame.num_rows] or made[1:])
