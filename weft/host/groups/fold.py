"""Rows with equal columns become one row: weights and sums are added up, least and greatest values are taken.

Hidden columns that hold measures are united; all others, marks of late rows too, tell rows apart.  NULL equals NULL
here, and NaN equals NaN.  What must hold: the sum over all rows of weight, and of every measure, does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from weft.errors import HostError
from weft.host.envelope import join
from weft.host.hidden import Frame
from weft.host.weights import attach_weights, weight_of
from weft.topology.measures import united_by
from weft.topology.model import MEASURE, WEIGHT

LARGEST = 2**63 - 1


def fold(frames: Sequence[Frame], flags: Mapping[str, str] | None = None) -> Frame:
    """One frame in which no two rows have equal columns; `flags` says how further columns are united."""
    frame = join([_weighted(frame) for frame in frames])
    measures = {name: united_by(name) for name in frame.schema.names if name.startswith(MEASURE)}
    united = {WEIGHT: "sum", **measures, **(flags or {})}
    keys = [name for name in frame.schema.names if name not in united]
    if frame.num_rows < 2 or not keys:
        return frame if frame.num_rows < 2 else _total(frame, united)
    for name in (name for name, kind in united.items() if kind == "sum"):
        refuse_overflow(frame.column(name), lambda name=name: _largest(frame, keys, name))  # type: ignore[misc]
    table = pa.Table.from_batches([frame]).group_by(keys, use_threads=False).aggregate(list(united.items()))
    names = [*keys, *(f"{name}_{kind}" for name, kind in united.items())]
    arrays = [table.column(name).combine_chunks() for name in names]
    return pa.RecordBatch.from_arrays(arrays, names=[*keys, *united]).select(frame.schema.names)


def _weighted(frame: Frame) -> Frame:
    if weight_of(frame) is not None:
        return frame
    return attach_weights(frame, pa.array(np.ones(frame.num_rows, dtype=np.int64)))


def _total(frame: Frame, united: Mapping[str, str]) -> Frame:
    """All rows as one, if there is no column that tells them apart."""
    found = []
    for name in frame.schema.names:
        column = frame.column(name)
        if united[name] == "sum":
            refuse_overflow(column, lambda: "a sum, or the number of joined rows, is too large in the only group")
        made = {"sum": pc.sum, "min": pc.min, "max": pc.max}[united[name]](column)
        found.append(pa.array([made.as_py()], column.type))
    return pa.RecordBatch.from_arrays(found, names=frame.schema.names)


def refuse_overflow(column: pa.Array, what: Callable[[], str] = lambda: "a count of joined rows is too large") -> None:
    """Refuse a sum that may not fit into 64 bits; `what` says so.  Arrow adds without a check."""
    if not pt.is_integer(column.type) or len(column) == 0:
        return
    limits = pc.min_max(column).as_py()
    if max(abs(limits["min"] or 0), abs(limits["max"] or 0)) * len(column) > LARGEST:
        values = column.to_numpy(zero_copy_only=False).astype(np.float64)
        if np.abs(values).sum() >= LARGEST:
            raise too_large(what())


def too_large(what: str) -> HostError:
    """Something does not fit into 64 bits while rows are added up."""
    return HostError(
        what,
        detail="numbers that are added up exceed 64 bits.",
        hint="select fewer rows, join fewer, or cast the argument of SUM to DOUBLE.",
    )


def _largest(frame: Frame, keys: Sequence[str], name: str) -> str:
    """Names the rows whose sum is the largest."""
    sizes = pc.abs(frame.column(name).cast(pa.float64(), safe=False))
    table = pa.table({**{key: frame.column(key) for key in keys}, "#size": sizes})
    sums = table.group_by(list(keys), use_threads=False).aggregate([("#size", "sum")])
    worst = sums.take(pc.sort_indices(sums.column("#size_sum"), sort_keys=[("", "descending")])[:1]).to_pylist()[0]
    shown = [str(worst[key]) for key in keys if not key.startswith("#") or key.startswith("#k")]
    what = "the number of joined rows" if name == WEIGHT else "a sum"
    return f"{what} is too large in " + (f"group ({', '.join(shown)})" if shown else "the only group")
