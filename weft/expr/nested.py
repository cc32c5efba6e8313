"""Kernels of structs and lists: equality, fields, elements.

Inside a struct or a list NULL equals NULL and NaN equals NaN; a whole value that is NULL makes the comparison NULL.
Both operands of a comparison have the same type: the planner ensures that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from weft.expr.casts import Datum

Bools = npt.NDArray[np.bool_]


def is_nested(kind: pa.DataType) -> bool:
    """Whether values have parts."""
    return bool(pt.is_struct(kind) or pt.is_list(kind))


def equal(left: Datum, right: Datum) -> Datum:
    """Whether values of one nested type are equal; NULL where one of them is NULL.  Of two constants it is one."""
    rows = max((len(side) for side in (left, right) if not isinstance(side, pa.Scalar)), default=1)
    a, b = (pa.repeat(side, rows) if isinstance(side, pa.Scalar) else side for side in (left, right))
    unknown = _mask(pc.or_(pc.is_null(a), pc.is_null(b)))
    found = pa.array(same_values(a, b), pa.bool_(), mask=unknown)
    return found[0] if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar) else found


def same_values(left: pa.Array, right: pa.Array) -> Bools:
    """Whether values are the same: both NULL, or equal in all parts."""
    present, other = _mask(pc.is_valid(left)), _mask(pc.is_valid(right))
    if pt.is_struct(left.type):
        fields = range(left.type.num_fields)
        parts = [same_values(pc.struct_field(left, [at]), pc.struct_field(right, [at])) for at in fields]
        equal_parts = np.logical_and.reduce(parts) if parts else np.ones(len(left), dtype=bool)
    elif pt.is_list(left.type):
        equal_parts = _same_lists(left, right, present & other)
    elif pt.is_null(left.type):
        equal_parts = ~present
    else:
        equal_parts = _mask(pc.fill_null(pc.equal(left, right), False))
        if pt.is_floating(left.type):
            equal_parts |= _mask(pc.fill_null(pc.and_(pc.is_nan(left), pc.is_nan(right)), False))
    both: Bools = (present & other & equal_parts) | ~(present | other)
    return both


def _same_lists(left: pa.Array, right: pa.Array, both: Bools) -> Bools:
    counts = [pc.fill_null(pc.list_value_length(side), -1).to_numpy(zero_copy_only=False) for side in (left, right)]
    same: Bools = both & (counts[0] == counts[1])
    rows = np.flatnonzero(same & (counts[0] > 0))
    if len(rows):
        a, b = (side.take(pa.array(rows)).flatten() for side in (left, right))
        starts = np.cumsum(counts[0][rows]) - counts[0][rows]
        same[rows] = np.logical_and.reduceat(same_values(a, b), starts)
    return same


def _mask(values: pa.Array) -> Any:
    return values.to_numpy(zero_copy_only=False).astype(bool)


def struct_extract(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """A field of a struct by its constant name."""
    name = args[1].as_py()
    found = pc.struct_field(args[0], [args[0].type.get_field_index(name)])
    return found if found.type == kind else pc.cast(found, kind)


def list_extract(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    """An element of a list, counted from 1, or from the end if negative; NULL if there is none."""
    lists, places = args
    if isinstance(lists, pa.Scalar) and isinstance(places, pa.Scalar):
        return list_extract([pa.repeat(lists, 1), places], _kind)[0]
    if isinstance(lists, pa.Scalar):
        lists = pa.repeat(lists, len(places))
    if isinstance(places, pa.Scalar):
        places = pa.repeat(places, len(lists))
    count = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    place = pc.fill_null(places, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    inside = (place != 0) & (np.abs(place) <= count)
    starts = lists.offsets.to_numpy()[:-1].astype(np.int64)
    at = starts + np.where(place > 0, place - 1, count + place)
    return lists.values.take(pa.array(np.where(inside, at, 0), pa.int64(), mask=~inside))
