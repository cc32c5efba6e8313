"""Topics as sinks: every result once for readers of committed records, wherever a run dies."""

from __future__ import annotations

import decimal
import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError, KafkaException

import weft
from bench.broker import Broker
from tests.kafka._kit import consume_all, json_rows, make_topic
from tests.spark._kit import moment
from weft.errors import SinkError
from weft.host.results import kafkawriter
from weft.host.results.kafka import KafkaSink
from weft.host.results.kafkarecords import keys_of, objects_of, read_place, writer_of
from weft.host.results.sink import Results
from weft.host.sources.kafka.avro import Avro, avro_of
from weft.host.sources.kafka.registry import Schema

pytestmark = pytest.mark.spark  # one process, one broker

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string())])


class Death(BaseException):
    """Stands for a kill: nothing that is there now goes on."""


def dying(after: int) -> Callable[[], None]:
    """Dies at the n-th place that a sink tells of; never if that is negative."""
    seen = iter(range(100))

    def call() -> None:
        if next(seen) == after:
            raise Death

    return call


def results(folder: Path, batch: int, count: int, on_placed: Callable[[], None], run: str = "run") -> Results:
    place = folder / run / f"{batch:012d}-1-0000.parquet"
    place.parent.mkdir(parents=True, exist_ok=True)
    rows = {"k": [*range(batch * 100, batch * 100 + count)], "s": [f"b{batch}"] * count}
    pq.write_table(pa.table(rows, schema=SCHEMA), place)
    return Results(batch, (place,), lambda: None, on_placed)  # type: ignore[arg-type,return-value]


def opened(broker: Broker, topic: str, owner: str, **more: Any) -> KafkaSink:
    sink = KafkaSink("q", SCHEMA, broker.servers, topic, *more.values())
    sink.claim(owner, published=False, last=-1)
    return sink


def test_a_run_that_dies_anywhere_loses_nothing_and_doubles_nothing(broker: Broker, tmp_path: Path) -> None:
    topic, owner = make_topic(broker, 3), tmp_path.name
    for batch in range(4):
        sink = opened(broker, topic, owner)
        with pytest.raises(Death):
            sink.take(results(tmp_path, batch, 20, dying(batch % 2)))  # before the commit, or after it
        again = opened(broker, topic, owner)
        again.take(results(tmp_path, batch, 20, dying(-1)))
        again.take(results(tmp_path, batch, 20, dying(-1)))
        found = json_rows(consume_all(broker, topic), "k")
        assert found == Counter((n * 100 + at,) for n in range(batch + 1) for at in range(20))


def test_other_results_of_the_same_batch_are_sent(broker: Broker, tmp_path: Path) -> None:
    topic, owner = make_topic(broker), tmp_path.name
    opened(broker, topic, owner).take(results(tmp_path, 0, 2, dying(-1)))
    opened(broker, topic, owner).take(results(tmp_path, 0, 2, dying(-1), run="another"))
    assert len(consume_all(broker, topic)) == 4


def test_a_run_that_was_taken_over_cannot_send(broker: Broker, tmp_path: Path) -> None:
    topic, owner = make_topic(broker), tmp_path.name
    old, new = opened(broker, topic, owner), opened(broker, topic, owner)
    old.take(results(tmp_path, 0, 1, dying(-1)))
    new.take(results(tmp_path, 1, 1, dying(-1)))
    with pytest.raises(SinkError):
        old.take(results(tmp_path, 2, 1, dying(-1)))
    assert json_rows(consume_all(broker, topic), "k") == Counter([(0,), (100,)])


def test_keys_are_text_or_objects_and_wrong_ones_are_refused(broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker)
    opened(broker, topic, "one", key="k").take(results(tmp_path, 3, 1, dying(-1)))
    opened(broker, topic, "two", key=["s", "k"]).take(results(tmp_path, 3, 1, dying(-1)))
    assert [message.key() for message in consume_all(broker, topic)] == [b"300", b'{"s":"b3","k":300}']
    with pytest.raises(SinkError, match='has no column "x"'):
        opened(broker, topic, "three", key="x")
    with pytest.raises(SinkError, match="there is no topic nowhere"):
        opened(broker, "nowhere", "four")


