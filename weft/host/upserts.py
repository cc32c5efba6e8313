"""Reads upserts at ingest: each row gets its place in the order, and a mark if it says that its key is gone.

A key is gone if the op of the row is a deletion; without ops, if all other columns are NULL.  Rows that say what there
was before an update are left out: the row that replaces it says enough.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from weft.errors import SourceError
from weft.host.hidden import Frame
from weft.host.ops import REPAIR, fields_of, open_envelope, refuse_null, unknown_op
from weft.query.changes import GONE, ORDER
from weft.query.model import Stream

KEPT = ("insert", "update", "upsert", "update_after", "update_postimage", "+i", "+u", "i", "u", "c", "r", "+1", "1")
REMOVED = ("delete", "-d", "d", "-1")
BEFORE = ("update_before", "update_preimage", "-u")


def read_upserts(frame: Frame, stream: Stream, wanted: Sequence[str], where: str, first: int) -> Frame:
    """The log of a stream, from columns of its source; `first` is the place of the first row in the order."""
    changes = stream.changes
    assert changes is not None
    own = [name for name in stream.schema.names if name not in (ORDER, GONE)]
    order = pa.array(np.arange(first, first + frame.num_rows))
    if changes.format == "debezium":
        rows, gone, order = _from_envelopes(frame, stream, own, where, order)
    elif changes.op is not None:
        rows, gone, order = _from_ops(frame, stream, changes.op, where, order)
    else:
        kept = {*changes.key, stream.event_time}
        rows, gone = frame, _is_tombstone(frame, [name for name in own if name not in kept])
    _refuse_null_keys(rows, stream, changes.key, where)
    found = {**{name: rows.column(name) for name in own if name in wanted}, ORDER: order, GONE: gone}
    return pa.RecordBatch.from_arrays([found[name] for name in wanted], names=list(wanted))


def _from_ops(frame: Frame, stream: Stream, op: str, where: str, order: pa.Array) -> tuple[Frame, pa.Array, pa.Array]:
    ops = frame.column(op)
    refuse_null(ops, stream, where)
    if pt.is_integer(ops.type):
        return frame, pc.less(ops, 0), order
    words = pc.utf8_lower(pc.utf8_trim_whitespace(ops))
    if strange := sorted({*words.unique().to_pylist()} - {*KEPT, *REMOVED, *BEFORE}):
        known = f"{', '.join(KEPT)} for rows, {', '.join(REMOVED)} for keys that go"
        raise unknown_op(strange[0], stream, where, known)
    meant = pc.invert(pc.is_in(words, pa.array(BEFORE)))
    return frame.filter(meant), pc.is_in(words.filter(meant), pa.array(REMOVED)), order.filter(meant)


def _from_envelopes(
    frame: Frame, stream: Stream, own: Sequence[str], where: str, order: pa.Array
) -> tuple[Frame, pa.Array, pa.Array]:
    before, after, gone, order = open_envelope(frame, stream, where, order)
    rows = fields_of(pc.if_else(gone, before, after), own)
    return rows, gone, order


def _is_tombstone(frame: Frame, others: Sequence[str]) -> pa.Array:
    """Whether all columns but the key and the event time are NULL; a stream that has no others has no tombstones."""
    found = np.full(frame.num_rows, bool(others))
    for name in others:
        found &= pc.is_null(frame.column(name)).to_numpy(zero_copy_only=False)
    return pa.array(found)


def _refuse_null_keys(rows: Frame, stream: Stream, key: Sequence[str], where: str) -> None:
    for name in key:
        if rows.column(name).null_count:
            at = int(np.argmax(pc.is_null(rows.column(name)).to_numpy(zero_copy_only=False)))
            raise SourceError(
                f'key "{name}" of stream "{stream.name}" is NULL{where}',
                detail=f"the first such row is {rows.slice(at, 1).to_pylist()[0]}.",
                hint=f"a row without a key replaces nothing; {REPAIR}",
            )
