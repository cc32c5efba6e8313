"""Marks of late rows by themselves."""

from __future__ import annotations

import itertools
import random

import pyarrow as pa

from weft.host.hidden import cut, level
from weft.host.marks import drop_late, join_marks, mark_late, mark_of, marks, refuse
from weft.topology.clock import NEVER_LATE


def frame(*times: int | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": range(len(times)), "#t": pa.array(times, pa.int64())})


def late(found: pa.RecordBatch, clock: str) -> list[int]:
    """Rows that are marked for a clock."""
    if mark_of(clock) not in found.schema.names:
        return []
    return [n for n, marked in zip(found["n"].to_pylist(), found[mark_of(clock)].to_pylist(), strict=True) if marked]


def test_a_row_is_dropped_if_it_is_late_for_all_and_marked_if_it_is_late_for_some() -> None:
    limits = {"a": 5, "b": 8, "c": None}
    for count in (1, 2, 3, 4):
        for clocks in itertools.combinations(["", "a", "b", "c"], count):
            rows = frame(*range(10), None)
            found = mark_late(drop_late(rows, clocks, limits), clocks, limits)
            is_late = {
                clock: {n for n, t in enumerate([*range(10), None]) if t is None or t < (limits[clock] or 0)}
                for clock in clocks
                if clock != NEVER_LATE
            }
            dropped = set() if NEVER_LATE in clocks else set.intersection(*is_late.values())
            assert found["n"].to_pylist() == [n for n in range(11) if n not in dropped]
            for clock, wanted in is_late.items():
                assert late(found, clock) == sorted(wanted - dropped)


def test_one_clock_makes_no_marks() -> None:
    rows = frame(1, 7, None)
    assert marks(mark_late(drop_late(rows, ("a",), {"a": 5}), ("a",), {"a": 5})) == []
    assert mark_late(rows, (NEVER_LATE,), {}) is rows


def test_frames_in_which_nothing_is_late_have_no_marks() -> None:
    rows = frame(6, 7)
    assert mark_late(rows, ("a", "b"), {"a": 5, "b": 6}) is rows
    assert refuse(rows, ("a", "b")) is rows


def test_refusing_keeps_the_marks_that_are_still_needed() -> None:
    rows = mark_late(frame(1, 6, 9), ("", "a", "b"), {"a": 5, "b": 8})
    assert refuse(rows, ("a",))["n"].to_pylist() == [1, 2]
    assert marks(refuse(rows, ("a",))) == []
    both = refuse(rows, ("a", "b"))
    assert both["n"].to_pylist() == [1, 2]
    assert marks(both) == [mark_of("b")], "nothing that is left is late for a"
    assert late(both, "b") == [1]
    assert refuse(rows, ("", "b"))["n"].to_pylist() == [0, 1, 2]
    assert marks(refuse(rows, ("", "b"))) == [mark_of("b")]


def test_a_joined_row_is_late_if_a_member_is() -> None:
    rng = random.Random(1)
    for _ in range(50):
        left = mark_late(
            frame(*(rng.randrange(10) for _ in range(5))), ("", "a", "b"), {"a": rng.randrange(10), "b": 4}
        )
        right = mark_late(
            frame(*(rng.randrange(10) for _ in range(5))), ("", "b", "c"), {"c": 7, "b": rng.randrange(9)}
        )
        pairs = [(rng.randrange(5), rng.randrange(5)) for _ in range(8)]
        mine, other = (pa.array(side, pa.int64()) for side in zip(*pairs, strict=True))
        joined = pa.RecordBatch.from_pydict({"n": range(len(pairs))})
        found = join_marks(joined, left, mine, right, other)
        for clock in "abc":
            wanted = [n for n, (i, j) in enumerate(pairs) if i in late(left, clock) or j in late(right, clock)]
            assert late(found, clock) == wanted


def test_cutting_and_joining_frames_keeps_marks() -> None:
    rows = mark_late(frame(1, 9), ("", "a"), {"a": 5})
    assert cut(rows, ["n"]).schema.names == ["n", mark_of("a")]
    other = mark_late(frame(1, 9), ("", "b"), {"b": 5})
    one, two = level([rows, other])
    assert one.schema == two.schema
    assert late(one, "a") == [0]
    assert late(one, "b") == []
