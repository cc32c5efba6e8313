"""The reader of a topic, without Spark: what lies between two positions, and what it says when something is wrong."""

from __future__ import annotations

import datetime
import pickle
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError, Producer

import weft
from bench.broker import PASSWORD, USER, Broker
from tests.kafka._kit import QUIET, add_partitions, delete_before, delete_topic, make_topic, produce
from weft.errors import SourceError, StateError
from weft.host.parts import left_out, lost, place_of
from weft.host.sources.kafka import positions
from weft.host.sources.kafka.cluster import Complaint
from weft.host.sources.kafka.reader import KafkaReader
from weft.host.sources.kafka.source import KafkaSource
from weft.host.sources.source import Position

pytestmark = pytest.mark.spark  # one process, one broker

N = {"n": "BIGINT"}


def numbers(values: Iterable[int]) -> list[dict[str, int]]:
    return [{"n": value} for value in values]


def read(source: KafkaSource, reader: KafkaReader, start: Position, end: Position) -> list[dict[str, Any]]:
    """All rows between two positions, as other processes read them."""
    away: KafkaReader = pickle.loads(pickle.dumps(reader))
    found = []
    for piece in reader.pieces(start, end):
        for batch in away.read(piece, source.schema.names, source.schema):
            found += batch.to_pylist()
    return found


def drain(source: KafkaSource, reader: KafkaReader, start: Position | None = None) -> tuple[list[Any], Position]:
    """All rows that are there now, in as many batches as it takes, and where they end."""
    at = reader.beginning() if start is None else start
    known, found = reader.discover(), []
    while (end := reader.end(at, known)) != at:
        found += read(source, reader, at, end)
        at = end
    return found, at


def values(rows: Iterable[dict[str, Any]]) -> list[int]:
    return sorted(row["n"] for row in rows)


