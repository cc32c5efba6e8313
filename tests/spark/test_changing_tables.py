"""A query that needs more of a table than was kept: the table is read again, and no other query notices."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import weft
from weft.testing import assert_same_rows

pytestmark = pytest.mark.spark


def test_a_table_is_read_again_for_columns_that_nobody_kept(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("orders", "nation"):
        (tmp_path / name).mkdir()
    nations = pa.table({"n": [1, 2, 3], "name": ["a", "b", "c"], "region": [7, 7, 8]})
    pq.write_table(nations, tmp_path / "nation" / "0.parquet")
    pq.write_table(pa.table({"id": [1, 2, 3], "n": [1, 2, 9]}), tmp_path / "orders" / "0.parquet")

    def session() -> weft.Session:
        s = weft.Session(tmp_path / "state", spark, workers=2, progress=False)
        s.stream("orders", weft.read.parquet(tmp_path / "orders"))
        s.table("nation", weft.read.parquet(tmp_path / "nation"))
        s.query("few", "SELECT o.id, n.n FROM orders o JOIN nation n ON o.n = n.n AND n.region = 7").to_memory()
        return s

    session().run()
    pq.write_table(pa.table({"id": [4, 5], "n": [1, 3]}), tmp_path / "orders" / "1.parquet")
    s = session()
    pq.write_table(pa.table({"t": [1, 2]}), tmp_path / "new.parquet")
    s.table("new", weft.read.parquet(tmp_path / "new.parquet"))
    new = s.query("unread", "SELECT t FROM new", backfill=True).to_memory()
    more = s.query("more", "SELECT o.id, n.name FROM orders o JOIN nation n ON o.n = n.n").to_memory()
    with s:
        report = s.run()
    assert "plan-changed" in [notice.kind for notice in report.notices]
    assert more.complete_from is None
    assert_same_rows(s.queries["few"].table(), pa.table({"id": [4], "n": [1]}))
    assert_same_rows(more.table(), pa.table({"id": [4, 5], "name": ["a", "c"]}))
    assert_same_rows(new.table(), pa.table({"t": [1, 2]}))  # nobody had read it: the next batch does
