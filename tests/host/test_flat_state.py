"""State stays flat: what lies on disk never exceeds one and a half windows, however long the query runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import weft
from weft.testing import Trial

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("s", pa.string())])
WINDOW, BATCHES, ROWS = 60, 20, 200
"""Seconds, batches a window, rows a batch and stream."""


def rows(batch: int, rng: np.random.Generator, disorder: int) -> pa.Table:
    times = batch * WINDOW // BATCHES + rng.integers(-disorder, WINDOW // BATCHES, ROWS)
    return pa.table({"k": rng.integers(0, 1000, ROWS), "t": times, "s": ["x" * 20] * ROWS}, SCHEMA)


def on_disk(root: Path) -> int:
    return sum(path.stat().st_size for path in (root / "segments").glob("*/*/*"))


@pytest.mark.parametrize(("workers", "disorder"), [(1, 0), (2, 3)])
def test_a_query_fifty_windows_long_keeps_one_and_a_half_windows(tmp_path: Path, workers: int, disorder: int) -> None:
    session = weft.Session("unused", workers=workers)
    for name in ("a", "b"):
        session.stream(name, weft.read.batches([SCHEMA.empty_table()]), event_time="t", lateness=disorder)
    sql = "SELECT a.t AS x, b.t AS y, b.s AS s FROM a, b WHERE a.k = b.k WITHIN INTERVAL '60' SECOND"
    session.query("q", sql)
    trial = Trial(session, state=tmp_path)
    rng = np.random.default_rng(1)
    windows = 50 if workers == 1 else 12
    live, disk = [], []
    for batch in range(windows * BATCHES):
        trial.feed({name: rows(batch, rng, disorder) for name in ("a", "b")})
        live.append(sum(trial.state_rows.values()))
        disk.append((on_disk(tmp_path), sum(ref.bytes for ref in trial.segments)))
        assert len(trial.segments) <= 40 * 2 * workers
    a_window = 2 * ROWS * BATCHES
    assert max(live[BATCHES:]) <= 1.5 * a_window
    each = disk[BATCHES][1] / live[BATCHES]
    assert max(total for total, _ in disk[BATCHES:]) <= 1.5 * a_window * each * 1.1, "garbage goes as well"
    assert trial.late == {}
    early, late_ = np.mean(live[BATCHES : 3 * BATCHES]), np.mean(live[-2 * BATCHES :])
    assert late_ <= early * 1.05, "nothing creeps"