@pytest.fixture(params=[positions.SMALLEST, 3], ids=["whole", "cut"])
def parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions are read by one task each, or by several; few records make one part otherwise."""
    monkeypatch.setattr(positions, "SMALLEST", request.param)


@pytest.mark.usefixtures("parts")
def test_every_record_is_read_once_in_batches_of_limited_size(broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker, 3)
    produce(broker, topic, numbers(range(500)))
    source = weft.read.kafka(broker.servers, topic, schema=N, max_rows=90)
    reader = source.open("s", str(tmp_path))
    begin = reader.beginning()
    pieces = [*reader.pieces(begin, reader.end(begin, reader.discover()))]
    assert (len(pieces) > 3) == (positions.SMALLEST == 3)
    rows, end = drain(source, reader)
    assert values(rows) == [*range(500)]
    produce(broker, topic, numbers(range(500, 600)))
    more, _ = drain(source, reader, end)
    assert values(more) == [*range(500, 600)]


def test_an_empty_topic_has_nothing_to_read_and_a_missing_one_is_refused(broker: Broker, tmp_path: Path) -> None:
    source = weft.read.kafka(broker.servers, make_topic(broker), schema=N)
    assert drain(source, source.open("s", str(tmp_path)))[0] == []
    missing = weft.read.kafka(broker.servers, "no-such-topic", schema=N)
    with pytest.raises(SourceError, match="there is no topic no-such-topic"):
        missing.open("m", str(tmp_path)).discover()


def test_partitions_that_are_added_are_read_from_their_first_record(broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker, 1)
    produce(broker, topic, numbers(range(10)))
    source = weft.read.kafka(broker.servers, topic, schema=N, start="latest", columns=["#partition"])
    reader = source.open("s", str(tmp_path))
    assert drain(source, reader)[0] == []
    add_partitions(broker, topic, 3)
    for partition in range(3):
        produce(broker, topic, numbers([100 + partition]), partition=partition)
    rows, end = drain(source, reader)
    assert {(row["n"], row["#partition"]) for row in rows} == {(100, 0), (101, 1), (102, 2)}
    assert end == {"0": 11, "1": 1, "2": 1}


def test_where_a_stream_begins_is_kept_and_can_be_a_time_or_offsets(broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker, 1)
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    for at in range(6):
        produce(broker, topic, numbers([at]), timestamp=round((moment.timestamp() + at) * 1000))

    def first(name: str, start: Any) -> list[int]:
        source = weft.read.kafka(broker.servers, topic, schema=N, start=start)
        return values(drain(source, source.open(name, str(tmp_path)))[0])

    assert first("all", "earliest") == [0, 1, 2, 3, 4, 5]
    assert first("offset", {0: 4}) == [4, 5]
    assert first("time", moment + datetime.timedelta(seconds=2)) == [2, 3, 4, 5]
    assert first("text", "2026-01-01T00:00:05+00:00") == [5]
    assert first("long ago", "1960-01-01") == [0, 1, 2, 3, 4, 5]
    assert first("future", moment + datetime.timedelta(days=9)) == []
    assert first("latest", "latest") == []
    produce(broker, topic, numbers([6]))
    assert first("latest", "latest") == [6], "it still begins where it began"
    with pytest.raises(SourceError, match="has no partition 7"):
        first("wrong", {7: 0})
    for offset in (-1, 99):
        with pytest.raises(SourceError, match=f"has no offset {offset}"):
            first(f"at{offset}", {0: offset})


@pytest.mark.usefixtures("parts")
def test_only_committed_records_are_read_and_gaps_are_no_trouble(broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker, 1)
    producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": topic, **QUIET})
    producer.init_transactions(60)

    def transaction(values: Iterable[int], commit: bool) -> None:
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, b'{"n":%d}' % value)
        producer.flush(60)
        producer.commit_transaction(60) if commit else producer.abort_transaction(60)

    for at in range(0, 60, 20):
        transaction(range(at, at + 10), commit=True)
        transaction(range(at + 10, at + 20), commit=False)
    producer.begin_transaction()
    producer.produce(topic, b'{"n":999}')
    producer.flush(60)
    source = weft.read.kafka(broker.servers, topic, schema=N, max_rows=7)
    reader = source.open("s", str(tmp_path))
    rows, end = drain(source, reader)
    assert values(rows) == [*range(10), *range(20, 30), *range(40, 50)]
    producer.commit_transaction(60)
    rows, until = [], time.monotonic() + 60
    while not rows and time.monotonic() < until:  # the broker marks the partition some moments after it has answered
        rows, end = drain(source, reader, end)
    assert values(rows) == [999]


@pytest.mark.usefixtures("parts")
def test_a_compacted_topic_has_gaps(broker: Broker, tmp_path: Path) -> None:
    config = {
        "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100",
        "segment.bytes": "1048576", "max.compaction.lag.ms": "100", "delete.retention.ms": "0",
    }  # fmt: skip
    topic = make_topic(broker, 1, config)
    source = weft.read.kafka(broker.servers, topic, schema=N, key="string", columns=["#key", "#offset"])
    at, rows = 0, []
    while len(rows) == at:  # the cleaner works in its own time: go on until it has removed something
        for _ in range(20):
            produce(broker, topic, numbers([at]), key=f"k{at % 3}")
            at += 1
        rows, end = drain(source, source.open(f"s{at}", str(tmp_path)))
    latest = {row["#key"]: row["n"] for row in rows}
    assert latest == {f"k{n % 3}": n for n in range(at - 3, at)}
    assert end == {"0": at}


def test_deleted_records_are_an_error_that_counts_them_or_are_passed(broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker, 1)
    produce(broker, topic, numbers(range(50)))
    options = {"servers": broker.servers, "topic": topic, "schema": N, "max_rows": 10}
    source = weft.read.kafka(**options)
    reader = source.open("s", str(tmp_path))
    at = reader.end(reader.beginning(), reader.discover())
    assert at == {"0": 10}
    delete_before(broker, topic, 35)
    with pytest.raises(SourceError, match=r"25 records of topic .* were deleted before they were read"):
        reader.end(at, reader.discover())
    with pytest.raises(SourceError, match=r"25 records of topic .* were deleted before they were read"):
        read(source, reader, at, {"0": 20})
    lenient = weft.read.kafka(**options, on_loss="continue")
    again = lenient.open("s", str(tmp_path))
    first = again.end(at, again.discover())
    assert first == {"0": 45}, "a batch is as large as what is left allows"
    assert (values(read(lenient, again, at, first)), count_lost(lenient, again, at, first)) == ([*range(35, 45)], 25)
    delete_before(broker, topic, 50)
    last = again.end(first, again.discover())
    assert (read(lenient, again, first, last), count_lost(lenient, again, first, last)) == ([], 5)
    assert last == again.end(last, again.discover()) == {"0": 50}


def count_lost(source: KafkaSource, reader: KafkaReader, start: Position, end: Position) -> int:
    """Records between two positions that are gone, as the rows that are read say."""
    pieces = reader.pieces(start, end)
    found = (batch for piece in pieces for batch in reader.read(piece, source.schema.names, source.schema))
    return sum(lost(batch) for batch in found)


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize("cleanup", ["delete", "compact,delete"])
def test_records_that_are_deleted_after_a_batch_was_planned_are_told_from_gaps(
    broker: Broker, tmp_path: Path, cleanup: str
) -> None:
    """Offsets 0-9 are records, 10 ends their transaction, 11-20 were aborted, 21 says so, and so on."""
    topic = make_topic(broker, 1, {"cleanup.policy": cleanup})
    producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": topic, **QUIET})
    producer.init_transactions(60)
    for first in (0, 10, 20, 30):
        producer.begin_transaction()
        for at in range(first, first + 10):
            producer.produce(topic, b'{"n":%d}' % at, key=b"%d" % at)
        producer.flush(60)
        producer.commit_transaction(60) if first % 20 == 0 else producer.abort_transaction(60)
    options = {"servers": broker.servers, "topic": topic, "schema": N}
    strict, lenient = weft.read.kafka(**options), weft.read.kafka(**options, on_loss="continue")
    readers = [source.open("s", str(tmp_path)) for source in (strict, lenient)]
    begin = readers[0].beginning()
    planned = [reader.end(begin, reader.discover()) for reader in readers]
    assert planned == [{"0": 44}] * 2
    assert values(read(strict, readers[0], begin, planned[0])) == [*range(10), *range(20, 30)]
    assert count_lost(strict, readers[0], begin, planned[0]) == 0, "gaps are no losses"
    for gone, left in ((5, [*range(5, 10), *range(20, 30)]), (25, [*range(23, 30)]), (44, [])):
        delete_before(broker, topic, gone)
        with pytest.raises(SourceError, match=rf"{gone} records of topic .* were deleted before they were read"):
            read(strict, readers[0], begin, {"0": 1})
        assert values(read(lenient, readers[1], begin, planned[1])) == left
        assert count_lost(lenient, readers[1], begin, planned[1]) == gone


def test_a_topic_that_was_created_anew_is_refused(broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker, 1)
    produce(broker, topic, numbers(range(5)))
    source = weft.read.kafka(broker.servers, topic, schema=N)
    reader = source.open("s", str(tmp_path))
    with pytest.raises(SourceError, match="is not the one that was read before"):
        reader.end({"0": 9}, reader.discover())
    _, end = drain(source, reader)
    delete_topic(broker, topic)
    make_topic(broker, 1, name=topic)
    produce(broker, topic, numbers(range(9)))  # offsets alone do not tell the two apart
    for again in (reader, source.open("s", str(tmp_path))):
        with pytest.raises(SourceError, match="is not the one that was read before"):
            drain(source, again, end)
    with pytest.raises(StateError, match="is not a position in a topic"):
        reader.check(3)


def test_a_topic_is_sampled_for_statistics(broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker, 3)
    produce(broker, topic, [b"bad", *numbers(at % 10 for at in range(3000))])
    s = weft.Session(tmp_path / "state", workers=2)
    for name in ("a", "b"):
        s.stream(name, weft.read.kafka(broker.servers, topic, schema=N))
    s.query("q", "SELECT a.n FROM a JOIN b ON a.n = b.n")
    assert s.analyze().rows("a") == 3000
    few = s.analyze(sample=300)
    assert few.rows("a") == pytest.approx(3000, rel=0.01)
    assert few.predicate("a.n = b.n") == pytest.approx(0.1, rel=0.2)


BAD = [b'{"n":1}', b"oops", None, b'{"n":"x"}', b'{"n":2}']


def test_a_bad_record_is_named_or_left_out_or_kept_apart(broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker, 1)
    produce(broker, topic, BAD, key=b"k")
    strict = weft.read.kafka(broker.servers, topic, schema=N)
    with pytest.raises(SourceError, match=f"the record at offset 1 of topic {topic}, partition 0 cannot be read"):
        drain(strict, strict.open("f", str(tmp_path)))
    for policy in ("skip", "sink"):
        source = weft.read.kafka(broker.servers, topic, schema=N, bad=policy, bad_folder=tmp_path / "bad")
        reader = source.open(policy, str(tmp_path))
        (piece,) = reader.pieces(reader.beginning(), reader.discover())
        (batch,) = reader.read(piece, ["n"], source.schema)
        assert batch.column("n").to_pylist() == [1, None, 2]
        assert (left_out(batch), place_of("s", batch)) == (2, "s#0")
    drain(source, reader)  # the same part again: its file is replaced
    kept = pq.read_table(tmp_path / "bad").to_pylist()
    assert [(row["offset"], row["value"], row["key"]) for row in kept] == [(1, b"oops", b"k"), (3, b'{"n":"x"}', b"k")]
    assert all(row["error"] and row["topic"] == topic for row in kept)


def test_keys_headers_and_times_are_columns(broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker, 1)
    more = {"headers": [("who", b"me"), ("empty", None)], "timestamp": 1_767_225_600_123}
    produce(broker, topic, [b'{"n":1}', None], key=b'{"k":7}', **more)
    source = weft.read.kafka(
        broker.servers, topic, schema=N, key="json", key_schema={"k": int},
        columns=["#timestamp", "#partition", "#offset", "#key", "#headers", "#change"],
    )  # fmt: skip
    first, second = drain(source, source.open("s", str(tmp_path)))[0]
    told = {
        "n": 1, "k": 7, "#timestamp": datetime.datetime(2026, 1, 1, 0, 0, 0, 123_000),  # noqa: DTZ001
        "#partition": 0, "#offset": 0, "#key": '{"k":7}', "#change": "upsert",
        "#headers": '{"who": "me", "empty": null}',
    }  # fmt: skip
    assert first == told
    assert second == {**told, "n": None, "#offset": 1, "#change": "delete"}


def test_a_key_that_is_no_text_is_bad_where_it_is_wanted(broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker, 1)
    for key in (b"\xff\xfe", b"", None):
        produce(broker, topic, numbers([1]), key=key)

    def keys(name: str, **more: Any) -> list[Any]:
        source = weft.read.kafka(broker.servers, topic, schema=N, columns=["#key"], **more)
        return [row["#key"] for row in drain(source, source.open(name, str(tmp_path)))[0]]

    assert keys("skip", bad="skip") == ["", None]
    assert keys("bytes", key="bytes") == [b"\xff\xfe", b"", None]
    with pytest.raises(SourceError, match="offset 0"):
        keys("fail")


def test_text_bytes_and_csv_are_read_too(broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker, 1)
    produce(broker, topic, [b"1,a", b'2,"b,c"'])
    sources = {
        "string": ([{"value": "1,a"}, {"value": '2,"b,c"'}], {}),
        "bytes": ([{"value": b"1,a"}, {"value": b'2,"b,c"'}], {}),
        "csv": ([{"n": 1, "s": "a"}, {"n": 2, "s": "b,c"}], {"schema": {"n": int, "s": str}}),
    }
    for kind, (rows, more) in sources.items():
        source = weft.read.kafka(broker.servers, topic, value=kind, **more)
        assert drain(source, source.open(kind, str(tmp_path)))[0] == rows


def test_only_wanted_columns_are_parsed(broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker, 1)
    produce(broker, topic, [b'{"n":1,"other":"not a number"}'])
    source = weft.read.kafka(broker.servers, topic, schema={"n": int, "other": int})
    reader = source.open("s", str(tmp_path))
    (piece,) = reader.pieces(reader.beginning(), reader.discover())
    assert [batch.to_pylist() for batch in reader.read(piece, ["n"], source.schema)] == [[{"n": 1}]]
    with pytest.raises(SourceError, match="offset 0"):
        [*reader.read(piece, ["n", "other"], source.schema)]


def test_names_and_passwords_are_passed_on_and_wrong_ones_are_refused(broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker)
    produce(broker, topic, numbers(range(3)))

    def secured(password: str) -> KafkaSource:
        options = {
            "security.protocol": "SASL_SSL", "ssl.ca.location": str(broker.certificate), "sasl.mechanism": "PLAIN",
            "sasl.username": USER, "sasl.password": password,
        }  # fmt: skip
        return weft.read.kafka(broker.guarded, topic, schema=N, patience=5, options=options)

    source = secured(PASSWORD)
    assert values(drain(source, source.open("right", str(tmp_path)))[0]) == [0, 1, 2]
    with pytest.raises(SourceError) as caught:
        secured("wrong-password").open("wrong", str(tmp_path)).discover()
    assert "uthentication" in str(caught.value)
    assert "wrong-password" not in str(caught.value)
    assert not any(PASSWORD.encode() in path.read_bytes() for path in tmp_path.iterdir())


def test_the_reason_is_told_and_not_that_no_broker_is_left() -> None:
    code = KafkaError
    complaint, down = Complaint("nothing yet"), code(code._ALL_BROKERS_DOWN, "1/1 brokers are down")
    complaint.note(down)
    assert complaint.text == "1/1 brokers are down"
    complaint.note(code(code._AUTHENTICATION, "Authentication failed"))
    complaint.note(down)
    assert complaint.text == "Authentication failed"
    complaint.note(code(code._TRANSPORT, "Connection refused"))
    assert complaint.text == "Connection refused"


def test_a_broker_that_does_not_answer_is_named_and_no_option_is_shown(tmp_path: Path) -> None:
    options = {"sasl.password": "quite-secret", "sasl.username": "nobody", "sasl.mechanism": "PLAIN"}
    source = weft.read.kafka("127.0.0.1:9", "t", schema=N, patience=0.5, options=options)
    with pytest.raises(SourceError) as caught:
        source.open("s", str(tmp_path)).discover()
    assert "127.0.0.1:9" in str(caught.value)
    wrong = weft.read.kafka("127.0.0.1:9", "t", schema=N, options={"acks": "quite-secret"})
    with pytest.raises(SourceError, match="an option of Kafka is refused") as refused:
        wrong.open("s", str(tmp_path)).discover()
    shown = f"{caught.value}{refused.value!r}{source!r}{source.describe()}{refused.value}"
    assert "acks" in shown
    assert "quite-secret" not in shown
    assert not [*tmp_path.iterdir()], "nothing is written"
