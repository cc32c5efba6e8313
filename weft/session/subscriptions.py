"""Subscriptions as the user sees them: one query, many subscribers, who come and go while it runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa

from weft.errors import QueryError, SourceError, not_too_deep, placed
from weft.expr.types import normalize
from weft.host.sources.parameters import ParameterSource
from weft.host.sources.tables import batches
from weft.host.state.checkpoint import SUBSCRIPTIONS
from weft.query.connectivity import require_connected
from weft.query.draft import Draft
from weft.query.model import Query, Stream
from weft.query.names import suggestion
from weft.query.parameters import REMOVED, Strategy
from weft.query.subscribe import subscribe, with_parameters
from weft.read import as_source
from weft.session.catalog import Catalog
from weft.session.query import QueryHandle, read_draft
from weft.sql import resolve

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
SUFFIX = "-subscriptions"
"""Ends the name of a stream of parameters; a name that a user gives has no dash."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user says of subscriptions besides the query."""

    name: str
    key: tuple[str, ...]
    operation: str | None
    window: str | None
    strategy: Strategy
    start: str


class Subscriptions(QueryHandle):
    """A registered query with subscriptions, and its sinks."""

    def __init__(self, name: str, query: Query, draft: Draft, source: ParameterSource, key: Sequence[str]) -> None:
        super().__init__(name, query, draft)
        self._source, self._key, self._inbox = source, tuple(key), source.inbox

    def add(self, rows: pa.Table) -> None:
        """Add subscriptions, from the next batch on.  When this returns they are safe on the disk."""
        self._refuse_frame("add")
        self._inbox.put(_fitting(_as_table(rows), self._source.schema, removed=False))

    def remove(self, keys: object) -> None:
        """End subscriptions, from the next batch on: a table or list of rows with the key columns, or values of one."""
        self._refuse_frame("remove")
        self._inbox.put(_fitting(self._keys(keys), self._source.schema, removed=True))

    def _keys(self, keys: object) -> pa.Table:
        if isinstance(keys, pa.Table | pa.RecordBatch):
            return _require(_as_table(keys), self._key)
        if isinstance(keys, pa.Array | pa.ChunkedArray):
            keys = keys.to_pylist()
        values = [keys] if isinstance(keys, str | bytes) or not isinstance(keys, Iterable) else list(keys)
        rows = [value if isinstance(value, tuple) else (value,) for value in values]
        if any(len(row) != len(self._key) for row in rows):
            raise QueryError(
                "a key of a subscription has too few or too many values",
                detail=f"the key columns are {', '.join(self._key)}.",
                hint="give one value each if the key is one column, else a tuple for each subscription.",
            )
        kinds = [self._source.schema.field(name).type for name in self._key]
        columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]
        return pa.table(columns, names=list(self._key))

    def _refuse_frame(self, what: str) -> None:
        if self._source.given.frame is not None:
            raise SourceError(
                f"subscriptions of a DataFrame cannot be changed by {what}",
                detail="Spark brings all rows of their parameters.",
                hint="send the change through the DataFrame, with an operation column.",
            )


def read_key(key: str | Sequence[str]) -> tuple[str, ...]:
    """The key columns."""
    found = (key,) if isinstance(key, str) else tuple(key)
    if not found:
        raise QueryError("subscriptions have no key", hint='name the columns that tell them apart: key="subscriber".')
    return found


@not_too_deep
def read_subscriptions(
    catalog: Catalog, asked: Asked, query: str | Draft, parameters: object, checkpoint: Path
) -> Subscriptions:
    """The handle of a query with subscriptions; the catalog gets a stream of their parameters."""
    name, given = asked.name + SUFFIX, batches([parameters]) if isinstance(parameters, pa.Table) else parameters
    folder = os.path.join(os.path.abspath(checkpoint), SUBSCRIPTIONS, asked.name)
    source = ParameterSource(as_source(name, given), folder, asked.operation)
    _check_columns(asked, source)
    stream = Stream(name, source.schema)
    draft = read_draft("query", query)
    known = {**catalog.visible, name: stream}
    with placed(draft.place):
        joined = resolve(with_parameters(draft, stream), known, catalog.signatures, True, catalog.views)
        made = subscribe(joined, asked.key, asked.strategy, meets_old=asked.start == "state", window=asked.window)
        require_connected(made)
    catalog.add_stream(stream, source)
    handle = Subscriptions(asked.name, made, draft, source, asked.key)
    handle.start = asked.start
    return handle


def _check_columns(asked: Asked, source: ParameterSource) -> None:
    known = source.given.schema.names
    for column in (*asked.key, *(c for c in (asked.window, asked.operation) if c is not None)):
        if column not in known:
            raise QueryError(
                f'the parameters of "{asked.name}" have no column "{column}"',
                detail=f"their columns are: {', '.join(known)}.",
                hint=suggestion(column, known) or "key, window and operation name columns of the parameters.",
            )


def _as_table(rows: object) -> pa.Table:
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if not isinstance(rows, pa.Table):
        raise QueryError(
            f"subscriptions cannot be a {type(rows).__name__}",
            hint="pass a pyarrow.Table with the columns of the parameters.",
        )
    return rows


def _require(rows: pa.Table, columns: Iterable[str]) -> pa.Table:
    if missing := [name for name in columns if name not in rows.schema.names]:
        raise QueryError(
            f'column "{missing[0]}" of subscriptions is missing',
            detail=f"columns given: {', '.join(rows.schema.names)}.",
            hint="give all key columns; other columns that are left out are NULL.",
        )
    return rows


def _fitting(rows: pa.Table, schema: pa.Schema, *, removed: bool) -> pa.Table:
    """The rows with all columns of the parameters and the mark of those that end subscriptions."""
    arrays: list[Any] = []
    for field in schema:
        if field.name == REMOVED:
            arrays.append(pa.repeat(pa.scalar(removed), rows.num_rows))
        elif field.name in rows.schema.names:
            arrays.append(_cast(rows.column(field.name), field))
        else:
            arrays.append(pa.nulls(rows.num_rows, field.type))
    return pa.table(arrays, schema=schema)


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    try:
        return column.cast(normalize(column.type)).cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise QueryError(
            f'column "{field.name}" of subscriptions does not fit {field.type}',
            detail=f"{str(error).splitlines()[0].rstrip('.')}.",
            hint="cast the column before you add the rows.",
        ) from error
