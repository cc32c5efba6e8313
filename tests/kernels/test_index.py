"""The index finds every pair once, whatever the chunk size, and does not slow down on hot keys."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from weft.kernels.codes import HIGHEST, LOWEST
from weft.kernels.index import build, probe


def brute(
    rows: int, codes: Any, ranges: Any, valid: Any, probes: int, pc: Any, lo: Any, hi: Any, pv: Any
) -> list[tuple[int, int]]:
    return sorted(
        (p, r)
        for p in range(probes)
        for r in range(rows)
        if (valid is None or valid[r])
        and (pv is None or pv[p])
        and (codes is None or codes[r] == pc[p])
        and (ranges is None or ((lo is None or ranges[r] >= lo[p]) and (hi is None or ranges[r] <= hi[p])))
    )


@pytest.mark.parametrize("seed", range(60))
def test_the_index_finds_what_a_nested_loop_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, probes = (int(n) for n in rng.integers(0, 90, 2))
    domain = int(rng.choice([1, 2, 7, 1000]))
    ends = np.array([LOWEST, HIGHEST, 0, 1, -1])

    def numbers(n: int) -> Any:
        return rng.choice(ends, n) if rng.random() < 0.2 else rng.integers(-domain, domain + 1, n)

    codes = numbers(rows) if rng.random() < 0.7 else None
    ranges = numbers(rows) if rng.random() < 0.6 else None
    valid = rng.random(rows) < 0.8 if rng.random() < 0.5 else None
    pv = rng.random(probes) < 0.8 if rng.random() < 0.5 else None
    pc = numbers(probes) if codes is not None else None
    lo = numbers(probes) if ranges is not None and rng.random() < 0.7 else None
    hi = numbers(probes) if ranges is not None and rng.random() < 0.7 else None
    index = build(rows, codes, [] if ranges is None else [ranges], valid)
    expected = brute(rows, codes, ranges, valid, probes, pc, lo, hi, pv)
    for chunk in (1, 2, 3, 17, 65_536):
        found: list[tuple[int, int]] = []
        for p, r in probe(index, probes, pc, lo, hi, pv, chunk):
            assert 0 < len(p) == len(r) <= chunk
            found += zip(p.tolist(), r.tolist(), strict=True)
        assert sorted(found) == expected


def test_rows_of_equal_key_and_range_keep_their_order() -> None:
    codes = np.array([5] * 40 + [6] * 40)
    index = build(80, codes, [np.zeros(80, dtype=np.int64)], None)
    [(_, rows)] = list(probe(index, 1, np.array([6]), None, None, None, 100))
    assert rows.tolist() == list(range(40, 80))


def test_a_million_equal_keys_cost_what_they_return() -> None:
    """One hot key, each probe wants ten rows of a range: a scan of the bucket would take hours."""
    n = 1_000_000
    index = build(n, np.full(n, 7), [np.arange(n)], None)
    low = np.random.default_rng(1).integers(0, n - 10, n)
    began = time.perf_counter()
    found = sum(len(p) for p, _ in probe(index, n, np.full(n, 7), low, low + 9, None, 65_536))
    assert found == 10 * n
    assert time.perf_counter() - began < 20


def test_building_over_a_million_equal_keys_in_disorder_is_quick() -> None:
    n = 1_000_000
    ranges = np.random.default_rng(1).permutation(n)
    began = time.perf_counter()
    index = build(n, np.full(n, 7), [ranges], None)
    assert (np.diff(index.ranges) == 1).all()
    assert time.perf_counter() - began < 20
