"""Avro values, and the registry that knows their schemas: a real HTTP server on loopback."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import fastavro
import pyarrow as pa
import pytest

import weft
from weft.errors import SourceError
from weft.host.sources.kafka.avro import Avro, avro_of, columns_of, write_avro
from weft.host.sources.kafka.registry import HEADER, Registry
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


class Server:
    """A registry of two subjects."""

    def __init__(self) -> None:
        self.schemas = [json.dumps(OLD), json.dumps(NEW)]
        self.asked: list[tuple[str, str | None]] = []
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append((self.path, self.headers.get("Authorization")))
                found: dict[str, Any] | None = None
                if self.path.startswith("/schemas/ids/") and int(self.path.rpartition("/")[2]) < len(registry.schemas):
                    found = {"schema": registry.schemas[int(self.path.rpartition("/")[2])]}
                elif self.path == "/subjects/orders-value/versions/latest":
                    found = {"schema": registry.schemas[1], "id": 1}
                self._answer(found)

            def do_POST(self) -> None:
                sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                registry.schemas.append(sent["schema"])
                self._answer({"id": len(registry.schemas) - 1})

            def _answer(self, found: dict[str, Any] | None) -> None:
                body = json.dumps(found or {"error_code": 404}).encode()
                self.send_response(404 if found is None else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.place = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.stop()


def test_values_are_read_by_the_schema_that_is_given() -> None:
    columns = columns_of(json.dumps(NEW))
    assert [str(field.type) for field in columns] == [
        "int64", "timestamp[us, tz=UTC]", "decimal128(9, 2)", "string", "list<item: string>",
    ]  # fmt: skip
    found = sift(Avro(json.dumps(NEW)), [written(NEW, ROW), b"\xff", written(NEW, ROW) + b"?"], columns)
    assert found.rows.to_pylist() == [ROW]
    assert {*found.bad} == {1, 2}
    some = pa.schema([columns.field("kind"), columns.field("id")])
    assert Avro(json.dumps(NEW)).read([written(NEW, ROW)], some).to_pylist() == [{"kind": "B", "id": 7}]


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
        sift(away, [written(NEW, ROW, HEADER.pack(0, 1))], columns_of(json.dumps(NEW)))
    assert "sesame" not in str(caught.value)


def test_the_columns_of_a_topic_come_from_its_registry(server: Server) -> None:
    source = weft.read.kafka("b:9", "orders", value="avro", registry=f"http://{server.place}")
    assert source.schema.names == ["id", "at", "price", "kind", "tags"]
    some = weft.read.kafka("b:9", "orders", value="avro", registry=f"http://{server.place}", schema={"id": int})
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
    number = Registry(f"http://{server.place}").register("out-value", text)
    values = [write_avro(fastavro.parse_schema(json.loads(text)), row, HEADER.pack(0, number)) for row in rows]
    assert Avro(None, Registry(f"http://{server.place}")).read(values, schema).to_pylist() == rows
