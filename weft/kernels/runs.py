"""Where the matches of a probe begin and end in an index with at most one range, for those who only add them up.

The rows that match a probe are neighbours in index order (`weft.kernels.index`): those with its code, from the lowest
to the highest range code that it allows.  So their number is the end less the beginning, and the sum of what they carry
is the difference of two prefix sums.  What must hold: [begin, end) are exactly the rows that `probe` would return.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from weft.kernels.codes import BOOLS, BYTES, HIGHEST, INTS, INTS32, LOWEST, Bools, Ints, mix
from weft.kernels.index import Index, tag


def runs(
    index: Index, count: int, codes: Ints | None, low: Ints | None, high: Ints | None, valid: Bools | None
) -> tuple[Ints, Ints]:
    """The first place in the index that each of `count` probes matches, and the place after the last."""
    empty = np.empty(0, dtype=np.int64)
    mask = np.empty(0, dtype=np.bool_) if valid is None else valid
    c, lo, hi = (empty if part is None else part for part in (codes, low, high))
    kept = index.starts, index.tags, index.codes, index.ranges
    begin, end = _runs(*kept, index.has_codes, index.dimensions > 0, count, c, lo, hi, mask)
    return begin, end


@njit(inline="always")
def _bound(
    codes: Any, ranges: Any, has_codes: Any, has_ranges: Any, start: Any, end: Any, code: Any, limit: Any, after: Any
) -> Any:
    """The first place in [start, end) at (code, limit) or later; with `after`, later than that."""
    while start < end:
        middle = (start + end) >> 1
        before = after
        if has_codes and codes[middle] != code:
            before = codes[middle] < code
        elif has_ranges and ranges[middle] != limit:
            before = ranges[middle] < limit
        if before:
            start = middle + 1
        else:
            end = middle
    return start


@njit(
    types.UniTuple(types.int64[::1], 2)(
        INTS32, BYTES, INTS, INTS, types.bool_, types.bool_, types.int64, INTS, INTS, INTS, BOOLS
    ),
    cache=True,
)
def _runs(
    starts: Any, tags: Any, index_codes: Any, ranges: Any, has_codes: bool, has_ranges: bool, count: int,
    codes: Any, low: Any, high: Any, valid: Any,
) -> Any:  # fmt: skip
    begins, ends = np.zeros(count, np.int64), np.zeros(count, np.int64)
    bits = 0
    while (1 << bits) < len(starts) - 1:
        bits += 1
    for i in range(count):
        if len(valid) and not valid[i]:
            continue
        code, begin, end = np.int64(0), np.int64(starts[0]), np.int64(starts[len(starts) - 1])
        if has_codes:
            code = codes[i]
            mixed = mix(code)
            bucket = np.int64(mixed >> np.uint64(64 - bits))
            if not tags[bucket] & tag(mixed, bits):
                continue
            begin, end = np.int64(starts[bucket]), np.int64(starts[bucket + 1])
        lowest = low[i] if len(low) else LOWEST
        highest = high[i] if len(high) else HIGHEST
        first = _bound(index_codes, ranges, has_codes, has_ranges, begin, end, code, lowest, False)
        last = _bound(index_codes, ranges, has_codes, has_ranges, begin, end, code, highest, True)
        begins[i], ends[i] = first, max(first, last)
    return begins, ends
