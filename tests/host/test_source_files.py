"""Files of a stream: found once, in the order they came; cut into parts that tasks share."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from weft.errors import SourceError, StateError
from weft.host.sources import filelog
from weft.host.sources.filelog import FileLog
from weft.host.sources.files import list_files, pieces, read_piece, read_schema, read_text, shares
from weft.host.sources.folders import FileSource
from weft.host.sources.source import Piece, Source
from weft.host.sources.tables import TableSource


def test_files_are_noted_once_in_name_order_and_latecomers_come_last(tmp_path: Path) -> None:
    data, log = tmp_path / "data", tmp_path / "log" / "files"
    data.mkdir()
    for name in ("b", "c"):
        (data / name).touch()
    found = FileLog(str(data), str(log))
    assert found.discover() == 2
    (data / "a").touch()
    (data / ".hidden").touch()
    (data / "_temporary").touch()
    again = FileLog(str(data), str(log))
    assert again.discover() == 3
    assert [Path(file).name for file in again.files] == ["b", "c", "a"]
    assert again.discover() == 3
    (data / "b").unlink()
    assert FileLog(str(data), str(log)).discover() == 3, "a file that was read and removed stays in the log"


def test_a_log_that_knows_less_than_was_read_is_damaged(tmp_path: Path) -> None:
    log = FileLog(str(tmp_path), str(tmp_path / ".log"))
    with pytest.raises(Exception, match="damaged"):
        log.between(0, 1)


def test_a_line_that_was_being_written_is_written_again(tmp_path: Path) -> None:
    data, path = tmp_path / "data", tmp_path / "log"
    data.mkdir()
    for name in ("a", "b \n ü"):
        (data / name).touch()
    FileLog(str(data), str(path)).discover()
    whole = path.read_bytes()
    for left in range(len(whole)):
        path.write_bytes(whole[:left])
        log = FileLog(str(data), str(path))
        assert len(log.files) == whole[:left].count(b"\n")
        assert log.discover() == 2
        assert path.read_bytes() == whole


def test_a_log_with_a_changed_byte_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").touch()
    path = tmp_path / "log"
    FileLog(str(tmp_path / "data"), str(path)).discover()
    whole = path.read_bytes()
    for at in range(len(whole) - 1):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(StateError, match="damaged"):
            FileLog(str(tmp_path / "data"), str(path)).discover()


def test_a_folder_has_one_name_from_wherever_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").touch()
    monkeypatch.chdir(tmp_path)
    named = [weft.read.csv(path).path for path in ("in", "./in/", Path("in"), tmp_path / "in")]
    assert [list_files(path) for path in named] == [[str(tmp_path / "in" / "0.csv")]] * 4


def test_folders_patterns_and_single_files(tmp_path: Path) -> None:
    for name in ("1.parquet", "2.parquet", "note.txt"):
        (tmp_path / name).touch()
    (tmp_path / "sub").mkdir()
    assert len(list_files(str(tmp_path))) == 3
    assert len(list_files(str(tmp_path / "*.parquet"))) == 2
    assert len(list_files(str(tmp_path / "1.parquet"))) == 1
    assert list_files(str(tmp_path / "none")) == []


def test_a_file_is_a_file_and_no_pattern(tmp_path: Path) -> None:
    (tmp_path / "a[1].csv").touch()
    assert list_files(str(tmp_path / "a[1].csv")) == [str(tmp_path / "a[1].csv")]


def test_a_table_that_was_being_written_is_none(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    source = TableSource((pa.table({"k": [1]}),)).as_files(str(tmp_path / "t"))
    (tmp_path / "t" / ".000000001.arrow").write_bytes(b"half")
    assert [Path(file).name for file in list_files(source.path)] == ["000000000.arrow"]


def test_a_name_that_is_no_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with open(bytes(tmp_path / "data") + b"/\xff.csv", "wb"):
        pass
    with pytest.raises(SourceError, match="not UTF-8"):
        FileLog(str(tmp_path / "data"), str(tmp_path / "log")).discover()


def test_a_text_file_of_no_bytes_has_no_rows(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64())])
    for kind in ("csv", "json"):
        (tmp_path / "x").write_bytes(b"")
        assert [*read_piece(kind, Piece(str(tmp_path / "x"), None, 0), ["k"], schema)] == []  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(10))
def test_shares_hold_every_part_once_and_are_even(seed: int) -> None:
    rng = random.Random(seed)
    parts = [Piece(f"f{i // 3}", (i % 3,), rng.randint(1, 1000)) for i in range(rng.randint(0, 40))]
    tasks = rng.randint(1, 8)
    dealt = shares(parts, tasks)
    assert len(dealt) <= tasks
    assert sorted(str(p) for share in dealt for p in share) == sorted(map(str, parts))
    assert all(dealt)
    loads = [sum(p.bytes for p in share) for share in dealt]
    assert not parts or max(loads) <= sum(loads) / tasks + max(p.bytes for p in parts)
    assert dealt == shares(list(reversed(parts)), tasks), "the same parts are dealt the same way"


@pytest.mark.parametrize("rows", [300, 600])
def test_a_file_that_is_replaced_after_it_was_cut_is_not_read_in_parts_of_two_versions(
    tmp_path: Path, rows: int
) -> None:
    table, schema = pa.table({"k": range(600)}), pa.schema([("k", pa.int64())])
    pq.write_table(table.slice(0, 300), tmp_path / "f.parquet", row_group_size=300)
    (piece,) = pieces("parquet", [str(tmp_path / "f.parquet")])
    assert sum(part.num_rows for part in read_piece("parquet", piece, ["k"], schema)) == 300
    pq.write_table(table.slice(600 - rows), tmp_path / "f.parquet", row_group_size=300)
    with pytest.raises(SourceError, match=r"f.parquet has changed while a batch was reading it"):
        [*read_piece("parquet", piece, ["k"], schema)]


def test_parquet_is_cut_at_row_groups_and_every_row_is_read_once(tmp_path: Path) -> None:
    table = pa.table({"k": range(1000), "s": [str(i) for i in range(1000)]})
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=300)
    found = pieces("parquet", [str(tmp_path / "f.parquet")])
    assert len(found) == 4
    rows = [
        row
        for piece in found
        for batch in read_piece("parquet", piece, ["k"], table.schema)
        for row in batch.to_pylist()
    ]
    assert sorted(row["k"] for row in rows) == list(range(1000))
    assert rows[0].keys() == {"k"}


def test_a_file_that_is_no_parquet_is_named(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    path.write_bytes(b"not parquet")
    with pytest.raises(SourceError) as error:
        pieces("parquet", [str(path)])
    assert str(path) in str(error.value)


@pytest.mark.parametrize("seed", [61_001, 61_002])
def test_text_in_quotes_goes_over_lines_wherever_a_large_file_is_cut(tmp_path: Path, seed: int) -> None:
    rng, words = random.Random(seed), ("x", "a\nb", 'q"\n,z', "\n\n", "NA", "")
    rows = [(at, rng.choice(words) * rng.randint(1, 90)) for at in range(20_000)]
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        writer.writerows([("id", "said"), *rows])
    assert path.stat().st_size > 1 << 20, "more than Arrow reads at a time"
    schema = pa.schema([("id", pa.int64()), ("said", pa.string())])
    assert read_schema("csv", str(path)) == schema
    found = pa.Table.from_batches(read_text("csv", path.read_bytes(), schema.names, schema))
    assert list(zip(*(column.to_pylist() for column in found.columns), strict=True)) == rows


def test_only_nothing_at_all_is_null_in_csv(tmp_path: Path) -> None:
    words = ("NA", "NULL", "null", "nan", "N/A", "#N/A", "-1.#IND", "", '""', "x")
    path = tmp_path / "rows.csv"
    path.write_text("id,said,n\n" + "".join(f"{at},{word},{at if at % 3 else ''}\n" for at, word in enumerate(words)))
    schema = read_schema("csv", str(path))
    found = pa.Table.from_batches(read_text("csv", path.read_bytes(), schema.names, schema))
    with duckdb.connect() as db:
        assert (
            found.to_pylist()
            == db.sql(f"FROM read_csv('{path}', header = true, allow_quoted_nulls = false)")
            .to_arrow_table()
            .to_pylist()
        )
    assert found.column("said").null_count == 1


def test_lines_of_json_may_be_long_from_the_first_on(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text("".join(json.dumps({"id": at, "said": "x" * size}) + "\n" for at, size in enumerate([9, 3 << 20])))
    schema = pa.schema([("id", pa.int64()), ("said", pa.string())])
    assert read_schema("json", str(path)) == schema
    found = pa.Table.from_batches(read_text("json", path.read_bytes(), schema.names, schema))
    assert [len(said) for said in found.column("said").to_pylist()] == [9, 3 << 20]


def test_tables_become_files_once(tmp_path: Path) -> None:
    source = TableSource((pa.table({"k": [1]}), pa.table({"k": [2, 3]})))
    files = source.as_files(str(tmp_path))
    assert isinstance(files, FileSource)
    assert files.max_files == 1
    source.as_files(str(tmp_path))
    found = [
        r
        for p in pieces("arrow", list_files(str(tmp_path)))
        for b in read_piece("arrow", p, ["k"], source.schema)
        for r in b.to_pylist()
    ]
    assert [row["k"] for row in found] == [1, 2, 3]


def test_tables_of_different_schemas_are_refused() -> None:
    with pytest.raises(SourceError, match="batch 1"):
        TableSource((pa.table({"k": [1]}), pa.table({"k": ["a"]})))


def test_a_table_that_holds_nan_is_the_same_table_in_the_next_run(tmp_path: Path) -> None:
    def table(last: float | None) -> pa.Table:
        return pa.table({"f": [1.5, float("nan"), None, last], "g": pa.array([float("nan")] * 4, pa.float32())})

    TableSource((table(2.0),)).as_files(str(tmp_path))
    TableSource((table(2.0), table(3.0))).as_files(str(tmp_path))
    for other in (float("nan"), None, 3.0):
        with pytest.raises(SourceError, match="batch 0 is another table"):
            TableSource((table(other),)).as_files(str(tmp_path))
    with pytest.raises(SourceError, match="batch 0 is another table"):
        TableSource((table(2.0).slice(1),)).as_files(str(tmp_path))


def test_a_position_that_is_no_number_of_files_is_refused(tmp_path: Path) -> None:
    reader = FileSource("csv", str(tmp_path)).open("a", str(tmp_path / "notes"))
    with pytest.raises(StateError, match="not a number of files") as error:
        reader.check({"0": 17})
    assert error.value.hint


def test_a_source_that_cannot_be_read_in_any_way_says_so() -> None:
    class Nothing(Source):
        schema = pa.schema([("k", pa.int64())])

    with pytest.raises(SourceError, match='source of stream "a" cannot be read') as error:
        Nothing().open("a", "unused")
    assert error.value.hint


def test_only_sources_are_taken_for_sources() -> None:
    assert weft.read.as_source("a", source := weft.read.csv("unused")) is source
    with pytest.raises(weft.QueryError, match='source of stream "a" is a int') as error:
        weft.read.as_source("a", 1)
    assert error.value.hint


def test_files_that_are_removed_after_use_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of a stream whose files go stays as small as the folder, and no file is read twice or left out."""
    monkeypatch.setattr(filelog, "FEW", 10)
    data, path, now = tmp_path / "data", tmp_path / "log", [0.0]
    data.mkdir()
    (data / "stays").touch()
    (data / "part-0000000003-0000000004.1.parquet").touch()
    log, read, seen = FileLog(str(data), str(path), lambda: now[0]), 0, []
    for day in range(40):
        for i in range(20):
            (data / f"{day:02d}-{i:02d}").touch()
        end = log.discover()
        seen += log.between(read, end)
        read, now[0] = end, now[0] + filelog.PATIENCE / 2
        log.forget(read)
        if day % 7 == 3:
            log = FileLog(str(data), str(path), lambda: now[0])
            log.check(read)
        for file in data.glob("[0-9]*"):
            file.unlink()
    assert len(seen) == len({*seen}) == 40 * 20 + 2
    assert len(path.read_bytes().splitlines()) < 400
    with pytest.raises(weft.StateError, match="is damaged"):
        log.between(0, read)
    with pytest.raises(weft.StateError, match="were read"):
        log.check(read + 1)