def test_keys_of_every_type_are_their_text_and_values_are_json() -> None:
    nan = float("nan")
    columns = {
        "d": pa.array([decimal.Decimal("0.000000000"), decimal.Decimal("-3.5")], pa.decimal128(20, 9)),
        "day": pa.array([2**22, 0], pa.int32()).cast(pa.date32()),
        "at": pa.array([0, 1], pa.timestamp("us", "UTC")),
        "b": pa.array([b"\xff", b""]),
        "gone": pa.array([5, None], pa.duration("us")),
        "nested": pa.array([{"x": [1.5, nan]}, {"x": [float("inf")]}]),
    }
    rows = pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])

    def keys(name: str) -> list[bytes | None]:
        place = read_place("q", [*columns], "b:9", "t", name, "json", {})
        return [key for key, _ in writer_of(place, rows.schema, "q")(rows)]

    assert keys("d") == [b"0.000000000", b"-3.500000000"]
    assert keys("day") == [b"13453-08-13", b"1970-01-01"]
    assert keys("at") == [b"1970-01-01T00:00:00.000000Z", b"1970-01-01T00:00:00.000001Z"]
    assert keys("b") == [b"/w==", b""]
    assert keys("gone") == [b"5", None]
    assert [json.loads(value)["nested"] for value in objects_of(rows)] == [{"x": [1.5, None]}, {"x": [None]}]
    spans = rows.select(["gone"])
    place = read_place("q", ["gone"], "b:9", "t", None, "avro", {})
    values = [value for _, value in writer_of(place, spans.schema, "q")(spans)]
    assert Avro(Schema(avro_of(spans.schema, "q"))).read(values, pa.schema([("gone", pa.int64())])).to_pylist() == [
        {"gone": 5}, {"gone": None},
    ]  # fmt: skip


def test_no_two_groups_have_one_key() -> None:
    values = [None, float("nan"), float("inf"), float("-inf"), 0.5]
    rows = pa.RecordBatch.from_pydict({"x": values, "t": pa.array([0] * 5, pa.timestamp("us"))})
    found = [json.loads(key) for key in keys_of(rows)]
    assert [key["x"] for key in found] == [None, "nan", "inf", "-inf", 0.5]
    assert {key["t"] for key in found} == {"1970-01-01T00:00:00.000000"}


def test_names_that_avro_does_not_have_are_refused_when_the_sink_is_named() -> None:
    inner = pa.struct([("count(*)", pa.int64())])
    for schema in (pa.schema([("a b", pa.int64())]), pa.schema([("s", inner)])):
        with pytest.raises(SinkError, match="Avro has no field of the name"):
            KafkaSink("q", schema, "b:9", "t", None, "avro")


def test_a_record_that_is_too_large_ends_the_run_at_once(broker: Broker, tmp_path: Path) -> None:
    narrow = make_topic(broker, 1, {"max.message.bytes": "1000"})
    place = tmp_path / "000000000000-1-0000.parquet"
    pq.write_table(pa.table({"k": [1], "s": ["long" * 500]}, schema=SCHEMA), place)
    sink = opened(broker, narrow, "large")
    with pytest.raises(SinkError, match="too large") as caught:
        sink.take(Results(0, (place,), lambda: None, lambda: None))  # type: ignore[arg-type]
    assert "max.message.bytes" in str(caught.value)
    assert consume_all(broker, narrow) == []


def test_a_query_sends_its_results_and_another_reads_them(broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker, 2)
    rows = pa.table({"k": [1, 2, 2], "x": [1.5, float("nan"), None], "ts": [moment(at) for at in range(3)]})
    names = pa.table({"k": [1, 2], "name": ['a\n"b"', "é"]})
    s = weft.Session(tmp_path / "state", workers=2)
    s.stream("a", weft.read.batches([rows]))
    s.table("n", weft.read.batches([names]))
    q = s.query("q", "SELECT a.k, a.x, a.ts, n.name FROM a JOIN n ON a.k = n.k")
    q.to_kafka(broker.servers, topic, key="k")
    s.run()
    assert f"to topic {topic}" in repr(q)
    t = weft.Session(tmp_path / "other", workers=2)
    columns = {"k": int, "x": float, "ts": "TIMESTAMP", "name": str}
    t.stream("r", weft.read.kafka(broker.servers, topic, schema=columns), event_time="ts")
    back = t.query("back", "SELECT r.k, r.x, r.ts, r.name FROM r").to_memory()
    t.run()
    wanted = [(1, 1.5, moment(0), 'a\n"b"'), (2, None, moment(1), "é"), (2, None, moment(2), "é")]
    assert Counter(tuple(row.values()) for row in back.table().to_pylist()) == Counter(wanted)


