"""Several ranges in one index: every pair once, as a nested loop finds them, whatever the rows, boxes and chunks."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from weft.kernels.boxes import LEAF, order_points
from weft.kernels.codes import HIGHEST, LOWEST, end_codes, order_codes
from weft.kernels.index import build, ends, probe

EDGES = np.array([LOWEST, LOWEST + 1, -1, 0, 1, HIGHEST - 1, HIGHEST])


def pairs(index: Any, count: int, codes: Any, low: Any, high: Any, valid: Any, chunk: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    lo, hi = ends(low, count, upper=False), ends(high, count, upper=True)
    for p, r in probe(index, count, codes, lo, hi, valid, chunk):
        assert 0 < len(p) == len(r) <= chunk
        found += zip(p.tolist(), r.tolist(), strict=True)
    return sorted(found)


def brute(points: Any, codes: Any, valid: Any, asked: Any, low: Any, high: Any, may: Any) -> list[tuple[int, int]]:
    """The definition, one pair of rows and probes at a time, all pairs at once."""
    rows, probes = len(points[0]), len(may)
    met = np.ones((probes, rows), dtype=bool) & may[:, None] & valid[None, :]
    if codes is not None:
        met &= asked[:, None] == codes[None, :]
    for values, lo, hi in zip(points, low, high, strict=True):
        met &= True if lo is None else values[None, :] >= lo[:, None]
        met &= True if hi is None else values[None, :] <= hi[:, None]
    return [(int(p), int(r)) for p, r in zip(*np.nonzero(met), strict=True)]


def draw(rng: np.random.Generator, count: int) -> Any:
    """Values of a dimension: spread, in order, all equal, few different ones, or the ends of what there is."""
    kind = rng.integers(6)
    if kind == 0:
        return rng.choice(EDGES, count)
    if kind == 1:
        return np.full(count, rng.choice(EDGES))
    if kind == 2:
        return np.sort(rng.integers(-50, 50, count))
    return rng.integers(-(wide := int(rng.choice([2, 30, 10**9]))), wide, count)


def draw_ends(rng: np.random.Generator, values: Any, count: int) -> tuple[Any, Any]:
    """Ends of boxes: often values of rows; full, one-sided, of one value, and empty ones among them."""
    some = values if len(values) else EDGES
    low, high = rng.choice(some, count), rng.choice(some, count)
    if rng.random() < 0.7:
        low, high = np.minimum(low, high), np.maximum(low, high)
    if rng.random() < 0.2:
        high = low
    wild = rng.random(count) < 0.1
    low, high = np.where(wild, LOWEST, low), np.where(wild, rng.choice(EDGES, count), high)
    return None if rng.random() < 0.25 else low, None if rng.random() < 0.25 else high


@pytest.mark.parametrize("seed", range(150))
def test_boxes_find_what_a_nested_loop_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    width = int(rng.choice([2, 2, 3, 4, 7, 12, 34]))
    rows = int(rng.choice([0, 1, LEAF - 1, LEAF, LEAF + 1, 4 * LEAF, rng.integers(1, 1500)]))
    probes = int(rng.integers(1, 60))
    points = [draw(rng, rows) for _ in range(width)]
    drawn = [draw_ends(rng, values, probes) for values in points]
    low, high = [lo for lo, _ in drawn], [hi for _, hi in drawn]
    keyed, domain = rng.random() < 0.5, int(rng.choice([1, 2, 40]))
    codes = rng.integers(0, domain, rows) if keyed else None
    asked = rng.integers(0, domain + 1, probes) if keyed else None
    valid = rng.random(rows) < 0.9 if rng.random() < 0.5 else np.ones(rows, dtype=bool)
    may = rng.random(probes) < 0.9 if rng.random() < 0.5 else np.ones(probes, dtype=bool)
    index = build(rows, codes, points, None if valid.all() else valid)
    expected = brute(points, codes, valid, asked, low, high, may)
    for chunk in (1, 3, 65_536):
        assert pairs(index, probes, asked, low, high, None if may.all() else may, chunk) == expected


@pytest.mark.parametrize("width", range(1, 35))
def test_any_number_of_dimensions(width: int) -> None:
    rng = np.random.default_rng(width)
    points = [rng.integers(0, 100, 700) for _ in range(width)]
    low = [rng.integers(0, 60, 40) for _ in range(width)]
    high = [ends + 60 for ends in low]
    every = np.ones(700, dtype=bool), np.ones(40, dtype=bool)
    expected = brute(points, None, every[0], None, low, high, every[1])
    assert pairs(build(700, None, points, None), 40, None, low, high, None, 100) == expected


@pytest.mark.parametrize("seed", range(20))
def test_rows_that_are_intervals_meet_points_and_intervals(seed: int) -> None:
    """An interval row is a point of its two ends; a row without an end has the last code there is in its place."""
    rng = np.random.default_rng(seed)
    rows, probes = 500, 50
    begin = rng.integers(0, 1000, rows)
    end = begin + rng.integers(0, 300, rows)
    begin[rng.random(rows) < 0.1], end[rng.random(rows) < 0.1] = LOWEST, HIGHEST
    first = rng.integers(0, 1000, probes)
    last = first + (rng.integers(0, 100, probes) if seed % 2 else 0)
    index = build(rows, None, [begin, end], None)
    expected = [(p, r) for p in range(probes) for r in range(rows) if begin[r] <= last[p] and end[r] >= first[p]]
    assert pairs(index, probes, None, [None, first], [last, None], None, 65_536) == expected


@pytest.mark.parametrize("seed", range(10))
def test_rows_come_and_go(seed: int) -> None:
    """An index over what is left after rows were added and removed finds exactly that, and holds nothing else."""
    rng = np.random.default_rng(seed)
    values = [rng.integers(0, 50, 2000) for _ in range(3)]
    there = np.zeros(2000, dtype=bool)
    low = [rng.integers(0, 40, 30) for _ in range(3)]
    high = [lo + 12 for lo in low]
    for _ in range(6):
        there |= rng.random(2000) < 0.3
        there &= rng.random(2000) < 0.8
        index = build(2000, None, values, there)
        assert sorted(index.rows.tolist()) == np.flatnonzero(there).tolist()
        expected = brute(values, None, there, None, low, high, np.ones(30, dtype=bool))
        assert pairs(index, 30, None, low, high, None, 64) == expected


def test_a_narrow_box_looks_at_few_rows() -> None:
    """Of a hundred thousand rows, a box that holds ten looks at some hundreds."""
    rng = np.random.default_rng(7)
    n = 100_000
    points = [np.sort(rng.integers(0, n, n)), rng.integers(0, n, n)]
    index = build(n, None, points, None)
    boxes = index.boxes[: -(-n // LEAF) * 4].reshape(-1, 2, 2)
    touched = 0
    for _ in range(200):
        at = rng.integers(0, n - n // 100, 2)
        lo, hi = at, at + n // 100
        touched += int(((boxes[:, :, 0] <= hi) & (boxes[:, :, 1] >= lo)).all(axis=1).sum())
    assert touched / 200 * LEAF < 1000


def test_building_twice_gives_the_same_bytes() -> None:
    rng = np.random.default_rng(3)
    points = [rng.integers(0, 20, 5000) for _ in range(3)]
    one, other = (build(5000, np.arange(5000) % 7, points, None) for _ in range(2))
    assert all(np.array_equal(one.arrays[name], other.arrays[name]) for name in one.arrays)


def test_nodes_are_boxes_around_their_points() -> None:
    rng = np.random.default_rng(5)
    points = [rng.integers(0, 1000, 333) for _ in range(2)]
    rows = np.arange(333, dtype=np.int32)
    placed, boxes = order_points(points, rows, np.empty(0, dtype=np.int64))
    assert sorted(rows.tolist()) == list(range(333))
    at = placed.reshape(-1, 2)
    assert np.array_equal(at, np.stack([p[rows] for p in points], axis=1))
    leaves = boxes.reshape(-1, 2, 2)[: -(-333 // LEAF)]
    for i, (first, second) in enumerate(leaves.tolist()):
        mine = at[i * LEAF : (i + 1) * LEAF]
        assert [first, second] == [[int(c.min()), int(c.max())] for c in mine.T]
    top = boxes.reshape(-1, 2, 2)[-1].tolist()
    assert top == [[int(c.min()), int(c.max())] for c in points]


ENDS = {
    "int64": pa.array([0, 1, 5, None, HIGHEST, LOWEST], pa.int64()),
    "double": pa.array([0.0, -0.0, 1.5, None, float("nan"), float("inf"), float("-inf")]),
    "decimal": pa.array([Decimal("0.00"), Decimal("-1.25"), None], pa.decimal128(12, 2)),
    "wide decimal": pa.array([Decimal("0.00"), Decimal(9 * 10**25), None], pa.decimal128(30, 2)),
    "date": pa.array([0, 20_000, None], pa.int32()).view(pa.date32()),
    "timestamp": pa.array([0, -1, None], pa.timestamp("us")),
    "string": pa.array(["", "a", "abcdefghi", "abcdefghj", None]),
}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("kind", ENDS)
def test_a_missing_end_admits_everything_and_any_other_what_it_says(kind: str, upper: bool, strict: bool) -> None:
    """Exact codes admit just what the end admits, others no less."""
    column = ENDS[kind]
    ends_, values = end_codes(column, upper=upper, strict=strict), order_codes(column)
    for at, end in enumerate(column.to_pylist()):
        for of, value in enumerate(column.to_pylist()):
            if value is None or value != value:
                continue
            admitted = ends_.valid is None or bool(ends_.valid[at])
            code = values.values[of]
            admitted &= bool(code <= ends_.values[at] if upper else code >= ends_.values[at])
            wanted = end is None or (end == end and bool(value < end if upper else value > end))
            wanted |= end is not None and not strict and value == end
            assert admitted == wanted if ends_.exact else admitted or not wanted, (end, value)
