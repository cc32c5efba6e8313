"""Folders whose names are columns, as Spark, DuckDB and Weft itself write them."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import weft
from tests.objectstore import Store
from weft.errors import SourceError
from weft.host.sources.files import shares
from weft.host.sources.folders import FileSource
from weft.host.sources.partitions import NULL
from weft.host.state.depot import Depot
from weft.script import parse_script

ROWS = pa.table({"id": [1, 2, 3], "t": ["a", "b", None]})


def put(folder: Path, kind: str, rows: pa.Table, name: str = "part-0") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.{kind}"
    if kind == "parquet":
        pq.write_table(rows, path)
    elif kind == "csv":
        pyarrow.csv.write_csv(rows, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))


def rows_of(source: FileSource, notes: Path, columns: list[str] | None = None, start: int = 0) -> list[dict[str, Any]]:
    reader = source.open("s", str(notes))
    found = reader.pieces(start, reader.discover())
    wanted = columns or source.schema.names
    return [row for piece in found for rows in reader.read(piece, wanted, source.schema) for row in rows.to_pylist()]


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_folders_are_columns_and_the_rows_are_duckdbs(kind: str, tmp_path: Path) -> None:
    root = tmp_path / "in"
    for year, month, text in ((2024, "1", "x y"), (2024, "10", "%25%2F%3A"), (2023, NULL, "z")):
        put(root / f"year={year}" / f"month={month}" / f"text={text}", kind, ROWS)
    for hidden in (root / "_temporary" / "0", root / ".staged", root / "year=2024" / "_temporary"):
        put(hidden, kind, ROWS)
    (root / "_SUCCESS").touch()
    source = getattr(weft.read, kind)(root, partitions=True)
    assert source.schema.names == ["id", "t", "year", "month", "text"]
    assert [str(source.schema.field(name).type) for name in ("year", "month", "text")] == ["int64", "int64", "string"]
    files = f"read_{kind}('{root}/year=*/*/*/*', hive_partitioning = true)"
    wanted = duckdb.sql(f"SELECT id, t, year, month, text FROM {files} ORDER BY filename, id").fetchall()
    assert [tuple(row.values()) for row in rows_of(source, tmp_path / "notes")] == wanted
    assert source.whole().read().num_rows == 9
    for some in (["year"], ["text", "id"]):
        assert rows_of(source, tmp_path / "notes", some) == [
            {name: row[source.schema.names.index(name)] for name in some} for row in wanted
        ]


def test_folders_that_appear_later_are_read_in_their_turn(tmp_path: Path) -> None:
    root = tmp_path / "in"
    put(root / "day=2", "parquet", ROWS)
    source = weft.read.parquet(root, 1, partitions=True)
    reader = source.open("s", str(tmp_path / "notes"))
    assert reader.end(0, reader.discover()) == 1
    put(root / "day=1", "parquet", ROWS)
    put(root / "day=3" / "deeper", "parquet", ROWS)
    again = source.open("s", str(tmp_path / "notes"))
    assert again.discover() == 3
    found = [Path(piece.file).relative_to(root).as_posix() for piece in again.pieces(0, 3)]
    assert found == ["day=2/part-0.parquet", "day=1/part-0.parquet", "day=3/deeper/part-0.parquet"]
    assert again.end(1, 3) == 2


def test_a_column_of_the_folder_counts_and_not_that_of_the_file(tmp_path: Path) -> None:
    put(tmp_path / "id=7", "parquet", ROWS)
    source = weft.read.parquet(tmp_path, partitions=True)
    assert source.schema.names == ["id", "t"]
    assert [row["id"] for row in rows_of(source, tmp_path / "notes")] == [7, 7, 7]


def test_the_schema_decides_what_type_a_folder_has(tmp_path: Path) -> None:
    put(tmp_path / "day=2024-02-29" / "n=007", "csv", ROWS)
    columns = [("id", pa.int64()), ("n", pa.string()), ("day", pa.date32())]
    source = weft.read.csv(tmp_path, schema=pa.schema(columns), partitions=True)
    day = datetime.date(2024, 2, 29)
    assert rows_of(source, tmp_path / "notes") == [{"id": number, "n": "007", "day": day} for number in (1, 2, 3)]


@pytest.mark.parametrize("folder", ["n=x", "n=%FF"])
def test_a_folder_that_does_not_fit_names_its_file_and_may_be_left_out(folder: str, tmp_path: Path) -> None:
    put(tmp_path / "in" / "n=1", "parquet", ROWS)
    columns = pa.schema([("id", pa.int64()), ("n", pa.int64())])
    source = weft.read.parquet(tmp_path / "in", schema=columns, partitions=True)
    put(tmp_path / "in" / folder, "parquet", ROWS)
    bad = tmp_path / "in" / folder / "part-0.parquet"
    with pytest.raises(SourceError, match=f"file {bad} cannot be read") as error:
        rows_of(source, tmp_path / "notes")
    assert "schema=" in (error.value.hint or "")
    reader = source.skip_bad_files().open("s", str(tmp_path / "notes"))
    assert reader.skip(error.value, 0, 2) == str(bad)
    assert len(reader.pieces(0, 2)) == 1


def test_partitions_are_those_of_a_folder(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is a pattern") as error:
        weft.read.parquet(tmp_path / "year=*", partitions=True)
    assert "name the folder" in (error.value.hint or "")
    put(tmp_path / "in" / "year=2024", "parquet", ROWS)
    with pytest.raises(SourceError, match="no files at") as error:
        _ = weft.read.parquet(tmp_path / "in").schema
    assert "partitions=True" in (error.value.hint or "")


def test_a_batch_that_is_repeated_and_a_sample_see_the_same_rows(tmp_path: Path) -> None:
    for n in range(4):
        put(tmp_path / "in" / f"n={n}", "csv", pa.table({"id": [*range(2_000 * n, 2_000 * (n + 1))]}))
    source = weft.read.csv(tmp_path / "in", partitions=True)
    first = rows_of(source, tmp_path / "notes")
    put(tmp_path / "in" / "n=-1", "csv", ROWS.select(["id"]))
    assert rows_of(source, tmp_path / "notes")[: len(first)] == first
    stream = weft.Stream("s", source.schema)
    for most in (100, 10_000):
        drawn = source.sample(stream, ["n", "id"], most, 3).rows.to_pylist()
        assert drawn
        assert all(row["n"] in (-1, row["id"] // 2_000) for row in drawn)
    reader = source.open("s", str(tmp_path / "notes"))
    assert sum(map(len, shares(reader.pieces(0, 4), 3))) == 4


def test_folders_of_a_store_are_columns_too(tmp_path: Path) -> None:
    with Store().running() as store:
        depot = Depot(store.url("deep"))
        for name in ("year=2024/m=a%20b/1.csv", "year=2023/2.csv", "_temporary/3.csv", "year=2024/.x/4.csv"):
            depot.put_bytes(name, b"id,m\n1,c\n")
        source = weft.read.csv(store.url("deep"), partitions=True)
        assert source.schema.names == ["id", "m", "year"]
        found = rows_of(source, tmp_path / "notes")
        assert found == [{"id": 1, "m": "c", "year": 2023}, {"id": 1, "m": "a b", "year": 2024}]


def test_a_script_says_partitions() -> None:
    query = "CREATE QUERY q INTO PARQUET 'out' AS SELECT n FROM t;"
    declared = parse_script("CREATE TABLE t FROM CSV 'in' WITH (partitions = true);" + query, folder=Path("/job"))
    assert declared.streams[0].options == {"partitions": True}
