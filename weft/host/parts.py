"""Parts of a stream: partitions of a topic, each with event times of its own.

Rows of different parts are read side by side, and one part may be far behind another.  So a stream stands where the
slowest of its parts stands.  A part that has brought no row has no place yet and holds nothing up.

Rows say on themselves, in the notes of their schema, which part they are from, and how many records before them were
left out because they could not be read.  The newest event times of parts are kept beside those of streams, under the
name of the stream and of the part.  What must hold: the time of a stream never goes back, also if a new part begins
with old rows.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

BETWEEN = "#"
"""Stands between the name of a stream, which cannot have it, and that of a part."""
_PART, _LEFT_OUT = b"weft.part", b"weft.left-out"


def note(rows: pa.RecordBatch, part: str, left_out: int) -> pa.RecordBatch:
    """Rows with their part, and with the number of records that were left out before them."""
    return rows.replace_schema_metadata({_PART: part, _LEFT_OUT: str(left_out)})


def place_of(stream: str, rows: pa.RecordBatch) -> str:
    """The stream, or the part of it, that rows are from."""
    part = (rows.schema.metadata or {}).get(_PART)
    return stream if part is None else f"{stream}{BETWEEN}{part.decode()}"


def left_out(rows: pa.RecordBatch) -> int:
    """How many records were left out before some rows."""
    return int((rows.schema.metadata or {}).get(_LEFT_OUT, 0))


def advance(before: Mapping[str, int], seen: Mapping[str, int]) -> dict[str, int]:
    """The newest event times of streams and parts after a batch, given those of the batch."""
    newest = dict(before)
    for place, moment in seen.items():
        newest[place] = max(moment, newest.get(place, moment))
    parts: dict[str, list[int]] = {}
    for place, moment in newest.items():
        stream, between, _ = place.partition(BETWEEN)
        if between:
            parts.setdefault(stream, []).append(moment)
    for stream, moments in parts.items():
        newest[stream] = max(min(moments), before.get(stream, min(moments)))
    return newest
