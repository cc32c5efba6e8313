"""Weights: how often a row counts.  They are in a hidden column `#w`, which a frame has only if it needs it.

A frame without the column has rows that count once each.  The weight of a joined row is the product of its members'
weights; a row that is taken back has weight -1.  The delta rule is linear in each member, so probes need no other
change.  What must hold: a frame without the column costs nothing extra.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import HostError
from weft.host.hidden import Frame
from weft.query.model import WEIGHT


def weight_of(frame: Frame) -> pa.Array | None:
    """The weights of a frame's rows; None where every row counts once."""
    at = frame.schema.get_field_index(WEIGHT)
    return None if at < 0 else frame.column(at)


def attach_weights(frame: Frame, weights: pa.Array | None) -> Frame:
    """The frame with a column of weights; the same frame if there are none."""
    return frame if weights is None else frame.append_column(WEIGHT, weights)


def multiply(
    left: pa.Array | None, left_rows: pa.Array, right: pa.Array | None, right_rows: pa.Array
) -> pa.Array | None:
    """Weights of joined rows, given the rows of both sides that were joined."""
    mine = None if left is None else pc.take(left, left_rows, boundscheck=False)
    other = None if right is None else pc.take(right, right_rows, boundscheck=False)
    if mine is None or other is None:
        return other if mine is None else mine
    return product(mine, other)


def product(numbers: pa.Array, weights: pa.Array) -> pa.Array:
    """Numbers, each counted as often as a weight says."""
    try:
        return pc.multiply_checked(numbers, weights)
    except pa.ArrowInvalid as error:
        raise HostError(
            "a count of joined rows is too large",
            detail="rows that are counted instead of kept stand for more joined rows than 64 bits can count.",
            hint="join by more columns, use windows, or select fewer rows.",
        ) from error


def repeat(frame: Frame, query: str) -> Frame:
    """Each row as often as its weight says, for sinks that know no weights."""
    weights = weight_of(frame)
    if weights is None:
        return frame
    counts = weights.to_numpy(zero_copy_only=False)
    if (counts < 0).any():
        raise HostError(
            f'query "{query}" takes results back',
            detail="a row of its input was taken back, and its sink cannot remove rows.",
            hint="use a sink that takes changes.",
        )
    rows = np.repeat(np.arange(frame.num_rows), counts)
    return frame.select([name for name in frame.schema.names if name != WEIGHT]).take(pa.array(rows))
