"""A Spark DataFrame cannot be sampled: its numbers stay unknown, and the session runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_a_frame_stays_unknown_beside_a_measured_stream(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"k": [1, 2]}), tmp_path / "in" / "0.parquet")
    s = weft.Session(tmp_path / "state", spark, workers=2)
    s.stream("frame", spark.readStream.schema("k BIGINT").parquet(str(tmp_path / "in")))
    s.stream("t", weft.read.batches([pa.table({"k": [2, 3, 3]})]))
    q = s.query("q", "SELECT t.k FROM t JOIN frame ON t.k = frame.k WHERE t.k > 1 AND frame.k < 9").to_memory()
    found = s.analyze()
    assert (found.rows("t"), found.distinct("t", "k"), found.predicate("t.k > 1")) == (3, 2, 1)
    assert found.rows("frame") is found.predicate("t.k = frame.k") is found.predicate("frame.k < 9") is None
    s.run()
    assert q.table().to_pylist() == [{"k": 2}]
