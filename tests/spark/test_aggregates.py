"""Aggregate queries on Spark: what every sink shows after each batch, after crashes, kills, restarts and changes."""

from __future__ import annotations

import decimal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from tests.spark import _views
from tests.spark._kill import Job, committed
from tests.spark._kit import Answer, answer, make_input, moment, table
from tests.spark._views import SUMS, make_session, views
from weft.host.crash import CrashPoint, points

pytestmark = pytest.mark.spark


def latest(folder: Path, keys: list[str]) -> Answer:
    """The view that a folder of changes tells of: the last change of every group, unless it has left."""
    found: dict[Any, tuple[int, Any]] = {}
    for row in pq.read_table(folder).to_pylist():
        batch, op = row.pop("#batch"), row.pop("#op")
        key = tuple(row[name] for name in keys)
        assert found.get(key, (-1, None))[0] != batch, "a group changes once in a batch"
        if found.get(key, (-1, None))[0] < batch:
            found[key] = batch, None if op == "delete" else tuple(row.values())
    return Counter(row for _, row in found.values() if row is not None)


def check_folders(root: Path, wanted: dict[str, Answer] | None = None) -> None:
    """What the folders show is the view of the batches that were committed."""
    wanted = wanted or views(root)
    assert answer(root / "out" / "snapshot") == wanted["sums"]
    assert latest(root / "out" / "changes", ["k"]) == wanted["sums"]
    assert answer(root / "out" / "final") == wanted["final"]
    assert answer(root / "out" / "kinds") == wanted["kinds"]


# ------------------------------------------------------------------------------------------- sinks


def test_every_sink_shows_the_view_after_each_batch(tmp_path: Path) -> None:
    seen: dict[Any, Any] = {}

    def merge(df: Any, batch: int) -> None:
        for row in df.collect():
            *values, op = row
            seen.pop(values[0], None)
            if op != "delete":
                seen[values[0]] = tuple(values)

    for batch in range(5):
        make_input(tmp_path, 1, seed=3, first=batch)
        with make_session(tmp_path, merge) as session:  # a new process, as it were
            session.run()
            assert answer(session.queries["sums"].table()) == views(tmp_path)["sums"]
        check_folders(tmp_path)
        assert Counter(seen.values()) == views(tmp_path)["sums"]
    changes = pq.read_table(tmp_path / "out" / "changes")
    assert {"insert", "update", "delete"} == {*changes.column("#op").to_pylist()}
    assert views(tmp_path)["final"]


def test_late_rows_of_closed_windows_are_dropped_and_counted(tmp_path: Path) -> None:
    def rows(*seconds: int) -> pa.Table:
        return table(ts=[moment(second) for second in seconds], v=list(seconds))

    with weft.Session(tmp_path / "checkpoint", workers=2) as s:
        s.stream(
            "a",
            weft.read.batches([rows(1, 2, 25), rows(3, 12, 26), rows(4, 27)]),
            event_time="ts",
            lateness="5 seconds",
        )
        q = s.query(
            "q", "SELECT window.start AS w, COUNT(*) AS n, SUM(v) AS v FROM a GROUP BY window(a.ts, '10 seconds')"
        )
        q.to_memory().to_parquet(tmp_path / "final", mode="final")
        report = s.run()
        # The watermark of the second batch is 20: the windows that end at 10 and at 20 are closed.
        assert sum(batch.late.get("a", 0) for batch in report.batches) == 3
        assert answer(q.table()) == {(moment(0), 2, 3): 1, (moment(20), 3, 78): 1}
        assert answer(tmp_path / "final") == {(moment(0), 2, 3): 1}


def test_a_query_without_groups_has_its_row_from_the_first_batch_on(tmp_path: Path) -> None:
    with weft.Session(tmp_path / "checkpoint", workers=2) as s:
        s.stream("a", weft.read.batches([table(k=[1]), table(k=[2])]))
        s.stream("b", weft.read.batches([table(k=[5]), table(k=[2])]))
        q = s.query("q", "SELECT COUNT(*) AS n, SUM(a.k) AS s FROM a JOIN b ON a.k = b.k").to_memory()
        q.to_parquet(tmp_path / "out")
        s.run()
        assert q.table().to_pylist() == [{"n": 1, "s": 2}]
        assert answer(tmp_path / "out") == {(0, None, "insert", 0): 1, (1, 2, "update", 1): 1}


