"""One index for equality, range and everything: rows ordered by (bucket, code, range code).

    codes   equality codes of the key columns, or none
    ranges  order codes of one range column, or none

Rows are grouped into buckets by a hash of the equality code (one bucket if there is none), and inside a
bucket ordered by (code, range).  So a probe (code c, range from lo to hi) reads one bucket, finds the
first row at (c, lo) by a short scan or a binary search, and walks until the code changes or hi is passed:
its cost is the number of rows it returns plus a logarithm, also for a key shared by a million rows.
With neither codes nor ranges every probe meets every row: that is the block-wise nested loop.

What must hold: a row takes part iff it is valid in all key columns; every (probe, row) pair with equal
code and range code in [lo, hi] is produced exactly once, in any number of chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, types

from weft.kernels.codes import BOOLS, INTS, INTS32, Bools, Ints, mix

LOWEST = np.iinfo(np.int64).min
HIGHEST = np.iinfo(np.int64).max
SCAN = 24
"""Buckets up to this many rows are scanned; larger ones are searched."""

Pairs = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]
"""Positions of probes and of rows, equally long."""


@dataclass(frozen=True, slots=True)
class Index:
    """Rows of one segment in index order.  `codes` and `ranges` are empty if that part is absent."""

    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    codes: Ints
    ranges: Ints
    has_codes: bool
    has_ranges: bool

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What has to be stored to get the index back."""
        return {"starts": self.starts, "rows": self.rows, "codes": self.codes, "ranges": self.ranges}


def build(count: int, codes: Ints | None, ranges: Ints | None, valid: Bools | None) -> Index:
    """Index `count` rows; rows outside `valid` are left out."""
    rows = np.arange(count, dtype=np.int32) if valid is None else np.flatnonzero(valid).astype(np.int32)
    if ranges is not None and not _ascending(ranges, rows):
        rows = rows[np.argsort(ranges[rows], kind="stable")]
    empty = np.empty(0, dtype=np.int64)
    if codes is None:
        starts, ordered = np.array([0, len(rows)], dtype=np.int64), empty
    else:
        starts, rows, ordered = _bucketed(codes, rows, _bits(len(rows)))
    return Index(
        starts, rows, ordered, empty if ranges is None else ranges[rows], codes is not None, ranges is not None
    )


def probe(
    index: Index, count: int, codes: Ints | None, low: Ints | None, high: Ints | None, valid: Bools | None, chunk: int
) -> Iterator[Pairs]:
    """All matches of `count` probes, in chunks of at most `chunk` pairs."""
    empty = np.empty(0, dtype=np.int64)
    mask = np.empty(0, dtype=np.bool_) if valid is None else valid
    c, lo, hi = (empty if part is None else part for part in (codes, low, high))
    at, row = 0, -1
    while at < count:
        probes = np.empty(chunk, dtype=np.int64)
        rows = np.empty(chunk, dtype=np.int32)
        found, at, row = _probe(
            index.starts, index.rows, index.codes, index.ranges, index.has_codes, index.has_ranges,
            count, c, lo, hi, mask, at, row, probes, rows,
        )  # fmt: skip
        if found:
            yield probes[:found], rows[:found]


def _bits(count: int) -> int:
    """Bits of the bucket number: about one to two rows a bucket."""
    return max(1, int(count).bit_length() - 1)


@njit(inline="always")
def _bucket(code: Any, bits: Any) -> Any:
    return np.int64(mix(code) >> np.uint64(64 - bits))


@njit(types.bool_(INTS, INTS32), cache=True)
def _ascending(values: Ints, rows: npt.NDArray[np.int32]) -> bool:
    for i in range(1, len(rows)):  # noqa: SIM110 - compiled
        if values[rows[i - 1]] > values[rows[i]]:
            return False
    return True


# Compiled where they stand, so helpers come before their callers here.


