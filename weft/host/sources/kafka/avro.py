"""Avro: values become columns, and rows become values.

A value is read by the schema it was written by: the one that is given, or the one whose number it begins with, from a
registry.  Only the wanted fields are read.  A field that the schema of a value lacks is NULL.
"""

from __future__ import annotations

import importlib
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa

from weft.errors import SinkError, SourceError, WeftError
from weft.host.sources.kafka.registry import HEADER, Registry
from weft.host.sources.kafka.values import UnreadableError

_PLAIN: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "string": pa.string(), "bytes": pa.binary(), "fixed": pa.binary(), "enum": pa.string(),
}  # fmt: skip
_LOGICAL: Mapping[str, pa.DataType] = {
    "date": pa.date32(), "timestamp-millis": pa.timestamp("us", "UTC"), "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"), "local-timestamp-micros": pa.timestamp("us"), "uuid": pa.string(),
}  # fmt: skip


def fastavro() -> Any:
    """The package that reads and writes Avro."""
    try:
        return importlib.import_module("fastavro")
    except ImportError as error:
        hint = 'install it on the driver and on all workers: pip install "weft[kafka]", or fastavro.'
        raise SourceError("Avro needs the package fastavro", detail=f"{error}.", hint=hint) from error


@dataclass(frozen=True)
class Avro:
    """Avro values."""

    schema: str | None
    """The schema that all values were written by, as JSON text; None if each begins with the number of its own."""
    registry: Registry | None = field(default=None, repr=False)

    def read(self, values: Sequence[bytes], columns: pa.Schema) -> pa.RecordBatch:
        """One row for each value."""
        try:
            rows = [self._row(value, tuple(columns.names)) for value in values]
            return pa.RecordBatch.from_pylist(rows, schema=columns)
        except WeftError:
            raise
        except (ValueError, TypeError, KeyError, IndexError, EOFError, OverflowError, StopIteration) as error:
            raise UnreadableError(f"it is not Avro as declared: {error or type(error).__name__}") from error

    def _row(self, value: bytes, names: tuple[str, ...]) -> dict[str, Any]:
        start, schema = 0, self.schema
        if self.registry is not None:
            if len(value) < HEADER.size or value[0] != 0:
                raise UnreadableError("it does not begin with the number of a schema")
            start, schema = HEADER.size, self.registry.schema(HEADER.unpack_from(value)[1])
        assert schema is not None
        text = io.BytesIO(value[start:])
        found: dict[str, Any] = fastavro().schemaless_reader(text, *_schemas(schema, names))
        if text.read(1):
            raise UnreadableError("there are bytes behind the value")
        return found


@lru_cache(maxsize=256)
def _schemas(text: str, names: tuple[str, ...]) -> tuple[Any, Any]:
    """The schema that a value was written by, and that with the wanted fields alone."""
    plain = json.loads(text)
    wanted = {**plain, "fields": [one for one in plain["fields"] if one["name"] in names]}
    return fastavro().parse_schema(plain), fastavro().parse_schema(wanted)


def read_avro_schema(given: object) -> str | None:
    """An Avro schema as JSON text; None if it is something else."""
    try:
        plain = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        return None
    return json.dumps(plain) if isinstance(plain, Mapping) and plain.get("type") == "record" else None


def columns_of(text: str) -> pa.Schema:
    """The columns of an Avro schema."""
    plain = json.loads(text)
    return pa.schema([(one["name"], _arrow(one["type"], one["name"])) for one in plain["fields"]])


def _arrow(kind: Any, name: str) -> pa.DataType:
    if isinstance(kind, list):
        kinds = [one for one in kind if one != "null"]
        return _arrow(kinds[0], name) if len(kinds) == 1 else _refuse(kind, name)
    if not isinstance(kind, Mapping):
        return _PLAIN.get(kind) or _refuse(kind, name)
    if kind.get("logicalType") == "decimal":
        return pa.decimal128(kind["precision"], kind.get("scale", 0))
    if (found := _LOGICAL.get(kind.get("logicalType", ""))) is not None:
        return found
    if kind["type"] == "array":
        return pa.list_(_arrow(kind["items"], name))
    if kind["type"] == "record":
        return pa.struct([(one["name"], _arrow(one["type"], one["name"])) for one in kind["fields"]])
    return _arrow(kind["type"], name)


def _refuse(kind: Any, name: str) -> Any:
    raise SourceError(
        f'field "{name}" has an Avro type that no column can hold',
        detail=f"it is {json.dumps(kind)}.",
        hint='leave the field out: pass schema={"column": "TYPE", ...} with the other fields.',
    )


# --------------------------------------------------------------------------------------------- writing


def avro_of(schema: pa.Schema, name: str) -> str:
    """The Avro schema of some columns, as JSON text; every field may be NULL."""
    record = re.sub(r"^(?![A-Za-z_])|[^A-Za-z0-9_]", "_", name)
    return json.dumps({"type": "record", "name": record, "fields": _fields(schema, record)})


def _fields(columns: Iterable[pa.Field], name: str) -> list[dict[str, Any]]:
    columns = list(columns)
    for one in columns:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", one.name):
            hint = "give it a name of letters, digits and underscores: SELECT ... AS name."
            raise SinkError(f'Avro has no field of the name "{one.name}"', hint=hint)
    made = [(one.name, _avro(one.type, f"{name}_{one.name}")) for one in columns]
    return [{"name": field, "type": ["null", kind], "default": None} for field, kind in made]


def _avro(kind: pa.DataType, name: str) -> Any:
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros" if kind.tz else "local-timestamp-micros"}
    if pa.types.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", _avro(kind.value_type, name)]}
    if pa.types.is_struct(kind):
        return {"type": "record", "name": name, "fields": _fields(kind, name)}
    if pa.types.is_integer(kind):
        return "int" if kind.bit_width <= 32 else "long"
    return {value: key for key, value in _PLAIN.items() if key not in ("fixed", "enum")}.get(kind, "long")


def write_avro(schema: Any, row: Mapping[str, Any], header: bytes) -> bytes:
    """A row as Avro, behind a header."""
    text = io.BytesIO()
    text.write(header)
    fastavro().schemaless_writer(text, schema, row)
    return text.getvalue()
