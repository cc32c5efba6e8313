"""Reads changes at ingest: what a source says about its rows becomes weights.

    +1   insert, update_after, update_postimage, +I, +U, I, C, R, 1
    -1   delete, update_before, update_preimage, -D, -U, D, -1

A column of numbers says how often its row counts, and is taken as it is.  Letters may be small or capital.  Rows of a
batch may come in any order: weights of equal rows add up.

Debezium's envelope has two rows in one: what was there `before` is taken back, what is there `after` is added.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from weft.errors import SourceError
from weft.host.hidden import Frame
from weft.host.weights import attach_weights
from weft.query.changes import Changes
from weft.query.model import Stream

ADDED = ("insert", "update_after", "update_postimage", "+i", "+u", "i", "c", "r", "+1", "1")
TAKEN = ("delete", "update_before", "update_preimage", "-d", "-u", "d", "-1")
WEIGHTS = {**dict.fromkeys(ADDED, 1), **dict.fromkeys(TAKEN, -1)}
REPAIR = "nothing of this batch was joined; repair the input and run again."


def weigh(frame: Frame, ops: pa.Array, stream: Stream, where: str) -> Frame:
    """The frame with its weights, without the rows that count nothing."""
    assert stream.changes is not None
    weights = to_weights(ops, stream, stream.changes, where)
    return attach_weights(frame, weights).filter(pc.not_equal(weights, 0))


def to_weights(ops: pa.Array, stream: Stream, changes: Changes, where: str) -> pa.Array:
    """How often each row counts."""
    if ops.null_count:
        raise SourceError(
            f'"{changes.op}" of stream "{stream.name}" is NULL in {ops.null_count} rows{where}',
            detail="it says whether a row is added or taken back.",
            hint=REPAIR,
        )
    if pt.is_integer(ops.type):
        return pc.cast(ops, pa.int64())
    coded = ops.dictionary_encode()
    words = [_weight(word, stream, changes, where) for word in coded.dictionary.to_pylist()]
    return pa.array(np.array(words, dtype=np.int64)[coded.indices.to_numpy(zero_copy_only=False)])


def _weight(word: str, stream: Stream, changes: Changes, where: str) -> int:
    weight = WEIGHTS.get(word.strip().lower())
    if weight is None:
        raise SourceError(
            f'"{changes.op}" of stream "{stream.name}" is {word!r}{where}',
            detail=f"known are {', '.join(ADDED)} for rows that are added, {', '.join(TAKEN)} for rows taken back.",
            hint=f"write one of these; for rows that replace others declare their key. {REPAIR.capitalize()}",
        )
    return weight


def op_columns(stream: Stream) -> Sequence[str]:
    """Columns of the source that are read beside those of the stream."""
    changes = stream.changes
    return () if changes is None or changes.op is None else (changes.op,)
