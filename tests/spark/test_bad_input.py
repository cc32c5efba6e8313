"""Input that is empty, damaged, changed, huge or far from its time: right answers, or errors that name the file."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from tests.spark._kit import answer, drop, moment, oracle, table
from weft.host.state import room
from weft.observe.report import RunReport

pytestmark = pytest.mark.spark

PAIR = "SELECT a.id AS aid, b.id AS bid FROM a JOIN b ON a.k = b.k"
WITHIN = "SELECT a.id AS aid, b.id AS bid FROM a JOIN b ON a.k = b.k WITHIN INTERVAL '10' SECOND"
TIMED: dict[str, Any] = {"event_time": "ts", "lateness": "5 seconds"}


def session(root: Path, sources: dict[str, Any], sql: str, workers: int = 2, **options: Any) -> weft.Session:
    s = weft.Session(root / "checkpoint", workers=workers)
    for name, source in sources.items():
        s.stream(name, weft.read.batches(source) if isinstance(source, list) else source, **options)
    s.query("q", sql).to_parquet(root / "out").to_memory()
    return s


def run(
    root: Path, sources: dict[str, Any], sql: str = PAIR, workers: int = 2, **options: Any
) -> tuple[pa.Table, RunReport]:
    s = session(root, sources, sql, workers, **options)
    report = s.run()
    assert answer(s.queries["q"].table()) <= answer(root / "out")
    return s.queries["q"].table(), report


def pair(ids: list[int], keys: list[Any], seconds: list[float | None] | None = None) -> pa.Table:
    columns: dict[str, Any] = {
        "id": pa.array(ids, pa.int64()),
        "k": keys if isinstance(keys, pa.Array) else pa.array(keys),
    }
    if seconds is not None:
        moments = [None if s is None else moment(s) for s in seconds]
        columns["ts"] = pa.array(moments, pa.timestamp("us"))
    return table(**columns)


# ------------------------------------------------------------------------------------------- nothing


def test_streams_without_files_and_files_without_rows(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("k", pa.int64())])
    (tmp_path / "a").mkdir()
    a = weft.read.parquet(tmp_path / "a", schema=schema)
    b = weft.read.parquet(tmp_path / "b", schema=schema)  # not even a folder
    result, report = run(tmp_path, {"a": a, "b": b})
    assert result.num_rows == 0
    assert sum(report.rows_in.values()) == 0
    drop(tmp_path / "a", "0.parquet", schema.empty_table())
    result, report = run(tmp_path, {"a": a, "b": b})
    assert (result.num_rows, report.rows_in) == (0, {"a": 0, "b": 0})
    drop(tmp_path / "a", "1.parquet", pair([1, 2], [7, 8]))
    drop(tmp_path / "b", "1.parquet", schema.empty_table())
    run(tmp_path, {"a": a, "b": b})
    assert answer(tmp_path / "out") == {}
    drop(tmp_path / "b", "2.parquet", pair([5], [8]))
    run(tmp_path, {"a": a, "b": b})
    assert answer(tmp_path / "out") == {(2, 5): 1}


def test_a_folder_without_files_needs_a_schema(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    s = weft.Session(tmp_path / "checkpoint")
    with pytest.raises(weft.SourceError, match="no files at") as caught:
        s.stream("a", weft.read.parquet(tmp_path / "a"))
    assert "schema" in str(caught.value.hint)


# ------------------------------------------------------------------------------------------ changes


def test_a_missing_column_names_file_and_column_and_can_be_repaired(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    drop(a, "0.parquet", pair([1], [1]))
    drop(a, "1.parquet", table(id=[2], wrong=[1]))
    drop(b, "0.parquet", pair([3], [1]))
    sources = {"a": weft.read.parquet(a, max_files=1), "b": weft.read.parquet(b, max_files=1)}
    with pytest.raises(weft.SourceError, match=r'column "k" of stream "a" is missing.*1\.parquet') as caught:
        run(tmp_path, sources)
    assert "columns found: id, wrong" in str(caught.value)
    assert answer(tmp_path / "out") == {(1, 3): 1}
    drop(a, "1.parquet", pair([2], [1]))
    run(tmp_path, sources)
    assert answer(tmp_path / "out") == {(1, 3): 1, (2, 3): 1}


def test_narrower_types_are_widened_and_other_types_refused(tmp_path: Path) -> None:
    a = tmp_path / "a"
    drop(a, "0.parquet", pair([1], [1]))
    drop(a, "1.parquet", table(id=pa.array([2], pa.int16()), k=pa.array([1], pa.int32())))
    drop(a, "2.parquet", table(id=[3], k=["one"]))
    b = [pair([9], [1])]
    sources = {"a": weft.read.parquet(a, max_files=1), "b": b}
    with pytest.raises(weft.SourceError, match=r'column "k" of stream "a" has another type.*2\.parquet') as caught:
        run(tmp_path, sources)
    assert "string" in str(caught.value.detail)
    assert "int64" in str(caught.value.detail)
    assert answer(tmp_path / "out") == {(1, 9): 1, (2, 9): 1}


@pytest.mark.parametrize("damage", ["garbage", "truncated", "empty", "removed"])
def test_an_unreadable_file_is_named_and_can_be_repaired(tmp_path: Path, damage: str) -> None:
    a = tmp_path / "a"
    drop(a, "0.parquet", pair([1], [1]))
    broken = drop(a, "1.parquet", pair([2], [1]))
    whole = broken.read_bytes()
    sources = {"a": weft.read.parquet(a, max_files=1), "b": [pair([9], [1])]}
    s = session(tmp_path, sources, PAIR)
    if damage == "removed":  # after it was discovered: the first batch takes it away
        s.queries["q"].foreach_batch(lambda _df, batch: broken.unlink() if batch == 0 else None)
    else:
        broken.write_bytes({"garbage": b"garbage", "truncated": whole[:-20], "empty": b""}[damage])
    with pytest.raises(weft.SourceError, match=r"1\.parquet cannot be read") as caught:
        s.run()
    assert caught.value.detail
    assert "repair" in str(caught.value.hint)
    assert "\tat " not in str(caught.value)
    assert answer(tmp_path / "out") == {(1, 9): 1}
    broken.write_bytes(whole)
    run(tmp_path, sources)
    assert answer(tmp_path / "out") == {(1, 9): 1, (2, 9): 1}


def write(file: Path, number: int) -> None:
    """A file of one row."""
    texts = {".csv": f"id,k\n{number},1\n", ".json": f'{{"id": {number}, "k": 1}}\n'}
    if file.suffix == ".parquet":
        pq.write_table(pair([number], [1]), file)
    else:
        file.write_text(texts[file.suffix])


@pytest.mark.parametrize("form", ["parquet", "csv", "json"])
def test_bad_files_are_left_out_if_that_is_wanted(tmp_path: Path, form: str) -> None:
    """The first file, one in the middle, and one that is deleted after it was found."""
    a = tmp_path / "a"
    a.mkdir()
    for number in range(6):
        write(a / f"{number}.{form}", number)
    for number in (0, 2):
        (a / f"{number}.{form}").write_bytes(b"id,k\n1,2,3\n")

    def skipping() -> weft.Session:
        s = weft.Session(tmp_path / "checkpoint", workers=2)
        s.stream("a", getattr(weft.read, form)(a, max_files=2), bad_files="skip")
        s.stream("b", weft.read.batches([pair([9], [1])]))
        s.query("q", PAIR).to_parquet(tmp_path / "out")
        return s

    s = skipping()
    gone = a / f"5.{form}"
    s.queries["q"].foreach_batch(lambda _df, batch: gone.unlink() if batch == 0 else None)
    report = s.run()
    assert answer(tmp_path / "out") == {(1, 9): 1, (3, 9): 1, (4, 9): 1}
    (notice,) = (notice for notice in report.notices if notice.kind == "bad-files")
    assert notice.message == f"3 files left out, the last one {gone}"
    assert notice.message in str(report)
    write(gone, 5)  # too late: what was left out stays so
    write(a / f"6.{form}", 6)
    report = skipping().run()
    assert answer(tmp_path / "out") == {(1, 9): 1, (3, 9): 1, (4, 9): 1, (6, 9): 1}
    assert not report.notices


@pytest.mark.parametrize("how", [{}, {"key": "k"}, {"refresh": True}, {"refresh": True, "key": "k"}])
def test_bad_files_of_tables_are_left_out_if_that_is_wanted(tmp_path: Path, how: dict[str, Any]) -> None:
    """Tables that are read once, of upserts, and that are read again."""
    t = tmp_path / "t"
    for number in range(3):
        drop(t, f"{number}.parquet", pair([number], [number]))
    (t / "1.parquet").write_bytes(b"garbage")
    drop(tmp_path / "a", "0.parquet", pair([7, 8, 9], [0, 1, 2]))

    def session(**more: Any) -> weft.Session:
        s = weft.Session(tmp_path / "checkpoint", workers=2)
        s.stream("a", weft.read.parquet(tmp_path / "a"))
        s.table("b", weft.read.parquet(t), **how, **more)
        s.query("q", PAIR).to_parquet(tmp_path / "out")
        return s

    with pytest.raises(weft.SourceError, match=r"1\.parquet cannot be read") as caught:
        session().run()
    assert 'bad_files="skip"' in str(caught.value.hint)
    report = session(bad_files="skip").run()
    assert answer(tmp_path / "out") == {(7, 0): 1, (9, 2): 1}
    (notice,) = (notice for notice in report.notices if notice.kind == "bad-files")
    assert str(t / "1.parquet") in notice.message
    (t / "0.parquet").write_bytes(b"garbage")  # it was good: what it said stays
    drop(tmp_path / "a", "1.parquet", pair([6], [0]))
    report = session(bad_files="skip").run()
    assert answer(tmp_path / "out") == {(7, 0): 1, (9, 2): 1, (6, 0): 1}
    assert any("stays as it was" in notice.message for notice in report.notices) == ("refresh" in how)


def test_a_run_that_failed_goes_on_without_the_bad_file(tmp_path: Path) -> None:
    a = tmp_path / "a"
    a.mkdir()
    for number in range(3):
        write(a / f"{number}.parquet", number)
    (a / "1.parquet").write_bytes(b"garbage")
    sources = {"a": weft.read.parquet(a), "b": [pair([9], [1])]}
    with pytest.raises(weft.SourceError, match=r"1\.parquet cannot be read") as caught:
        run(tmp_path, sources)
    assert 'bad_files="skip"' in str(caught.value.hint)
    (a / "1.parquet").unlink()
    with pytest.raises(weft.SourceError, match=r"1\.parquet cannot be read"):
        run(tmp_path, sources)
    s = weft.Session(tmp_path / "checkpoint", workers=2)
    s.stream("a", weft.read.parquet(a), bad_files="skip")
    s.stream("b", weft.read.batches([pair([9], [1])]))
    s.query("q", PAIR).to_parquet(tmp_path / "out")
    s.run()
    assert answer(tmp_path / "out") == {(0, 9): 1, (2, 9): 1}


def test_a_damaged_page_inside_a_parquet_file_is_named(tmp_path: Path) -> None:
    a = tmp_path / "a"
    content = pair(list(range(5000)), list(range(5000)))
    drop(a, "0.parquet", content)
    broken = a / "1.parquet"
    pq.write_table(content, broken, use_dictionary=False, compression="zstd")
    damaged = bytearray(broken.read_bytes())
    damaged[4:40] = b"\xff" * 36
    broken.write_bytes(damaged)
    sources = {"a": weft.read.parquet(a, max_files=1), "b": [pair([9], [1])]}
    with pytest.raises(weft.SourceError, match=r"1\.parquet cannot be read"):
        run(tmp_path, sources)
    assert answer(tmp_path / "out") == {(1, 9): 1}


# --------------------------------------------------------------------------------------------- time


def test_rows_from_years_ago_are_late_and_counted(tmp_path: Path) -> None:
    year = 365 * 86400
    a = [pair([1], [1], [100]), pair([2, 3], [1, 1], [-3 * year, 101]), pair([4], [1], [-20 * year])]
    b = [pair([7], [1], [100]), pair([8], [1], [102]), pair([9], [1], [103])]
    result, report = run(tmp_path, {"a": a, "b": b}, WITHIN, **TIMED)
    assert answer(result) == {(i, j): 1 for i in (1, 3) for j in (7, 8, 9)}
    assert report.late == {"a": 2}
    assert report.rows_in == {"a": 4, "b": 3}
    assert [batch.late.get("a", 0) for batch in report.batches] == [0, 1, 1]
    assert "2 late, dropped" in str(report)


def test_the_year_9999_and_the_year_1(tmp_path: Path) -> None:
    last = datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001
    first = datetime.datetime(1, 1, 1)  # noqa: DTZ001
    a = [table(id=[1, 2], k=[1, 1], ts=[first, first]), table(id=[3, 4], k=[1, 1], ts=[last, first])]
    b = [table(id=[7], k=[1], ts=[first]), table(id=[8], k=[1], ts=[last]), table(id=[9], k=[1], ts=[last])]
    result, report = run(tmp_path, {"a": a, "b": b}, WITHIN, **TIMED)
    assert answer(result) == {(1, 7): 1, (2, 7): 1, (4, 7): 1, (3, 8): 1, (3, 9): 1}
    assert isinstance(report.batches[-1].watermark, datetime.datetime)
    assert report.batches[-1].state_rows < 7  # the first year has expired


def test_rows_without_event_time_are_counted_once(tmp_path: Path) -> None:
    a = [pair([1, 2, 3], [1, 1, 1], [1, None, 2])]
    sql = """SELECT x.id AS xid, y.id AS yid FROM a x JOIN a y ON x.k = y.k
             WHERE x.id < 3 AND y.id > 1 WITHIN INTERVAL '10' SECOND"""
    result, report = run(tmp_path, {"a": a}, sql, **TIMED)
    assert answer(result) == {(1, 3): 1}
    assert report.untimed == {"a": 1}


def test_a_stream_of_event_times_that_are_all_null(tmp_path: Path) -> None:
    a, b = [pair([1], [1], [None]), pair([2], [1], [None])], [pair([3], [1], [1]), pair([4], [1], [2])]
    result, report = run(tmp_path, {"a": a, "b": b}, WITHIN, **TIMED)
    assert result.num_rows == 0
    assert report.untimed == {"a": 2}


# ------------------------------------------------------------------------------------------- values


def test_null_and_nan_match_nothing(tmp_path: Path) -> None:
    nan = float("nan")
    a = [pair([1, 2, 3, 4], [1.0, None, nan, 0.0]), pair([5, 6], [None, nan])]
    b = [pair([7, 8, 9], [None, nan, 1.0]), pair([10, 11, 12], [nan, None, -0.0])]
    assert answer(run(tmp_path / "equal", {"a": a, "b": b})[0]) == {(1, 9): 1, (4, 12): 1}
    sql = "SELECT a.id AS aid, b.id AS bid FROM a JOIN b ON a.k <= b.k"
    assert answer(run(tmp_path / "order", {"a": a, "b": b}, sql)[0]) == {(1, 9): 1, (4, 12): 1, (4, 9): 1}
    sql = "SELECT a.id AS aid, b.id AS bid FROM a JOIN b ON a.k <> b.k"
    assert answer(run(tmp_path / "unequal", {"a": a, "b": b}, sql)[0]) == {(1, 12): 1, (4, 9): 1}


def test_strings_of_no_length_and_of_ten_megabytes(tmp_path: Path) -> None:
    long, other = "x" * 10_000_000, "x" * 9_999_999 + "y"
    a = [table(id=[1, 2, 3], k=["", long, "x"]), table(id=[4], k=[other])]
    b = [table(id=[7, 8], k=["", other]), table(id=[9, 10], k=[long, None])]
    sql = "SELECT a.id AS aid, b.id AS bid, a.k AS k FROM a JOIN b ON a.k = b.k"
    result, _ = run(tmp_path, {"a": a, "b": b}, sql)
    assert answer(result) == {(1, 7, ""): 1, (2, 9, long): 1, (4, 8, other): 1}


def test_a_thousand_columns(tmp_path: Path) -> None:
    wide = {f"c{i}": [i, i + 1] for i in range(1000)}
    a, b = [table(k=[1, 2], **wide)] * 2, [table(k=[2, 3], **wide)]
    result, _ = run(tmp_path, {"a": a, "b": b}, "SELECT a.*, b.c999 AS last FROM a JOIN b ON a.k = b.k")
    assert result.num_columns == 1002
    assert [row["c998"] for row in result.to_pylist()] == [999, 999]


def test_a_million_equal_keys(tmp_path: Path) -> None:
    n = 1_000_000
    many = table(id=np.arange(n), k=np.zeros(n, dtype=np.int64))
    few = pair([1], [0])
    s = session(tmp_path, {"a": [many, pair([n], [0])], "b": [few, pair([2], [1])]}, PAIR)
    report = s.run()
    assert report.rows_out == {"q": n + 1}
    result = s.queries["q"].table()
    assert np.array_equal(np.sort(result["aid"].to_numpy()), np.arange(n + 1))
    assert pq.read_table(tmp_path / "out").num_rows == n + 1


def test_a_hot_key_under_a_window(tmp_path: Path) -> None:
    n, step = 20_000, 5_000
    ts = pa.array((np.arange(n) * 100_000 + 1_767_225_600_000_000), pa.timestamp("us"))
    rows = table(id=np.arange(n), k=np.zeros(n, dtype=np.int64), ts=ts)
    parts = [rows.slice(i, step) for i in range(0, n, step)]
    sql = "SELECT a.id AS aid, b.id AS bid FROM a JOIN b ON a.k = b.k WITHIN INTERVAL '1' SECOND"
    s = session(tmp_path, {"a": parts, "b": parts}, sql, **TIMED)
    report = s.run()
    truth = "SELECT a.id, b.id FROM a JOIN b ON a.k = b.k AND abs(a.id - b.id) < 10"
    assert answer(s.queries["q"].table()) == oracle(truth, a=rows, b=rows)
    assert report.batches[-1].state_rows < 2 * n  # rows behind the window have gone


def test_a_disk_that_is_nearly_full_is_told_before_a_batch_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = table(k=[1])
    s = weft.Session(tmp_path / "state", workers=1, progress=False)
    for name in "ab":
        s.stream(name, weft.read.batches([rows]))
    q = s.query("q", "SELECT a.k FROM a JOIN b ON a.k = b.k").to_parquet(tmp_path / "out").to_memory()
    with monkeypatch.context() as full:
        full.setattr(room, "LEAST", 1 << 60)
        with pytest.raises(weft.HostError, match=r"^the disk of .* is nearly full") as error:
            s.run()
    assert "MB are free, and the next batch may need" in (error.value.detail or "")
    assert "nothing is lost" in (error.value.hint or "")
    assert not list((tmp_path / "state" / "segments").glob("*/*/*"))
    s.run()
    assert q.table().to_pylist() == [{"k": 1}]
