"""Types of values: which Arrow types flow through Weft and which of them meet in one expression.

Sources deliver one type in many forms.  `normalize` maps each to the single form that Weft uses, so that equal
values always have equal bytes.  `common_type` gives the type in which two types are compared; None means that they
are not comparable and the query must CAST.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as pt

TIMESTAMP = pa.timestamp("us")
TIMESTAMP_UTC = pa.timestamp("us", "UTC")
DURATION = pa.duration("us")
MONTHS = pa.month_day_nano_interval()
"""Type of an interval literal with months in it; it never leaves the planner."""

MAX_DIGITS = 38
_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}


def normalize(kind: pa.DataType) -> pa.DataType:
    """The type that flows through Weft for values of `kind`.

    >>> normalize(pa.large_string()), normalize(pa.timestamp("ns", "Europe/Berlin")), normalize(pa.uint8())
    (DataType(string), TimestampType(timestamp[us, tz=UTC]), DataType(int64))
    """
    if pt.is_dictionary(kind):
        return normalize(kind.value_type)
    if pt.is_large_string(kind) or pt.is_string_view(kind):
        return pa.string()
    if pt.is_large_binary(kind) or pt.is_binary_view(kind) or pt.is_fixed_size_binary(kind):
        return pa.binary()
    if pt.is_timestamp(kind):
        return TIMESTAMP_UTC if kind.tz else TIMESTAMP
    if pt.is_unsigned_integer(kind):
        return pa.int64()
    if pt.is_float16(kind):
        return pa.float32()
    if pt.is_date(kind):
        return pa.date32()
    if pt.is_duration(kind):
        return DURATION
    if pt.is_decimal32(kind) or pt.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    if pt.is_struct(kind):
        return pa.struct([pa.field(field.name, normalize(field.type)) for field in kind])
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        return pa.list_(normalize(kind.value_type))
    return kind


def normalize_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with every type normalized; names, order and nullability stay."""
    return pa.schema([field.with_type(normalize(field.type)) for field in schema])


def common_type(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The type in which values of both types can be compared, or None.

    >>> common_type(pa.int32(), pa.int64()), common_type(pa.int64(), pa.float32())
    (DataType(int64), DataType(double))
    >>> common_type(pa.string(), pa.int64()) is None
    True
    """
    if a == b:
        return a
    if pt.is_null(a) or pt.is_null(b):
        return b if pt.is_null(a) else a
    if is_number(a) and is_number(b):
        return _common_number(a, b)
    if {a, b} == {pa.date32(), TIMESTAMP}:
        return TIMESTAMP
    return None


def _common_number(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    if pt.is_floating(a) or pt.is_floating(b):
        return pa.float64()
    if pt.is_integer(a) and pt.is_integer(b):
        return a if a.bit_width >= b.bit_width else b
    (p, s), (q, t) = digits(a), digits(b)
    scale = max(s, t)
    return pa.decimal128(min(MAX_DIGITS, max(p - s, q - t) + scale), scale)


def digits(kind: pa.DataType) -> tuple[int, int]:
    """Precision and scale of an integer or decimal type."""
    return (kind.precision, kind.scale) if pt.is_decimal(kind) else (_DIGITS[kind], 0)


def is_number(kind: pa.DataType) -> bool:
    """Whether arithmetic is defined: integers, floats, decimals."""
    return bool(kind in _DIGITS or pt.is_floating(kind) or pt.is_decimal128(kind))


def is_orderable(kind: pa.DataType) -> bool:
    """Whether < is defined on the type."""
    return bool(
        is_number(kind)
        or pt.is_boolean(kind)
        or pt.is_string(kind)
        or pt.is_binary(kind)
        or pt.is_date(kind)
        or pt.is_timestamp(kind)
        or pt.is_duration(kind)
        or pt.is_null(kind)
    )


def is_comparable(kind: pa.DataType) -> bool:
    """Whether = is defined on the type: on structs and lists too, but not on rare types."""
    if pt.is_struct(kind):
        return all(is_comparable(field.type) for field in kind)
    return is_comparable(kind.value_type) if pt.is_list(kind) else is_orderable(kind)


def sql_name(kind: pa.DataType) -> str:
    """The type as SQL writes it in CAST; DuckDB reads every one of these.

    >>> sql_name(pa.int64()), sql_name(pa.decimal128(12, 2)), sql_name(TIMESTAMP_UTC)
    ('BIGINT', 'DECIMAL(12, 2)', 'TIMESTAMPTZ')
    """
    if pt.is_decimal128(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pt.is_list(kind):
        return f"{sql_name(kind.value_type)}[]"
    if pt.is_struct(kind):
        return f"STRUCT({', '.join(f'{_quoted(field.name)} {sql_name(field.type)}' for field in kind)})"
    return _SQL_NAMES.get(kind, str(kind))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


_SQL_NAMES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.date32(): "DATE",
    TIMESTAMP: "TIMESTAMP",
    TIMESTAMP_UTC: "TIMESTAMPTZ",
    DURATION: "INTERVAL",
}

_WORDS = {
    **{name: kind for kind, name in _SQL_NAMES.items()},
    "BOOL": pa.bool_(),
    "INT": pa.int32(),
    "INT1": pa.int8(),
    "INT2": pa.int16(),
    "INT4": pa.int32(),
    "INT8": pa.int64(),
    "INT16": pa.int16(),
    "INT32": pa.int32(),
    "INT64": pa.int64(),
    "LONG": pa.int64(),
    "SHORT": pa.int16(),
    "REAL": pa.float32(),
    "FLOAT4": pa.float32(),
    "FLOAT8": pa.float64(),
    "TEXT": pa.string(),
    "CHAR": pa.string(),
    "BPCHAR": pa.string(),
    "CHARACTER": pa.string(),
    "STRING": pa.string(),
    "BYTEA": pa.binary(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
    "DATETIME": TIMESTAMP,
}


def type_names() -> tuple[str, ...]:
    """Every type name CAST understands, without parameters."""
    return tuple(sorted({*_WORDS, "DECIMAL", "NUMERIC"}))


def from_sql_name(name: str, parameters: tuple[int, ...] = ()) -> pa.DataType | None:
    """The type SQL calls `name`, or None if there is none.

    >>> from_sql_name("numeric", (12, 2)), from_sql_name("bigint")
    (Decimal128Type(decimal128(12, 2)), DataType(int64))
    """
    word = name.upper()
    if word in ("DECIMAL", "NUMERIC", "DEC"):
        precision, scale = (*(parameters or (18, 3)), 0)[:2]
        return pa.decimal128(precision, scale) if 1 <= precision <= MAX_DIGITS and 0 <= scale <= precision else None
    return None if parameters else _WORDS.get(word)
