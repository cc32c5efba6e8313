"""Silent streams on Spark: others go on without them, windows close, and a kill changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import weft
from tests.spark._kit import answer, moment, table
from weft.errors import WeftError
from weft.testing import crash_at, expected_after_lateness

pytestmark = pytest.mark.spark

SQL = "SELECT a.id AS x, b.id AS y FROM cat a JOIN dog b ON a.k = b.k WITHIN INTERVAL '10' SECOND"
WAKES = [((10, 11), (10,)), ((100,), ()), ((101, 102), ()), ((103,), (50, 101)), ((104,), (103,))]
"""Event times of both streams, batch by batch."""


def rows(times: tuple[int, ...], first: int) -> pa.Table:
    ids = pa.array([first + at for at in range(len(times))], pa.int64())
    ones = pa.array([1] * len(times), pa.int64())
    return table(id=ids, k=ones, ts=pa.array([moment(t) for t in times], pa.timestamp("us")))


BATCHES = [{"cat": rows(cat, 10 * n), "dog": rows(dog, 1000 + 10 * n)} for n, (cat, dog) in enumerate(WAKES)]
IDLE = [(), (), ("dog",), ("dog",), ()]


def session(root: Path) -> weft.Session:
    s = weft.Session(root / "checkpoint", workers=2)
    s.options(statistics=weft.Statistics())
    for name, idle in (("cat", None), ("dog", 1e-6)):  # silent for a batch is silent for long
        source = weft.read.batches([batch[name] for batch in BATCHES])
        s.stream(name, source, event_time="ts", lateness="2 seconds", idle=idle)
    s.query("q", SQL).to_parquet(root / "out")
    return s


@pytest.mark.parametrize("point", [None, ("commit before", 3), ("commit after", 2)])
def test_late_rows_of_a_stream_that_wakes_are_dropped_and_counted_also_after_a_kill(tmp_path: Path, point: Any) -> None:
    if point is not None:
        dying = session(tmp_path)
        crash_at(dying, *point)
        with pytest.raises(WeftError):
            dying.run()
    with session(tmp_path) as s:
        report = s.run()
        query = s.queries["q"].query
        assert s.checkpoint.last == len(BATCHES) - 1
    assert answer(tmp_path / "out") == answer(expected_after_lateness(query, BATCHES, idle=IDLE))
    if point is None:
        assert [batch.late.get("dog", 0) for batch in report.batches] == [0, 0, 0, 1, 0]
        marks = [batch.watermarks["q"] for batch in report.batches]
        assert [mark.at for mark in marks] == [moment(t) for t in (8, 98, 100, 100, 101)]
        assert [mark.idle for mark in marks] == [(), ("dog",), ("dog",), (), ()]


def test_windows_close_when_the_last_stream_that_holds_them_is_idle(tmp_path: Path) -> None:
    s = weft.Session(tmp_path / "checkpoint", workers=2)
    s.options(statistics=weft.Statistics())
    for name, at in (("cat", 30), ("dog", 5)):
        s.stream(name, weft.read.batches([rows((1, at), 0)]), event_time="ts", idle=0.2)
    q = s.query("q", "SELECT COUNT(*) AS n FROM cat a JOIN dog b ON a.k = b.k GROUP BY window(a.ts, '10 seconds')")
    q.to_parquet(tmp_path / "final", mode="final")
    with s:
        h = s.start(every=0.05)
        while not answer_of(tmp_path) and h.active:
            h.wait(0.1)
        h.stop()
    assert answer_of(tmp_path) == {(2,): 1}


def answer_of(root: Path) -> Any:
    return answer(root / "final") if (root / "final" / "empty.parquet").exists() else {}