@njit(types.void(types.int64[::1], types.int32[::1], types.int64, types.int64), cache=True)
def _order_by_code(codes: Ints, rows: npt.NDArray[np.int32], start: int, end: int) -> None:
    if end - start > SCAN:
        order = np.argsort(codes[start:end], kind="mergesort")
        codes[start:end] = codes[start:end][order]
        rows[start:end] = rows[start:end][order]
        return
    for i in range(start + 1, end):
        code, row = codes[i], rows[i]
        k = i
        while k > start and codes[k - 1] > code:
            codes[k], rows[k] = codes[k - 1], rows[k - 1]
            k -= 1
        codes[k], rows[k] = code, row


@njit(types.Tuple((types.int64[::1], types.int32[::1], types.int64[::1]))(INTS, INTS32, types.int64), cache=True)
def _bucketed(codes: Ints, rows: npt.NDArray[np.int32], bits: int) -> Any:
    """A stable counting sort by bucket, then a stable sort by code inside each bucket: bucket starts, rows, codes."""
    starts = np.zeros((1 << bits) + 1, dtype=np.int64)
    buckets = np.empty(len(rows), dtype=np.int32)
    for i in range(len(rows)):
        b = _bucket(codes[rows[i]], bits)
        buckets[i] = b
        starts[b + 1] += 1
    for b in range(1, len(starts)):
        starts[b] += starts[b - 1]
    fill = starts[:-1].copy()
    out = np.empty(len(rows), dtype=np.int32)
    ordered = np.empty(len(rows), dtype=np.int64)
    for i in range(len(rows)):
        at = fill[buckets[i]]
        fill[buckets[i]] = at + 1
        out[at] = rows[i]
        ordered[at] = codes[rows[i]]
    for b in range(len(starts) - 1):
        if starts[b + 1] - starts[b] > 1:
            _order_by_code(ordered, out, starts[b], starts[b + 1])
    return starts, out, ordered


@njit(inline="always")
def _first(codes: Any, ranges: Any, has_codes: Any, has_ranges: Any, start: Any, end: Any, code: Any, low: Any) -> Any:
    """The first position in [start, end) at or after (code, low)."""
    if has_codes and end - start <= SCAN:
        while start < end and (codes[start] < code or (has_ranges and codes[start] == code and ranges[start] < low)):
            start += 1
        return start
    while start < end:
        middle = (start + end) >> 1
        before = False
        if has_codes and codes[middle] != code:
            before = codes[middle] < code
        elif has_ranges:
            before = ranges[middle] < low
        if before:
            start = middle + 1
        else:
            end = middle
    return start


@njit(
    types.UniTuple(types.int64, 3)(
        INTS, INTS32, INTS, INTS, types.bool_, types.bool_, types.int64, INTS, INTS, INTS, BOOLS,
        types.int64, types.int64, types.int64[::1], types.int32[::1],
    ),
    cache=True,
)  # fmt: skip
def _probe(
    starts: Any, index_rows: Any, index_codes: Any, index_ranges: Any, has_codes: bool, has_ranges: bool,
    count: int, codes: Any, low: Any, high: Any, valid: Any, at: int, row: int, out_probes: Any, out_rows: Any,
) -> tuple[int, int, int]:  # fmt: skip
    """Fill the output from probe `at`, index position `row` (-1: not started); return where to go on."""
    bits = 0
    while (1 << bits) < len(starts) - 1:
        bits += 1
    found = 0
    limit = len(out_rows)
    while at < count:
        if len(valid) and not valid[at]:
            at += 1
            row = -1
            continue
        code = codes[at] if has_codes else 0
        lo = low[at] if len(low) else LOWEST
        hi = high[at] if len(high) else HIGHEST
        bucket = _bucket(code, bits) if has_codes else 0
        end = starts[bucket + 1]
        if row < 0:
            row = _first(index_codes, index_ranges, has_codes, has_ranges, starts[bucket], end, code, lo)
        while row < end:
            if has_codes and index_codes[row] != code:
                break
            if has_ranges and index_ranges[row] > hi:
                break
            if found == limit:
                return found, at, row
            out_probes[found] = at
            out_rows[found] = index_rows[row]
            found += 1
            row += 1
        at += 1
        row = -1
    return found, at, row