def test_the_last_record_of_each_key_is_the_view(broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker, 1)
    batches = [pa.table({"k": [1, 2, 1], "x": [5, 1, 5]}), pa.table({"k": [2, 1], "x": [1, -9]})]
    s = weft.Session(tmp_path / "state", workers=2)
    s.stream("a", weft.read.batches(batches))
    q = s.query("q", "SELECT a.k, sum(a.x) AS total FROM a GROUP BY a.k HAVING sum(a.x) > 1")
    q.to_kafka(broker.servers, topic)
    s.run()
    last = {message.key(): message.value() for message in consume_all(broker, topic)}
    view = [json.loads(value) for value in last.values() if value is not None]
    assert view == [{"k": 2, "total": 2}]
    assert last[b'{"k":1}'] is None, "the group that left is deleted"


def test_joined_rows_that_change_say_what_happens(broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker, 1)
    log = [pa.table({"k": [1, 2], "op": ["insert", "insert"]}), pa.table({"k": [1], "op": ["delete"]})]
    s = weft.Session(tmp_path / "state", workers=2)
    s.stream("a", weft.read.batches(log), changes="op")
    s.stream("b", weft.read.batches([pa.table({"k": [1, 2], "n": ["x", "y"]})]))
    s.query("q", "SELECT a.k, b.n FROM a JOIN b ON a.k = b.k").to_kafka(broker.servers, topic, key="k")
    s.run()
    found = json_rows(consume_all(broker, topic), "k", "n", "op")
    assert found == Counter([(1, "x", "insert"), (2, "y", "insert"), (1, "x", "delete")])


def test_avro_is_written_as_it_is_read(broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker)
    sink = KafkaSink("q", SCHEMA, broker.servers, topic, None, "avro")
    sink.claim("avro", published=False, last=-1)
    sink.take(results(tmp_path, 1, 3, dying(-1)))
    values = [message.value() for message in consume_all(broker, topic)]
    read = Avro(Schema(avro_of(SCHEMA, "q"))).read(values, SCHEMA)
    assert read.to_pylist() == [{"k": 100 + at, "s": "b1"} for at in range(3)]


def test_a_broker_that_goes_between_rows_and_marker_and_comes_back_gets_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka may hang in the call that sends the marker, whatever timeout it is given."""
    monkeypatch.setattr(kafkawriter, "SECONDS", 2.0)
    monkeypatch.setattr(kafkawriter, "GRACE", 2.0)
    with Broker(tmp_path / "broker") as mortal:
        topic = make_topic(mortal, 2)
        sink = opened(mortal, topic, "restarted")
        restarts = iter([mortal.stop, mortal.start])

        def restart() -> None:
            for step in restarts:
                step()

        sink.take(results(tmp_path, 0, 3, lambda: None))  # now the broker is known
        sink.take(results(tmp_path, 1, 3, restart))
        sink.take(results(tmp_path, 2, 3, lambda: None))
        found = json_rows(consume_all(mortal, topic), "k")
    assert found == Counter((number,) for batch in range(3) for number in range(batch * 100, batch * 100 + 3))


def test_a_broker_that_does_not_know_yet_where_markers_are_is_asked_again(broker: Broker, tmp_path: Path) -> None:
    topic, owner = make_topic(broker), tmp_path.name
    opened(broker, topic, owner).take(results(tmp_path, 0, 2, dying(-1)))
    sink = opened(broker, topic, owner)
    answers, ask = [KafkaError(KafkaError.NOT_COORDINATOR)] * 2, sink._writer._consumer

    class Starting:
        """Answers as a broker that has just come up."""

        def committed(self, *asked: Any) -> Any:
            if answers:
                raise KafkaException(answers.pop())
            return ask.committed(*asked)

    sink._writer._consumer = Starting()
    sink.take(results(tmp_path, 0, 2, dying(-1)))
    assert not answers
    assert len(consume_all(broker, topic)) == 2


def test_a_call_that_does_not_return_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafkawriter, "SECONDS", 0.05)
    monkeypatch.setattr(kafkawriter, "GRACE", 0.05)
    never = threading.Event()
    with pytest.raises(TimeoutError):
        kafkawriter._watch(never.wait)
    never.set()
    kafkawriter._watch(lambda: None)
    with pytest.raises(ZeroDivisionError):
        kafkawriter._watch(lambda: 1 // 0)
