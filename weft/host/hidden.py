"""Hidden columns: what rows carry beside their values, in columns that a frame has only if some row needs them.

    #w         how often a row counts (`weft.host.weights`); where absent, once
    #late c    whether a row is late for the queries of clock c (`weft.host.marks`); where absent, no row is
    #m s       a number of a group, or of rows that were added up (`weft.host.groups`)

What must hold: a frame without these columns costs nothing extra, and whatever cuts, joins or merges frames keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from weft.query.model import LATE, MEASURE, WEIGHT

Frame: TypeAlias = pa.RecordBatch


def hidden(frame: Frame) -> list[str]:
    """The names of a frame's hidden columns."""
    return [name for name in frame.schema.names if name == WEIGHT or name.startswith((LATE, MEASURE))]


def cut(frame: Frame, columns: Sequence[str]) -> Frame:
    """Some columns of a frame, and all hidden ones."""
    names = frame.schema.names
    return frame if names == list(columns) else frame.select([*columns, *hidden(frame)])


def carry_over(made: Frame, source: Frame) -> Frame:
    """A frame made of the rows of another one, with the hidden columns of that one."""
    for name in hidden(source):
        made = made.append_column(name, source.column(name))
    return made


def level(frames: Sequence[Frame]) -> list[Frame]:
    """Make frames alike: each hidden column in all of them or in none, in the same order."""
    found = [set(hidden(frame)) for frame in frames]
    every = set().union(*found)
    if not every:
        return list(frames)
    shown = next([n for n in frame.schema.names if n not in own] for frame, own in zip(frames, found, strict=True))
    return [_fill(frame, own, shown, sorted(every)) for frame, own in zip(frames, found, strict=True)]


def _fill(frame: Frame, own: set[str], shown: Sequence[str], every: Sequence[str]) -> Frame:
    for name in every:
        if name not in own:
            frame = frame.append_column(name, _plain(name, frame.num_rows))
    return frame.select([*shown, *every])


def _plain(name: str, count: int) -> pa.Array:
    """What an absent hidden column says: every row counts once, none is late."""
    return pa.array(np.ones(count, dtype=np.int64) if name == WEIGHT else np.zeros(count, dtype=np.bool_))
