"""Where results go in Kafka, and how rows become records there."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from typing import Literal as OneOf

import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import SinkError
from weft.host.sources.kafka.avro import avro_of, fastavro, write_avro
from weft.host.sources.kafka.cluster import Connection
from weft.host.sources.kafka.registry import HEADER, Registry
from weft.query.duration import parse_duration

Kind = OneOf["json", "avro"]
Key = str | Sequence[str] | None
"""The columns of a key."""
Record = tuple[bytes | None, bytes | None]
"""Key and value."""


@dataclass(frozen=True)
class Place:
    """Where results go, and how they are written."""

    connection: Connection
    topic: str
    key: tuple[str, ...]
    """Columns of the key; none for records without key."""
    value: Kind
    registry: Registry | None

    def __str__(self) -> str:
        return f"to topic {self.topic} at {self.connection.servers}"


def read_place(
    query: str, columns: Sequence[str], servers: str, topic: str, key: Key, value: Kind, more: Mapping[str, Any]
) -> Place:
    """Where the user wants results, checked."""
    keys = () if key is None else (key,) if isinstance(key, str) else tuple(key)
    if unknown := [name for name in keys if name not in columns]:
        hint = f"name some of: {', '.join(columns)}."
        raise SinkError(f'query "{query}" has no column "{unknown[0]}"', hint=hint)
    if value not in ("json", "avro"):
        raise SinkError(f"value is {value!r}", hint="use json or avro.")
    patience = parse_duration(more.get("patience", "1 minute")) / 1_000_000
    registry = None if more.get("registry") is None else Registry(more["registry"])
    connection = Connection(servers, dict(more.get("options") or {}), patience, SinkError)
    return Place(connection, topic, keys, value, registry)


def writer_of(place: Place, schema: pa.Schema, query: str) -> Callable[[pa.RecordBatch], Iterator[Record]]:
    """Turns rows into records."""
    values = _avro_values(place, schema, query) if place.value == "avro" else objects_of

    def write(rows: pa.RecordBatch) -> Iterator[Record]:
        keys = _keys(rows, place.key)
        return zip(keys, values(rows.select(schema.names)), strict=True)

    return write


def _keys(rows: pa.RecordBatch, columns: Sequence[str]) -> Iterator[bytes | None]:
    """One column as text, several as a JSON object."""
    if not columns:
        yield from (None for _ in range(rows.num_rows))
    elif len(columns) == 1:
        for value in _plain_column(rows.column(columns[0])):
            yield None if value is None else (value if isinstance(value, str) else _encode(value).strip('"')).encode()
    else:
        yield from objects_of(rows.select(list(columns)))


def objects_of(rows: pa.RecordBatch) -> Iterator[bytes]:
    """Rows as JSON objects."""
    columns = [_plain_column(column) for column in rows.columns]
    names = rows.schema.names
    for row in zip(*columns, strict=True):
        yield _encode(dict(zip(names, row, strict=True))).encode()


def keys_of(rows: pa.RecordBatch) -> Iterator[bytes]:
    """Rows as the keys of groups.  What must hold: no two groups have one key, so NaN and infinity are texts here."""
    columns = [
        _named(column) if pa.types.is_floating(column.type) else _plain_column(column) for column in rows.columns
    ]
    for row in zip(*columns, strict=True):
        yield _encode(dict(zip(rows.schema.names, row, strict=True))).encode()


def _named(column: pa.Array) -> list[Any]:
    return [value if value is None or math.isfinite(value) else str(value) for value in column.to_pylist()]


def _avro_values(place: Place, schema: pa.Schema, query: str) -> Callable[[pa.RecordBatch], Iterator[bytes]]:
    text = avro_of(schema, query)
    parsed = fastavro().parse_schema(json.loads(text))
    header = b"" if place.registry is None else HEADER.pack(0, place.registry.register(f"{place.topic}-value", text))
    return lambda rows: (write_avro(parsed, row, header) for row in _without_durations(rows).to_pylist())


def _without_durations(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Avro has no durations: they are numbers of microseconds."""
    columns = [pc.cast(one, pa.int64()) if pa.types.is_duration(one.type) else one for one in rows.columns]
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


def _plain_column(column: pa.Array) -> list[Any]:
    """A column as values that JSON has; times are text, as ISO 8601 writes them."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return pc.strftime(column, format="%Y-%m-%dT%H:%M:%S" + ("Z" if kind.tz else "")).to_pylist()
    if pa.types.is_date(kind):
        return pc.cast(column, pa.string()).to_pylist()
    if pa.types.is_floating(kind):
        column = pc.if_else(pc.fill_null(pc.is_finite(column), True), column, pa.scalar(None, kind))
    return column.to_pylist()


def _plain(value: object) -> object:
    if isinstance(value, datetime.datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(microseconds=1)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _encode(value: object) -> str:
    """JSON text; numbers that JSON does not have may lie inside of structs and lists."""
    try:
        return _ENCODE(value)
    except ValueError:
        return _ENCODE(_finite(value))


def _finite(value: object) -> object:
    """A value in which NaN and infinity are null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list) else value


_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain).encode
