"""Which segments to drop and which to merge.

Segments form tiers: FAN of one level become one of the next, so a store of n batches has O(FAN log n) segments and
every row is rewritten O(log n) times.  Expired rows must not stay for long.  So a merged segment spans at most a
quarter of the longest retention, and is dropped whole once its newest row has expired.
Merged rows keep the order of their batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.host.state.segment import SegmentRef
from weft.topology.clock import EARLIEST
from weft.topology.store import Store

FAN = 8
MOST_BYTES = 1 << 30
"""A merged segment has at most this many bytes; Arrow's string offsets allow twice as much."""


def horizon(store: Store, watermarks: Mapping[str, int | None]) -> int | None:
    """The event time below which rows of a store can find no new partner in any query; None while there is none."""
    limits = [None if (mark := watermarks.get(clock)) is None else mark - kept for clock, kept in store.expiry]
    known = [limit for limit in limits if limit is not None]
    return max(EARLIEST, min(known)) if known and len(known) == len(limits) else None


def is_expired(ref: SegmentRef, limit: int | None) -> bool:
    """Whether all rows of the segment lie below the horizon of their store."""
    return limit is not None and ref.newest is not None and ref.newest < limit


def groups(refs: Sequence[SegmentRef], retention: int | None) -> list[list[SegmentRef]]:
    """Sets of neighbouring segments, oldest first, that are due to be merged."""
    due = []
    for level in sorted({ref.level for ref in refs}):
        tier = [ref for ref in refs if ref.level == level]
        if len(tier) >= FAN:
            due += [run for run in _runs(tier, retention) if len(run) > 1]
    return due


def counted_groups(refs: Sequence[SegmentRef], _retention: int | None) -> list[list[SegmentRef]]:
    """The segments to be merged where rows are added up: the newest, from the oldest that has no more rows than they.

    A segment has at most one row of a kind, and none that was taken back in it.  This keeps the sizes of segments
    falling by half or more: a store has at most twice as many rows as there are different ones, and few segments.
    """
    newer, start = 0, len(refs)
    for place in range(len(refs) - 1, -1, -1):
        if newer >= refs[place].rows:
            start = place
        newer += refs[place].rows
    due = list(refs[start:])
    while sum(ref.bytes for ref in due) > MOST_BYTES:
        due = due[1:]
    return [due] if len(due) > 1 else []


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
