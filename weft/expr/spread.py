"""Kernels that need constants, made to take columns.

Arrow's text kernels take one pattern, one place or one width for a whole array.  Where such an argument is a column,
rows are put together by its value, the kernel runs once for every distinct value, and the results go back to their
places.  So there is one kernel for both, and what a column gives is what each of its values would give as a constant.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.casts import Datum, as_array
from weft.expr.logic import Kernel


def spread(kernel: Kernel) -> Kernel:
    """A kernel of an array and constants, made to take any mix of both."""

    def over_rows(args: Sequence[Datum], kind: pa.DataType) -> Datum:
        columns = [arg for arg in args if isinstance(arg, pa.Array)]
        if not columns:
            return as_array(kernel([as_array(args[0], 1), *args[1:]], kind), 1)[0]
        subject = as_array(args[0], len(columns[0]))
        if all(isinstance(arg, pa.Scalar) for arg in args[1:]):
            return as_array(kernel([subject, *args[1:]], kind), len(subject))
        return _by_value(kernel, subject, args[1:], kind)

    return over_rows


def _by_value(kernel: Kernel, subject: pa.Array, others: Sequence[Datum], kind: pa.DataType) -> pa.Array:
    codes = _codes(others, len(subject))
    order = np.argsort(codes, kind="stable")
    edges = np.flatnonzero(np.diff(codes[order], prepend=-1)) if len(order) else order
    parts = [pa.array([], kind)]
    for rows in np.split(order, edges[1:]) if len(order) else ():
        constants = [arg if isinstance(arg, pa.Scalar) else arg[int(rows[0])] for arg in others]
        parts.append(as_array(kernel([subject.take(pa.array(rows)), *constants], kind), len(rows)))
    return pa.concat_arrays(parts).take(pa.array(np.argsort(order, kind="stable")))


def _codes(others: Sequence[Datum], rows: int) -> npt.NDArray[np.int64]:
    """A number for each row; rows with the same values have the same number."""
    codes = np.zeros(rows, dtype=np.int64)
    for arg in others:
        if isinstance(arg, pa.Array):
            encoded = pc.dictionary_encode(arg, null_encoding="encode")
            codes = codes * max(1, len(encoded.dictionary)) + encoded.indices.to_numpy(zero_copy_only=False)
    return codes
