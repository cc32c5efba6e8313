"""Range partitioning of band and inequality joins: matches meet once, and work is even where values are not."""

from __future__ import annotations

import numpy as np
import pytest

from bench.routing import range_route
from tests.optimizer.places import sets
from weft.errors import PlanError
from weft.kernels.numbers import parts_of
from weft.optimizer.ranges.cut import equi_weight, m_bucket
from weft.optimizer.ranges.grid import Band, Cuts, build_grid
from weft.optimizer.ranges.route import RangePartition, RangeTable, range_partition

SCHEMES = ("equi-weight", "m-bucket")


def zipf(rng: np.random.Generator, exponent: float, values: int, n: int) -> np.ndarray:
    weights = 1 / np.arange(1, values + 1) ** exponent
    return rng.choice(values, n, p=weights / weights.sum()).astype(np.int64)


def work(
    part: RangePartition, left: np.ndarray, right: np.ndarray, band: Band, p: int
) -> tuple[np.ndarray, np.ndarray]:
    """Tuples in and results out of each worker, by routing every row and joining what each worker got."""
    routed = [(values, *range_route(side, values)) for side, values in ((part.left, left), (part.right, right))]
    came, made = np.zeros(p), np.zeros(p)
    for w in range(p):
        a, b = (np.sort(values[rows[workers == w]]) for values, rows, workers in routed)
        first, last = band.reach(a, b)
        came[w], made[w] = len(a) + len(b), (last - first).sum()
    return came, made


def matches(left: np.ndarray, right: np.ndarray, band: Band) -> int:
    first, last = band.reach(left, np.sort(right))
    return int((last - first).sum())


# --------------------------------------------------------------------------------------------- balance


@pytest.mark.parametrize("p", [8, 13, 30])
@pytest.mark.parametrize("width", [1, 3])
def test_equi_weight_is_even_on_zipf_data_where_m_bucket_is_not(p: int, width: int) -> None:
    rng, n, band = np.random.default_rng(p * width), 20_000, Band(-width, width)
    order = rng.permutation(2000)
    left, right = (order[zipf(rng, 1.0, 2000, n)] for _ in range(2))
    peaks = {}
    for scheme in SCHEMES:
        part = range_partition(left, right, band, p, scheme=scheme)
        came, made = work(part, left, right, band, p)
        assert made.sum() == matches(left, right, band)
        peaks[scheme] = float((came + made).max() / (came + made).mean())
    assert peaks["equi-weight"] <= 1.3
    assert peaks["m-bucket"] > 2


def test_a_sample_is_enough() -> None:
    rng, n, p, band = np.random.default_rng(5), 100_000, 12, Band(-2, 2)
    order = rng.permutation(5000)
    left, right = (order[zipf(rng, 0.9, 5000, n)] for _ in range(2))
    part = range_partition(left[::20], right[::20], band, p, left_size=n, right_size=n)
    came, made = work(part, left, right, band, p)
    assert made.sum() == matches(left, right, band)
    assert (came + made).max() <= 1.3 * (came + made).mean()
    assert np.array(part.output).sum() == pytest.approx(made.sum(), rel=0.15)
    assert np.array(part.input).sum() == pytest.approx(came.sum(), rel=0.05)


def test_inequality_halves_what_one_bucket_does() -> None:
    """Half of the matrix is empty and gets no worker."""
    rng, p, band = np.random.default_rng(6), 16, Band(1, None)
    left, right = rng.integers(0, 10**6, 4000), rng.integers(0, 10**6, 4000)
    part = range_partition(left, right, band, p)
    came, made = work(part, left, right, band, p)
    assert made.sum() == matches(left, right, band)
    assert (came + made).max() <= 1.05 * (came + made).mean()
    assert came.sum() < 8000 * 4  # 1-Bucket copies every row to 4 of 16


def test_empty_regions_get_no_worker() -> None:
    rng, band = np.random.default_rng(7), Band(-10, 10)
    values = rng.integers(0, 100_000, 5000)
    part = range_partition(values, values, band, 16)
    covered = sum(a * b for a, b in zip(*(_rows(side, values) for side in (part.left, part.right)), strict=True))
    assert covered < 1.2 * 5000 * 5000 / 16  # of the whole matrix, which 1-Bucket would cover
    assert sum(part.input) < 1.1 * 10_000


def _rows(side: RangeTable, values: np.ndarray) -> list[int]:
    return np.bincount(range_route(side, values)[1], minlength=16).tolist()


def test_sides_that_hardly_meet_are_sent_once() -> None:
    """What was not sampled may lie anywhere, so every row travels; but no row needs to travel twice."""
    left, right = np.arange(1000), np.arange(5000, 6000)
    part = range_partition(left, right, Band(-10, 10), 8)
    came, made = work(part, left, right, Band(-10, 10), 8)
    assert came.sum() <= 2100
    assert came.max() <= 300
    assert made.sum() == 0


def test_one_frequent_value_is_cut_in_parts() -> None:
    left = np.full(3000, 7)
    part = range_partition(left, left, Band(0, 0), 9)
    came, made = work(part, left, left, Band(0, 0), 9)
    assert made.sum() == 9_000_000
    assert made.max() <= 1.1 * made.mean()
    assert came.sum() <= 1.2 * 9 * 2000  # little more than a 3 x 3 matrix


