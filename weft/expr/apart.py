"""Rows taken apart: one for each element of a list.

    SELECT t.k, unnest(t.list) AS x, ordinal(t.list) AS n FROM t

What must hold: all outputs of a query that are spread read the same list, and are made by the same rows.  So the number
of rows is that of the elements; rows without any are gone, or stay once with NULL.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.evaluate import Functions, evaluate
from weft.expr.lists import ORDINAL, UNNEST, is_spread
from weft.expr.model import Call, Expr, Literal


def apart(exprs: Sequence[Expr], frame: pa.RecordBatch, functions: Functions) -> tuple[list[pa.Array], pa.Array | None]:
    """The values of outputs, and which row each comes from; None if rows are as they were."""
    spread = next((expr for expr in exprs if isinstance(expr, Call) and is_spread(expr)), None)
    if spread is None:
        return [evaluate(expr, frame, functions) for expr in exprs], None
    padded = isinstance(spread.args[1], Literal) and spread.args[1].value is True
    values, places, rows = _elements(evaluate(spread.args[0], frame, functions), padded=padded)
    found, rest = {UNNEST: values, ORDINAL: places}, frame.take(rows)
    return [
        _as(found[expr.op], expr.type)
        if isinstance(expr, Call) and expr.op in found
        else evaluate(expr, rest, functions)
        for expr in exprs
    ], rows


def _elements(lists: pa.Array, *, padded: bool) -> tuple[pa.Array, pa.Array, pa.Array]:
    """The elements of lists, their places, and the rows that they come from."""
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    counts = lengths.to_numpy(zero_copy_only=False).astype(np.int64)
    times = np.maximum(counts, 1) if padded else counts
    rows = np.repeat(np.arange(len(lists)), times)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
    gone = np.repeat(counts, times) <= place
    values = lists.filter(pc.greater(lengths, 0)).flatten()
    return values.take(pa.array(np.cumsum(~gone) - 1, mask=gone)), pa.array(place + 1, mask=gone), pa.array(rows)


def _as(values: pa.Array, kind: pa.DataType | None) -> pa.Array:
    return values if kind is None or values.type == kind else pc.cast(values, kind)
