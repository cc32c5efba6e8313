"""One index for equality, ranges and everything: rows ordered by (bucket, code, range code).

    codes   equality codes of the key columns, or none
    ranges  order codes of each range dimension; none, one or several

Rows are grouped into buckets by a hash of the equality code (one bucket if there is none), and inside a
bucket ordered by (code, range).  So a probe (code c, range from lo to hi) reads one bucket, finds the
first row at (c, lo) by a short scan or a binary search, and walks until the code changes or hi is passed:
its cost is the number of rows it returns plus a logarithm, also for a key shared by a million rows.
With neither codes nor ranges every probe meets every row: that is the block-wise nested loop.
With several ranges the rows of one code are ordered as `weft.kernels.boxes` says, and a probe walks them by boxes.

A probe mostly waits for memory, so it reads as little as possible.  `tags` has one byte for each bucket.  The three
bits of a hash after the bucket number choose a bit of that byte, and the bit is set if some row of the bucket has it.
`tags` is small enough for the CPU cache, and most probes for a key that is not stored end there.  The others are looked
up in blocks, in loops without branches, so that the CPU has many reads in flight at once.

What must hold: a row takes part iff it is valid in all key columns; every (probe, row) pair with equal
code, and in every dimension a range code in [lo, hi], is produced exactly once, in any number of chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, types

from weft.kernels.boxes import Places, is_ascending, order_points, side_by_side, walk
from weft.kernels.codes import BOOLS, BYTES, HIGHEST, INTS, INTS32, LOWEST, Bools, Ints, mix

SCAN = 24
"""Buckets up to this many rows are scanned; larger ones are searched."""
BLOCK = 256
"""Probes that are looked up together."""

Pairs = tuple[Places, Places]
"""Positions of probes and of rows, equally long."""


@dataclass(frozen=True, slots=True)
class Index:
    """Rows of one segment in index order.  Arrays of parts that are absent are empty."""

    starts: Places
    """Where buckets begin, and where the last one ends."""
    tags: npt.NDArray[np.uint8]
    """A byte for each bucket, see above; empty if there are no codes."""
    rows: Places
    codes: Ints
    ranges: Ints
    """Order codes of one dimension."""
    points: Ints
    boxes: Ints
    """Of several dimensions, see `weft.kernels.boxes`."""
    has_codes: bool
    dimensions: int

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What has to be stored to get the index back."""
        named = ("starts", "tags", "rows", "codes", "ranges", "points", "boxes")
        return {name: getattr(self, name) for name in named}


def build(count: int, codes: Ints | None, ranges: Sequence[Ints], valid: Bools | None) -> Index:
    """Index `count` rows; rows outside `valid` are left out."""
    rows = np.arange(count, dtype=np.int32) if valid is None else np.flatnonzero(valid).astype(np.int32)
    if len(ranges) == 1 and not is_ascending(ranges[0], rows):
        rows = rows[np.argsort(ranges[0][rows], kind="stable")]
    ordered = alone = points = boxes = np.empty(0, dtype=np.int64)
    if codes is None:
        starts, tags = np.array([0, len(rows)], dtype=np.int32), np.empty(0, dtype=np.uint8)
    else:
        starts, tags, rows, ordered = _sort_into_buckets(codes, rows, _bits(len(rows)))
    if len(ranges) == 1:
        alone = ranges[0][rows]
    elif ranges:
        points, boxes = order_points(ranges, rows, ordered)
    return Index(starts, tags, rows, ordered, alone, points, boxes, codes is not None, len(ranges))


