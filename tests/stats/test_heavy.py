"""Heavy hitters and distinct counts, compared with exact ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import PlanError
from weft.stats.distinct import DistinctCount
from weft.stats.heavy import HeavyHitters

batches = st.lists(st.lists(st.integers(-5, 12) | st.integers(-(2**63), 2**63 - 1), max_size=40), max_size=6)


def array(rows: list[int]) -> np.ndarray:
    return np.array(rows, dtype=np.int64)


def check_bounds(found: HeavyHitters, rows: np.ndarray) -> None:
    assert found.rows == len(rows)
    assert len(found.codes) <= found.capacity
    assert found.error * (found.capacity + 1) <= found.rows - found.counts.sum()
    for code, count in zip(*np.unique(rows, return_counts=True), strict=True):
        low, high = found.bounds(int(code))
        assert low <= count <= high
        if count * (found.capacity + 1) > len(rows):
            assert code in found.codes
    assert found.bounds(77) == (0, min(found.error, found.rows))


@settings(deadline=None, max_examples=150)
@given(batches, st.integers(1, 9))
def test_bounds_hold_however_rows_arrive(rows: list[list[int]], k: int) -> None:
    found = HeavyHitters(k)
    for batch in rows:
        found = found.add(array(batch))
    check_bounds(found, array([row for batch in rows for row in batch]))


@settings(deadline=None, max_examples=150)
@given(batches, batches, batches, st.integers(1, 9))
def test_bounds_hold_however_workers_are_merged(a: list, b: list, c: list, k: int) -> None:
    parts = [array([row for batch in side for row in batch]) for side in (a, b, c)]
    one, two, three = (HeavyHitters(k).add(part) for part in parts)
    everything = np.concatenate(parts)
    for merged in (one.merge(two).merge(three), one.merge(two.merge(three)), three.merge(one).merge(two)):
        check_bounds(merged, everything)
    ab, ba = one.merge(two), two.merge(one)
    assert ab.codes.tolist() == ba.codes.tolist()
    assert (ab.counts.tolist(), ab.error) == (ba.counts.tolist(), ba.error)


@settings(deadline=None, max_examples=150)
@given(batches, batches, batches, st.integers(3, 9))
def test_distinct_counts_merge_to_the_bit(a: list, b: list, c: list, k: int) -> None:
    parts = [array([row for batch in side for row in batch]) for side in (a, b, c)]
    one, two, three = (DistinctCount(k).add(part) for part in parts)
    whole = DistinctCount(k).add(np.concatenate(parts))
    for merged in (one.merge(two).merge(three), one.merge(two.merge(three)), three.merge(two).merge(one).merge(one)):
        assert merged.hashes.tolist() == whole.hashes.tolist()
    if len(np.unique(np.concatenate(parts))) < k:
        assert whole.count == len(np.unique(np.concatenate(parts)))
        assert not whole.is_full


def test_zipf_heads_are_found_with_their_shares() -> None:
    rng = np.random.default_rng(1)
    rows = rng.zipf(1.5, 200_000).astype(np.int64)
    parts = [HeavyHitters(200) for _ in range(4)]
    for at, batch in enumerate(np.array_split(rows, 40)):
        parts[at % 4] = parts[at % 4].add(batch)
    found = parts[0].merge(parts[1]).merge(parts[2].merge(parts[3]))
    codes, counts = np.unique(rows, return_counts=True)
    order = np.argsort(-counts)
    tops = found.tops(10)
    assert [code for code, _ in tops[:5]] == codes[order[:5]].tolist()
    for code, share in tops:
        true = counts[codes == code][0] / len(rows)
        assert true - 1 / 201 <= share <= true
    assert set(codes[counts > 0.01 * len(rows)].tolist()) <= set(found.frequent(0.01).tolist())
    assert sum(share for _, share in found.tops()) <= 1


def test_even_values_are_no_heavy_hitters() -> None:
    found = HeavyHitters(50).add(np.arange(10_000))
    assert found.tops() == []
    assert found.rows == 10_000


@pytest.mark.parametrize("values", [10, 1000, 20_000, 1_000_000])
def test_distinct_counts_are_near(values: int) -> None:
    rng = np.random.default_rng(values)
    found = DistinctCount(1024)
    parts = [rng.integers(0, values, 100_000) * 7919 for _ in range(8)]
    for part in parts:
        found = found.add(part)
    true = len(np.unique(np.concatenate(parts)))
    assert found.count == pytest.approx(true, rel=4 / (found.capacity - 2) ** 0.5 if found.is_full else 1e-12)
    assert len(found.hashes) <= 1024


def test_capacities_too_small_are_refused() -> None:
    with pytest.raises(PlanError):
        HeavyHitters(0)
    with pytest.raises(PlanError):
        DistinctCount(2)
