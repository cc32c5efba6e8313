"""Outer joins and subqueries on Spark: random queries, sinks, and a run that dies in the middle."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from tests.outer import RandomOuter, connect, rows, tables
from weft.errors import WeftError
from weft.host.crash import CrashPoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BEGIN = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - SQL's TIMESTAMP has no zone


def shown(table: pa.Table) -> list[str]:
    return sorted(str(tuple(row.values())) for row in table.to_pylist())


def test_random_outer_joins_have_the_answer_of_duckdb(tmp_path: Path, spark: SparkSession) -> None:
    data = tables(random.Random(11), 9)
    texts = {f"q{seed}": RandomOuter(random.Random(seed), size=3).text() for seed in range(30, 35)}
    session = weft.Session(tmp_path / "checkpoint", spark=spark, workers=2, progress=False)
    for name, table in data.items():
        session.stream(name, weft.read.batches([table.slice(0, 4), table.slice(4)]))
    for name, text in texts.items():
        session.query(name, text, cross_product=True).to_memory()
    session.run()
    with connect(data) as con:
        for name, text in texts.items():
            assert shown(session.queries[name].table()) == rows(con, text), text


def minutes(*found: tuple[int, int]) -> pa.Table:
    times = [BEGIN + dt.timedelta(minutes=minute) for _, minute in found]
    return pa.table({"k": [k for k, _ in found], "ts": pa.array(times, pa.timestamp("us"))})


A = [minutes((1, 0), (2, 1), (2, 1)), minutes((3, 20)), minutes((4, 40), (1, 41))]
B = [minutes((1, 5)), minutes((3, 25), (2, 30)), minutes((9, 60))]
BOUND = """SELECT a.k, b.ts AS t FROM a LEFT JOIN b
    ON b.k = a.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '10' MINUTE"""
FULL = "SELECT a.k AS l, b.k AS r FROM a FULL JOIN b ON b.k = a.k"


def make(root: Path, spark: SparkSession) -> weft.Session:
    session = weft.Session(root / "checkpoint", spark=spark, workers=2, progress=False)
    for name, batches in {"a": A, "b": B}.items():
        (root / name).mkdir(exist_ok=True)
        for number, table in enumerate(batches):
            pq.write_table(table, root / name / f"{number}.parquet")
        session.stream(name, weft.read.parquet(root / name, max_files=1), event_time="ts", lateness="20 minutes")
    session.query("bound", BOUND).to_parquet(root / "bound")
    session.query("whole", FULL).to_parquet(root / "whole", mode="snapshot").to_parquet(root / "changes")
    return session


@pytest.mark.parametrize("point", ["wave 3 after", "commit before"])
def test_padded_rows_survive_a_crash(point: str, tmp_path: Path, spark: SparkSession) -> None:
    dying = make(tmp_path, spark)
    dying.crash_point = CrashPoint(point, 1)
    with pytest.raises(WeftError, match="crash point"):
        dying.run()
    make(tmp_path, spark).run()
    with connect({"a": pa.concat_tables(A), "b": pa.concat_tables(B)}) as con:
        # The watermark ends at minute 21: rows of a before minute 11 have no partner to come.
        settled = f"SELECT * FROM ({BOUND.replace('b.ts AS t', 'b.ts AS t, a.ts AS s')}) WHERE t IS NOT NULL OR s < "
        settled = f"SELECT k, t FROM ({settled} TIMESTAMP '2026-01-01 00:11:00')"
        assert shown(pq.read_table(tmp_path / "bound")) == rows(con, settled)
        assert shown(pq.read_table(tmp_path / "whole")) == rows(con, FULL)
    view: dict[tuple[object, object], int] = {}
    for row in pq.read_table(tmp_path / "changes").to_pylist():
        key = row["l"], row["r"]
        view[key] = view.get(key, 0) + (1 if row["#op"] == "insert" else -1)
    assert min(view.values()) >= 0
    assert sum(view.values()) == pq.read_table(tmp_path / "whole").num_rows
