"""Values of records become columns: many at a time, by Arrow, not one by one.

A format takes the bytes of some records, and gives one row for each, or raises if any of them cannot be read.
`weft.host.sources.kafka.sifting` then finds out which.  What must hold: row i comes from record i.  So it is checked
that no record can give more or less than one row, where texts are joined to be read together:

- JSON: every text begins with { and ends with }, so it gives at least one row; a text that ends inside a string cannot
  go on in the next one, since a newline lies between.  If there are as many rows as texts, each gave one.
- CSV: no text has a line end in it, so it gives at most one row.  If there are as many rows as texts, each gave one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from typing import Literal as OneOf

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from weft.host.sources.files import csv_values

Kind = OneOf["json", "csv", "avro", "string", "bytes"]
VALUE = "value"
"""Name of the only column of a topic whose values are text or bytes."""


class UnreadableError(ValueError):
    """A record that cannot be read as declared, and why."""


class Format(Protocol):
    """How values are read."""

    def read(self, values: Sequence[bytes], columns: pa.Schema) -> pa.RecordBatch:
        """One row for each value, with these columns; raises UnreadableError or an error of Arrow."""
        ...


READ_ERRORS = (UnreadableError, pa.ArrowException, UnicodeDecodeError)


@dataclass(frozen=True)
class Json:
    """Objects; fields that are not declared are ignored, those that are missing are NULL."""

    def read(self, values: Sequence[bytes], columns: pa.Schema) -> pa.RecordBatch:
        """Read all objects as one text."""
        text = b"\n".join(values)
        if not _are_objects(text, values):
            values = [value.strip() for value in values]
            text = b"\n".join(values)
            if not _are_objects(text, values):
                raise UnreadableError("it is not a JSON object")
        parsed = pa.schema([field.with_type(_json_type(field.type)) for field in columns])
        options = pa.json.ParseOptions(explicit_schema=parsed, unexpected_field_behavior="ignore")
        whole = pa.json.ReadOptions(use_threads=False, block_size=len(text) + 64)
        table = pa.json.read_json(pa.BufferReader(text), whole, options).combine_chunks()
        if table.num_rows != len(values):
            raise UnreadableError(f"{len(values)} texts hold {table.num_rows} objects")
        return _fit(table, columns)


@dataclass(frozen=True)
class Csv:
    """Lines without a header; their fields are the declared columns in their order."""

    names: tuple[str, ...]

    def read(self, values: Sequence[bytes], columns: pa.Schema) -> pa.RecordBatch:
        """Read all lines as one text."""
        text = b"\n".join(values)
        if text.count(b"\n") != len(values) - 1 or b"\r" in text:
            values = [value.rstrip(b"\r\n") for value in values]
            text = b"\n".join(values)
            if text.count(b"\n") != len(values) - 1 or b"\r" in text:
                raise UnreadableError("a line end is inside the text")
        table = pa.csv.read_csv(
            pa.BufferReader(text + b"\n"),
            pa.csv.ReadOptions(column_names=self.names, use_threads=False, block_size=len(text) + 64),
            pa.csv.ParseOptions(ignore_empty_lines=False),
            csv_values({field.name: field.type for field in columns}),
        ).combine_chunks()
        if table.num_rows != len(values):
            raise UnreadableError(f"{len(values)} lines hold {table.num_rows} rows")
        rows = _fit(table, columns)
        if any(_ends_line(column) for column in rows.columns):
            raise UnreadableError("a quote is not closed")
        return rows


@dataclass(frozen=True)
class Plain:
    """The value itself, as text or as bytes."""

    def read(self, values: Sequence[bytes], columns: pa.Schema) -> pa.RecordBatch:
        """Bytes; text only if it is UTF-8."""
        found = pa.array(values, pa.binary())
        return pa.RecordBatch.from_arrays([pc.cast(found, field.type) for field in columns], names=columns.names)


def _are_objects(text: bytes, values: Sequence[bytes]) -> bool:
    """Whether all texts, which are joined in one, may be objects by their first and last characters."""
    lengths = np.fromiter(map(len, values), dtype=np.int64, count=len(values))
    ends = np.cumsum(lengths + 1) - 1
    found = np.frombuffer(text, dtype=np.uint8)
    if not lengths.all():
        return False
    return bool((found[ends - lengths] == ord("{")).all() and (found[ends - 1] == ord("}")).all())


def _ends_line(column: pa.Array) -> bool:
    """Whether the last value has the line end in it that was put behind the last line."""
    return bool(pa.types.is_string(column.type) and (column[-1].as_py() or "").endswith("\n"))


def _json_type(kind: pa.DataType) -> pa.DataType:
    """The type in which Arrow reads a JSON value: it knows dates only as times."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_json_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_json_type(kind.value_type))
    return pa.timestamp("s") if pa.types.is_date(kind) else kind


def _fit(table: pa.Table, columns: pa.Schema) -> pa.RecordBatch:
    """The columns in their types.  Arrow does not check that text is UTF-8; others would fail later."""
    arrays = [_as(_one(table.column(field.name)), field.type) for field in columns]
    for array in arrays:
        if not pa.types.is_primitive(array.type):
            array.validate(full=True)
    return pa.RecordBatch.from_arrays(arrays, names=columns.names)


def _as(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values in a type; a time that is not the beginning of a day is no date."""
    if array.type == kind:
        return array
    made = pc.cast(array, kind)
    for read, got in zip(_leaves(array), _leaves(made), strict=True):
        if pa.types.is_date(got.type) and pc.any(pc.not_equal(pc.cast(got, read.type), read)).as_py():
            raise UnreadableError("a time is no date")
    return made


def _leaves(array: pa.Array) -> Iterator[pa.Array]:
    """The values inside of structs and lists."""
    if pa.types.is_struct(array.type):
        for part in array.flatten():
            yield from _leaves(part)
    elif pa.types.is_list(array.type):
        yield from _leaves(array.flatten())
    else:
        yield array


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


FORMATS: Mapping[str, Callable[..., Any]] = {"json": Json, "csv": Csv, "string": Plain, "bytes": Plain}
