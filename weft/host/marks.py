"""Marks of late rows: which queries must not see a row that others may.

A row is late for a clock if it lies below the clock's watermark when its batch begins, or has no event time.  Queries
of different clocks share edges, stores and probes.  So a row that is late for all users of a thing is dropped there,
and a row that is late for some of them carries a mark for each such clock, in a hidden column of its own.  A joined row
is late for a clock if one of its members is.

What must hold: a row reaches the results of a query iff no member of it is late for the query's clock.  Frames in which
no row is late for a clock have no column for it; where all users have the same clock no frame ever has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from weft.host.batch import Watermarks
from weft.host.hidden import Frame
from weft.query.model import LATE, TIME
from weft.topology.clock import NEVER_LATE


def mark_of(clock: str) -> str:
    """The column that says which rows are late for a clock."""
    return f"{LATE}{clock}"


def marks(frame: Frame) -> list[str]:
    """The names of a frame's marks."""
    return [name for name in frame.schema.names if name.startswith(LATE)]


def drop_late(frame: Frame, clocks: Sequence[str], watermarks: Watermarks) -> Frame:
    """The rows that are in time for at least one of the clocks."""
    if NEVER_LATE in clocks:
        return frame
    limits = [limit for clock in clocks if (limit := watermarks.get(clock)) is not None]
    if len(limits) == len(clocks):
        return frame.filter(pc.greater_equal(frame.column(TIME), min(limits)))  # drops NULL too
    return frame.filter(pc.is_valid(frame.column(TIME))) if frame.column(TIME).null_count else frame


def mark_late(frame: Frame, clocks: Sequence[str], watermarks: Watermarks) -> Frame:
    """The frame with a mark for each clock for which some of its rows are late."""
    if len(clocks) == 1 or frame.num_rows == 0:
        return frame  # rows that are late for the only clock are not there
    times = frame.column(TIME)
    oldest = pc.min(times).as_py()
    for clock in clocks:
        limit = watermarks.get(clock)
        if clock != NEVER_LATE and (times.null_count or (limit is not None and oldest < limit)):
            late = pc.is_null(times) if limit is None else pc.fill_null(pc.less(times, limit), True)
            frame = frame.append_column(mark_of(clock), late)
    return frame


def refuse(frame: Frame, clocks: Sequence[str]) -> Frame:
    """The rows that are in time for at least one of the clocks, with the marks that these clocks still need."""
    found = marks(frame)
    if not found:
        return frame
    wanted = [name for clock in clocks if (name := mark_of(clock)) in found]
    if wanted and len(wanted) == len(clocks):  # nothing is late for NEVER_LATE, and there is no mark for it
        frame = frame.filter(pc.invert(reduce(pc.and_, (frame.column(name) for name in wanted))))
    keep = {name for name in wanted if pc.any(frame.column(name)).as_py()}
    return frame.select([name for name in frame.schema.names if name in keep or name not in found])


def join_marks(joined: Frame, frame: Frame, frame_rows: pa.Array, rows: Frame, row_rows: pa.Array) -> Frame:
    """Joined tuples with the marks of either side, given the rows of both sides that were joined."""
    for name in sorted({*marks(frame), *marks(rows)}):
        sides = [
            pc.take(side.column(name), places, boundscheck=False)
            for side, places in ((frame, frame_rows), (rows, row_rows))
            if name in side.schema.names
        ]
        joined = joined.append_column(name, reduce(pc.or_, sides))
    return joined
