"""Where rows come from: Parquet, CSV, JSON, tables, Spark streams; files as they arrive, in any order of names."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from tests.spark._kit import answer, drop, moment, table
from weft.launch.spark import local_session
from weft.observe.report import RunReport

pytestmark = pytest.mark.spark

PAIR = "SELECT a.id AS aid, b.id AS bid FROM a JOIN b ON a.k = b.k"
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64())])


def run(root: Path, a: object, b: object, sql: str = PAIR, **options: Any) -> RunReport:
    s = weft.Session(root / "checkpoint", workers=2)
    s.stream("a", a, **options)
    s.stream("b", b, **options)
    s.query("q", sql).to_parquet(root / "out")
    return s.run()


def rows(*pairs: tuple[int, int]) -> pa.Table:
    return table(id=[i for i, _ in pairs], k=[k for _, k in pairs])


def test_files_are_found_as_they_arrive_whatever_their_names(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    drop(a, "m.parquet", rows((1, 1)))
    drop(a, "n.parquet", rows((2, 1)))
    drop(b, "m.parquet", rows((9, 1)))
    (a / ".hidden.parquet").write_bytes(b"not parquet")
    (a / "_SUCCESS").write_bytes(b"")
    (a / "folder.parquet").mkdir()
    sources = (weft.read.parquet(a, max_files=1), weft.read.parquet(b))
    report = run(tmp_path, *sources)
    assert len(report.batches) == 2
    assert report.rows_in == {"a": 2, "b": 1}
    drop(a, "a-before-all-others.parquet", rows((3, 1)))
    drop(b, "z.parquet", rows((10, 1)))
    report = run(tmp_path, *sources)
    assert report.rows_in == {"a": 1, "b": 1}
    assert answer(tmp_path / "out") == {(i, j): 1 for i in (1, 2, 3) for j in (9, 10)}
    assert run(tmp_path, *sources).batches == ()


@pytest.mark.parametrize(("unit", "told"), [("s", False), ("ms", True), ("us", True)])
def test_seconds_that_are_read_in_a_smaller_unit_are_told(tmp_path: Path, unit: Any, told: bool) -> None:
    seconds = table(id=[1, 2], k=[1, 1], t=[1_720_000_000, 1_720_000_001])
    source = weft.read.batches([seconds])
    report = run(tmp_path, source, source, event_time="t", unit=unit)
    found = [one for batch in report.batches for one in batch.notices if one.kind == "small-unit"]
    assert [notice.action for notice in found] == [f's.stream("{name}", ..., unit="s")' for name in "ab"] * told
    assert all("2024-07-03" in notice.detail and "1970-01" in notice.message for notice in found)


def test_max_files_a_batch(tmp_path: Path) -> None:
    for i in range(7):
        drop(tmp_path / "a", f"{i}.parquet", rows((i, 1)))
    report = run(tmp_path, weft.read.parquet(tmp_path / "a", max_files=3), weft.read.batches([rows((9, 1))]))
    assert [batch.rows_in["a"] for batch in report.batches] == [3, 3, 1]
    assert answer(tmp_path / "out") == {(i, 9): 1 for i in range(7)}


def test_a_glob_and_a_single_file(tmp_path: Path) -> None:
    for i, name in enumerate(("x-0.parquet", "x-1.parquet", "y-0.parquet")):
        drop(tmp_path / "in", name, rows((i, 1)))
    report = run(
        tmp_path, weft.read.parquet(tmp_path / "in" / "x-*.parquet"), weft.read.parquet(tmp_path / "in" / "y-0.parquet")
    )
    assert report.rows_in == {"a": 2, "b": 1}
    assert answer(tmp_path / "out") == {(0, 2): 1, (1, 2): 1}


def test_csv_and_json(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.mkdir()
    b.mkdir()
    (a / "0.csv").write_text('id,k,name,ts\n1,1,"a, b",2026-01-01 00:00:01\n2,,,2026-01-01 00:00:02\n')
    (a / "1.csv").write_text("ts,k,extra,id,name\n2026-01-01 00:00:03,2,x,3,\n")  # another order, one more
    (a / "2.csv").write_text("id,k,name,ts\n")
    (b / "0.json").write_text(
        '{"id": 7, "k": 1, "ts": "2026-01-01 00:00:04"}\n{"id": 8, "ts": "2026-01-01 00:00:04"}\n'
    )
    (b / "1.json").write_text('{"id": 9, "k": 2, "ts": "2026-01-01 00:00:05", "more": [1]}\n')
    (b / "2.json").write_text("")
    schema = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("name", pa.string()), ("ts", pa.timestamp("us"))])
    sources = (
        weft.read.csv(a, max_files=1, schema=schema),
        weft.read.json(b, max_files=1, schema=schema.remove(2)),
    )
    sql = (
        "SELECT a.id AS aid, b.id AS bid, a.name AS n, a.ts AS t FROM a JOIN b ON a.k = b.k WITHIN INTERVAL '1' MINUTE"
    )
    report = run(tmp_path, *sources, sql, event_time="ts")
    assert len(report.batches) == 3
    assert answer(tmp_path / "out") == {(1, 7, "a, b", moment(1)): 1, (3, 9, None, moment(3)): 1}


def test_types_of_csv_and_json_come_from_the_first_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,k\n1,10\n2,20\n")
    (tmp_path / "b.json").write_text('{"id": 7, "k": 20}\n')
    run(tmp_path, weft.read.csv(tmp_path / "a.csv"), weft.read.json(tmp_path / "b.json"))
    assert answer(tmp_path / "out") == {(2, 7): 1}


@pytest.mark.parametrize(
    ("text", "says"),
    [("id\n3\n", "k"), ("id,k\n3,four\n", "four"), ("id,k\n3\n", "columns")],
    ids=["missing column", "wrong type", "ragged"],
)
def test_bad_csv_names_the_file(tmp_path: Path, text: str, says: str) -> None:
    a = tmp_path / "a"
    a.mkdir()
    (a / "0.csv").write_text("id,k\n1,1\n")
    (a / "1.csv").write_text(text)
    with pytest.raises(weft.SourceError, match=r"1\.csv") as caught:
        run(tmp_path, weft.read.csv(a, max_files=1), weft.read.batches([rows((9, 1))]))
    assert says in str(caught.value)
    assert answer(tmp_path / "out") == {(1, 9): 1}


def test_bad_json_names_the_file(tmp_path: Path) -> None:
    a = tmp_path / "a"
    a.mkdir()
    (a / "0.json").write_text('{"id": 1, "k": 1}\n')
    (a / "1.json").write_text('{"id": 2, "k": \n')
    with pytest.raises(weft.SourceError, match=r"1\.json"):
        run(tmp_path, weft.read.json(a, max_files=1), weft.read.batches([rows((9, 1))]))


def test_tables_go_on_where_they_ended_and_may_not_change(tmp_path: Path) -> None:
    first, second = rows((1, 1)), rows((2, 1))
    b = weft.read.batches([rows((9, 1))])
    run(tmp_path, weft.read.batches([first]), b)
    report = run(tmp_path, weft.read.batches([first, second]), b)
    assert report.rows_in == {"a": 1, "b": 0}
    assert answer(tmp_path / "out") == {(1, 9): 1, (2, 9): 1}
    with pytest.raises(weft.SourceError, match="batch 0 is another table"):
        run(tmp_path, weft.read.batches([second]), b)


def test_spark_streams_alone_and_mixed(tmp_path: Path) -> None:
    spark = local_session(2)
    a, b = tmp_path / "a", tmp_path / "b"
    drop(a, "0.parquet", rows((1, 1), (2, 2)))
    drop(b, "0.parquet", rows((9, 1)))

    def stream(folder: Path) -> Any:
        return spark.readStream.schema("id LONG, k LONG").option("maxFilesPerTrigger", 1).parquet(str(folder))

    run(tmp_path / "alone", stream(a), stream(b))
    run(tmp_path / "mixed", stream(a), weft.read.parquet(b))
    drop(a, "1.parquet", rows((3, 1)))
    drop(b, "1.parquet", rows((10, 2)))
    run(tmp_path / "alone", stream(a), stream(b))
    run(tmp_path / "mixed", stream(a), weft.read.parquet(b))
    for name in ("alone", "mixed"):
        assert answer(tmp_path / name / "out") == {(1, 9): 1, (3, 9): 1, (2, 10): 1}


def test_the_rate_source(tmp_path: Path) -> None:
    spark = local_session(2)
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).option("startTimestamp", 0).load()
    s = weft.Session(tmp_path / "checkpoint", workers=2)
    s.stream("a", rate, event_time="timestamp")
    s.stream("b", weft.read.batches([table(k=[3, 5])]))
    q = s.query("q", "SELECT a.value AS v, b.k AS k FROM a JOIN b ON a.value = b.k").to_memory()
    second = threading.Event()
    q.foreach_batch(lambda _df, batch: second.set() if batch else None)
    handle = s.start(every="200 milliseconds")
    assert second.wait(60), "no batch follows the first"
    report = handle.stop()
    assert report.rows_in["a"] >= 10
    assert answer(q.table()) == {(3, 3): 1, (5, 5): 1}


def test_a_spark_frame_that_does_not_stream_is_refused(tmp_path: Path) -> None:
    frame = local_session(2).range(3)
    with pytest.raises(weft.SourceError, match="not a streaming DataFrame"):
        weft.Session(tmp_path / "checkpoint").stream("a", frame)


def test_a_file_log_that_is_damaged_is_named(tmp_path: Path) -> None:
    a = tmp_path / "a"
    for i in range(2):
        drop(a, f"{i}.parquet", rows((i, 1)))
    sources = (weft.read.parquet(a, max_files=1), weft.read.batches([rows((9, 1))]))
    run(tmp_path, *sources)
    log = tmp_path / "checkpoint" / "sources" / "a.files"
    log.write_text(log.read_text()[:20])
    drop(a, "2.parquet", rows((2, 1)))
    with pytest.raises(weft.StateError, match=r"a\.files is damaged"):
        run(tmp_path, *sources)
    assert answer(tmp_path / "out") == {(0, 9): 1, (1, 9): 1}
    assert pq.read_schema(tmp_path / "out" / "empty.parquet").names == ["aid", "bid"]


def test_a_watermark_of_spark_is_event_time_and_lateness_unless_others_are_given(tmp_path: Path) -> None:
    spark = local_session(2)
    times = table(id=[1, 2], k=[1, 1], ts=pa.array([moment(0), moment(30)], pa.timestamp("us", "UTC")))
    drop(tmp_path / "a", "0.parquet", times)
    drop(tmp_path / "b", "0.parquet", times)

    def frame(name: str) -> Any:
        return spark.readStream.schema("id LONG, k LONG, ts TIMESTAMP").parquet(str(tmp_path / name))

    s = weft.Session(tmp_path / "checkpoint", spark, workers=2)
    timed = s.stream("a", frame("a").withWatermark("ts", "90 seconds"))
    assert (timed.event_time, timed.lateness) == ("ts", 90_000_000)
    assert s.stream("c", frame("a").withWatermark("ts", "90 seconds"), lateness="1 second").lateness == 1_000_000
    assert s.stream("d", frame("a").withWatermark("ts", "90 seconds"), lateness=0).lateness == 0
    other = s.stream("e", frame("a").withWatermark("ts", "90 seconds"), event_time="id")
    assert (other.event_time, other.lateness) == ("id", 0)
    assert s.stream("f", frame("a")).event_time is None
    s.stream("b", frame("b").withWatermark("ts", "1 minute"))
    s.query("q", PAIR + " WITHIN INTERVAL '10' SECOND").to_parquet(tmp_path / "out")
    report = s.run()
    assert report.batches[-1].watermarks["q"].stream == "a"
    assert answer(tmp_path / "out") == {(1, 1): 1, (2, 2): 1}
