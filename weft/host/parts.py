"""Parts of a stream: partitions of a topic, each with event times of its own.

Rows of different parts are read side by side, and one part may be far behind another.  So a stream stands where the
slowest of its parts stands.  A part that has brought no row holds nothing up, nor does one that is idle.

Rows say on themselves, in the notes of their schema, which part they are from, how many records among them were left
out because they could not be read, how many before them are gone, and where in the order of the stream they stand.  The
newest event times of parts are kept beside those of streams, under the name of the stream and of the part.  What must
hold: the time of a stream never goes back, also if a new part begins with old rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import pyarrow as pa

BETWEEN = "#"
"""Stands between the name of a stream, which cannot have it, and that of a part."""
_PART, _LEFT_OUT, _LOST, _ORDER = b"weft.part", b"weft.left-out", b"weft.lost", b"weft.order"


def note(rows: pa.RecordBatch, part: str, left_out: int, lost: int = 0) -> pa.RecordBatch:
    """Rows with their part, the number of records that were left out among them, and of those that were gone."""
    return rows.replace_schema_metadata({_PART: part, _LEFT_OUT: str(left_out), _LOST: str(lost)})


def number(rows: pa.RecordBatch, first: int) -> pa.RecordBatch:
    """Rows with the place of the first one in the order of their stream."""
    return rows.replace_schema_metadata({**(rows.schema.metadata or {}), _ORDER: str(first)})


def order_of(rows: pa.RecordBatch, known: int) -> int:
    """The place of the first row in the order of the stream; `known` if the rows do not say it."""
    return int((rows.schema.metadata or {}).get(_ORDER, known))


def place_of(stream: str, rows: pa.RecordBatch) -> str:
    """The stream, or the part of it, that rows are from."""
    part = (rows.schema.metadata or {}).get(_PART)
    return stream if part is None else f"{stream}{BETWEEN}{part.decode()}"


def left_out(rows: pa.RecordBatch) -> int:
    """How many records were left out among some rows."""
    return int((rows.schema.metadata or {}).get(_LEFT_OUT, 0))


def lost(rows: pa.RecordBatch) -> int:
    """How many records before some rows were deleted before they were read."""
    return int((rows.schema.metadata or {}).get(_LOST, 0))


def parts_of(stream: str, places: Iterable[str]) -> list[str]:
    """The parts of a stream among some places."""
    return [place for place in places if place.startswith(f"{stream}{BETWEEN}")]


def advance(before: Mapping[str, int], seen: Mapping[str, int], idle: Collection[str] = ()) -> dict[str, int]:
    """The newest event times of streams and parts after a batch, given those of the batch; idle parts do not count."""
    newest = dict(before)
    for place, moment in seen.items():
        newest[place] = max(moment, newest.get(place, moment))
    for stream in {place.partition(BETWEEN)[0] for place in newest if BETWEEN in place}:
        awake = [newest[part] for part in parts_of(stream, newest) if part not in idle]
        if awake:
            newest[stream] = max(min(awake), before.get(stream, min(awake)))
    return newest