def test_a_folder_that_is_away_for_a_while_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filelog, "FEW", 1)
    now = [0.0]
    data, away = tmp_path / "data", tmp_path / "away"
    data.mkdir()
    (data / "a").touch()
    log = FileLog(str(data), str(tmp_path / "log"), lambda: now[0])
    assert log.discover() == 1
    data.rename(away)
    for _ in range(10):
        now[0] += filelog.PATIENCE / 20
        assert log.discover() == 1
        log.forget(1)
    away.rename(data)
    assert log.discover() == 1
    log.forget(1)
    assert FileLog(str(data), str(tmp_path / "log")).discover() == 1


@pytest.mark.parametrize("sign", [",", ";", "|", "\t"])
def test_values_of_csv_are_parted_by_the_sign_that_is_given(tmp_path: Path, sign: str) -> None:
    rows = [(at, f"a{other}b") for at, other in enumerate(",;|\t")]
    with (tmp_path / "1.csv").open("w", newline="") as file:
        writer = csv.writer(file, delimiter=sign)
        writer.writerows([("id", "said"), *rows])
    source = weft.read.csv(tmp_path, delimiter=sign)
    found = source.whole().read()
    assert list(zip(*(column.to_pylist() for column in found.columns), strict=True)) == rows
    assert (source.describe() == weft.read.csv(tmp_path).describe()) == (sign == ",")


