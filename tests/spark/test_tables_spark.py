"""Tables on Spark: read once, whole, by the first batch, whatever comes later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import weft
from tests.spark._kit import answer, drop, framed, moment, oracle, table

pytestmark = pytest.mark.spark

NAMED = "SELECT a.id AS id, d.name AS name FROM a JOIN d ON a.k = d.k"
PAIRED = """SELECT a.id AS x, b.id AS y, d.name AS name FROM a, b, d
            WHERE a.k = b.k AND a.k = d.k WITHIN INTERVAL '60' SECOND"""
NAMES = pa.schema([("k", pa.int64()), ("name", pa.string())])


def events(first: int, *keys: int, at: int = 0) -> pa.Table:
    """Rows of a stream: ids from `first` on, a second apart."""
    count = len(keys)
    return table(id=[first + i for i in range(count)], k=list(keys), ts=[moment(at + i) for i in range(count)])


def names(**rows: int) -> pa.Table:
    return pa.Table.from_pylist([{"k": k, "name": name} for name, k in rows.items()], NAMES)


def session(root: Path, source: object = None, a: Any = None) -> weft.Session:
    s = weft.Session(root / "checkpoint", workers=2)
    s.options(statistics=weft.Statistics())
    s.stream("a", a if a is not None else weft.read.parquet(root / "a", max_files=1), event_time="ts")
    s.stream("b", weft.read.parquet(root / "b", max_files=1), event_time="ts")
    s.table("d", source or weft.read.parquet(root / "d", max_files=1))
    s.query("named", NAMED).to_parquet(root / "named")
    s.query("paired", PAIRED).to_parquet(root / "paired")
    return s


def fill(root: Path) -> None:
    """Three files of the table, two of each stream."""
    drop(root / "d", "0.parquet", names(one=1, two=2))
    drop(root / "d", "1.parquet", names(uno=1))
    drop(root / "d", "2.parquet", names(drei=3))
    drop(root / "a", "0.parquet", events(0, 1, 2))
    drop(root / "a", "1.parquet", events(10, 3, 4, at=10))
    drop(root / "b", "0.parquet", events(100, 1, 3))
    drop(root / "b", "1.parquet", events(110, 2, 1, at=10))


def test_all_files_of_a_table_are_read_by_the_first_batch_and_none_later(tmp_path: Path) -> None:
    fill(tmp_path)
    report = session(tmp_path).run()
    assert [batch.rows_in["d"] for batch in report.batches] == [4, 0]
    assert [batch.rows_in["a"] for batch in report.batches] == [2, 2]
    drop(tmp_path / "d", "3.parquet", names(late=1, quattro=4))
    drop(tmp_path / "a", "2.parquet", events(20, 1, 4, 2, at=20))
    drop(tmp_path / "b", "2.parquet", events(120, 2, at=21))
    s = session(tmp_path)
    report = s.run()
    assert [batch.rows_in for batch in report.batches] == [{"a": 3, "b": 1, "d": 0}]
    assert session(tmp_path).run().batches == (), "a file of the table that came later starts no batch"
    inputs = {
        "a": pa.concat_tables([events(0, 1, 2), events(10, 3, 4, at=10), events(20, 1, 4, 2, at=20)]),
        "b": pa.concat_tables([events(100, 1, 3), events(110, 2, 1, at=10), events(120, 2, at=21)]),
        "d": names(one=1, two=2, uno=1, drei=3),
    }
    assert answer(tmp_path / "named") == oracle(NAMED, **inputs)
    wanted = oracle(PAIRED.split("WITHIN", maxsplit=1)[0], **inputs)
    assert answer(tmp_path / "paired") == wanted
    assert sum(wanted.values()) > 5
    stored = {store.stream: store.expiry for store in s.topology.stores}
    assert stored["d"] == ()
    assert [name for clock in s.topology.clocks for name, _ in clock.streams] == ["a", "b"]


def test_a_table_beside_a_stream_of_spark(tmp_path: Path) -> None:
    fill(tmp_path)

    def run() -> Any:
        brought = framed(tmp_path / "a", schema="id LONG, k LONG, ts TIMESTAMP_NTZ")
        return session(tmp_path, a=brought).run()

    assert sum(batch.rows_in["d"] for batch in run().batches) == 4
    drop(tmp_path / "d", "3.parquet", names(late=1))
    drop(tmp_path / "a", "2.parquet", events(20, 1, at=20))
    assert sum(batch.rows_in["d"] for batch in run().batches) == 0
    wanted = {(0, "one"): 1, (0, "uno"): 1, (1, "two"): 1, (10, "drei"): 1, (20, "one"): 1, (20, "uno"): 1}
    assert answer(tmp_path / "named") == wanted


def test_a_table_with_nothing_to_read_is_refused_before_anything_is_joined(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "later").mkdir()
    later = weft.read.parquet(tmp_path / "later", schema=NAMES)
    with pytest.raises(weft.SourceError, match='table "d" has nothing to read') as caught:
        session(tmp_path, later).run()
    assert caught.value.detail == "a table is read once, in the first batch."
    assert caught.value.hint == "put its files there before the first run."
    drop(tmp_path / "later", "0.parquet", names(one=1))
    session(tmp_path, later).run()
    assert answer(tmp_path / "named") == {(0, "one"): 1}


def test_tables_given_by_hand_and_alone(tmp_path: Path) -> None:
    s = weft.Session(tmp_path / "checkpoint", workers=2)
    s.table("d", weft.read.batches([names(one=1), names(two=2)]))
    s.table("e", weft.read.batches([names(uno=1, due=2)]))
    both = s.query("both", "SELECT d.name AS x, e.name AS y FROM d, e WHERE d.k = e.k").to_memory()
    alone = s.query("alone", "SELECT d.name FROM d").to_memory()
    assert len(s.run().batches) == 1
    assert answer(both.table()) == {("one", "uno"): 1, ("two", "due"): 1}
    assert answer(alone.table()) == {("one",): 1, ("two",): 1}
    assert s.run().batches == ()


def test_a_dataframe_is_no_table(tmp_path: Path) -> None:
    fill(tmp_path)
    with pytest.raises(weft.QueryError, match='table "d" is a streaming DataFrame') as caught:
        session(tmp_path, framed(tmp_path / "d", schema="k LONG, name STRING"))
    assert caught.value.detail
    assert "weft.read.parquet" in (caught.value.hint or "")
