"""Whole numbers that fit into fewer bits travel in fewer: keys and prices are declared with 64, and rarely need 32.

What must hold: `widened(narrowed(frame))` equals the frame, its schema and its NULLs too.  Columns of another type are
left as they are, and so are small frames, of which the names would be larger than what is saved.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.host.hidden import Frame

WIDE = b"weft.int64"
"""In the metadata of a schema: the places of the columns that were narrowed."""
WORTHWHILE = 1024
"""Rows from which on it pays."""
WIDTHS = tuple((kind, np.iinfo(kind.to_pandas_dtype())) for kind in (pa.int8(), pa.int16(), pa.int32()))


def narrowed(frame: Frame) -> Frame:
    """The frame with each column of 64-bit whole numbers as narrow as its values allow."""
    if frame.num_rows < WORTHWHILE:
        return frame
    columns, places = list(frame.columns), list[int]()
    for place, column in enumerate(columns):
        if column.type == pa.int64() and (kind := _width(column)) is not None:
            columns[place] = pc.cast(column, kind, safe=False)
            places.append(place)
    if not places:
        return frame
    fields = [field.with_type(column.type) for field, column in zip(frame.schema, columns, strict=True)]
    told = {**(frame.schema.metadata or {}), WIDE: ",".join(map(str, places)).encode()}
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, metadata=told))


def widened(frame: Frame) -> Frame:
    """The frame that was narrowed."""
    told = dict(frame.schema.metadata or {})
    if (places := told.pop(WIDE, None)) is None:
        return frame
    columns, fields = list(frame.columns), list(frame.schema)
    for place in map(int, places.split(b",")):
        columns[place] = pc.cast(columns[place], pa.int64())
        fields[place] = fields[place].with_type(pa.int64())
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, metadata=told or None))


def _width(column: pa.Array) -> pa.DataType | None:
    """The narrowest type that has all values of a column; None if it has to stay as wide as it is."""
    found = pc.min_max(column)
    least, greatest = found["min"].as_py(), found["max"].as_py()
    if least is None:
        return pa.int8()
    return next((kind for kind, limits in WIDTHS if limits.min <= least and greatest <= limits.max), None)
