"""Subscriptions on Spark: killed with changes in flight, and changed while they run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import weft
from tests.spark._kill import Job, committed
from tests.spark._kit import answer, drop, table
from tests.spark._subscriptions import make_case, open_session, put_changes, put_rows
from tests.subscribing import expected
from weft.session.subscriptions import Subscriptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.crash
def test_kill_9_with_changes_in_flight(tmp_path: Path) -> None:
    seed, points = 5, ["segment write", "commit before", "publish"]
    case = make_case(seed)
    _, handle = open_session(tmp_path, case, 2)
    put_changes(handle, case, 0)
    for number, point in enumerate(points):
        put_rows(tmp_path, case, number)
        with Job(tmp_path, 2, (point, number), str(seed), module="tests.spark._subscriptions") as job:
            assert job.until(job.marked), f"{point}: {job.log.read_text()}"
            put_changes(handle, case, number + 1)  # while the batch is going on
            job.kill()
        assert committed(tmp_path) == (number if point == "publish" else number - 1)
    put_rows(tmp_path, case, len(points))
    with Job(tmp_path, 2, plans=str(seed), module="tests.spark._subscriptions") as job:
        assert job.finish() == 0, job.log.read_text()
    wanted = answer(expected(case))
    assert wanted
    assert answer(tmp_path / "out") == wanted


SQL = "SELECT t.id, w.id AS other FROM t JOIN w ON t.k = w.k WHERE t.x < :limit AND w.y >= :least"


def test_subscriptions_change_while_they_run(tmp_path: Path, spark: SparkSession) -> None:
    session = weft.Session(checkpoint=tmp_path / "checkpoint", spark=spark, workers=2)
    schemas = {name: table(id=[0], k=[0], **{column: [0]}).schema for name, column in (("t", "x"), ("w", "y"))}
    for name, schema in schemas.items():
        session.stream(name, weft.read.parquet(tmp_path / name, schema=schema))
    first = pa.table({"who": ["a", "b"], "limit": [10, 20], "least": [0, 5]})
    alerts = session.subscriptions("alerts", SQL, parameters=first, key="who").to_memory()
    assert isinstance(alerts, Subscriptions)
    with session:
        handle = session.start(every=0.01)

        def batch(number: int, x: int, y: int, changes: int) -> int:
            """Let a row of each stream come and join, and wait for it; how many batches there were."""
            before = session.checkpoint.last
            drop(tmp_path / "t", f"{number}.parquet", table(id=[number], k=[number], x=[x]))
            drop(tmp_path / "w", f"{number}.parquet", table(id=[number], k=[number], y=[y]))
            while handle.report().counters.rows_in.get("w", 0) <= number or (
                handle.report().counters.rows_in.get("alerts-subscriptions", 0) < changes
            ):
                assert handle.wait(0.05) is None
            return session.checkpoint.last - before

        batch(0, 5, 9, 2)
        alerts.add(pa.table({"who": ["c"], "limit": pa.array([None], pa.int64())}))
        alerts.remove(["a"])
        batch(1, 15, 9, 4)
        alerts.remove("b")
        batch(2, 0, 0, 5)
        handle.stop()
    found = {(row["who"], row["id"]) for row in alerts.table().to_pylist()}
    assert found >= {("a", 0), ("b", 0), ("c", 2)}
    assert not found & {("a", 1), ("a", 2), ("c", 0)}
