"""Weights: how often a row counts, in a hidden column `#w` that is there only where some row does not count once.

A joined row counts the product of its members' weights, a taken-back row counts -1.  The delta rule is linear in each
member, so probes need no other change.  What must hold: a frame without the column costs nothing extra.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import HostError
from weft.query.model import WEIGHT

Frame: TypeAlias = pa.RecordBatch


def weight_of(frame: Frame) -> pa.Array | None:
    """The weights of a frame's rows; None where every row counts once."""
    at = frame.schema.get_field_index(WEIGHT)
    return None if at < 0 else frame.column(at)


def cut(frame: Frame, columns: Sequence[str]) -> Frame:
    """Some columns of a frame, and its weights if it has any."""
    if len(columns) == frame.num_columns and frame.schema.names == list(columns):
        return frame
    weighted = frame.schema.get_field_index(WEIGHT) >= 0
    return frame.select([*columns, WEIGHT] if weighted else list(columns))


def weighted(frame: Frame, weights: pa.Array | None) -> Frame:
    """The frame with weights, or as it is."""
    return frame if weights is None else frame.append_column(WEIGHT, weights)


def multiply(
    left: pa.Array | None, left_rows: pa.Array, right: pa.Array | None, right_rows: pa.Array
) -> pa.Array | None:
    """Weights of joined rows, given which rows were joined."""
    mine = None if left is None else pc.take(left, left_rows, boundscheck=False)
    other = None if right is None else pc.take(right, right_rows, boundscheck=False)
    if mine is None or other is None:
        return other if mine is None else mine
    return pc.multiply_checked(mine, other)


def level(frames: Sequence[Frame]) -> list[Frame]:
    """Frames of the same columns, with weights in all of them or in none."""
    if not any(weight_of(frame) is not None for frame in frames):
        return list(frames)
    return [frame if weight_of(frame) is not None else weighted(frame, _ones(frame.num_rows)) for frame in frames]


def _ones(count: int) -> pa.Array:
    return pa.array(np.ones(count, dtype=np.int64))


def repeat(frame: Frame, query: str) -> Frame:
    """Each row as often as it counts, for those who take rows."""
    weights = weight_of(frame)
    if weights is None:
        return frame
    counts = weights.to_numpy(zero_copy_only=False)
    if (counts < 0).any():
        raise HostError(
            f'query "{query}" takes results back',
            detail="a row of its input was taken back, and its sink takes rows that stay.",
            hint="use a sink that takes changes.",
        )
    rows = np.repeat(np.arange(frame.num_rows), counts)
    return frame.select([name for name in frame.schema.names if name != WEIGHT]).take(pa.array(rows))