def test_another_sign_is_refused_and_a_line_as_one_column_too(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="delimiter '::' is unknown"):
        weft.read.csv(tmp_path, delimiter="::")
    (tmp_path / "1.csv").write_text("id;name\n1;Ann\n")
    with pytest.raises(SourceError, match=r'1\.csv has one column, "id;name"') as error:
        _ = weft.read.csv(tmp_path).schema
    assert "delimiter=';'" in (error.value.hint or "")
    assert weft.read.csv(tmp_path, schema=pa.schema([("id;name", pa.string())])).schema.names == ["id;name"]


def test_bytes_that_are_no_utf8_are_not_taken_for_binary_values(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_bytes("id,name\n1,Müller\n".encode("latin-1"))
    with pytest.raises(SourceError, match=r"1\.csv cannot be read") as error:
        _ = weft.read.csv(tmp_path).schema
    assert 'column "name" is not in UTF-8' in (error.value.detail or "")


def test_a_value_that_does_not_fit_is_named_with_its_column(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64())])
    (tmp_path / "2.csv").write_text("id,n\n1,2\n2,2.5\n")
    source = weft.read.csv(tmp_path, schema=schema)
    with pytest.raises(SourceError, match=r"2\.csv cannot be read") as error:
        source.whole().read()
    assert error.value.detail == "column \"n\", row 3: invalid value '2.5', and the column has type int64."
    assert "schema=" in (error.value.hint or "")