def test_a_snapshot_is_whole_at_every_moment(tmp_path: Path) -> None:
    """Every batch adds one row to each of 500 groups: all must have the same count, and it never falls."""
    keys = list(range(500))
    done, seen = threading.Event(), list[int]()
    failed: list[object] = []

    def read() -> None:
        path = tmp_path / "out" / "view.parquet"
        while not done.is_set():
            if path.exists():
                counts = {*pq.read_table(path).column("n").to_pylist()}
                if len(counts) > 1 or (seen and counts and min(counts) < seen[-1]):
                    failed.append(counts)
                seen.extend(counts)

    with weft.Session(tmp_path / "checkpoint", workers=2) as s:
        s.stream("a", weft.read.batches([table(k=keys)] * 12))
        s.query("q", "SELECT k, COUNT(*) AS n FROM a GROUP BY k").to_parquet(tmp_path / "out", mode="snapshot")
        reader = threading.Thread(target=read)
        reader.start()
        s.run()
        done.set()
        reader.join()
    assert not failed
    assert len({*seen}) > 2, "the reader saw next to nothing"
    assert answer(tmp_path / "out") == {(key, 12): 1 for key in keys}
    assert [file.name for file in (tmp_path / "out").glob("*.parquet")] == ["view.parquet"], "DuckDB reads hidden files"


# ----------------------------------------------------------------------------------- crashes and kills


@pytest.mark.crash
def test_a_view_abandoned_at_any_point_is_right_afterwards(tmp_path: Path) -> None:
    make_input(tmp_path, 1, seed=5)
    names = points(make_session(tmp_path).topology.waves)
    make_input(tmp_path, len(names), seed=5, first=1)
    for batch, point in enumerate(names, start=1):
        session = make_session(tmp_path)
        session.crash_point = CrashPoint(point, batch)
        with pytest.raises(weft.HostError, match=f"crash point reached: {point}"):
            session.run()
        assert committed(tmp_path) == (batch if point in ("commit after", "publish") else batch - 1)
    make_session(tmp_path).run()
    check_folders(tmp_path)


@pytest.mark.crash
def test_kill_9_leaves_views_whole(tmp_path: Path) -> None:
    make_input(tmp_path, 9, seed=6)
    for point, only_driver in (
        ("wave 2 after", True),
        ("commit before", False),
        ("commit after", False),
        ("publish", False),
    ):
        with Job(tmp_path, crash=(point, committed(tmp_path) + 2), module=_views.__name__) as job:
            assert job.until(job.marked), job.log.read_text()
            job.kill(only_driver=only_driver)
        if (tmp_path / "out" / "snapshot" / "view.parquet").exists():
            assert answer(tmp_path / "out" / "snapshot") in _snapshots(tmp_path)
    with Job(tmp_path, module=_views.__name__) as job:
        assert job.finish() == 0, job.log.read_text()
    check_folders(tmp_path)


def _snapshots(root: Path) -> Iterator[Answer]:
    """The views after each batch that is committed, and before the first."""
    yield Counter()
    for batch in range(committed(root) + 1):
        yield views(root, batch + 1)["sums"]


# ------------------------------------------------------------------------------------------- changes


def test_an_aggregate_added_to_a_running_session_has_old_rows_only_if_it_asks_for_them(tmp_path: Path) -> None:
    make_input(tmp_path, 3, seed=8)
    with make_session(tmp_path) as session:
        session.run()
        past = (
            session.query("past", SUMS, backfill=True)
            .to_memory()
            .to_parquet(tmp_path / "out" / "past", mode="snapshot")
        )
        new = session.query("new", SUMS).to_memory()
        make_input(tmp_path, 2, seed=8, first=3)
        session.run()
        session.rescale(3)
        make_input(tmp_path, 1, seed=8, first=5)
        session.run()
        wanted = views(tmp_path)["sums"]
        assert answer(past.table()) == wanted
        assert answer(tmp_path / "out" / "past") == wanted
        assert new.table().num_rows
        assert answer(new.table()) != wanted
    check_folders(tmp_path)
    with make_session(tmp_path) as again:
        again.drop("past")
        again.drop("new")
        again.run()
    check_folders(tmp_path)


# -------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("sql", "rows", "said"),
    [
        ("SELECT k, SUM(v) AS s FROM a GROUP BY k", [2**62, 2**62], "is too large in group (7)"),
        ("SELECT SUM(v) AS s FROM a", [2**63 - 1, 1], "SUM is too large in the only group"),
        ("SELECT k, SUM(d) AS s FROM a GROUP BY k", [1, 1], "is too large in group (7)"),
    ],
)
def test_a_sum_that_does_not_fit_names_its_group(tmp_path: Path, sql: str, rows: list[int], said: str) -> None:
    kind = pa.decimal128(38, 0)
    large = pa.array([decimal.Decimal(9 * 10**37)] * len(rows), kind)
    with weft.Session(tmp_path / "checkpoint", workers=2) as s:
        s.stream("a", weft.read.batches([table(k=[7] * len(rows), v=rows, d=large)]))
        s.query("q", sql).to_memory()
        with pytest.raises(weft.HostError) as failed:
            s.run()
    assert said in str(failed.value)
    assert failed.value.detail
    assert failed.value.hint
