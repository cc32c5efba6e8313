"""Derived tables, views and nested columns on Spark, from Parquet files to every kind of sink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft

pytestmark = pytest.mark.spark

POINT = pa.struct([("x", pa.int64()), ("tags", pa.list_(pa.string()))])
A = pa.table({
    "k": pa.array([1, 2, None, 3]),
    "p": pa.array([{"x": 1, "tags": ["u", None]}, {"x": None, "tags": []}, None, {"x": 3, "tags": None}], POINT),
    "s": pa.array(["lamp", "desk", "sofa", None], pa.string_view()),
})  # fmt: skip
B = pa.table({
    "k": pa.array([1, 2, None, 4]), "p": A["p"].take(pa.array([0, 1, 2, 0])), "w": ["la", "ofa", "s", "x"],
    "j": ['{"a": [1, {"b": "é"}]}', "{}", '{"a": null}', "[]"],
})  # fmt: skip
TEXTS = {
    "nested": "SELECT a.k, a.p, b.p.x AS x, b.p.tags[1] AS tag FROM a JOIN b ON a.p = b.p",
    "same": "SELECT a.s, b.w FROM a JOIN b ON a.k IS NOT DISTINCT FROM b.k",
    "found": "SELECT a.s, b.w, strpos(a.s, b.w) AS at FROM a JOIN b ON contains(a.s, b.w) OR a.s LIKE '%' || b.w",
    "view": "WITH t AS (SELECT k + 1 AS up, j FROM v) SELECT up, t.j -> '$.a[1].b' AS e FROM t JOIN a ON up = a.k",
}


def rows(table: pa.Table) -> list[str]:
    return sorted(repr(tuple(row.values())) for row in table.to_pylist())


def test_shapes_from_files_to_sinks(tmp_path: Path) -> None:
    s = weft.Session(tmp_path / "checkpoint", workers=2)
    duck = duckdb.connect()
    for name, table in {"a": A, "b": B}.items():
        (tmp_path / name).mkdir()
        for part in range(2):
            pq.write_table(table.slice(2 * part, 2), tmp_path / name / f"{part}.parquet")
        s.stream(name, weft.read.parquet(tmp_path / name, max_files=1))
        duck.execute(f"CREATE TABLE {name} AS SELECT * FROM read_parquet('{tmp_path}/{name}/*.parquet')")
    view = "SELECT b.k, b.j FROM a JOIN b USING (k)"
    s.view("v", view)
    duck.execute(f"CREATE VIEW v AS {view}")
    seen: dict[str, list[Any]] = {name: [] for name in TEXTS}
    for name, text in TEXTS.items():
        query = s.query(name, text).to_parquet(tmp_path / "out" / name).to_memory()
        query.foreach_batch(lambda df, _batch, name=name: seen[name].extend(map(repr, df.collect())))
    s.run()
    for name, text in TEXTS.items():
        theirs = rows(duck.sql(text).to_arrow_table())
        assert theirs
        assert rows(s.queries[name].table()) == theirs, name
        assert rows(pq.read_table(tmp_path / "out" / name)) == theirs, name
        assert len(seen[name]) == len(theirs), name
