"""What a declaration says about changes: which columns a stream has, and how rows are taken back."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as pt

from weft.errors import QueryError
from weft.query.changes import Changes
from weft.query.names import suggestion


def read_changes(name: str, schema: pa.Schema, op: str | None) -> tuple[pa.Schema, Changes | None]:
    """The columns of a stream, given those of its source, and how it changes; None if it does not."""
    if op is None:
        return schema, None
    if op not in schema.names:
        raise QueryError(
            f'stream "{name}" has no column "{op}"',
            detail=f"its columns are: {', '.join(schema.names)}.",
            hint=suggestion(op, schema.names) or "changes names the column that says what happens to a row.",
        )
    kind = schema.field(op).type
    if not (pt.is_integer(kind) or pt.is_string(kind)):
        raise QueryError(
            f'column "{op}" of stream "{name}" has type {kind}',
            detail="it says what happens to a row, as a word such as insert or delete, or as a number: +1 or -1.",
            hint="make it a text or a whole number.",
        )
    return schema.remove(schema.get_field_index(op)), Changes(op, schema)
