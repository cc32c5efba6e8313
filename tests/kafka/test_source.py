"""Topics as sources: right rows, each once, whatever lies in the topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

import weft
from bench.broker import Broker
from tests.kafka._kit import delete_before, make_topic, produce
from tests.spark._kit import answer, drop, framed, oracle
from weft.host.crash import CrashPoint

pytestmark = pytest.mark.spark

PAIRS = "SELECT a.id AS aid, b.id AS bid FROM a JOIN b ON a.k = b.k"
COLUMNS = {"id": "BIGINT", "k": "BIGINT"}


def test_the_last_record_of_each_key_counts_and_a_tombstone_takes_it_away(broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker, 2)
    for at in range(300):
        key, partition = at % 10, at % 2
        value = None if at >= 290 and key < 5 else {"v": at}
        produce(broker, topic, [value], key=b'{"k":%d}' % key, partition=partition)
    s = weft.Session(tmp_path / "state", workers=2)
    source = weft.read.kafka(broker.servers, topic, schema={"v": int}, key="json", key_schema={"k": int}, max_rows=120)
    s.stream("t", source, key=["k"])
    s.stream("b", weft.read.batches([pa.table({"k": [*range(10)]})]))
    q = s.query("q", "SELECT t.k, t.v FROM t JOIN b ON t.k = b.k").to_memory()
    s.run()
    assert answer(q.table()) == {(key, 290 + key): 1 for key in range(5, 10)}


def test_a_topic_beside_a_stream_of_spark_and_no_secret_in_the_checkpoint(broker: Broker, tmp_path: Path) -> None:
    topic, options = make_topic(broker, 2), {"client.id": "me", "sasl.password": "open sesame"}
    produce(broker, topic, rows(0, 60))
    drop(tmp_path / "b", "0.parquet", pa.Table.from_pylist(rows(100, 40)))
    s = weft.Session(tmp_path / "state", workers=2)
    s.stream("a", weft.read.kafka(broker.servers, topic, schema=COLUMNS, options=options))
    s.stream("b", framed(tmp_path / "b", schema="id LONG, k LONG"))
    q = s.query("q", PAIRS).to_parquet(tmp_path / "out")
    told = f"{s!r}{s.explain()}{s.explain(format='json')}{s.sources}{q!r}{s.run()}"
    inputs = {"a": pa.Table.from_pylist(rows(0, 60)), "b": pa.Table.from_pylist(rows(100, 40))}
    assert answer(tmp_path / "out") == oracle(PAIRS, **inputs)
    assert "sesame" not in told
    kept = [path for path in (tmp_path / "state").rglob("*") if path.is_file() and b"sesame" in path.read_bytes()]
    assert kept == []


def test_a_partition_that_is_behind_loses_nothing_and_lag_is_told(broker: Broker, tmp_path: Path) -> None:
    """Within a partition rows are in the order of time; the other one is ten times as long, and far behind."""
    topic = make_topic(broker, 2)
    produce(broker, topic, [{"id": at, "k": 1, "ts": at * 10} for at in range(30)], partition=0)
    produce(broker, topic, [{"id": at, "k": 1, "ts": at} for at in range(300)], partition=1)
    s = weft.Session(tmp_path / "state", workers=2)
    source = weft.read.kafka(broker.servers, topic, schema={**COLUMNS, "ts": int}, max_rows=60)
    s.stream("a", source, event_time="ts", lateness=0)
    q = s.query(
        "q", "SELECT x.id, y.id AS other FROM a x, a y WHERE x.ts = y.ts AND x.k = y.k WITHIN INTERVAL '1' SECOND"
    )
    q.to_memory()
    handle = s.start(every=0.01)
    while handle.report().rows_in.get("a", 0) < 330:
        assert not handle.wait(0.1)
    report = handle.stop()
    assert report.late == {}
    lags = [progress.lag["a"] for progress in handle.history()]
    assert sum(lags[0].values()) == 330 - handle.history()[0].total_in
    assert lags[-1] == {"0": 0, "1": 0}
    assert q.table().num_rows == 330 + 2 * 30


def test_records_deleted_before_and_after_a_batch_was_planned_are_counted_alike(broker: Broker, tmp_path: Path) -> None:
    """A batch that died is run again as it was planned, whatever has been deleted since."""
    topic = make_topic(broker, 2)
    for partition in range(2):
        produce(broker, topic, rows(100 * partition, 50), partition=partition)

    def session(on_loss: Literal["fail", "continue"]) -> tuple[weft.Session, Any]:
        s = weft.Session(tmp_path / "state", workers=2)
        s.stream("a", weft.read.kafka(broker.servers, topic, schema=COLUMNS, max_rows=40, on_loss=on_loss))
        return s, s.query("q", "SELECT a.id FROM a").to_memory()

    died, _ = session("fail")
    died.crash_point = CrashPoint("commit before", 1)
    with pytest.raises(weft.HostError, match="crash point"):
        died.run()
    delete_before(broker, topic, 30, partition=0)  # batch 1 is planned from 20 to 40, batch 2 is not
    delete_before(broker, topic, 45, partition=1)
    with pytest.raises(weft.SourceError, match=r"(10|25) records of topic .* were deleted before they were read"):
        session("fail")[0].run()
    s, q = session("continue")
    report = s.run()
    assert [progress.lost for progress in report.batches] == [{"a": 30}, {"a": 5}]
    assert report.lost == {"a": 35}
    assert "35 deleted before they were read" in str(report)
    (notice,) = report.notices
    assert (notice.kind, notice.message) == ("lost-records", "5 records were deleted before they were read")
    assert answer(q.table()) == {(at,): 1 for at in [*range(30, 50), *range(145, 150)]}


def rows(start: int, count: int) -> list[dict[str, int]]:
    return [{"id": at, "k": at % 50} for at in range(start, start + count)]


def test_two_topics_are_joined_and_a_second_run_reads_what_is_new(broker: Broker, tmp_path: Path) -> None:
    a, b = make_topic(broker, 3), make_topic(broker, 2)
    seen: dict[str, list[dict[str, int]]] = {a: [], b: []}

    def send(topic: str, start: int, count: int) -> None:
        produce(broker, topic, rows(start, count))
        seen[topic] += rows(start, count)

    for start in (0, 1000):
        send(a, start, 200)
        send(b, start, 100)
        s = weft.Session(tmp_path / "state", workers=2)
        for name, topic in (("a", a), ("b", b)):
            s.stream(name, weft.read.kafka(broker.servers, topic, schema=COLUMNS, max_rows=70))
        s.query("q", PAIRS).to_parquet(tmp_path / "out")
        report = s.run()
        assert sum(report.rows_in.values()) == 300
        assert answer(tmp_path / "out") == oracle(
            PAIRS, a=pa.Table.from_pylist(seen[a]), b=pa.Table.from_pylist(seen[b])
        )
