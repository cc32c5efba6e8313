"""State stays flat: there are never more than one and a half windows on disk, however long the query runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import weft
from weft.testing import Trial

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("s", pa.string())])
WINDOW, WINDOWS = 60, 50
"""Seconds, and how many of them the query runs."""


def rows(batch: int, batches: int, count: int, rng: np.random.Generator, disorder: int, keys: int) -> pa.Table:
    times = batch * WINDOW // batches + rng.integers(-disorder, WINDOW // batches, count)
    return pa.table({"k": rng.integers(0, keys, count), "t": times, "s": ["x" * 20] * count}, SCHEMA)


def on_disk(root: Path) -> int:
    return sum(path.stat().st_size for path in (root / "segments").glob("*/*/*"))


def session(workers: int, streams: str, sql: str, lateness: int, plan: weft.Plan | None = None) -> weft.Session:
    made = weft.Session("unused", workers=workers)
    for name in streams:
        made.stream(name, weft.read.batches([SCHEMA.empty_table()]), event_time="t", lateness=lateness)
    made.query("q", f"{sql} WITHIN INTERVAL '{WINDOW}' SECOND", strategy=plan)
    return made


def check_flat(found: list[int], a_window: int) -> None:
    """The last two windows hold what the third and fourth did."""
    early, late = np.mean(found[2 * a_window : 4 * a_window]), np.mean(found[-2 * a_window :])
    assert late <= early * 1.05


@pytest.mark.parametrize(("workers", "disorder", "batches"), [(1, 0, 20), (2, 3, 20)])
def test_a_query_fifty_windows_long_keeps_one_and_a_half_windows(
    tmp_path: Path, workers: int, disorder: int, batches: int
) -> None:
    sql = "SELECT a.t AS x, b.t AS y, b.s AS s FROM a, b WHERE a.k = b.k"
    trial = Trial(session(workers, "ab", sql, disorder), state=tmp_path)
    rng = np.random.default_rng(1)
    live, disk = [], []
    for batch in range(WINDOWS * batches):
        trial.feed({name: rows(batch, batches, 200, rng, disorder, 1000) for name in "ab"})
        live.append(sum(trial.state_rows.values()))
        disk.append((on_disk(tmp_path), sum(ref.bytes for ref in trial.segments)))
        assert len(trial.segments) <= 40 * 2 * workers
    a_window = 2 * 200 * batches
    assert max(live[batches:]) <= 1.5 * a_window
    each = disk[batches][1] / live[batches]
    assert max(total for total, _ in disk[batches:]) <= 1.5 * a_window * each * 1.1, "garbage goes as well"
    assert trial.late == {}
    check_flat(live, batches)


def test_an_intermediate_store_fifty_windows_long_keeps_one_and_a_half_windows(tmp_path: Path) -> None:
    """A row of `ab` may go with the older of its two members, but does so with its segment: within a window."""
    batches, count, disorder = 10, 100, 3
    sql = "SELECT a.t AS x, b.t AS y, c.t AS z, b.s AS s FROM a, b, c WHERE a.k = b.k AND b.k = c.k"
    plan = weft.Plan([("a", "b")], placement={("a", "b"): "b.k"})
    trial = Trial(session(2, "abc", sql, disorder, plan), state=tmp_path)
    rng = np.random.default_rng(2)
    [kept] = [store.id for store in trial.topology.stores if store.members]
    made, pairs, live, disk, bytes_ = [], [], [], [], []
    for batch in range(WINDOWS * batches):
        report = trial.feed({name: rows(batch, batches, count, rng, disorder, 500) for name in "abc"})
        made.append(report.stored[kept])
        pairs.append(trial.state_rows[kept])
        live.append(sum(trial.state_rows.values()))
        disk.append(on_disk(tmp_path))
        bytes_.append(sum(ref.bytes for ref in trial.segments))
        assert len(trial.segments) <= 40 * 4 * 2
    assert trial.late == {}
    steady = slice(2 * batches, None)
    a_window = float(np.mean(made[steady])) * batches
    assert a_window > 2 * count * batches, "the intermediate store is the largest"
    assert max(pairs[steady]) <= 1.5 * a_window
    assert max(live[steady]) <= 1.5 * (3 * count * batches + a_window)
    each = float(np.mean(np.array(bytes_[steady]) / np.array(live[steady])))
    assert max(disk[steady]) <= 1.5 * (3 * count * batches + a_window) * each * 1.1, "garbage goes as well"
    for found in (pairs, live, disk):
        check_flat(found, batches)
