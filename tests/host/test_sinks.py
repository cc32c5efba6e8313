"""Result folders: who owns them, and that no result is missing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from weft.errors import SinkError
from weft.host.results.memory import MemorySink
from weft.host.results.parquet import ParquetSink
from weft.host.results.sink import Results
from weft.host.results.sinks import SINKS

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
