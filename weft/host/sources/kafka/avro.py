"""Avro: values become columns, and rows become values.

A value is read by the schema it was written by: the one that is given, or the one whose number it begins with, from a
registry.  Only the wanted fields are read.  Where the columns come from a schema too, that is the reader's: values of
other versions become its own as Avro says, by aliases, wider types and defaults.  A field that a value lacks, and that
has no default, is NULL.
"""

from __future__ import annotations

import importlib
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any, NoReturn

import pyarrow as pa

from weft.errors import SinkError, SourceError, WeftError
from weft.host.sources.kafka.registry import HEADER, Registry, Schema
from weft.host.sources.kafka.values import UnreadableError

_PLAIN: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "string": pa.string(), "bytes": pa.binary(), "fixed": pa.binary(), "enum": pa.string(),
}  # fmt: skip
_LOGICAL: Mapping[str, pa.DataType] = {
    "date": pa.date32(), "timestamp-millis": pa.timestamp("us", "UTC"), "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"), "local-timestamp-micros": pa.timestamp("us"),
}  # fmt: skip
"""Other logical types are read as what they are made of: a uuid as text, a time of day as a number."""


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

    schema: Schema | None
    """The reader's schema, if there is one; without a registry all values were written by it."""
    registry: Registry | None = field(default=None, repr=False)
    """Where values that begin with the number of their schema have it from."""

    def read(self, values: Sequence[bytes], columns: pa.Schema) -> pa.RecordBatch:
        """One row for each value."""
        try:
            rows = [self._row(value, tuple(columns.names)) for value in values]
            return pa.RecordBatch.from_pylist(rows, schema=columns)
        except (WeftError, UnreadableError):
            raise
        except Exception as error:
            raise UnreadableError(f"it is not Avro as declared: {error or type(error).__name__}") from error

    def _row(self, value: bytes, names: tuple[str, ...]) -> dict[str, Any]:
        start, schema = 0, self.schema
        if self.registry is not None:
            if len(value) < HEADER.size or value[0] != 0:
                raise UnreadableError("it does not begin with the number of a schema")
            start, schema = HEADER.size, self.registry.schema(HEADER.unpack_from(value)[1])
        assert schema is not None
        text = io.BytesIO(value[start:])
        found: dict[str, Any] = fastavro().schemaless_reader(text, *_schemas(schema, self.schema or schema, names))
        if text.read(1):
            raise UnreadableError("there are bytes behind the value")
        return found


@lru_cache(maxsize=256)
def _schemas(writer: Schema, reader: Schema, names: tuple[str, ...]) -> tuple[Any, Any]:
    """The schema that a value was written by, and the reader's with the wanted fields alone that the value can fill.

    The two may have other names: what a topic holds is one kind of record.
    """
    written, read = _parse(writer), _parse(reader)
    there = {one["name"] for one in written["fields"]}
    filled = [one for one in read["fields"] if one["name"] in names]
    filled = [one for one in filled if "default" in one or there & {one["name"], *one.get("aliases", ())}]
    return written, {**read, "name": written["name"], "fields": filled}


def _given(kind: Any, default: Any, named: Mapping[str, Any]) -> Any:
    """A default as a value of its type: in a schema bytes are text, and other types are as they are stored."""
    if default is None:
        return None
    if isinstance(kind, list):
        kind = next(one for one in kind if one != "null")
    if not isinstance(kind, Mapping):
        kind = named.get(kind, {"type": kind})
    match kind["type"]:
        case "bytes" | "fixed":
            raw = default.encode("latin-1")
            is_number = kind.get("logicalType") == "decimal"
            return Decimal(int.from_bytes(raw, signed=True)).scaleb(-kind.get("scale", 0)) if is_number else raw
        case "array":
            return [_given(kind["items"], one, named) for one in default]
        case "record":
            found = {one["name"]: default.get(one["name"], one.get("default")) for one in kind["fields"]}
            return {one["name"]: _given(one["type"], found[one["name"]], named) for one in kind["fields"]}
        case _:
            return default * 1000 if str(kind.get("logicalType")).endswith("timestamp-millis") else default


@lru_cache(maxsize=256)
def _parse(schema: Schema) -> Any:
    """A schema with all that it names; raises ValueError if it is no schema of a record."""
    named: dict[str, Any] = {}
    for text in schema.named:
        fastavro().parse_schema(_plain(json.loads(text)), named)
    parsed = fastavro().parse_schema(_plain(json.loads(schema.text)), named)
    if not isinstance(parsed, Mapping) or parsed["type"] != "record":
        raise ValueError("the schema is not that of a record")
    fields = [one for kind in named.values() for one in kind.get("fields", ()) if "default" in one]
    for one, given in [(one, _given(one["type"], one["default"], named)) for one in fields]:
        one["default"] = given
    return parsed


def _plain(kind: Any) -> Any:
    """A schema without the logical types that no column has."""
    if isinstance(kind, list):
        return [_plain(one) for one in kind]
    if not isinstance(kind, Mapping):
        return kind
    known = {"decimal", *_LOGICAL}
    kept = {key: value for key, value in kind.items() if key != "logicalType" or value in known}
    inner = {key: _plain(kept[key]) for key in ("type", "items", "values", "fields") if key in kept}
    return kept | inner


def read_avro_schema(given: object) -> Schema | None:
    """An Avro schema; None if it is something else."""
    try:
        plain = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        return None
    return Schema(json.dumps(plain)) if isinstance(plain, Mapping) and plain.get("type") == "record" else None


def columns_of(schema: Schema) -> pa.Schema:
    """The columns of an Avro schema."""
    try:
        parsed = _parse(schema)
        types = _Types(parsed["__named_schemas"])
        return pa.schema([(one["name"], types.arrow(one["type"], one["name"])) for one in parsed["fields"]])
    except WeftError:
        raise
    except Exception as error:  # noqa: BLE001 - the text can be wrong in any way
        hint = "a value is a record; correct the schema, or declare the columns: schema={...}."
        raise SourceError("the Avro schema cannot be used", detail=f"{str(error).rstrip('.')}.", hint=hint) from None


@dataclass(frozen=True)
class _Types:
    """Avro types as types of columns."""

    named: Mapping[str, Any]
    within: tuple[str, ...] = ()
    """The named types around."""

    def arrow(self, kind: Any, name: str) -> pa.DataType:
        """The type of a column; some have none."""
        if isinstance(kind, list):
            kinds = [one for one in kind if one != "null"]
            return self.arrow(kinds[0], name) if len(kinds) == 1 else _refuse(kind, name)
        if not isinstance(kind, Mapping):
            return _PLAIN.get(kind) or self._of_name(kind, name)
        if kind.get("logicalType") == "decimal":
            return pa.decimal128(kind["precision"], kind.get("scale", 0))
        if (found := _LOGICAL.get(kind.get("logicalType", ""))) is not None:
            return found
        if kind["type"] == "array":
            return pa.list_(self.arrow(kind["items"], name))
        if kind["type"] == "record":
            inside = replace(self, within=(*self.within, kind["name"]))
            return pa.struct([(one["name"], inside.arrow(one["type"], one["name"])) for one in kind["fields"]])
        return self.arrow(kind["type"], name)

    def _of_name(self, kind: str, name: str) -> pa.DataType:
        """A type that was defined elsewhere; one that holds itself has no end."""
        if kind not in self.named or kind in self.within:
            return _refuse(kind, name)
        return self.arrow(self.named[kind], name)


def _refuse(kind: Any, name: str) -> NoReturn:
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
