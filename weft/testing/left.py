"""The rows of a stream that are left after its changes, as DuckDB finds them in one statement."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from weft.query.model import Stream

ADDED = ("insert", "update_after", "update_postimage", "+i", "+u", "i", "c", "r", "+1", "1")


def left(duck: Any, table: pa.Table, stream: Stream) -> pa.Table:
    """Every row as often as it was added and not taken back; columns of the source that say so are gone."""
    assert stream.changes is not None
    op = stream.changes.op
    if op is None:
        return table
    kind, column = table.schema.field(op).type, _quote(op)
    words = ", ".join(f"'{word}'" for word in ADDED)
    weight = column if pa.types.is_integer(kind) else f"CASE WHEN lower({column}) IN ({words}) THEN 1 ELSE -1 END"
    names = ", ".join(_quote(name) for name in stream.schema.names)
    more = "".join(f", min({_quote(name)}) AS {_quote(name)}" for name in table.schema.names if name.startswith("#"))
    duck.register("changes", table)
    counted = f'SELECT {names}{more}, sum({weight}) AS "#n" FROM changes GROUP BY {names}'
    each = 'SELECT unnest(range(CAST("#n" AS BIGINT))) AS "#i"'
    found: pa.Table = duck.sql(
        f'SELECT * EXCLUDE ("#n", "#i") FROM ({counted}) AS t, LATERAL ({each}) AS u'
    ).to_arrow_table()
    duck.unregister("changes")
    return found


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
