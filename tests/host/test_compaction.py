"""Which segments are merged: few remain, rows are seldom rewritten, and expired rows do not stay long."""

from __future__ import annotations

import itertools
import random

import pytest

from weft.host.state.compaction import FAN, MOST_BYTES, groups, horizon, is_expired
from weft.host.state.segment import SegmentRef
from weft.topology.store import Store

_names = itertools.count()


def ref(
    batch: int,
    *,
    level: int = 0,
    last: int | None = None,
    span: tuple[int, int] | None = None,
    size: int = 100,
    rows: int = 1,
) -> SegmentRef:
    oldest, newest = span or (None, None)
    return SegmentRef(f"s{next(_names)}", "store", 0, rows, size, level, batch, last or batch, oldest, newest, "")


def merge(group: list[SegmentRef]) -> SegmentRef:
    times = [t for r in group for t in (r.oldest, r.newest) if t is not None]
    return ref(
        group[0].first_batch, level=group[0].level + 1, last=group[-1].last_batch, rows=sum(r.rows for r in group),
        span=(min(times), max(times)) if times else None, size=sum(r.bytes for r in group),
    )  # fmt: skip


def tidy(live: list[SegmentRef], retention: int | None) -> tuple[list[SegmentRef], int]:
    """The segments after one round, and the rows that were rewritten."""
    rewritten = 0
    for group in groups(live, retention):
        new = merge(group)
        rewritten += new.rows
        live = [r for r in live if r not in group] + [new]
    return sorted(live, key=lambda r: (r.first_batch, r.name)), rewritten


def test_full_history_keeps_few_segments_and_rewrites_each_row_seldom() -> None:
    live: list[SegmentRef] = []
    rewritten = most = 0
    for batch in range(4000):
        live, again = tidy([*live, ref(batch)], None)
        rewritten += again
        most = max(most, len(live))
    assert sum(r.rows for r in live) == 4000
    assert most <= FAN * 5
    assert rewritten <= 4000 * 5
    ranges = sorted((r.first_batch, r.last_batch) for r in live)
    assert all(a[1] < b[0] for a, b in itertools.pairwise(ranges)), "merged segments are neighbours"


@pytest.mark.parametrize("seed", range(5))
def test_windowed_segments_stay_few_and_span_at_most_a_quarter(seed: int) -> None:
    rng = random.Random(seed)
    window, step = 1000, rng.choice([5, 20, 50, 200])
    live: list[SegmentRef] = []
    for batch in range(600):
        start = batch * step
        live = [r for r in live if not is_expired(r, start - window)]
        live, _ = tidy([*live, ref(batch, span=(start, start + step - 1))], window)
        held = sum(r.rows for r in live)
        assert held * step <= 1.5 * window + 2 * step
        assert len(live) <= 4 * FAN
        for r in live:
            assert r.level == 0 or (r.newest or 0) - (r.oldest or 0) <= window // 4


def test_large_segments_are_left_alone() -> None:
    large = [ref(batch, size=MOST_BYTES) for batch in range(3 * FAN)]
    assert groups(large, None) == []
    for group in groups([ref(batch, size=MOST_BYTES // 3) for batch in range(FAN)], None):
        assert sum(r.bytes for r in group) <= MOST_BYTES


def store(*expiry: tuple[str, int]) -> Store:
    return Store("s", "s", (), ("#t",), (), (), expiry, "", ())


@pytest.mark.parametrize(
    ("newest", "expiry", "watermark", "gone"),
    [
        (10, [("a", 5)], 15, False),
        (10, [("a", 5)], 16, True),
        (10, [], 10**9, False),
        (10, [("a", 5)], None, False),
        (None, [("a", 5)], 10**9, False),
        (10, [("a", 5), ("b", 5)], 10**9, False),
    ],
)
def test_a_segment_expires_when_its_newest_row_can_find_no_partner(
    newest: int | None, expiry: list[tuple[str, int]], watermark: int | None, gone: bool
) -> None:
    span = None if newest is None else (0, newest)
    limit = horizon(store(*expiry), {"a": watermark, "b": None})
    assert is_expired(ref(0, span=span), limit) is gone


def test_rows_go_when_the_last_clock_lets_them() -> None:
    both = store(("a", 5), ("b", 100))
    assert horizon(both, {"a": 50, "b": 120}) == 20
    assert horizon(both, {"a": 20, "b": 120}) == 15
    assert horizon(both, {"a": 20}) is None
    assert horizon(store(("a", 5)), {"a": -(2**63)}) == -(2**63), "no time is earlier"
