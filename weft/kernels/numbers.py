"""Columns as plain numbers: what ranges are cut by."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as pt

from weft.kernels.codes import Ints

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[Any]
"""int64 or float64."""


def has_numbers(kind: pa.DataType) -> bool:
    """Whether values of this type are numbers, or dates and times that can be counted in whole steps."""
    return bool(
        pt.is_integer(kind)
        or pt.is_floating(kind)
        or pt.is_timestamp(kind)
        or pt.is_date32(kind)
        or pt.is_duration(kind)
    )


def plain_numbers(column: pa.Array) -> Numbers:
    """The values of a column without NULL: floats as doubles, all else as whole numbers."""
    kind = column.type
    if pt.is_floating(kind):
        return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False))
    if pt.is_date32(kind):
        return np.asarray(column.view(pa.int32()).cast(pa.int64()).to_numpy(zero_copy_only=False))
    whole = column.cast(pa.int64()) if pt.is_integer(kind) else column.view(pa.int64())
    return np.asarray(whole.to_numpy(zero_copy_only=False))


def parts_of(numbers: Ints) -> npt.NDArray[np.float64]:
    """A share in [0, 1) for each number; consecutive ones are spread evenly (multiples of the golden ratio)."""
    mixed = numbers.astype(np.int64).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(11)
    return np.asarray(mixed.astype(np.float64) * 2.0**-53)
