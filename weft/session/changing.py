"""What a declaration says about changes: which columns a stream has, and how rows are taken back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyarrow import types as pt

from weft.errors import QueryError
from weft.expr.model import Column
from weft.host.sources.refreshed import RefreshedSource
from weft.host.sources.source import Source
from weft.query.changes import AFTER, BEFORE, FORMATS, OP, PAYLOAD, Changes, Format
from weft.query.model import BATCH, Query
from weft.query.names import suggestion
from weft.query.upserts import log_schema
from weft.session.arguments import check_choice
from weft.session.query import QueryHandle


def read_names(given: str | Sequence[str]) -> tuple[str, ...]:
    """Names of columns; one may be given alone."""
    return (given,) if isinstance(given, str) else tuple(given)


def read_changes(
    name: str, schema: pa.Schema, op: str | None, form: Format, key: tuple[str, ...], event_time: str | None
) -> tuple[pa.Schema, Changes | None]:
    """The columns of a stream, given those of its source, and how it changes; None if it does not."""
    is_envelope = check_choice("format", form, FORMATS) == "debezium"
    shown, how = _read_envelope(name, schema, op) if is_envelope else _read_op(name, schema, op)
    if not key:
        return shown, how
    _check_key(name, shown, key, event_time)
    made = Changes(op, schema, key) if how is None else replace(how, key=key)
    return log_schema(shown), made


def _check_key(name: str, schema: pa.Schema, key: tuple[str, ...], event_time: str | None) -> None:
    for column in key:
        if column not in schema.names:
            raise QueryError(
                f'stream "{name}" has no column "{column}"',
                detail=f"its columns are: {', '.join(schema.names)}.",
                hint=suggestion(column, schema.names) or "key names the columns that tell rows apart.",
            )
    if event_time is not None:
        raise QueryError(
            f'stream "{name}" has a key and an event time',
            detail="the present row of a key has no age: it counts until another one replaces it.",
            hint="leave event_time out; or send rows that are taken back too, and declare changes instead of key.",
        )


def _read_op(name: str, schema: pa.Schema, op: str | None) -> tuple[pa.Schema, Changes | None]:
    """The columns of a stream that has a column for what happens to a row."""
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


def _read_envelope(name: str, schema: pa.Schema, op: str | None) -> tuple[pa.Schema, Changes]:
    """The columns of the row inside an envelope of Debezium, and the columns of the envelope that are read."""
    if op is not None:
        raise QueryError(
            f'stream "{name}" has both changes and format="debezium"',
            detail="an envelope says itself what happens to a row.",
            hint="leave changes out.",
        )
    nested = PAYLOAD in schema.names and pt.is_struct(schema.field(PAYLOAD).type)
    inside = pa.schema(schema.field(PAYLOAD).type) if nested else schema
    rows = [inside.field(part).type for part in (AFTER, BEFORE) if part in inside.names]
    known = next((kind for kind in rows if pt.is_struct(kind)), None)
    if known is None or len(rows) < 2 or OP not in inside.names:
        raise QueryError(
            f'stream "{name}" has no envelopes of Debezium',
            detail=f"an envelope has before, after and op; the columns are: {', '.join(inside.names)}.",
            hint="leave format out, or give the source a schema with these columns.",
        )
    kinds = {BEFORE: known, AFTER: known, OP: pa.string()}
    whole = pa.struct([(field.name, kinds.get(field.name, field.type)) for field in inside])
    source = pa.schema([(PAYLOAD, whole)] if nested else [*kinds.items()])
    return pa.schema(known), Changes(OP, source, format="debezium")


def read_refreshed(name: str, source: Source, key: tuple[str, ...], more: object) -> RefreshedSource:
    """The source of a table that is read again when it changes."""
    if source.whole() is None or more:
        raise QueryError(
            f'table "{name}" cannot be read again',
            detail="what is read again is read as a whole: the table is what it says, and it says nothing of changes.",
            hint="use weft.read.parquet, .csv or .json, and leave changes, format and event_time out.",
        )
    if unknown := [column for column in key if column not in source.schema.names]:
        raise QueryError(
            f'table "{name}" has no column "{unknown[0]}"',
            detail=f"its columns are: {', '.join(source.schema.names)}.",
            hint=suggestion(unknown[0], source.schema.names) or "key names the columns that tell rows apart.",
        )
    if nested := [field for field in source.schema if pt.is_nested(field.type)]:
        raise QueryError(
            f'column "{nested[0].name}" of table "{name}" has type {nested[0].type}',
            detail="a table that is read again is compared with what it was, and lists and structs are not.",
            hint="leave the column out, with schema= of the source, or leave refresh out.",
        )
    return RefreshedSource(source, key)


def refuse_dated_envelopes(name: str) -> QueryError:
    """The error for versions of envelopes: a deletion has the row before, and with it the time of an earlier change."""
    return QueryError(
        f'table "{name}" has format="debezium" and an event time',
        detail="a deletion brings the row before it, and so the time of that row: nothing says when the row went.",
        hint="leave event_time out: rows then meet the present one; or make rows of the envelopes, with the time of "
        'the change and a column for op, and declare event_time, key and changes="op".',
    )


def require_all_rows(handle: QueryHandle) -> None:
    """A view of rows that change begins with all of them: what it never showed, it could not take back."""
    if not handle.query.is_changing:
        return
    if handle.start == "now":
        raise QueryError(
            f'query "{handle.name}" cannot start now',
            detail="rows of its streams may be taken back, also those that came before.",
            hint='leave start="now" out: the query then begins with all rows that are there.',
        )
    handle.backfill = handle.must_be_complete = True


def refuse_old_rows(handle: QueryHandle) -> None:
    """Old rows do not say in which batch they came, and so not which rows of a table that changes they have met."""
    if handle.backfill and _tells_batches(handle.query):
        raise QueryError(
            f'query "{handle.name}" cannot begin with old rows',
            detail="it gives rows that find nothing in a table that changes; which rows of the table were there when a "
            "row came is not kept.",
            hint="leave backfill=True out: it then answers for rows that come from now on.",
        )


def _tells_batches(query: Query) -> bool:
    own = any(isinstance(output.expr, Column) and output.expr.name == BATCH for output in query.outputs)
    return own or any(_tells_batches(made) for relation in query.relations for made in relation.stream.made)