def probe(
    index: Index,
    count: int,
    codes: Ints | None,
    low: Ints | None,
    high: Ints | None,
    valid: Bools | None,
    chunk: int,
) -> Iterator[Pairs]:
    """All matches of `count` probes, in chunks of at most `chunk` pairs.

    `low` and `high` have an end for each probe, None if there is none; where the index has several dimensions, a row
    of ends for each probe (see `ends`).
    """
    empty = np.empty(0, dtype=np.int64)
    mask = np.empty(0, dtype=np.bool_) if valid is None else valid
    c = empty if codes is None else codes
    if index.dimensions > 1 and low is not None and high is not None:
        runs = _find_runs(index.starts, index.tags, index.codes, index.has_codes, count, c, mask)
        yield from walk(index.points, index.boxes, index.rows, runs, low, high, chunk)
        return
    lo, hi = (empty if part is None else part for part in (low, high))
    at, row = 0, -1
    while at < count:
        probes = np.empty(chunk, dtype=np.int32)
        rows = np.empty(chunk, dtype=np.int32)
        found, at, row = _probe(
            index.starts, index.tags, index.rows, index.codes, index.ranges, index.has_codes, index.dimensions > 0,
            count, c, lo, hi, mask, at, row, probes, rows,
        )  # fmt: skip
        if found:
            yield probes[:found], rows[:found]


def ends(given: Sequence[Ints | None], count: int, *, upper: bool) -> Ints | None:
    """The ends of all dimensions as `probe` takes them: of none or one as they are, of several side by side."""
    if len(given) > 1:
        return side_by_side(given, count, HIGHEST if upper else LOWEST)
    return given[0] if given else None


def _bits(count: int) -> int:
    """Bits of the bucket number: about one to two rows a bucket."""
    return max(1, int(count).bit_length() - 1)


@njit(inline="always")
def tag(mixed: Any, bits: Any) -> Any:
    """The bit of a code in the byte of its bucket, from the bits of its hash after the bucket's."""
    return np.uint8(1 << ((mixed >> np.uint64(61 - bits)) & np.uint64(7)))


# A function with a signature is compiled when it is defined, so helpers come before their callers here.


@njit(types.void(types.int64[::1], types.int32[::1], types.int64, types.int64), cache=True)
def _order_by_code(codes: Ints, rows: Places, start: int, end: int) -> None:
    """Sort one bucket by code; stable, so that rows of a code stay in range order.  Few rows: by insertion."""
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


@njit(
    types.Tuple((types.int32[::1], types.uint8[::1], types.int32[::1], types.int64[::1]))(INTS, INTS32, types.int64),
    cache=True,
)
def _sort_into_buckets(codes: Ints, rows: Places, bits: int) -> Any:
    """A stable counting sort by bucket, then a stable sort by code inside each: bucket starts, tags, rows, codes.

    `rows` come in range order.  Both sorts are stable, so rows of one code stay in that order.
    """
    starts, tags = np.zeros((1 << bits) + 1, dtype=np.int32), np.zeros(1 << bits, dtype=np.uint8)
    buckets = np.empty(len(rows), dtype=np.int32)
    for i in range(len(rows)):
        mixed = mix(codes[rows[i]])
        bucket = np.int64(mixed >> np.uint64(64 - bits))
        buckets[i] = bucket
        starts[bucket + 1] += 1
        tags[bucket] |= tag(mixed, bits)
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
    return starts, tags, out, ordered


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


@njit(inline="always")
def _candidates(
    starts: Any, tags: Any, bits: Any, codes: Any, valid: Any, at: Any, upto: Any, which: Any, begin: Any, end: Any
) -> Any:
    """The probes from `at` to `upto` that may have matches, and where; their number.

    The first loop writes every probe and advances only on a hit, so it has no branch to mispredict.  The second loop
    reads bucket bounds for the hits only: these reads miss the cache, and do not depend on each other.
    """
    count = 0
    for i in range(at, upto):
        mixed = mix(codes[i])
        bucket = np.int64(mixed >> np.uint64(64 - bits))
        which[count] = i
        begin[count] = bucket
        hit = (tags[bucket] & tag(mixed, bits)) != 0
        if len(valid):
            hit &= valid[i]
        count += 1 if hit else 0
    for k in range(count):
        bucket = begin[k]
        begin[k], end[k] = starts[bucket], starts[bucket + 1]
    return count


@njit(inline="always")
def _all_candidates(starts: Any, valid: Any, at: Any, upto: Any, which: Any, begin: Any, end: Any) -> Any:
    """The same for an index without codes: it has one bucket."""
    count = 0
    for i in range(at, upto):
        which[count], begin[count], end[count] = i, starts[0], starts[1]
        count += 1 if len(valid) == 0 or valid[i] else 0
    return count


