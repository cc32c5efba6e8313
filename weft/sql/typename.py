"""The grammar of type names."""

from __future__ import annotations

import pyarrow as pa

from weft.expr.types import from_sql_name, type_names
from weft.query.names import nearest
from weft.sql.cursor import Cursor

_TEXTS = ("VARCHAR", "CHAR", "BPCHAR", "CHARACTER", "TEXT")
"""Types whose length says nothing: texts are as long as they are."""
_TIMES = ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_LTZ")


def read_type(cursor: Cursor) -> pa.DataType:
    """Read a type, as it stands in CAST."""
    start = cursor.at
    if cursor.token.kind != "word":
        raise cursor.unexpected("a type is missing", f"types are {', '.join(type_names())}.")
    name = cursor.next().upper
    if name == "DOUBLE" and cursor.sees("PRECISION"):
        cursor.next()
    zoned = _time_zone(cursor) if name == "TIMESTAMP" else None
    parameters = _type_parameters(cursor)
    if name == "CHARACTER":
        cursor.accept("VARYING")
        parameters = _type_parameters(cursor) or parameters
    whole = name in _TEXTS or (name in _TIMES and parameters == (6,))  # times have microseconds
    zoned = zoned or name == "TIMESTAMP_LTZ"
    kind = from_sql_name("TIMESTAMPTZ" if zoned else name, () if whole else parameters)
    if kind is None or cursor.sees("["):
        raise cursor.fail(
            cursor.span_from(start), f"there is no type {cursor.source(cursor.span_from(start))}", hint=_type_hint(name)
        )
    return kind


def _type_hint(name: str) -> str:
    if name in _TIMES:
        return f"times have microseconds: write {name}."
    close = nearest(name, type_names())
    return f"did you mean {close}?" if close and close != name else f"types are {', '.join(type_names())}."


def _time_zone(cursor: Cursor) -> bool:
    if cursor.sees("WITH", "TIME", "ZONE") or cursor.sees("WITHOUT", "TIME", "ZONE"):
        zoned = cursor.next().upper == "WITH"
        cursor.next(), cursor.next()
        return zoned
    return False


def _type_parameters(cursor: Cursor) -> tuple[int, ...]:
    if not cursor.accept("("):
        return ()
    values: list[int] = []
    while True:
        if cursor.token.kind != "number" or not cursor.token.text.isdigit():
            raise cursor.unexpected("a number of digits is missing", "as in DECIMAL(12, 2).")
        values.append(int(cursor.next().text))
        if not cursor.accept(","):
            break
    cursor.expect(")", "the type is never closed.")
    return tuple(values)