@pytest.mark.parametrize(
    ("name", "text", "read", "hint"),
    [
        ("1.csv.gz", "k\n1\n", weft.read.parquet, "weft.read.csv"),
        ("1.json", '{"k": 1, "l": {"m": 2}}\n{"k": 1}\n', weft.read.csv, "weft.read.json"),
        ("1.ndjson", "PAR1", weft.read.parquet, "weft.read.json"),
        ("1.json", '[{"k": 1}]', weft.read.json, "one JSON object a line"),
    ],
)
def test_a_file_of_another_format_is_said_to_be_one(tmp_path: Path, name: str, text: str, read: Any, hint: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SourceError, match="cannot be read") as error:
        _ = read(tmp_path).schema
    assert hint in (error.value.hint or "")


def test_why_there_is_no_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "orders" / "year=2024" / "month=1").mkdir(parents=True)
    (tmp_path / "orders" / "year=2024" / "month=1" / "a.parquet").touch()
    (tmp_path / "empty").mkdir()
    for path, detail, hint in (
        ("order", "no such folder", f'did you mean "{tmp_path / "orders"}"?'),
        ("else/where", "no such folder", "relative paths"),
        ("orders", 'such as "year=2024"', f'"{tmp_path / "orders" / "*" / "*" / "*"}"'),
        ("empty", "there is none", "put the first file there"),
        ("empty/*.parquet", "there is none", "put the first file there"),
    ):
        with pytest.raises(SourceError, match="no files at") as error:
            _ = weft.read.parquet(tmp_path / path).schema
        assert detail in (error.value.detail or "")
        assert hint in (error.value.hint or "")
    assert list_files(str(tmp_path / "orders" / "*" / "*" / "*"))
