"""Result folders: who owns them, and that no result is missing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from weft.errors import SinkError
from weft.host.results.changes import Shape
from weft.host.results.memory import MemorySink
from weft.host.results.parquet import ParquetSink
from weft.host.results.sink import Results
from weft.host.results.sinks import SINKS
from weft.host.results.views import FolderOfChanges

SCHEMA = pa.schema([("x", pa.int64())])


def test_a_new_folder_can_be_read_before_the_first_result(tmp_path: Path) -> None:
    ParquetSink("q", SCHEMA, tmp_path / "out").claim("me", published=False, last=-1)
    assert pq.read_table(tmp_path / "out").schema == SCHEMA


def test_a_folder_that_lacks_earlier_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="lacks the results") as error:
        ParquetSink("q", SCHEMA, tmp_path / "out").claim("me", published=True, last=0)
    assert error.value.hint


def test_our_own_folder_is_taken_up_again(tmp_path: Path) -> None:
    sink = ParquetSink("q", SCHEMA, tmp_path / "out")
    sink.claim("me", published=False, last=-1)
    sink.claim("me", published=True, last=0)


def test_a_folder_of_another_query_is_refused(tmp_path: Path) -> None:
    ParquetSink("q", SCHEMA, tmp_path / "out").claim("me", published=False, last=-1)
    with pytest.raises(SinkError, match="other results"):
        ParquetSink("p", SCHEMA, tmp_path / "out").claim("me", published=False, last=-1)


def test_publishing_twice_changes_nothing(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2]}, SCHEMA), tmp_path / "000000000000-1-0000.parquet")
    placed: list[int] = []
    results = Results(0, (tmp_path / "000000000000-1-0000.parquet",), list, lambda: placed.append(1))
    sinks = (ParquetSink("q", SCHEMA, tmp_path / "out"), MemorySink("q", SCHEMA))
    for sink in sinks:
        sink.claim("me", published=False, last=-1)
        sink.take(results)
        sink.take(results)
    assert len(placed) == 4
    assert pq.read_table(tmp_path / "out")["x"].to_pylist() == [1, 2]
    assert sinks[1].table()["x"].to_pylist() == [1, 2]


CHANGES = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("key", pa.int64()), ("#op", pa.string())])


@pytest.mark.parametrize("files", [1, 2, 5])
def test_changes_of_several_workers_are_all_placed_once(files: int, tmp_path: Path) -> None:
    staged = tuple(tmp_path / f"000000000007-1-{worker:04d}.parquet" for worker in range(files))
    for worker, path in enumerate(staged):
        ops = ["insert", "final", "update"] if worker % 2 else ["insert", "delete", "update"]
        pq.write_table(pa.table([[worker, 10, 20], [1, 2, 3], [worker, 10, 20], ops], schema=CHANGES), path)
    sink = FolderOfChanges("q", Shape(CHANGES, ("key",), ("k", "n"), True, False), tmp_path / "out")
    sink.claim("me", published=False, last=-1)
    placed: list[int] = []
    for _ in range(2):  # doing it again changes nothing
        sink.take(Results(7, staged, list, lambda: placed.append(1)))
    found = pq.read_table(tmp_path / "out")
    assert found.column_names == ["k", "n", "#op", "#batch"]
    assert found.num_rows == 3 * files - files // 2, "final rows are not changes"
    assert {worker for worker in found["k"].to_pylist() if worker < 10} == {*range(files)}
    assert "final" not in found["#op"].to_pylist()
    assert {*found["#batch"].to_pylist()} == {7}
    assert len(placed) == 2 * files


def test_a_change_that_cannot_be_placed_stops_the_run(tmp_path: Path) -> None:
    staged = tuple(tmp_path / f"000000000007-1-{worker:04d}.parquet" for worker in range(3))
    for path in staged[:2]:
        pq.write_table(pa.table([[1], [1], [1], ["insert"]], schema=CHANGES), path)
    sink = FolderOfChanges("q", Shape(CHANGES, ("key",), ("k", "n"), True, False), tmp_path / "out")
    sink.claim("me", published=False, last=-1)
    with pytest.raises(SinkError, match="cannot be put into folder"):
        sink.take(Results(7, staged, list, lambda: None))


def query() -> weft.QueryHandle:
    s = weft.Session("unused", workers=1)
    s.stream("a", weft.read.batches([pa.table({"k": [1]})]))
    return s.query("q", "SELECT a.k FROM a")


def test_every_kind_of_sink_says_what_it_takes_and_when() -> None:
    q = query().to_parquet("unused").to_memory().foreach_batch(print)
    assert [sink.takes for sink in q.sinks] == ["rows", "rows", "any"]
    assert [sink.when for sink in q.sinks] == ["after commit", "after commit", "before commit"]
    assert q.table().num_rows == 0


def test_a_sink_that_takes_no_rows_and_an_unknown_one_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Changes(MemorySink):
        takes = "changes"

    monkeypatch.setitem(SINKS, "changes", Changes)  # type: ignore[arg-type]
    q = query()
    for kind, says in (("changes", "a changes sink takes changes"), ("nowhere", "sink 'nowhere' is unknown")):
        with pytest.raises(SinkError, match=says) as error:
            q.to(kind)
        assert error.value.detail
        assert error.value.hint
    assert q.sinks == []