@njit(inline="always")
def _meet(
    index_rows: Any, index_codes: Any, index_ranges: Any, has_codes: Any, has_ranges: Any,
    probe: Any, row: Any, end: Any, code: Any, high: Any, out_probes: Any, out_rows: Any, found: Any,
) -> Any:  # fmt: skip
    """Walk from `row` while rows match; the number of pairs now, and where the output was full (-1: it was not)."""
    while row < end and not (has_codes and index_codes[row] != code) and not (has_ranges and index_ranges[row] > high):
        if found == len(out_rows):
            return found, row
        out_probes[found] = probe
        out_rows[found] = index_rows[row]
        found += 1
        row += 1
    return found, np.int64(-1)


@njit(
    types.UniTuple(types.int64, 3)(
        INTS32, BYTES, INTS32, INTS, INTS, types.bool_, types.bool_, types.int64, INTS, INTS, INTS, BOOLS,
        types.int64, types.int64, types.int32[::1], types.int32[::1],
    ),
    cache=True,
)  # fmt: skip
def _probe(
    starts: Any, tags: Any, index_rows: Any, index_codes: Any, index_ranges: Any, has_codes: bool, has_ranges: bool,
    count: int, codes: Any, low: Any, high: Any, valid: Any, at: int, row: int, out_probes: Any, out_rows: Any,
) -> tuple[int, int, int]:  # fmt: skip
    """Fill the output from probe `at`, index position `row` (-1: not started); return where to continue.

    A full output may cut a walk short.  The next call gets the place back and first finishes that one probe (`upto` is
    `at + 1`), because `row` belongs to it alone; after that it takes whole blocks again.
    """
    bits = 0
    while (1 << bits) < len(starts) - 1:
        bits += 1
    which, begin, end = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    found = 0
    while at < count:
        upto = at + 1 if row >= 0 else min(at + BLOCK, count)
        if has_codes:
            some = _candidates(starts, tags, bits, codes, valid, at, upto, which, begin, end)
        else:
            some = _all_candidates(starts, valid, at, upto, which, begin, end)
        for k in range(some):
            i = which[k]
            code = codes[i] if has_codes else 0
            if row < 0:
                lowest = low[i] if len(low) else LOWEST
                row = _first(index_codes, index_ranges, has_codes, has_ranges, begin[k], end[k], code, lowest)
            highest = high[i] if len(high) else HIGHEST
            found, row = _meet(
                index_rows, index_codes, index_ranges, has_codes, has_ranges,
                i, row, end[k], code, highest, out_probes, out_rows, found,
            )  # fmt: skip
            if row >= 0:
                return found, i, row
        at = upto
    return found, at, row


@njit(inline="always")
def _run_end(codes: Any, start: Any, end: Any, code: Any) -> Any:
    """The first position in [start, end) after the rows of a code, which begin at `start` if there are any."""
    if end - start <= SCAN:
        while start < end and codes[start] == code:
            start += 1
        return start
    while start < end:
        middle = (start + end) >> 1
        if codes[middle] <= code:
            start = middle + 1
        else:
            end = middle
    return start


@njit(
    types.UniTuple(types.int64[::1], 3)(INTS32, BYTES, INTS, types.bool_, types.int64, INTS, BOOLS),
    cache=True,
)
def _find_runs(
    starts: Any, tags: Any, index_codes: Any, has_codes: bool, count: int, codes: Any, valid: Any
) -> tuple[Ints, Ints, Ints]:
    """The probes that may have matches, and for each the places where the rows of its code begin and end."""
    bits = 0
    while (1 << bits) < len(starts) - 1:
        bits += 1
    which, begin, end = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    if not has_codes:
        some = _all_candidates(starts, valid, 0, count, which, begin, end)
    else:
        some = _candidates(starts, tags, bits, codes, valid, 0, count, which, begin, end)
    for k in range(some if has_codes else 0):
        code = codes[which[k]]
        begin[k] = _first(index_codes, index_codes, True, False, begin[k], end[k], code, 0)
        end[k] = _run_end(index_codes, begin[k], end[k], code)
    return which[:some], begin[:some], end[:some]
