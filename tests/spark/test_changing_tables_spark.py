"""Tables that change and versions, on Spark: each run reads what is new, and results stay right from run to run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import weft

pytestmark = pytest.mark.spark
Row = tuple[int, int, int | None]


def put(folder: Path, name: str, *rows: Row) -> None:
    """Write a file of rows, in the place of an older one if there is one."""
    folder.mkdir(exist_ok=True)
    columns = {column: pa.array([row[at] for row in rows], pa.int64()) for at, column in enumerate(("k", "ts", "v"))}
    pq.write_table(pa.table(columns), folder / f".{name}")
    os.replace(folder / f".{name}", folder / f"{name}.parquet")


def session(spark: SparkSession, at: Path, workers: int) -> weft.Session:
    s = weft.Session(at / "state", spark, workers=workers, progress=False)
    s.stream("o", weft.read.parquet(at / "o"), event_time="ts")
    s.table("keyed", weft.read.parquet(at / "keyed"), key="k", event_time="ts")
    s.stream("log", weft.read.parquet(at / "keyed"))
    s.table("whole", weft.read.parquet(at / "whole"), refresh=True)
    s.query("present", "SELECT o.v, t.v AS w FROM o LEFT JOIN keyed t ON t.k = o.k").to_parquet(at / "present")
    s.query("read", "SELECT o.v, t.v AS w FROM o JOIN whole t ON t.k = o.k").to_parquet(at / "read")
    dated = "SELECT o.v, t.v AS w FROM o JOIN keyed FOR SYSTEM_TIME AS OF o.ts AS t ON t.k = o.k"
    s.query("dated", dated).to_parquet(at / "dated")
    nearest = "SELECT o.v, t.v AS w FROM o ASOF LEFT JOIN log t ON t.k = o.k AND o.ts >= t.ts"
    s.query("nearest", nearest).to_parquet(at / "nearest", mode="snapshot")
    return s


def shown(at: Path, name: str) -> list[tuple[Any, Any]]:
    return sorted((row["v"], row["w"]) for row in pq.read_table(at / name).to_pylist())


def test_each_run_meets_tables_as_they_are_and_forgets_nothing(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "o", "0", (1, 10, 100), (2, 10, 101))
    put(tmp_path / "keyed", "0", (1, 5, 1), (1, 9, 2))
    put(tmp_path / "whole", "a", (1, 0, 7), (2, 0, 8))
    session(spark, tmp_path, 2).run()
    assert shown(tmp_path, "present") == [(100, 2), (101, None)]
    assert shown(tmp_path, "read") == [(100, 7), (101, 8)]
    assert shown(tmp_path, "nearest") == [(100, 2), (101, None)]

    put(tmp_path / "o", "1", (1, 20, 200), (2, 20, 201))
    put(tmp_path / "keyed", "1", (1, 15, 3), (2, 20, 4))
    put(tmp_path / "whole", "a", (1, 0, 70))
    put(tmp_path / "whole", "b", (2, 0, 80), (2, 0, 81))
    session(spark, tmp_path, 2).run()
    assert shown(tmp_path, "present") == [(100, 2), (101, None), (200, 3), (201, 4)]
    assert shown(tmp_path, "read") == [(100, 7), (101, 8), (200, 70), (201, 80), (201, 81)]
    assert shown(tmp_path, "nearest") == [(100, 2), (101, None), (200, 3), (201, 4)]
    assert shown(tmp_path, "dated") == [(100, 2)], "the watermark has passed 10"

    put(tmp_path / "o", "2", (2, 30, 300))
    put(tmp_path / "keyed", "2", (1, 20, None), (2, 30, 5))
    os.remove(tmp_path / "whole" / "b.parquet")
    session(spark, tmp_path, 1).run()
    assert shown(tmp_path, "present")[-1] == (300, 5)
    assert shown(tmp_path, "read") == [(100, 7), (101, 8), (200, 70), (201, 80), (201, 81)]
    assert shown(tmp_path, "dated") == [(100, 2), (201, 4)], "version 3 of key 1 ended at 20"
    nearest = {row["v"]: row["w"] for row in pq.read_table(tmp_path / "nearest").to_pylist()}
    assert nearest == {100: 2, 101: None, 200: None, 201: 4, 300: 5}


def test_table_that_changed_is_read_again_as_far_as_it_was_read(spark: SparkSession, tmp_path: Path) -> None:
    """Beside a DataFrame of Spark, which keeps the offsets itself."""

    def open_session(text: str) -> weft.Session:
        s = weft.Session(tmp_path / "state", spark, workers=2, progress=False)
        given = spark.readStream.schema("k LONG, ts LONG, v LONG").parquet(str(tmp_path / "o"))
        s.stream("o", given)
        s.table("whole", weft.read.parquet(tmp_path / "whole"), refresh=True)
        s.table("more", weft.read.parquet(tmp_path / "more"))
        s.query("few", "SELECT o.v, t.k AS w FROM o JOIN whole t ON t.k = o.k AND t.ts = 1").to_parquet(
            tmp_path / "few"
        )
        if text:
            s.query("all", text, backfill=True).to_parquet(tmp_path / "all")
            s.query("new", "SELECT m.v, m.k AS w FROM more m", backfill=True).to_parquet(tmp_path / "new")
        return s

    put(tmp_path / "o", "0", (1, 10, 100))
    put(tmp_path / "more", "0", (1, 0, 1))
    put(tmp_path / "whole", "a", (1, 0, 7), (2, 0, 8))
    open_session("").run()
    put(tmp_path / "whole", "a", (1, 0, 70), (2, 0, 8))
    put(tmp_path / "o", "1", (1, 20, 200), (2, 20, 201))
    open_session("SELECT o.v, t.v AS w FROM o JOIN whole t ON t.k = o.k").run()
    assert shown(tmp_path, "all") == [(200, 70), (201, 8)]
    assert shown(tmp_path, "new") == [(1, 1)]
