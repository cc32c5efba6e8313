"""Folders by value, and tables of Spark: every result once, also if a batch is published or run again."""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from weft.host.crash import CrashPoint
from weft.launch.spark import local_session

pytestmark = pytest.mark.spark

SQL = "SELECT a.k, a.day, b.x FROM a JOIN b ON a.k = b.k"
A = [pa.table({"k": [1, 2, 3], "day": ["mon", "tue", None]}), pa.table({"k": [4, 5], "day": ["mon", "a/b=c"]})]
B = [pa.table({"k": [1, 2, 4], "x": [1, 2, 4]}), pa.table({"k": [3, 5], "x": [3, 5]})]
WANTED = Counter([(1, "mon", 1), (2, "tue", 2), (3, None, 3), (4, "mon", 4), (5, "a/b=c", 5)])


def session(root: Path, **more: Any) -> weft.Session:
    s = weft.Session(root / "state", workers=2, **more)
    s.stream("a", weft.read.batches(A))
    s.stream("b", weft.read.batches(B))
    return s


def folders(root: Path) -> Counter[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        read = f"read_parquet('{root}/out/*/*.parquet', hive_partitioning = true, hive_types_autocast = false)"
        rows = connection.execute(f"SELECT k, day, x FROM {read}").fetchall()
    return Counter(rows)


def test_results_lie_in_a_folder_for_each_value(tmp_path: Path) -> None:
    for point in ("publish", "commit after"):
        s = session(tmp_path)
        s.query("q", SQL).to_parquet(tmp_path / "out", partition_by="day")
        s.crash_point = CrashPoint(point, 0 if point == "publish" else 1)
        with pytest.raises(weft.HostError, match="crash point reached"):
            s.run()
    s = session(tmp_path)
    s.query("q", SQL).to_parquet(tmp_path / "out", partition_by="day")
    s.run()
    assert folders(tmp_path) == WANTED
    assert (tmp_path / "out" / "day=mon").is_dir()
    assert not [*tmp_path.glob("out/**/.*")]


def test_what_lies_in_folders_for_values_is_read_back(tmp_path: Path) -> None:
    """Also with the values that a name of a folder cannot have as they are; a repeated batch has the same rows."""
    texts = ["a/b", "\u00fc %41=", "", None, "x:y"]
    given = pa.table({"id": [*range(5)], "text": texts, "n": [5, None, 5, 7, -1]})
    s = weft.Session(tmp_path / "one", workers=1)
    s.stream("given", weft.read.batches([given]))
    s.query("copy", "SELECT id, text, n FROM given").to_parquet(tmp_path / "out", partition_by=["text", "n"])
    s.run()
    for crash in (CrashPoint("publish", 0), CrashPoint("commit after", 1), None):
        s = weft.Session(tmp_path / "two", workers=2)
        s.stream("again", weft.read.parquet(tmp_path / "out", max_files=2, partitions=True))
        s.query("back", "SELECT id, text, n FROM again").to_parquet(tmp_path / "back")
        s.crash_point = crash
        if crash is None:
            s.run()
        else:
            with pytest.raises(weft.HostError, match="crash point reached"):
                s.run()
    assert pq.read_table(tmp_path / "back").sort_by("id").to_pylist() == given.to_pylist()


def test_what_cannot_be_a_folder_is_refused(tmp_path: Path) -> None:
    s = session(tmp_path)
    q = s.query("q", SQL)
    for by in ("nothing", [], ["k", "day", "x"]):
        with pytest.raises(weft.SinkError, match="cannot be partitioned by"):
            q.to_parquet(tmp_path / "out", partition_by=by)
    view = s.query("v", "SELECT a.day, count(*) AS n FROM a GROUP BY a.day")
    with pytest.raises(weft.SinkError, match="takes rows that never change"):
        view.to_parquet(tmp_path / "view", partition_by="day")
    with pytest.raises(weft.SinkError, match="partition_by and a mode"):
        view.to_parquet(tmp_path / "view", partition_by="day", mode="changes")
    q.to_parquet(tmp_path / "out", partition_by="day")
    s.drop("v")
    s.run()
    other = session(tmp_path)
    other.query("q", SQL).to_parquet(tmp_path / "out", partition_by="x")
    with pytest.raises(weft.SinkError, match="already holds other results"):
        other.run()


@pytest.mark.parametrize("forgets", [False, True])
def test_a_table_gets_every_batch_once(tmp_path: Path, forgets: bool) -> None:
    """Also if the catalog knows nothing of the table when a batch comes again: that of a local session ends with it."""
    spark, table = local_session(2), f"t{uuid.uuid4().hex}"
    for batch in (0, 1, None):
        s = session(tmp_path)
        s.query("q", SQL).to_table(table, options={"path": str(tmp_path / "table")})
        s.crash_point = None if batch is None else CrashPoint("commit before", batch)
        if batch is not None:
            with pytest.raises(weft.HostError, match="crash point reached"):
                s.run()
            if forgets:
                spark.sql(f"DROP TABLE {table}")
        else:
            s.run()
    try:
        rows = spark.table(table).select("k", "day", "x").collect()
        assert Counter(map(tuple, rows)) == WANTED
        assert {row[0] for row in spark.table(table).select("weft_batch").collect()} == {0, 1}
    finally:
        spark.sql(f"DROP TABLE {table}")
