"""Which segments to drop and which to merge.

Segments form tiers: FAN of one level become one of the next, so a store of n batches has O(FAN log n) segments and
every row is rewritten O(log n) times.  Expired rows of a store with a clock must not stay for long.  So a merged
segment spans at most a quarter of the retention, and is dropped whole once its newest row has expired.
Merged rows keep the order of their batches.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.host.state.segment import SegmentRef

FAN = 8
MOST_BYTES = 1 << 30
"""A merged segment has at most this many bytes; Arrow's string offsets allow twice as much."""


def is_expired(ref: SegmentRef, retention: int | None, watermark: int | None) -> bool:
    """Whether no row of the segment can find a new partner from now on."""
    if retention is None or watermark is None or ref.newest is None:
        return False
    return watermark > ref.newest + retention


def groups(refs: Sequence[SegmentRef], retention: int | None) -> list[list[SegmentRef]]:
    """Sets of neighbouring segments, oldest first, that are due to be merged."""
    due = []
    for level in sorted({ref.level for ref in refs}):
        tier = [ref for ref in refs if ref.level == level]
        if len(tier) >= FAN:
            due += [run for run in _runs(tier, retention) if len(run) > 1]
    return due


def _runs(tier: Sequence[SegmentRef], retention: int | None) -> list[list[SegmentRef]]:
    runs: list[list[SegmentRef]] = [[]]
    for ref in tier:
        if runs[-1] and not _fits([*runs[-1], ref], retention):
            runs.append([])
        runs[-1].append(ref)
    return runs


def _fits(run: Sequence[SegmentRef], retention: int | None) -> bool:
    if sum(ref.bytes for ref in run) > MOST_BYTES:
        return False
    if retention is None:
        return True
    oldest = min(ref.oldest for ref in run if ref.oldest is not None)
    newest = max(ref.newest for ref in run if ref.newest is not None)
    return newest - oldest <= retention // 4
