"""Avro values, from bytes and through a broker, and the registry that knows their schemas: a real HTTP server."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import urllib.request
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

import weft
from bench.broker import Broker
from tests.kafka._kit import consume_all, make_topic, produce
from tests.kafka._registry import Server, reference
from tests.spark._kit import answer
from weft.errors import SourceError
from weft.host.sources.kafka.avro import Avro, avro_of, columns_of, write_avro
from weft.host.sources.kafka.registry import HEADER, Registry, Schema
from weft.host.sources.kafka.sifting import sift

OLD = {
    "type": "record",
    "name": "order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}],
}
NEW = {
    "type": "record", "name": "order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
        {"name": "kind", "type": {"type": "enum", "name": "kind", "symbols": ["A", "B"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}  # fmt: skip
MOMENT = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
ROW = {"id": 7, "at": MOMENT, "price": decimal.Decimal("1.25"), "kind": "B", "tags": ["x", "y"]}


def written(schema: Any, row: Any, header: bytes = b"") -> bytes:
    text = io.BytesIO(header)
    text.seek(len(header))
    fastavro.schemaless_writer(text, fastavro.parse_schema(schema), row)
    return text.getvalue()


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    found.add("old-value", OLD)
    found.add("orders-value", NEW)
    yield found
    found.stop()


def test_values_are_read_by_the_schema_that_is_given() -> None:
    columns = columns_of(Schema(json.dumps(NEW)))
    assert [str(field.type) for field in columns] == [
        "int64", "timestamp[us, tz=UTC]", "decimal128(9, 2)", "string", "list<item: string>",
    ]  # fmt: skip
    found = sift(Avro(Schema(json.dumps(NEW))), [written(NEW, ROW), b"\xff", written(NEW, ROW) + b"?"], columns)
    assert found.rows.to_pylist() == [ROW]
    assert {*found.bad} == {1, 2}
    some = pa.schema([columns.field("kind"), columns.field("id")])
    assert Avro(Schema(json.dumps(NEW))).read([written(NEW, ROW)], some).to_pylist() == [{"kind": "B", "id": 7}]


def test_a_value_begins_with_the_number_of_its_schema(server: Server) -> None:
    registry = Registry(f"http://me:open%20sesame@{server.place}")
    values = [
        written(NEW, ROW, HEADER.pack(0, 1)),
        written(OLD, {"id": 1, "note": "old"}, HEADER.pack(0, 0)),
        b"\x01",
        b"",
    ]
    columns = pa.schema([("id", pa.int64()), ("kind", pa.string())])
    found = sift(Avro(None, registry), values * 10, columns)
    assert found.rows.to_pylist() == [{"id": 7, "kind": "B"}, {"id": 1, "kind": None}] * 10
    assert len(found.bad) == 20
    assert [path for path, _ in server.asked] == ["/schemas/ids/1", "/schemas/ids/0"], "each schema is asked for once"
    assert all(allowed == "Basic bWU6b3BlbiBzZXNhbWU=" for _, allowed in server.asked)
    unknown = sift(Avro(None, registry), [HEADER.pack(0, 99) + b"x"], columns)
    assert "the registry knows no schema 99" in unknown.bad[0]
    with pytest.raises(SourceError) as caught:
        Registry(f"http://me:open%20sesame@{server.place}/broken").latest("orders-value")
    assert server.place in str(caught.value)
    assert "sesame" not in f"{caught.value}{registry!r}"


def test_a_registry_that_is_away_ends_the_run_and_no_record_is_bad() -> None:
    away = Avro(None, Registry("http://me:open%20sesame@127.0.0.1:9"))
    with pytest.raises(SourceError, match=r"the registry at 127\.0\.0\.1:9 gives no schema") as caught:
        sift(away, [written(NEW, ROW, HEADER.pack(0, 1))], columns_of(Schema(json.dumps(NEW))))
    assert "sesame" not in str(caught.value)


def test_the_columns_of_a_topic_come_from_its_registry(server: Server) -> None:
    source = weft.read.kafka("b:9", "orders", value="avro", registry=server.address)
    assert source.schema.names == ["id", "at", "price", "kind", "tags"]
    some = weft.read.kafka("b:9", "orders", value="avro", registry=server.address, schema={"id": int})
    assert some.schema.names == ["id"]
    with pytest.raises(SourceError, match="the Avro schema of topic orders is not given"):
        weft.read.kafka("b:9", "orders", value="avro", schema={"id": int})


def test_rows_are_written_as_avro_that_is_read_back(server: Server) -> None:
    inner = pa.struct([("x", pa.float64()), ("y", pa.list_(pa.int32()))])
    schema = pa.schema(
        [
            ("i", pa.int64()), ("s", pa.string()), ("t", pa.timestamp("us")), ("u", pa.timestamp("us", "UTC")),
            ("d", pa.date32()), ("n", pa.decimal128(12, 3)), ("b", pa.binary()), ("o", pa.bool_()), ("q", inner),
        ]
    )  # fmt: skip
    rows: list[dict[str, Any]] = [
        {
            "i": 1, "s": "é", "t": MOMENT.replace(tzinfo=None), "u": MOMENT, "d": datetime.date(2026, 1, 2),
            "n": decimal.Decimal("1.125"), "b": b"\x00", "o": True, "q": {"x": 0.5, "y": [1, None]},
        },
        dict.fromkeys(schema.names),
    ]  # fmt: skip
    text = avro_of(schema, "q")
    number = Registry(server.address).register("out-value", text)
    values = [write_avro(fastavro.parse_schema(json.loads(text)), row, HEADER.pack(0, number)) for row in rows]
    assert Avro(None, Registry(server.address)).read(values, schema).to_pylist() == rows


# ----------------------------------------------------------------------------------------- types and versions


PLACE = {"type": "record", "name": "Place", "namespace": "geo", "fields": [
    {"name": "x", "type": "double"}, {"name": "unit", "type": "Unit"},
]}  # fmt: skip
UNIT = {"type": "enum", "name": "Unit", "namespace": "geo", "symbols": ["M", "KM"]}
TRIP = {
    "type": "record", "name": "Trip", "namespace": "app",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "start", "type": "geo.Place"},
        {"name": "stop", "type": ["null", "geo.Place"]},
        {"name": "units", "type": {"type": "array", "items": "geo.Unit"}},
    ],
}  # fmt: skip


def encoded(schema: Any, row: Any, named: tuple[Any, ...] = (), header: bytes = b"") -> bytes:
    """A value, by fastavro alone."""
    known: dict[str, Any] = {}
    for one in named:
        fastavro.parse_schema(one, known)
    text = io.BytesIO()
    fastavro.schemaless_writer(text, fastavro.parse_schema(schema, known), row)
    return header + text.getvalue()


def trip(number: int) -> dict[str, Any]:
    place = {"x": number / 2, "unit": "KM"}
    return {"id": number, "start": place, "stop": None if number % 2 else place, "units": ["M", "KM"]}


def test_a_schema_may_name_others_and_these_others_again(server: Server) -> None:
    server.add("unit", UNIT)
    server.add("some place", PLACE, [reference("geo.Unit", "unit")])
    both = [reference("geo.Place", "some place"), reference("geo.Unit", "unit")]
    number = server.add("trips-value", TRIP, both)
    source = weft.read.kafka("b:9", "trips", value="avro", registry=server.address)
    assert str(source.schema.field("start").type) == "struct<x: double, unit: string>"
    assert source.schema.field("stop").type == source.schema.field("start").type
    assert str(source.schema.field("units").type) == "list<item: string>"
    values = [encoded(TRIP, trip(at), (UNIT, PLACE), HEADER.pack(0, number)) for at in range(20)]
    found = sift(Avro(None, Registry(server.address)), values, source.schema)
    assert found.rows.to_pylist() == [trip(at) for at in range(20)]
    some = pa.schema([source.schema.field("stop")])  # the field that says what a place is may not be wanted
    assert Avro(None, Registry(server.address)).read(values, some).to_pylist() == [
        {"stop": trip(at)["stop"]} for at in range(20)
    ]
    asked = Counter(path for path, _ in server.asked)
    assert (
        asked["/subjects/some%20place/versions/1?deleted=true"] == asked["/subjects/unit/versions/1?deleted=true"] == 1
    )


def test_a_schema_that_names_what_the_registry_lacks_is_said_to() -> None:
    server = Server()
    try:
        number = server.add("trips-value", TRIP, [reference("geo.Place", "gone")])
        bad = sift(Avro(None, Registry(server.address)), [HEADER.pack(0, number)], pa.schema([("id", pa.int64())])).bad
        assert "/subjects/gone/versions/1" in bad[0]
        with pytest.raises(SourceError, match="gives no schema"):
            weft.read.kafka("b:9", "trips", value="avro", registry=server.address)
        proto = server.add("proto-value", "syntax = 'proto3';", kind="PROTOBUF")
        bad = sift(Avro(None, Registry(server.address)), [HEADER.pack(0, proto)], pa.schema([("id", pa.int64())])).bad
        assert "its schema is of the kind PROTOBUF" in bad[0]
        server.add("text-value", '"string"')
        for topic, message in (("proto", "cannot be used"), ("text", "the Avro schema cannot be used")):
            with pytest.raises(SourceError, match=message) as caught:
                weft.read.kafka("b:9", topic, value="avro", registry=server.address)
            assert caught.value.hint
    finally:
        server.stop()


def test_types_are_defined_once_and_used_by_name_and_one_that_holds_itself_has_no_column() -> None:
    place = {"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]}
    text = json.dumps({"type": "record", "name": "r", "namespace": "n", "fields": [
        {"name": "a", "type": place}, {"name": "b", "type": ["null", "P"]}, {"name": "c", "type": "n.P"},
    ]})  # fmt: skip
    columns, rows = columns_of(Schema(text)), [{"a": {"x": 1}, "b": None, "c": {"x": 3}}]
    value = encoded(json.loads(text), rows[0])
    assert Avro(Schema(text)).read([value], columns).to_pylist() == rows
    assert Avro(Schema(text)).read([value], pa.schema([columns.field("c")])).to_pylist() == [{"c": {"x": 3}}]
    looped = {"type": "record", "name": "r", "fields": [{"name": "next", "type": ["null", "r"]}]}
    assert columns_of(Schema(json.dumps(place))).names == ["x"]
    with pytest.raises(SourceError, match='field "next" has an Avro type that no column can hold'):
        columns_of(Schema(json.dumps(looped)))


def test_a_uuid_is_text_and_a_time_of_day_a_number() -> None:
    schema = {"type": "record", "name": "r", "fields": [
        {"name": "u", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "t", "type": ["null", {"type": "long", "logicalType": "time-micros"}]},
    ]}  # fmt: skip
    known, noon = uuid.UUID(int=7), datetime.time(12)
    columns = columns_of(Schema(json.dumps(schema)))
    value = encoded(schema, {"u": known, "t": noon})
    assert Avro(Schema(json.dumps(schema))).read([value], columns).to_pylist() == [
        {"u": str(known), "t": 43_200_000_000}
    ]


def test_values_of_other_versions_become_what_the_reader_declares(server: Server) -> None:
    """Aliases, wider types and defaults; what has no default is NULL, and what the reader lacks is left out."""
    first = {"type": "record", "name": "V", "fields": [
        {"name": "number", "type": "int"}, {"name": "gone", "type": "string"}, {"name": "kind", "type": "string"},
    ]}  # fmt: skip
    last = {"type": "record", "name": "W", "fields": [
        {"name": "id", "type": "long", "aliases": ["number"]}, {"name": "kind", "type": ["null", "string"]},
        {"name": "price", "type": "double", "default": 9.5}, {"name": "must", "type": "string"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ]}  # fmt: skip
    clash = {"type": "record", "name": "W", "fields": [{"name": "id", "type": "string"}]}
    numbers = [server.add("v-value", one) for one in (first, clash, last)]
    old = encoded(first, {"number": 7, "gone": "?", "kind": "a"}, header=HEADER.pack(0, numbers[0]))
    wrong = encoded(clash, {"id": "x"}, header=HEADER.pack(0, numbers[1]))
    row = {"id": 8, "kind": None, "price": 1.0, "note": "n", "must": "m"}
    new = encoded(last, row, header=HEADER.pack(0, numbers[2]))
    for given in (None, last):
        source = weft.read.kafka("b:9", "v", value="avro", schema=given, registry=server.address)
        assert source.avro is not None
        found = sift(source.avro, [old, wrong, new], source.schema)
        assert found.rows.to_pylist() == [{"id": 7, "kind": "a", "price": 9.5, "must": None, "note": None}, row]
        assert {*found.bad} == {1}
    declared = weft.read.kafka("b:9", "v", value="avro", schema={"number": int, "id": int}, registry=server.address)
    assert declared.avro is not None
    assert sift(declared.avro, [old, new], declared.schema).rows.to_pylist() == [
        {"number": 7, "id": None}, {"number": None, "id": 8},
    ]  # fmt: skip


def test_defaults_are_values_of_their_types(server: Server) -> None:
    schema = {"type": "record", "name": "r", "fields": [
        {"name": "id", "type": "int"},
        {"name": "n", "default": "\u00ff",
         "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "b", "type": "bytes", "default": "\u00e9\u0000"},
        {"name": "m", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 1500},
        {"name": "u", "type": {"type": "long", "logicalType": "local-timestamp-micros"}, "default": 1500},
        {"name": "d", "type": [{"type": "int", "logicalType": "date"}, "null"], "default": 2},
        {"name": "l", "type": {"type": "array", "items": "bytes"}, "default": ["\u0001"]},
        {"name": "s", "type": {"type": "record", "name": "S", "fields": [
            {"name": "x", "type": "bytes"}, {"name": "y", "type": "int", "default": 4}]}, "default": {"x": "a"}},
        {"name": "t", "type": "S", "default": {"x": "b", "y": 5}},
    ]}  # fmt: skip
    least = {**schema, "fields": schema["fields"][:1]}
    value = encoded(least, {"id": 1}, header=HEADER.pack(0, server.add("d-value", least)))
    server.add("d-value", schema)
    source = weft.read.kafka("b:9", "d", value="avro", registry=server.address)
    assert source.avro is not None
    (row,) = source.avro.read([value], source.schema).to_pylist()
    outer, plain = ({"type": "record", "name": "o", "fields": [{"name": "q", "type": one}]} for one in (schema, least))
    inside = encoded(plain, {"q": {"id": 1}}, header=HEADER.pack(0, server.add("o-value", plain)))
    server.add("o-value", outer)
    nested = weft.read.kafka("b:9", "o", value="avro", registry=server.address)
    assert nested.avro is not None
    assert nested.avro.read([inside], nested.schema).to_pylist() == [{"q": row}]
    epoch = datetime.datetime(1970, 1, 1)  # noqa: DTZ001
    assert row == {
        "id": 1, "n": decimal.Decimal("-0.01"), "b": b"\xe9\0", "d": datetime.date(1970, 1, 3), "l": [b"\x01"],
        "m": (epoch + datetime.timedelta(milliseconds=1500)).replace(tzinfo=datetime.UTC),
        "u": epoch + datetime.timedelta(microseconds=1500), "s": {"x": b"a", "y": 4}, "t": {"x": b"b", "y": 5},
    }  # fmt: skip


# ----------------------------------------------------------------------------------------- through a broker


PAIRS = "SELECT a.id AS id, a.start.x AS x, b.note AS note, b.price AS price FROM a JOIN b ON b.id = a.id"


@pytest.mark.spark
def test_avro_goes_through_a_broker_in_both_directions(broker: Broker, server: Server, tmp_path: Path) -> None:
    """One topic by a given schema, one by the registry in two versions; results are read without Weft."""
    trips, notes = make_topic(broker, 2), make_topic(broker, 2)
    plain, framed = make_topic(broker), make_topic(broker)
    inline = {
        **TRIP,
        "fields": [TRIP["fields"][0], {"name": "start", "type": {**PLACE, "fields": PLACE["fields"][:1]}}],
    }
    produce(broker, trips, [encoded(inline, trip(at)) for at in range(40)] + [b"\xff"])
    first = {
        "type": "record",
        "name": "N",
        "fields": [{"name": "id", "type": "int"}, {"name": "note", "type": "string"}],
    }
    price = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    last = {**first, "fields": [*first["fields"], {"name": "price", "type": price, "default": "\u0064"}]}
    old, new = server.add(f"{notes}-value", first), server.add(f"{notes}-value", last)
    produce(broker, notes, [encoded(first, {"id": at, "note": "o"}, header=HEADER.pack(0, old)) for at in range(20)])
    paid = [{"id": at, "note": "ü", "price": decimal.Decimal(at) / 4} for at in range(20, 50)]
    produce(broker, notes, [encoded(last, row, header=HEADER.pack(0, new)) for row in paid])
    s = weft.Session(tmp_path / "state", workers=2)
    s.stream("a", weft.read.kafka(broker.servers, trips, value="avro", schema=inline, bad="skip", max_rows=15))
    s.stream("b", weft.read.kafka(broker.servers, notes, value="avro", registry=server.address, max_rows=15))
    q = s.query("q", PAIRS).to_parquet(tmp_path / "out")
    q.to_kafka(broker.servers, plain, key="id", value="avro")
    q.to_kafka(broker.servers, framed, value="avro", registry=server.address)
    report = s.run()
    wanted = Counter({(at, at / 2, "o", decimal.Decimal(1)): 1 for at in range(20)})
    wanted += Counter({(at, at / 2, "ü", decimal.Decimal(at) / 4): 1 for at in range(20, 40)})
    assert report.unreadable == {"a": 1}
    assert answer(tmp_path / "out") == wanted
    with urllib.request.urlopen(f"{server.address}/subjects/{framed}-value/versions/latest") as told:
        known = json.load(told)
    schema = fastavro.parse_schema(json.loads(known["schema"]))
    for topic, header in ((framed, b"\0" + known["id"].to_bytes(4, "big")), (plain, b"")):
        messages = consume_all(broker, topic)
        assert all(message.value().startswith(header) for message in messages)
        read = [fastavro.schemaless_reader(io.BytesIO(m.value()[len(header) :]), schema, None) for m in messages]
        assert Counter(tuple(row.values()) for row in read) == wanted
    assert {message.key() for message in messages} == {str(at).encode() for at in range(40)}
