"""Runs of matches are the pairs that a probe returns, counted."""

import numpy as np
import pytest

from weft.kernels.index import build, probe
from weft.kernels.runs import runs


@pytest.mark.parametrize("seed", range(60))
def test_runs_are_what_a_probe_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, asked, span = int(rng.integers(0, 300)), int(rng.integers(1, 60)), int(rng.choice([1, 3, 20, 1000]))
    some = lambda n: rng.integers(-span, span, n).astype(np.int64)
    codes, ranges = (some(count) if rng.random() < 0.7 else None for _ in range(2))
    valid = rng.random(count) < 0.8 if rng.random() < 0.5 else None
    index = build(count, codes, () if ranges is None else (ranges,), valid)
    asking = some(asked) if codes is not None else None
    low, high = ((some(asked) if ranges is not None and rng.random() < 0.7 else None) for _ in range(2))
    if high is not None and rng.random() < 0.3:
        high[:] = np.iinfo(np.int64).max
    can = rng.random(asked) < 0.8 if rng.random() < 0.5 else None
    found: dict[int, list[int]] = {i: [] for i in range(asked)}
    for probes, rows in probe(index, asked, asking, low, high, can, 17):
        for p, r in zip(probes.tolist(), rows.tolist(), strict=True):
            found[p].append(r)
    begin, end = runs(index, asked, asking, low, high, can)
    assert {i: sorted(index.rows[begin[i] : end[i]].tolist()) for i in range(asked)} == {
        i: sorted(rows) for i, rows in found.items()
    }