def test_without_parts_values_stay_whole_and_light_ones_are_even() -> None:
    rng, p, band = np.random.default_rng(11), 8, Band(-1, 1)
    left, right = (rng.permutation(2000)[zipf(rng, 0.5, 2000, 20_000)] for _ in range(2))
    part = range_partition(left, right, band, p, parts=False)
    assert not part.left.cuts.parts.any()
    assert not part.right.cuts.parts.any()
    assert (np.diff(part.left.cuts.values) > 0).all()
    came, made = work(part, left, right, band, p)
    assert made.sum() == matches(left, right, band)
    assert (came + made).max() <= 1.3 * (came + made).mean()


# ----------------------------------------------------------------------------------------- correctness


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(8))
def test_each_match_meets_on_exactly_one_worker(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bands = (Band(0, 0), Band(-1, 1), Band(2, 9), Band(1, None), Band(0, None), Band(None, -3), Band(None, None))
    for p in range(1, 13):
        band = bands[rng.integers(len(bands))]
        kind = rng.integers(3)
        n_left, n_right = (int(n) for n in rng.integers(0, 90, 2))
        if kind == 0:
            left, right = zipf(rng, float(rng.choice([0, 1, 3])), 20, n_left), zipf(rng, 1.0, 20, n_right)
        elif kind == 1:
            left, right = rng.normal(0, 4, n_left), rng.normal(1, 4, n_right)
        else:
            left, right = (
                rng.integers(-(1 << 63), (1 << 63) - 1, n_left),
                rng.integers(-(1 << 63), (1 << 63) - 1, n_right),
            )
        first, other = (int(start) for start in rng.integers(0, 1000, 2))
        for scheme in SCHEMES:
            # Planned from a part of the rows: what was not sampled must meet as well.
            part = range_partition(left[: len(left) // 2], right[: len(right) // 2], band, p, scheme=scheme)
            to_left = sets(range_route(part.left, left, first), n_left)
            to_right = sets(range_route(part.right, right, other), n_right)
            assert part.workers <= p
            for i, value in enumerate(left):
                for j in np.flatnonzero(in_band(band, value, right)):
                    assert len(to_left[i] & to_right[j]) == 1, (band, p, scheme, value, right[j])


def in_band(band: Band, value: object, right: np.ndarray) -> np.ndarray:
    gaps = [float(r) - float(value) if isinstance(value, np.floating) else int(r) - int(value) for r in right]  # type: ignore[call-overload]
    low, high = (-(1 << 70) if band.low is None else band.low), ((1 << 70) if band.high is None else band.high)
    return np.array([low <= gap <= high for gap in gaps], dtype=bool)


def test_rectangles_are_disjoint_and_cover_the_staircase() -> None:
    rng = np.random.default_rng(9)
    for band in (Band(-3, 3), Band(1, None), Band(None, 0)):
        left, right = zipf(rng, 1.0, 300, 3000), zipf(rng, 0.5, 300, 2000)
        grid = build_grid(left, right, band, cells=64)
        for boxes in (equi_weight(grid, 10), m_bucket(grid, 10)):
            cells = np.zeros((len(grid.rows) - 1, len(grid.columns) - 1), dtype=int)
            for r0, r1, c0, c1 in boxes:
                cells[r0:r1, c0:c1] += 1
            assert cells.max() == 1
            for row in range(len(cells)):
                assert (cells[row, grid.first[row] : grid.last[row]] == 1).all()
            assert len(boxes) <= 10


def test_expected_results_of_a_whole_sample_are_exact() -> None:
    rng = np.random.default_rng(10)
    left, right, band = zipf(rng, 1.0, 100, 5000), zipf(rng, 1.0, 100, 4000), Band(-2, 5)
    grid = build_grid(left, right, band, cells=50)
    assert grid.out[-1, -1] == matches(left, right, band)
    assert (grid.rows[-1], grid.columns[-1]) == (5000, 4000)


def test_parts_of_consecutive_ids_are_even() -> None:
    counts = np.histogram(parts_of(np.arange(1 << 40, (1 << 40) + 1000)), bins=10, range=(0, 1))[0]
    assert counts.min() >= 95
    cuts = Cuts(np.array([3, 5, 5, 8]), np.array([0.0, 0.0, 0.5, 0.25]))
    side = RangeTable(cuts, tuple((i,) for i in range(5)))
    assert range_route(side, np.array([2, 3, 4, 9]))[1].tolist() == [0, 1, 1, 4]
    inside = range_route(side, np.full(1000, 5))[1]
    assert set(inside.tolist()) == {2, 3}
    assert (inside == 2).mean() == pytest.approx(0.5, abs=0.01)


def test_what_is_no_range_join_is_refused() -> None:
    with pytest.raises(PlanError):
        Band(3, 1)
    with pytest.raises(PlanError):
        range_partition(np.arange(3), np.arange(3.0), Band(0, 1), 2)
    with pytest.raises(PlanError):
        range_partition(np.arange(3), np.arange(3), Band(0, 1), 0)
