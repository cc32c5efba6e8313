"""Reads changes at ingest: what a source says about its rows becomes weights.

    +1   insert, update_after, update_postimage, +I, +U, I, C, R, 1
    -1   delete, update_before, update_preimage, -D, -U, D, -1

A column of numbers says how often its row counts, and is taken as it is.  Letters may be small or capital.  Rows of a
batch may come in any order: weights of equal rows add up.

An envelope of Debezium has two rows: what was there `before` is taken back, what is there `after` is added.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from weft.errors import SourceError
from weft.host.envelope import join
from weft.host.hidden import Frame
from weft.host.weights import attach_weights
from weft.query.changes import AFTER, BEFORE, GONE, OP, ORDER, PAYLOAD
from weft.query.model import Stream

ADDED = ("insert", "update_after", "update_postimage", "+i", "+u", "i", "c", "r", "+1", "1")
TAKEN = ("delete", "update_before", "update_preimage", "-d", "-u", "d", "-1")
WEIGHTS = {**dict.fromkeys(ADDED, 1), **dict.fromkeys(TAKEN, -1)}
CREATED, UPDATED, DELETED, IGNORED = ("c", "r"), "u", "d", "m"
"""Ops of Debezium: a row is new, or was there when reading began; it is another one; it is gone; it is no row."""
REPAIR = "nothing of this batch was joined; repair the input and run again."


def source_columns(stream: Stream, wanted: Sequence[str]) -> tuple[str, ...]:
    """The columns of the source that are read for some columns of the stream."""
    changes = stream.changes
    if changes is None or changes.source is None:
        return tuple(wanted)
    if changes.format == "debezium":
        return tuple(changes.source.names)
    own = (name for name in wanted if name not in (ORDER, GONE))
    return (*own, *(() if changes.op is None else (changes.op,)))


def read_changes(frame: Frame, stream: Stream, wanted: Sequence[str], where: str) -> Frame:
    """The rows of a stream with their weights, from columns of its source in the declared types."""
    changes = stream.changes
    if changes is None or changes.source is None:
        return frame
    if changes.format == "debezium":
        return _open_envelopes(frame, stream, wanted, where)
    assert changes.op is not None
    weights = to_weights(frame.column(changes.op), stream, where)
    return attach_weights(frame.select(list(wanted)), weights).filter(pc.not_equal(weights, 0))


# ------------------------------------------------------------------------------------------------ ops


def to_weights(ops: pa.Array, stream: Stream, where: str) -> pa.Array:
    """How often each row counts."""
    refuse_null(ops, stream, where)
    if pt.is_integer(ops.type):
        return pc.cast(ops, pa.int64())
    coded = ops.dictionary_encode()
    words = [_weight(word, stream, where) for word in coded.dictionary.to_pylist()]
    return pa.array(np.array(words, dtype=np.int64)[coded.indices.to_numpy(zero_copy_only=False)])


def _weight(word: str, stream: Stream, where: str) -> int:
    weight = WEIGHTS.get(word.strip().lower())
    if weight is None:
        raise unknown_op(
            word, stream, where, f"{', '.join(ADDED)} for rows that are added, {', '.join(TAKEN)} for rows taken back"
        )
    return weight


def refuse_null(ops: pa.Array, stream: Stream, where: str) -> None:
    """Refuse rows that do not say what happens to them."""
    if ops.null_count:
        raise SourceError(
            f"{_named(stream)} is NULL in {ops.null_count} rows{where}",
            detail="it says whether a row is added or taken back.",
            hint=REPAIR,
        )


def unknown_op(word: str, stream: Stream, where: str, known: str) -> SourceError:
    """The error for a word that says nothing."""
    return SourceError(
        f"{_named(stream)} is {word!r}{where}",
        detail=f"known are {known}.",
        hint=f"write one of these; {REPAIR}",
    )


def _named(stream: Stream) -> str:
    assert stream.changes is not None
    return f'"{stream.changes.op}" of stream "{stream.name}"'


# ------------------------------------------------------------------------------------------ envelopes


def _open_envelopes(frame: Frame, stream: Stream, wanted: Sequence[str], where: str) -> Frame:
    """The rows after with +1, the rows before with -1."""
    before, after, ops = _parts(frame, stream, where)
    added = pc.is_in(ops, pa.array([*CREATED, UPDATED]))
    taken = pc.is_in(ops, pa.array([UPDATED, DELETED]))
    _refuse_missing(before.filter(taken), stream, where, "before", "an update or a deletion")
    _refuse_missing(after.filter(added), stream, where, "after", "a new row or an update")
    return join([_weighted_rows(after.filter(added), wanted, 1), _weighted_rows(before.filter(taken), wanted, -1)])


def open_envelope(
    frame: Frame, stream: Stream, where: str, order: pa.Array
) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array]:
    """Rows before and after, whether the row is gone, and the places of these changes in the order."""
    before, after, ops, order = _parts(frame, stream, where, order)
    meant = pc.not_equal(ops, IGNORED)
    before, after, ops, order = (column.filter(meant) for column in (before, after, ops, order))
    gone = pc.equal(ops, DELETED)
    _refuse_missing(before.filter(gone), stream, where, "before", "a deletion")
    _refuse_missing(after.filter(pc.invert(gone)), stream, where, "after", "a new row or an update")
    return before, after, gone, order


def _parts(frame: Frame, stream: Stream, where: str, *more: pa.Array) -> tuple[pa.Array, ...]:
    """Rows before, rows after, and ops.  An envelope with nothing in it is a tombstone of Kafka, and is left out."""
    before, after, ops = (_part(frame, name) for name in (BEFORE, AFTER, OP))
    there = pc.or_(pc.is_valid(ops), pc.or_(pc.is_valid(before), pc.is_valid(after)))
    before, after, ops, *others = (column.filter(there) for column in (before, after, ops, *more))
    refuse_null(ops, stream, where)
    if strange := sorted({*ops.unique().to_pylist()} - {*CREATED, UPDATED, DELETED, IGNORED}):
        raise unknown_op(strange[0], stream, where, "c, r, u and d; that a table was emptied cannot be followed")
    return (before, after, ops, *others)


def _part(frame: Frame, name: str) -> pa.Array:
    if PAYLOAD not in frame.schema.names:
        return frame.column(name)
    payload = frame.column(PAYLOAD)
    return pc.struct_field(payload, [payload.type.get_field_index(name)])


def fields_of(structs: pa.Array, wanted: Sequence[str]) -> Frame:
    """Fields of structs as columns."""
    columns = [pc.struct_field(structs, [structs.type.get_field_index(name)]) for name in wanted]
    return pa.RecordBatch.from_arrays(columns, names=list(wanted))


def _weighted_rows(structs: pa.Array, wanted: Sequence[str], weight: int) -> Frame:
    return attach_weights(fields_of(structs, wanted), pa.array(np.full(len(structs), weight, dtype=np.int64)))


def _refuse_missing(structs: pa.Array, stream: Stream, where: str, part: str, what: str) -> None:
    if structs.null_count:
        raise SourceError(
            f'"{part}" is NULL in {structs.null_count} changes of stream "{stream.name}"{where}',
            detail=f"{what} must say which row there was {part}.",
            hint=f"let the database log whole rows (in PostgreSQL REPLICA IDENTITY FULL); {REPAIR}",
        )
